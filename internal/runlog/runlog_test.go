package runlog_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func TestConformanceList(t *testing.T) {
	t.Parallel()
	for _, server := range testenv.Databases(t) {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			schema := server.Schema(t)
			log := runlog.New(schema.DB)
			if _, err := log.List(ctx, runlog.Filter{}); !errors.Is(err, runlog.ErrNoTable) {
				t.Errorf("without a table: %v", err)
			}
			if _, err := log.Get(ctx, 1); !errors.Is(err, runlog.ErrNoTable) {
				t.Errorf("without a table: %v", err)
			}
			for range 2 {
				if err := log.Ensure(ctx); err != nil {
					t.Fatal(err)
				}
			}
			begin := func(prefix, command string) int64 {
				t.Helper()
				id, err := log.Begin(ctx, runlog.Run{Prefix: prefix, Command: command, Args: command + " --execute", Who: "cron", Host: "db-1", Version: "v1", Plan: map[string]int{"rows": 3}})
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			first, restore, other := begin("a", "purge"), begin("a", "purge restore"), begin("b", "purge")
			begin("a", "purge_x")
			if err := log.Finish(ctx, first, "done", map[string]int{"deleted": 2}); err != nil {
				t.Fatal(err)
			}
			for name, tc := range map[string]struct {
				filter runlog.Filter
				want   []int64
			}{
				"one ledger":     {runlog.Filter{Prefix: "b"}, []int64{other}},
				"a command":      {runlog.Filter{Prefix: "a", Command: "purge"}, []int64{restore, first}},
				"no wildcard":    {runlog.Filter{Command: "purge%"}, nil},
				"the newest":     {runlog.Filter{Prefix: "a", Command: "purge", Limit: 1}, []int64{restore}},
				"since long ago": {runlog.Filter{Command: "purge", Since: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)}, []int64{other, restore, first}},
				"since later":    {runlog.Filter{Since: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)}, nil},
			} {
				entries, err := log.List(ctx, tc.filter)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if len(entries) != len(tc.want) {
					t.Errorf("%s: %d runs, want %d", name, len(entries), len(tc.want))
					continue
				}
				for i, id := range tc.want {
					if entries[i].ID != id {
						t.Errorf("%s: run %d in place %d, want %d", name, entries[i].ID, i, id)
					}
				}
			}
			e, err := log.Get(ctx, first)
			if err != nil || e.Result != "done" || string(e.Plan) != `{"rows":3}` || string(e.Counts) != `{"deleted":2}` || e.Finished.Before(e.Started) || e.Args != "purge --execute" {
				t.Errorf("%+v, %v", e, err)
			}
			if e, err := log.Get(ctx, restore); err != nil || e.Result != runlog.Running || !e.Finished.IsZero() || e.Counts != nil {
				t.Errorf("a run that goes on: %+v, %v", e, err)
			}
			if _, err := log.Get(ctx, 999); !errors.Is(err, runlog.ErrNoRun) {
				t.Errorf("no such run: %v", err)
			}
		})
	}
}
