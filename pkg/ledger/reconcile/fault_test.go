package reconcile

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// wounded scans while something happens to a server, and checks that the result is neither whole nor repaired by.
func (p *planted) wounded(t *testing.T, r *Reconciler, phase string, happen func() error, codes ...GapCode) *Findings {
	t.Helper()
	var once sync.Once
	f, err := r.Scan(t.Context(), func(s Progress) {
		if s.Phase != phase {
			return
		}
		once.Do(func() {
			if err := happen(); err != nil {
				t.Error(err)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if f.Complete || !slices.ContainsFunc(f.Gaps, func(g Gap) bool { return slices.Contains(codes, g.Code) }) {
		t.Errorf("complete %v, gaps %+v; want one of %v", f.Complete, f.Gaps, codes)
	}
	if _, err := f.Plan([]Kind{Phantom}); !isUnsound(err) {
		t.Errorf("planned by it: %v", err)
	}
	return f
}

// A Redis that is flushed or dies in mid-scan leaves the scan incomplete. hazard C8
func TestRedisLostInMidScan(t *testing.T) {
	t.Parallel()
	for name, happen := range map[string]func(*planted, *lab.Server) error{
		"flushed":   func(p *planted, _ *lab.Server) error { return p.Space.Client.FlushAll(p.t.Context()).Err() },
		"killed":    func(_ *planted, s *lab.Server) error { return s.Kill() },
		"restarted": func(p *planted, s *lab.Server) error { return s.Restart(p.t.Context()) },
	} {
		for _, phase := range []string{"redis", "ledger"} {
			t.Run(name+" in "+phase, func(t *testing.T) {
				t.Parallel()
				server := testenv.OwnRedis(t)
				p := plant(t, testenv.MySQL(t), ownSpace(t, server.Addr), nil)
				p.clean(3000)
				p.faults(2)
				f := p.wounded(t, p.reconciler(), phase, func() error { return happen(p, server) }, GapFlushed, GapRedis, GapRestarted)
				if f.Count(Phantom) > 2 { // rows are all there: nothing new may look like one
					t.Errorf("%d phantoms", f.Count(Phantom))
				}
			})
		}
	}
}

// A ledger that dies, or is restarted so fast that no statement fails, leaves the scan incomplete; what it would have said is
// not taken for missing.
func TestLedgerLostInMidScan(t *testing.T) {
	t.Parallel()
	for name, happen := range map[string]func(*planted, *lab.Server) error{
		"killed":    func(_ *planted, s *lab.Server) error { return s.Kill() },
		"restarted": func(p *planted, s *lab.Server) error { return errors.Join(s.Kill(), s.Restart(p.t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.OwnMySQL(t)
			schema := ownSchema(t, server)
			p := plant(t, schema, testenv.Redis(t), nil)
			p.clean(3000)
			p.faults(2)
			f := p.wounded(t, p.reconciler(), "redis", func() error { return happen(p, server) }, GapLedger, GapRestarted)
			if f.Count(Phantom) > 2 {
				t.Errorf("%d phantoms", f.Count(Phantom))
			}
		})
	}
}

func ownSchema(t *testing.T, s *lab.Server) *testenv.Schema {
	t.Helper()
	db, err := mysqlx.Open(mysqlx.Options{DSN: s.DSN("mysql")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE own"); err != nil {
		t.Fatal(err)
	}
	own, err := mysqlx.Open(mysqlx.Options{DSN: s.DSN("own")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(db.Close(), own.Close()) })
	return &testenv.Schema{DSN: s.DSN("own"), Name: "own", DB: own}
}

// A server that takes no writes, or a session that reads what was never committed, is refused: rows would be missing that are
// there, or there that never were. So is a replica of Redis. hazard C9
func TestDoubtfulServersAreRefused(t *testing.T) {
	t.Parallel()
	t.Run("read only", func(t *testing.T) {
		t.Parallel()
		p := plant(t, ownSchema(t, testenv.OwnMySQL(t)), testenv.Redis(t), nil)
		p.faults(1)
		r := p.reconciler()
		f := p.scan(r)
		plan, err := f.Plan([]Kind{Phantom})
		if err != nil {
			t.Fatal(err)
		}
		p.SQL("SET GLOBAL read_only = 1")
		if _, err := r.Scan(t.Context(), nil); !errors.Is(err, mysqlx.ErrNotPrimary) {
			t.Errorf("scanned: %v", err)
		}
		path := filepath.Join(t.TempDir(), "undo")
		if _, err := r.Fix(t.Context(), plan, NewUndoFile(path), nil); !errors.Is(err, mysqlx.ErrNotPrimary) {
			t.Errorf("repaired: %v", err)
		}
	})
	t.Run("read uncommitted", func(t *testing.T) {
		t.Parallel()
		p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
		db := p.Open(false)
		db.SetMaxOpenConns(1)
		if _, err := db.ExecContext(t.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"); err != nil {
			t.Fatal(err)
		}
		r := p.reconciler(func(o *Options) { o.DB = db })
		if _, err := r.Scan(t.Context(), nil); !errors.Is(err, mysqlx.ErrIsolation) {
			t.Errorf("scanned: %v", err)
		}
	})
	t.Run("redis replica", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedis(t)
		p := plant(t, testenv.MySQL(t), ownSpace(t, server.Addr), nil)
		if err := p.Space.Client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.reconciler().Scan(t.Context(), nil); !errors.Is(err, ErrNotMaster) {
			t.Errorf("scanned: %v", err)
		}
	})
}

// A primary that is demoted between two pages of a repair ends it: the rows it has may be old. hazard C9
func TestDemotedInMidRepair(t *testing.T) {
	t.Parallel()
	p := plant(t, ownSchema(t, testenv.OwnMySQL(t)), testenv.Redis(t), nil)
	for i := range settlePage + 10 {
		p.marker(p.NewMessage().Key.OrderID, "COMPLETED:"+p.id, 50*time.Minute)
		_ = i
	}
	p.flush()
	r := p.reconciler(func(o *Options) {
		o.beforeChange = func() { p.SQL("SET GLOBAL read_only = 1") }
	})
	f := p.scan(r)
	plan, err := f.Plan([]Kind{Phantom})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := r.Fix(t.Context(), plan, NewUndoFile(filepath.Join(t.TempDir(), "undo")), nil)
	partial, ok := errors.AsType[*PartialError](err)
	if !ok || !errors.Is(err, mysqlx.ErrNotPrimary) || partial.Done != settlePage || partial.Left != 10 || rep.Applied() != settlePage {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A caller who gives up between the two looks hears of nothing that was seen once only. hazard C3
func TestGivenUpBetweenLooks(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	p.faults(1)
	ctx, cancel := context.WithCancel(t.Context())
	f, err := p.reconciler(func(o *Options) { o.betweenLooks, o.Settle = cancel, time.Hour }).Scan(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Findings) != 0 || len(f.Gaps) != 2 || f.Gaps[0].Code != GapInterrupted || f.Gaps[1].Code != GapUnsettled || f.Suspects == 0 {
		t.Errorf("%+v", f.Report)
	}
}

// Time that runs out leaves gaps, not wrong findings. hazard C6
func TestTimeRunsOut(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	p.clean(3000)
	f := p.scan(p.reconciler(func(o *Options) { o.Rate, o.MaxDuration = 1000, 300*time.Millisecond }))
	if f.Complete || f.Gaps[0].Code != GapTime || len(f.Findings) != 0 {
		t.Errorf("%+v", f.Report)
	}
	if f.KeysChecked > 2500 {
		t.Errorf("%d keys at 1000 a second in 0.3 s", f.KeysChecked)
	}
}
