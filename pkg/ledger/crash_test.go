package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

// What the child process is told.
const (
	envDieAt   = "IDEMCTL_TEST_DIE_AT"
	envDieDSN  = "IDEMCTL_TEST_DIE_DSN"
	envDieURL  = "IDEMCTL_TEST_DIE_REDIS"
	envDieKeys = "IDEMCTL_TEST_DIE_TEMPLATE"
	envDieTime = "IDEMCTL_TEST_DIE_TIME"
)

// A process that is killed at any point leaves a key that its redelivery settles: the effect exists exactly once.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	points := []ledger.Step{ledger.StepStart, ledger.StepLeased, ledger.StepInserted, ledger.StepProbed, ledger.StepEffect, ledger.StepCommitted, ledger.StepMarked}
	for _, db := range testenv.Databases(t) {
		for _, at := range points {
			t.Run(db.Name+"/"+string(at), func(t *testing.T) {
				t.Parallel()
				w := ledgertest.New(t, db.Schema(t), testenv.Redis(t))
				w.Lease = time.Second
				batch := crashBatch(w.Now)
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), envDieAt+"="+string(at), envDieDSN+"="+w.Schema.DSN, envDieURL+"="+w.Space.URL,
					envDieKeys+"="+w.Space.Prefix+"idempotent:{biz_type}:{order_id}", envDieTime+"="+w.Now.Format(time.RFC3339Nano))
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // Unix
					t.Fatalf("the child was not killed at %s: %v\n%s", at, err, out)
				}
				g := w.Guard()
				for _, m := range batch {
					res, err := redeliver(t, g, m, w.Grant(m))
					w.Want(res.Outcome, res, err)
					if !res.Outcome.MayPass() {
						t.Fatalf("redelivery: %s (%s)", res.Outcome, res.Reason)
					}
					if executed := res.Outcome == ledger.Executed; executed != (at != ledger.StepCommitted && at != ledger.StepMarked) {
						t.Errorf("killed at %s, then %s", at, res.Outcome)
					}
					w.ExactlyOnce(m)
				}
			})
		}
	}
}

// crashBatch is what the child is working on when it dies.
func crashBatch(at time.Time) []ledger.Message {
	var batch []ledger.Message
	for _, id := range []string{"20261111-8842", "20261111-8843", "20261111-8844"} {
		batch = append(batch, ledger.Message{Key: ledger.Key{BizType: ledgertest.Biz, OrderID: id}, Time: at})
	}
	return batch
}

// redeliver brings the message again, as Kafka does, until the dead owner's lease has ended.
func redeliver(t *testing.T, g *ledger.Guard, m ledger.Message, e ledger.Effect) (ledger.Result, error) {
	t.Helper()
	for {
		res, err := g.Do(t.Context(), m, e)
		if err != nil || res.Outcome != ledger.InFlight {
			return res, err
		}
		select {
		case <-t.Context().Done():
			return res, t.Context().Err()
		case <-time.After(res.RetryAfter):
		}
	}
}

// dieInTheMiddle is the child: it runs a batch and kills itself at a step.
func dieInTheMiddle(at string) {
	err := func() error {
		ctx := context.Background()
		scheme, err := partition.NewScheme(ledgertest.Prefix)
		if err != nil {
			return err
		}
		tx, err := mysqlx.Open(mysqlx.Options{DSN: os.Getenv(envDieDSN), Guard: true})
		if err != nil {
			return err
		}
		read, err := mysqlx.Open(mysqlx.Options{DSN: os.Getenv(envDieDSN)})
		if err != nil {
			return err
		}
		template, err := ledger.ParseKeyTemplate(os.Getenv(envDieKeys))
		if err != nil {
			return err
		}
		opt, err := redis.ParseURL(os.Getenv(envDieURL))
		if err != nil {
			return err
		}
		opt.ContextTimeoutEnabled = true
		filter, err := ledger.NewFilter(redis.NewClient(opt), ledger.FilterOptions{Template: template, Lease: time.Second, CompletedTTL: time.Hour, Timeout: 5 * time.Second})
		if err != nil {
			return err
		}
		g, err := ledger.NewGuard(ctx, ledger.GuardOptions{
			Store: ledger.NewStore(tx, read, scheme), Filter: filter, BizType: ledgertest.Biz, Zone: time.UTC, Retention: 30 * 24 * time.Hour,
			OnStep: func(_ context.Context, s ledger.Step, _ ledger.Message) {
				if string(s) == at {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {} // the signal is on its way
				}
			},
		})
		if err != nil {
			return err
		}
		when, err := time.Parse(time.RFC3339Nano, os.Getenv(envDieTime))
		if err != nil {
			return err
		}
		batch := crashBatch(when)
		results := g.DoBatch(ctx, batch, func(ctx context.Context, tx ledger.Tx, indexes []int) error {
			for _, i := range indexes {
				if _, err := tx.ExecContext(ctx, "INSERT INTO coupon (order_id) VALUES (?)", []byte(batch[i].Key.OrderID)); err != nil {
					return err
				}
			}
			return nil
		})
		return fmt.Errorf("survived %s: %v", at, results)
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
