package reconcile

import (
	"os"
	"runtime/pprof"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/testenv"
)

func TestZZSpeed(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("ZZ"))
	if n == 0 {
		t.Skip()
	}
	own := testenv.OwnRedis(t)
	opt, _ := redis.ParseURL(own.URL())
	space := &testenv.RedisSpace{URL: own.URL(), Prefix: "idem:", Client: redis.NewClient(opt)}
	dbs := testenv.Databases(t)
	i, _ := strconv.Atoi(os.Getenv("ZZDB"))
	p := plant(t, dbs[i].Schema(t), space, nil)
	for from := 0; from < n; from += 50000 {
		for i := from; i < min(n, from+50000); i++ {
			id := "ORD-20261111-" + strconv.Itoa(100000000+i*7919%n)
			p.row(id, 5*time.Minute, month, "", "")
			p.marker(id, "COMPLETED:"+p.id, 55*time.Minute)
		}
		p.flush()
	}
	t.Log("planted on", dbs[i].Name)
	os.WriteFile("/tmp/prep/p5/f.env", []byte("export IDEMCTL_LEDGER_DSN='"+p.Schema.DSN+"' IDEMCTL_REDIS_URL="+own.URL()+" IDEMCTL_REDIS_COMPLETED_TTL=1h IDEMCTL_REDIS_KEY='"+space.Prefix+"idempotent:{biz_type}:{order_id}' RADDR="+own.Addr+"\n"), 0o600)
	if w := os.Getenv("ZZWAIT"); w != "" {
		for { if _, err := os.Stat("/tmp/prep/p5/f.env"); err != nil { break }; time.Sleep(time.Second) }
	}
	_ = pprof.StopCPUProfile
}
