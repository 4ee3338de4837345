package ledger_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
)

func newToken(t *testing.T, space *testenv.RedisSpace, change ...func(*redis.Options)) *ledger.Token {
	t.Helper()
	opts, err := redis.ParseURL(space.URL)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	for _, c := range change {
		c(opts)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	token, err := ledger.NewToken(client, ledger.TokenOptions{Prefix: space.Prefix, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A token is good once, for its subject, and for nothing else.
func TestToken(t *testing.T) {
	t.Parallel()
	space := testenv.Redis(t)
	token := newToken(t, space)
	const subject = "user 7, pay 20261111-8842"
	one, err := token.Issue(t.Context(), subject)
	if err != nil || len(one) != 32 {
		t.Fatalf("%q, %v", one, err)
	}
	two, err := token.Issue(t.Context(), subject)
	if err != nil || two == one {
		t.Fatalf("%q, %v", two, err)
	}
	keys, err := space.Client.Keys(t.Context(), space.Prefix+"*").Result()
	if err != nil || len(keys) != 2 {
		t.Fatalf("%v, %v", keys, err)
	}
	for _, key := range keys {
		if ttl := space.Client.PTTL(t.Context(), key).Val(); ttl <= 4*time.Minute || ttl > ledger.DefaultTokenTTL {
			t.Errorf("%s lives %v", key, ttl)
		}
		if strings.Contains(key, one) || strings.Contains(key, two) || strings.Contains(key, "8842") {
			t.Errorf("the key tells the token or its subject: %s", key)
		}
	}
	for _, c := range []struct {
		token, subject string
		want           error
	}{
		{one, "user 8, pay 20261111-8842", ledger.ErrTokenUnknown}, // another's: refused, and not used up
		{one, subject + " ", ledger.ErrTokenUnknown},
		{one, "", ledger.ErrTokenUnknown},
		{"", subject, ledger.ErrTokenUnknown},
		{"*", subject, ledger.ErrTokenUnknown},
		{one[:30], subject, ledger.ErrTokenUnknown},
		{strings.Repeat("0", 32), subject, ledger.ErrTokenUnknown}, // never issued
		{one, subject, nil},
		{one, subject, ledger.ErrTokenUnknown}, // used
		{two, subject, nil},
	} {
		if err := token.Consume(t.Context(), c.token, c.subject); !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%q for %q: %v, want %v", c.token, c.subject, err, c.want)
		}
	}
	if _, err := token.Issue(t.Context(), ""); err == nil {
		t.Error("a token for nobody was issued")
	}
	late, err := token.Issue(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range space.Client.Keys(t.Context(), space.Prefix+"*").Val() {
		space.Client.Del(t.Context(), key) // as its TTL does
	}
	if err := token.Consume(t.Context(), late, subject); !errors.Is(err, ledger.ErrTokenUnknown) {
		t.Errorf("an expired token: %v", err)
	}
}

// Of fifty clicks at once one goes through.
func TestTokenRace(t *testing.T) {
	t.Parallel()
	token := newToken(t, testenv.Redis(t))
	for range 5 {
		value, err := token.Issue(t.Context(), "user 7")
		if err != nil {
			t.Fatal(err)
		}
		var passed atomic.Int64
		var wg sync.WaitGroup
		gate := make(chan struct{})
		for range 50 {
			wg.Go(func() {
				<-gate
				switch err := token.Consume(t.Context(), value, "user 7"); {
				case err == nil:
					passed.Add(1)
				case !errors.Is(err, ledger.ErrTokenUnknown):
					t.Error(err)
				}
			})
		}
		close(gate)
		wg.Wait()
		if n := passed.Load(); n != 1 {
			t.Errorf("%d clicks went through", n)
		}
	}
}

// hazard G14: a Redis that is away refuses; it never lets a click through, and never hands a token out.
func TestTokenWithoutRedis(t *testing.T) {
	t.Parallel()
	away := newToken(t, testenv.Redis(t), func(o *redis.Options) {
		o.MaxRetries = -1
		o.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }
	})
	if token, err := away.Issue(t.Context(), "user 7"); !errors.Is(err, ledger.ErrFilterAway) || token != "" {
		t.Errorf("%q, %v", token, err)
	}
	if err := away.Consume(t.Context(), strings.Repeat("0", 32), "user 7"); !errors.Is(err, ledger.ErrFilterAway) || errors.Is(err, ledger.ErrTokenUnknown) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := away.Consume(ctx, strings.Repeat("0", 32), "user 7"); !errors.Is(err, context.Canceled) || errors.Is(err, ledger.ErrFilterAway) {
		t.Errorf("a caller that has gone: %v", err)
	}
}

func TestTokenOptions(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	stalls := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = stalls.Close() })
	for name, c := range map[string]struct {
		client redis.UniversalClient
		opts   ledger.TokenOptions
		ok     bool
	}{
		"defaults":     {client, ledger.TokenOptions{}, true},
		"no client":    {nil, ledger.TokenOptions{}, false},
		"no deadlines": {stalls, ledger.TokenOptions{}, false},
		"ms for s":     {client, ledger.TokenOptions{TTL: 300 * time.Millisecond}, false},
		"too long":     {client, ledger.TokenOptions{TTL: 25 * time.Hour}, false},
		"timeout":      {client, ledger.TokenOptions{Timeout: -1}, false},
	} {
		if _, err := ledger.NewToken(c.client, c.opts); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
