package reconcile

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// Owners that are at work, wherever they are, are no finding, and a repair of everything leaves them alone. hazard C3
func TestLiveOwnersAreNoFinding(t *testing.T) {
	t.Parallel()
	for _, step := range []ledger.Step{ledger.StepLeased, ledger.StepInserted, ledger.StepProbed, ledger.StepEffect} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
			arrived, leave := make(chan struct{}), make(chan struct{})
			g := p.Guard(func(o *ledger.GuardOptions) {
				o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
					if s == step {
						close(arrived)
						<-leave
					}
				}
			})
			m := p.NewMessage()
			done := make(chan error, 1)
			go func() {
				_, err := g.Do(t.Context(), m, p.Grant(m))
				done <- err
			}()
			<-arrived
			before := p.Marker(m)
			r := p.reconciler()
			f := p.scan(r)
			p.check(f, nil)
			p.fixAll(r, f)
			if got := p.Marker(m); got != before || got == "" {
				t.Errorf("the owner's marker is %q, was %q", got, before)
			}
			close(leave)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			p.ExactlyOnce(m)
			if want := "COMPLETED:" + p.id; p.Marker(m) != want {
				t.Errorf("marker %q, want %q", p.Marker(m), want)
			}
		})
	}
}

// fixAll repairs whatever can be.
func (p *planted) fixAll(r *Reconciler, f *Findings) FixReport {
	p.t.Helper()
	plan, err := f.Plan(fixable())
	if err != nil {
		p.t.Fatal(err)
	}
	rep, err := r.Fix(p.t.Context(), plan, NewUndoFile(filepath.Join(p.t.TempDir(), "undo")), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return rep
}

// While consumers write, what was planted is found exactly and nothing else, and a repair of everything neither loses nor
// repeats an effect. hazard C2, C3
func TestLiveTraffic(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			p := plant(t, db.Schema(t), testenv.Redis(t), nil)
			p.clean(500)
			p.faults(4)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var (
				workers sync.WaitGroup
				mu      sync.Mutex
				sent    []ledger.Message
			)
			for range 3 {
				g := p.Guard()
				workers.Go(func() {
					for ctx.Err() == nil {
						m := p.NewMessage()
						for range 2 { // and once more
							// The caller's end must not cut a claim short: what it left would be a finding indeed.
							if _, err := g.Do(context.WithoutCancel(ctx), m, p.Grant(m)); err != nil {
								t.Error(err)
								return
							}
						}
						mu.Lock()
						sent = append(sent, m)
						mu.Unlock()
					}
				})
			}
			// A claim that is between COMMIT and its marker for longer than this would rightly be found.
			r := p.reconciler(func(o *Options) { o.Settle = 2 * time.Second })
			f := p.scan(r)
			p.check(f, p.want)
			rep := p.fixAll(r, f)
			stop()
			workers.Wait()
			if len(sent) == 0 {
				t.Fatal("nothing was sent meanwhile")
			}
			for _, m := range sent {
				p.ExactlyOnce(m)
			}
			for _, c := range rep.Kinds {
				if c.Changed+c.Gone > 0 {
					t.Errorf("%+v", c)
				}
			}
			t.Logf("%d messages meanwhile, %d markers repaired", len(sent), rep.Applied())
		})
	}
}
