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
			p.row(id, 10*time.Minute, month, "", "")
			p.marker(id, "COMPLETED:"+p.id, 50*time.Minute)
		}
		p.flush()
	}
	t.Log("planted on", dbs[i].Name)
	f, _ := os.Create("/tmp/prep/p5/f.prof")
	pprof.StartCPUProfile(f)
	for _, d := range []Directions{FilterToLedger, Both} {
		began := time.Now()
		fnd := p.scan(p.reconciler(func(o *Options) { o.Directions = d; o.DB = p.Open(false) }))
		took := time.Since(began)
		t.Logf("direction %d: %v, %.0f keys/s, complete %v %+v, found %v", d, took, float64(fnd.KeysChecked)/took.Seconds(), fnd.Complete, fnd.Gaps, fnd.Findings)
	}
	pprof.StopCPUProfile()
	t.Log("redis", own.Addr)
	if w := os.Getenv("ZZWAIT"); w != "" {
		d, _ := time.ParseDuration(w)
		time.Sleep(d)
	}
}
