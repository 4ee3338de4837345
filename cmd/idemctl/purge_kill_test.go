package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// envKillSeed repeats a run of TestPurgeKilled.
const envKillSeed = "IDEMCTL_TEST_KILL_SEED"

// A ledger is filled and purged so many times, and each of these purges killed so many times.
const (
	killRounds = 3
	kills      = 12
)

// The real program is killed by SIGKILL at random points, many times over, and run again until it ends by itself. At every
// such point: no live row is missing, what is gone is in an archive that verifies, and lies below the horizon. In the end:
// everything expired is gone and archived, once when counted by key, and nothing is left renamed. hazards P7 P8 P20
func TestPurgeKilled(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(envKillSeed); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", envKillSeed, err)
		}
	}
	t.Logf("%s=%d repeats this", envKillSeed, seed)
	for _, server := range testenv.Databases(t) {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			killed := 0
			for round := range killRounds {
				k := newKillCase(t, server.Schema(t), random)
				for i := range kills {
					point, dead := k.kill(t, i)
					t.Logf("round %d, kill %d %s: %s", round, i, point, k.check(t))
					if !dead {
						break // it came to its end: there is nothing left to interrupt
					}
					killed++
				}
				k.finish(t)
			}
			t.Logf("%d purges were killed", killed)
			if killed < killRounds*kills/3 {
				t.Errorf("only %d purges were killed before their end: this test has become too weak", killed)
			}
		})
	}
}

// killCase is a ledger with a known set of rows, and the program that purges it.
type killCase struct {
	schema  *testenv.Schema
	scheme  partition.Scheme
	command command
	proxy   *killProxy
	dir     string
	random  *rand.Rand
	current partition.Month
	live    map[string]time.Time // biz_type and order_id → create_time
	expired map[string]time.Time
}

func rowKey(biz, order string) string { return biz + "/" + order }

// newKillCase has three months that are wholly expired, two with expired and live rows, and the current one.
func newKillCase(t *testing.T, schema *testenv.Schema, random *rand.Rand) *killCase {
	t.Helper()
	scheme, err := partition.NewScheme("t_idempotent_flow")
	if err != nil {
		t.Fatal(err)
	}
	k := &killCase{schema: schema, scheme: scheme, random: random, dir: t.TempDir(), live: map[string]time.Time{}, expired: map[string]time.Time{}}
	k.proxy = newKillProxy(t, mysqlx.Address(schema.DSN))
	cfg, err := mysql.ParseDSN(schema.DSN)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr = k.proxy.addr
	home := t.TempDir()
	k.command = command{dir: home, env: []string{"XDG_CONFIG_HOME=" + home, "TMPDIR=" + home, "IDEMCTL_LEDGER_DSN=" + cfg.FormatDSN()}}
	var now time.Time
	k.current, now = serverMonth(t, schema)
	oldest := k.current - 6
	k.command.must(t, exitDone, "partition", "create", "--ahead", "0", "--from", oldest.String(), "--memory-since",
		oldest.Start(time.UTC).Format(time.DateOnly), "--execute")
	k.seed(t, now, 6, 260, 0)
	k.seed(t, now, 5, 190, 0)
	k.seed(t, now, 4, 230, 0)
	k.seed(t, now, 3, 1200, 300)
	k.seed(t, now, 2, 900, 400)
	k.seed(t, now, 0, 0, 50)
	return k
}

func (k *killCase) seed(t *testing.T, now time.Time, ago, expired, live int) {
	t.Helper()
	m := k.current - partition.Month(ago)
	for _, part := range []struct {
		n     int
		state string
		into  map[string]time.Time
	}{{expired, seedExpired, k.expired}, {live, seedLive, k.live}} {
		for i, biz := range []string{"COUPON", "SHIPMENT"} {
			n := part.n / 2
			if i == 0 {
				n = part.n - n
			}
			rows := seedMonth(m, now, n, 30*time.Minute, part.state, biz, part.state+m.Digits())
			for _, r := range rows {
				part.into[rowKey(r.biz, r.order)] = r.create
			}
			if err := insertSeed(t.Context(), k.schema.DB, k.scheme.Table(m), rows); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (k *killCase) args() []string {
	return []string{"purge", "--execute", "--wait", "-q", "--archive", k.dir, "--batch", "40", "--hold", "0"}
}

// kill starts a purge and kills it: at a request to the server, before or after the server has it, any request or one of
// those that change something, or after a while, which also meets the work on files.
func (k *killCase) kill(t *testing.T, i int) (point string, dead bool) {
	t.Helper()
	const anyRequest, changes, moment = 60, 25, 100 * time.Millisecond
	wait, send := k.command.startProcess(t, k.args()...)
	kill := func() { send(os.Kill) }
	stop := func() { k.proxy.killAt(killPoint{}) }
	before := k.random.IntN(2) == 0
	switch i % 4 {
	case 0:
		after := time.Duration(k.random.Int64N(int64(moment)))
		point = "after " + after.String()
		timer := time.AfterFunc(after, kill)
		stop = func() { timer.Stop() }
	case 1:
		n := 1 + k.random.IntN(anyRequest)
		point = fmt.Sprintf("at request %d, sent on: %v", n, !before)
		k.proxy.killAt(killPoint{left: n, before: before, kill: kill})
	default:
		n := 1 + k.random.IntN(changes)
		point = fmt.Sprintf("at change %d, sent on: %v", n, !before)
		k.proxy.killAt(killPoint{left: n, changes: true, before: before, kill: kill})
	}
	res := wait()
	stop()
	k.proxy.drain()
	if res.code != exitDone && res.code != -1 {
		t.Fatalf("kill %d %s: the purge ended by itself with %d\n%s%s", i, point, res.code, res.stdout, res.stderr)
	}
	return point, res.code == -1
}

// check holds what must be true at every moment, and returns how far the purge is. It takes the run's lock first: a
// statement of the killed run may still be at work in the server.
func (k *killCase) check(t *testing.T) (state string) {
	t.Helper()
	defer k.lock(t)()
	catalog, err := partition.LoadCatalog(t.Context(), k.schema.DB, k.scheme)
	if err != nil {
		t.Fatal(err)
	}
	present := k.present(t, catalog)
	for key, create := range k.live {
		if got, ok := present[key]; !ok || !got.Equal(create) {
			t.Fatalf("live row %s is missing or changed: %v", key, got)
		}
	}
	archived := k.archived(t)
	for key, create := range k.expired {
		if _, ok := present[key]; ok {
			continue
		}
		if got, ok := archived[key]; !ok || !got.Equal(create) {
			t.Fatalf("%s is gone and in no archive that verifies", key)
		}
		biz, _, _ := strings.Cut(key, "/")
		if h, ok := horizonOf(catalog, biz); !ok || h.Before(create) {
			t.Fatalf("%s, created %s, is gone and the horizon is %s", key, create, h)
		}
	}
	for key := range present {
		if _, expired := k.expired[key]; !expired && k.live[key].IsZero() {
			t.Fatalf("%s was never put there", key)
		}
	}
	state = fmt.Sprintf("%d expired rows left", len(present)-len(k.live))
	for _, table := range catalog.Tables {
		if table.State != partition.Live {
			state += fmt.Sprintf(", %s is %s", table.Name, table.State)
		}
	}
	return state
}

// lock takes the run's lock as soon as the server has noticed that its owner is gone.
func (k *killCase) lock(t *testing.T) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := partition.LockMonths(ctx, k.schema.DB, k.scheme)
		if err == nil {
			return func() { _ = lock.Release(t.Context()) }
		}
		if !errors.Is(err, mysqlx.ErrLockHeld) {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			t.Fatal("the killed run's lock is never given back")
		case <-tick.C:
		}
	}
}

// horizonOf is the horizon that the purge has raised, also of a biz_type that no guard has claimed yet.
func horizonOf(c partition.Catalog, biz string) (time.Time, bool) {
	h := c.LostUntil
	if p := c.Biz[biz].Purged; p.After(h) {
		h = p
	}
	return h, !h.IsZero()
}

// present reads every table of the catalog under whichever of its names is there, as a guard does.
func (k *killCase) present(t *testing.T, catalog partition.Catalog) map[string]time.Time {
	t.Helper()
	found := map[string]time.Time{}
	for _, table := range catalog.Tables {
		for _, name := range table.Names() {
			if err := k.readTable(t.Context(), name, found); err != nil && mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
				t.Fatal(err)
			}
		}
	}
	return found
}

func (k *killCase) readTable(ctx context.Context, name string, into map[string]time.Time) error {
	rows, err := k.schema.DB.QueryContext(ctx, "SELECT biz_type, order_id, create_time FROM "+mysqlx.Quote(name))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var biz, order string
		var create time.Time
		if err := rows.Scan(&biz, &order, &create); err != nil {
			return err
		}
		if _, twice := into[rowKey(biz, order)]; twice {
			return fmt.Errorf("%s/%s is there twice", biz, order)
		}
		into[rowKey(biz, order)] = create
	}
	return rows.Err()
}

// archived reads every archive that verifies. The same row may be in several: a run that was killed after it had archived
// is followed by one that archives what is still there.
func (k *killCase) archived(t *testing.T) map[string]time.Time {
	t.Helper()
	infos, err := purge.ListArchives(t.Context(), k.dir, true)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]time.Time{}
	for _, info := range infos {
		if !info.Verified {
			continue
		}
		a, err := purge.OpenArchive(filepath.Join(k.dir, info.File))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := a.Rows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for {
			victims, err := rows.Next(1000)
			for _, v := range victims {
				key := rowKey(v.BizType, v.OrderID)
				if create, twice := found[key]; twice && !create.Equal(v.CreateTime) {
					t.Fatalf("%s is in two archives, with other times", key)
				}
				found[key] = v.CreateTime
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// finish lets a run come to its end and looks at what is left.
func (k *killCase) finish(t *testing.T) {
	t.Helper()
	k.command.must(t, exitDone, k.args()...)
	k.check(t)
	catalog, err := partition.LoadCatalog(t.Context(), k.schema.DB, k.scheme)
	if err != nil {
		t.Fatal(err)
	}
	if left := k.present(t, catalog); len(left) != len(k.live) {
		t.Errorf("%d rows are left, want the %d live ones", len(left), len(k.live))
	}
	archived := k.archived(t)
	if len(archived) != len(k.expired) {
		t.Errorf("%d rows are archived, %d were expired", len(archived), len(k.expired))
	}
	for key := range k.live {
		if _, ok := archived[key]; ok {
			t.Errorf("live row %s was archived", key)
		}
	}
	var want []string
	for _, ago := range []partition.Month{3, 2, 1, 0} {
		want = append(want, k.scheme.Table(k.current-ago))
	}
	var got []string
	for _, table := range catalog.Tables {
		if table.State != partition.Live {
			t.Errorf("%s is left %s", table.Name, table.State)
		}
		got = append(got, table.Name)
	}
	// The month before the current one is empty: a purge may drop it or keep it.
	if months := text(t, k.schema, `SELECT GROUP_CONCAT(table_name ORDER BY table_name) FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name LIKE 't\_idempotent\_flow%'`); months != strings.Join(got, ",") {
		t.Errorf("the catalog lists %v, there are %s", got, months)
	}
	if last := strings.Join(got, ","); last != strings.Join(want, ",") && last != strings.Join(append(want[:2:2], want[3]), ",") {
		t.Errorf("the months are %v, want %v", got, want)
	}
}
