package ledger_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
)

func TestConformanceFilter(t *testing.T) {
	t.Parallel()
	for _, server := range testenv.Redises(t) {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Filter(t, server)
		})
	}
}

func TestFilterOptions(t *testing.T) {
	t.Parallel()
	template, err := ledger.ParseKeyTemplate("idempotent:{biz_type}:{order_id}")
	if err != nil {
		t.Fatal(err)
	}
	good := ledger.FilterOptions{Template: template, Lease: time.Second, CompletedTTL: time.Second}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true}) // never asked
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true})
	deaf := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	deafCluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	for _, c := range []redis.UniversalClient{client, cluster, deaf, deafCluster} {
		t.Cleanup(func() { _ = c.Close() })
	}
	for name, c := range map[string]struct {
		client redis.UniversalClient
		change func(*ledger.FilterOptions)
		ok     bool
	}{
		"good":              {client: client, ok: true},
		"good cluster":      {client: cluster, ok: true},
		"deaf to deadlines": {client: deaf},
		"deaf cluster":      {client: deafCluster},
		"no template":       {client: client, change: func(o *ledger.FilterOptions) { o.Template = ledger.KeyTemplate{} }},
		"no lease":          {client: client, change: func(o *ledger.FilterOptions) { o.Lease = 0 }},
		"lease too short":   {client: client, change: func(o *ledger.FilterOptions) { o.Lease = 999 * time.Millisecond }},
		"no completed_ttl":  {client: client, change: func(o *ledger.FilterOptions) { o.CompletedTTL = 0 }},
		"negative timeout":  {client: client, change: func(o *ledger.FilterOptions) { o.Timeout = -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := good
			if c.change != nil {
				c.change(&opts)
			}
			if _, err := ledger.NewFilter(c.client, opts); (err == nil) != c.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}
