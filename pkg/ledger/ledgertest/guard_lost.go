package ledgertest

import (
	"context"
	"testing"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// comCommit is the COMMIT command as the MySQL protocol sends it: COM_QUERY and the text.
const comCommit = "\x03COMMIT"

// hazard G10, invariant 7: a COMMIT without an answer is neither done nor undone until the row was read again by claim id.
func lostCommitReply(t *testing.T, mk bench, do Do) {
	for name, before := range map[string]bool{"after it went through": false, "before it arrived": true} {
		t.Run(name, func(t *testing.T) {
			w := mk(t)
			proxy := NewProxy(t, mysqlx.Address(w.Schema.DSN))
			w.Dial = proxy.Dial
			ran := 0
			g := w.Guard(func(o *ledger.GuardOptions) {
				o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
					if s == ledger.StepEffect {
						ran++
						if ran == 1 {
							proxy.CutOn(comCommit, before)
						}
					}
				}
			})
			m := w.NewMessage()
			res, err := do(t.Context(), g, m, w.Grant(m))
			w.Want(ledger.Executed, res, err)
			if proxy.Cuts() != 1 {
				t.Fatalf("%d connections cut, want 1", proxy.Cuts())
			}
			if want := map[bool]int{false: 1, true: 2}[before]; ran != want {
				t.Errorf("the effect ran %d times, want %d", ran, want)
			}
			w.ExactlyOnce(m)
			res, err = do(t.Context(), g, m, w.Grant(m))
			w.Want(ledger.AbsorbedFilter, res, err)
		})
	}
}
