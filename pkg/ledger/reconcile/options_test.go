package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	good := Options{DB: p.Schema.DB, Scheme: p.Scheme, Redis: p.client, Template: p.Template, Lease: time.Minute, CompletedTTL: time.Hour}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	legacy, err := p.Scheme.WithColumns(partition.Columns{OrderID: "msg_key"})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no pool":        func(o *Options) { o.DB = nil },
		"no redis":       func(o *Options) { o.Redis = nil },
		"no scheme":      func(o *Options) { o.Scheme = partition.Scheme{} },
		"no retention":   func(o *Options) { o.Scheme = legacy },
		"no template":    func(o *Options) { o.Template = ledger.KeyTemplate{} },
		"no lease":       func(o *Options) { o.Lease = 0 },
		"no ttl":         func(o *Options) { o.CompletedTTL = 0 },
		"sample":         func(o *Options) { o.Sample = 101 },
		"rate":           func(o *Options) { o.Rate = -1 },
		"settle":         func(o *Options) { o.Settle = -1 },
		"biz type":       func(o *Options) { o.BizTypes = []string{"a b"} },
		"examples":       func(o *Options) { o.Examples = -1 },
		"time":           func(o *Options) { o.MaxDuration = -1 },
		"statement time": func(o *Options) { o.StatementLimit = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestParseFixable(t *testing.T) {
	t.Parallel()
	kinds, err := ParseFixable([]string{"phantom", " stuck", "phantom"})
	if err != nil || len(kinds) != 2 || kinds[0] != Phantom || kinds[1] != Stuck {
		t.Errorf("%v, %v", kinds, err)
	}
	for _, bad := range []string{"", "phantm", "twice", "cold", "alien_key", "fingerprint_mismatch", "unremembered"} {
		_, err := ParseFixable([]string{bad})
		ke, ok := errors.AsType[*KindError](err)
		if !ok || ke.Kind != Kind(bad) || ke.Error() == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, k := range Kinds() {
		if k.Means() == "" || k.Severity() == "" || !k.Fixable() && k.why() == Kind("").why() {
			t.Errorf("%s: nothing is said of it", k)
		}
	}
}

// What is asked for only is looked at, from both sides alike.
func TestOnlyAPart(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	p.clean(2000)
	p.faults(6)
	for i := range 400 { // in Redis and in the ledger alone
		p.marker("lost-"+string(rune('a'+i%26))+time.Duration(i).String(), "COMPLETED:"+p.id, 59*time.Minute)
		p.row("bare-"+time.Duration(i).String(), 10*time.Minute, month, "", "")
	}
	p.flush()
	whole := p.scan(p.reconciler())
	t.Run("a biz_type", func(t *testing.T) {
		t.Parallel()
		p := p.in(t)
		f := p.scan(p.reconciler(func(o *Options) { o.BizTypes = []string{"SHIPMENT"} }))
		p.check(f, nil)
		f = p.scan(p.reconciler(func(o *Options) { o.BizTypes = []string{ledgertest.Biz} }))
		want := map[Kind]int64{}
		for _, k := range Kinds() {
			want[k] = whole.Count(k)
		}
		want[AlienKey] = 0
		want[Stuck], want[Abandoned] = 12, 0 // the first scan has touched them: how old they are is not known any more
		p.check(f, want)
		f = p.scan(p.reconciler(func(o *Options) { o.BizTypes = []string{ledgertest.Biz, "SHIPMENT"} }))
		p.check(f, want)
	})
	t.Run("a sample", func(t *testing.T) {
		t.Parallel()
		p := p.in(t)
		f := p.scan(p.reconciler(func(o *Options) { o.Sample = 50 }))
		if !f.Complete || f.Sample != 50 {
			t.Errorf("%+v", f.Report)
		}
		// Of 2400 keys half are 1200, give or take 24; ten times that does not happen.
		if n := f.KeysChecked; n < 960 || n > 1450 {
			t.Errorf("%d keys in a half", n)
		}
		for _, k := range []Kind{Phantom, Cold} {
			if n := f.Count(k); n < 100 || n > 306 {
				t.Errorf("%s: %d in a half of 406", k, n)
			}
		}
	})
	t.Run("since", func(t *testing.T) {
		t.Parallel()
		p := p.in(t)
		f := p.scan(p.reconciler(func(o *Options) { o.Since = p.Now.Add(-5 * time.Minute) }))
		if f.Count(Phantom) != whole.Count(Phantom) || f.Count(Cold) != 0 || f.Count(Unremembered) != 0 || f.Count(Twice) != 0 || f.Count(Immortal) != 6 {
			t.Errorf("%+v", f.Findings)
		}
	})
	t.Run("one direction", func(t *testing.T) {
		t.Parallel()
		p := p.in(t)
		f := p.scan(p.reconciler(func(o *Options) { o.Directions = FilterToLedger }))
		if f.Count(Phantom) != whole.Count(Phantom) || f.Count(Cold)+f.Count(Twice)+f.RowsScanned != 0 {
			t.Errorf("%+v", f.Findings)
		}
		f = p.scan(p.reconciler(func(o *Options) { o.Directions = LedgerToFilter }))
		// Of markers it meets those of young rows.
		for k, want := range map[Kind]int64{
			Phantom: 0, Twice: 6, Cold: whole.Count(Cold), StaleProcessing: 6, Immortal: 6, OutlivesEntry: 6, FingerprintMismatch: 0, ForeignLedger: 6,
		} {
			if f.Count(k) != want {
				t.Errorf("%s: %d, want %d", k, f.Count(k), want)
			}
		}
	})
}
