package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/idemctl/idemctl/internal/testenv"
)

// TestLabScript runs the scripts that start servers of their own. They find what `make deps` has fetched.
func TestLabScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/lab",
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			cache, err := os.UserCacheDir()
			if err != nil {
				return nil //nolint:nilerr // only installed servers are found then
			}
			env.Setenv("XDG_CACHE_HOME", cache)
			return nil
		},
	})
}

// The story's numbers hold for every size and seed.
func TestDemoIncident(t *testing.T) {
	t.Parallel()
	for _, n := range []int{demoMinOrders, 1001, demoDefaultOrders, 9999, demoMaxOrders} {
		for seed := range uint64(25) {
			in, err := newDemoIncident(n, seed)
			if err != nil {
				t.Fatalf("%d orders, seed %d: %v", n, seed, err)
			}
			if err := checkIncident(in, n); err != nil {
				t.Errorf("%d orders, seed %d: %v", n, seed, err)
			}
		}
	}
	for _, n := range []int{-1, 0, demoMinOrders - 1, demoMaxOrders + 1} {
		if _, err := newDemoIncident(n, 1); err == nil {
			t.Errorf("%d orders were accepted", n)
		}
	}
}

func checkIncident(in *demoIncident, orders int) error {
	coupons := map[*demoOrder]int{} // as the unguarded consumer grants them
	next := in.first
	var story []*demoRecord
	var last time.Time
	reread := [demoPartitions]int{}
	for _, r := range in.records {
		if r.offset != next[r.partition] || r.offset < 0 {
			return fmt.Errorf("%s where offset %d comes next", r.coordinates(), next[r.partition])
		}
		next[r.partition]++
		if r.published.Before(last) || r.published.Before(in.begin) || r.published.After(in.begin.Add(47*time.Minute)) {
			return fmt.Errorf("%s is published at %s, after one at %s", r.coordinates(), r.published, last)
		}
		last = r.published
		coupons[r.order]++
		if r.offset >= in.committed[r.partition] && r.offset < in.reached[r.partition] {
			coupons[r.order]++
			reread[r.partition]++
		}
		if r.order == in.story {
			story = append(story, r)
		}
	}
	extra, users := 0, map[string]bool{}
	for o, n := range coupons {
		if extra += n - 1; n > 1 {
			users[o.user] = true
		}
	}
	switch {
	case len(in.orders) != orders || len(coupons) != orders:
		return fmt.Errorf("%d orders, %d of them published", len(in.orders), len(coupons))
	case extra != 327 || len(users) != 312:
		return fmt.Errorf("%d coupons too many for %d users", extra, len(users))
	case reread != [demoPartitions]int{demoRereads, demoRereads, demoRereads, demoRereads}:
		return fmt.Errorf("%v records are read twice", reread)
	case len(story) != 2 || story[0].order.id != "20261111-8842" || coupons[in.story] != 2:
		return fmt.Errorf("the story's order: %d records, %d coupons", len(story), coupons[in.story])
	case story[0].coordinates() != "order-paid[3]@10233" || story[1].coordinates() != "order-paid[3]@10234":
		return fmt.Errorf("the story's order is at %s and %s", story[0].coordinates(), story[1].coordinates())
	case story[1].published.Sub(story[0].published) != 12*time.Second:
		return errors.New("the story's records are not 12 s apart")
	}
	return nil
}

func TestDemoIncidentIsRepeatable(t *testing.T) {
	t.Parallel()
	texts := map[string][]string{}
	for _, seed := range []uint64{1, 1, 2} {
		in, err := newDemoIncident(demoMinOrders, seed)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, r := range in.records {
			v, err := r.value(in.zone)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, r.coordinates(), r.published, string(v))
		}
		key := strconv.FormatUint(seed, 10)
		texts[key] = append(texts[key], b.String())
	}
	if texts["1"][0] != texts["1"][1] || texts["1"][0] == texts["2"][0] {
		t.Error("the incident is not decided by its seed")
	}
}

// The months are those of the incident in any year.
func TestDemoCreateArgs(t *testing.T) {
	t.Parallel()
	in, err := newDemoIncident(demoMinOrders, 1)
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[string]string{
		"2026-11-29T12:00:00Z": "partition create --from 2026-11 --memory-since 2026-11-01 --execute",
		"2027-05-01T00:00:00Z": "partition create --from 2026-11 --memory-since 2026-11-01 --execute",
		"2026-10-31T16:00:00Z": "partition create --from 2026-11 --memory-since 2026-11-01 --execute",
		"2026-10-31T15:59:59Z": "partition create --from 2026-11 --memory-since 2026-10-31 --execute",
		"2026-06-15T00:00:00Z": "partition create --from 2026-11 --memory-since 2026-06-15 --ahead 5 --execute",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(createArgs(at, in), " "); got != want {
			t.Errorf("at %s:\n%s\nwant\n%s", now, got, want)
		}
	}
}

// The account finds what is wrong, and says FAILED.
func TestDemoCount(t *testing.T) {
	t.Parallel()
	in, err := newDemoIncident(demoMinOrders, 1)
	if err != nil {
		t.Fatal(err)
	}
	schema := testenv.MySQL(t)
	insert := func(table string, orders ...*demoOrder) {
		t.Helper()
		for _, o := range orders {
			_, err := schema.DB.ExecContext(t.Context(), "INSERT INTO "+table+" (order_id, user_id, amount, source) VALUES (?, ?, ?, 'test')", o.id, o.user, o.amount)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, statement := range demoTables() {
		if _, err := schema.DB.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	in.orders = in.orders[:5]
	insert("coupon", in.orders...)
	insert("coupon_unguarded", in.orders[:4]...)
	insert("coupon_unguarded", in.orders[0], in.orders[0], in.orders[1], &demoOrder{id: "other", user: "u1", amount: "1"})

	good, err := in.count(t.Context(), schema.DB, "coupon")
	if want := (demoCount{Orders: 5, Coupons: 5}); err != nil || good != want || !good.exact() {
		t.Errorf("%+v, %v; want %+v", good, err, want)
	}
	bad, err := in.count(t.Context(), schema.DB, "coupon_unguarded")
	if want := (demoCount{Orders: 5, Coupons: 8, Duplicates: 3, Users: 2, Lost: 1, Unknown: 1}); err != nil || bad != want || bad.exact() {
		t.Errorf("%+v, %v; want %+v", bad, err, want)
	}
	for _, c := range []demoCount{
		{Orders: 5, Coupons: 6, Duplicates: 1, Users: 1}, {Orders: 5, Coupons: 4, Lost: 1}, {Orders: 5, Coupons: 5, Duplicates: 1, Lost: 1},
		{Orders: 5, Coupons: 5, Lost: 1, Unknown: 1},
	} {
		if c.exact() {
			t.Errorf("%+v passes for exact", c)
		}
	}
	a := demoAccount{Guarded: bad}
	if got, want := a.verdict(), "demo: FAILED orders=5 coupons=8 duplicates=3 lost=1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A command that does not end as it should have is remembered, and its environment is the lab's.
func TestDemoCommand(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	d := &demo{app: newApp(&streams{Err: &errWriter{w: &errs}}, os.Environ), out: &out, exe: exe, env: demoEnviron(os.Environ(), "nowhere.yaml")}
	if err := d.command(t.Context(), demoStep{args: []string{"version"}}); err != nil || d.surprise != "" {
		t.Fatalf("%v, %q; stderr: %s", err, d.surprise, errs.String())
	}
	if err := d.command(t.Context(), demoStep{args: []string{"config", "show"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "nowhere.yaml") {
		t.Errorf("the command did not look for the lab's configuration: %s", errs.String())
	}
	if !strings.Contains(d.surprise, "`idemctl config show` ended with exit status 2, not 0") {
		t.Errorf("surprise: %q", d.surprise)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.command(gone, demoStep{args: []string{"version"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestDemoEnviron(t *testing.T) {
	t.Parallel()
	got := demoEnviron([]string{"PATH=/bin", "IDEMCTL_LEDGER_DSN=prod", "idemctl_redis_url=prod", "IDEMCTL_CONFIG=prod.yaml", "X_IDEMCTL_Y=1"}, "lab.yaml")
	if want := []string{"PATH=/bin", "X_IDEMCTL_Y=1", "IDEMCTL_CONFIG=lab.yaml"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAsTyped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"replay": "replay", "/tmp/a-b.yaml": "/tmp/a-b.yaml", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "a;b": "'a;b'",
		"a b c": "'a b c'", "x y": "'x y'",
	} {
		if got := asTyped(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
