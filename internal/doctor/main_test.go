package doctor

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// setup is a configuration that no check finds anything wrong with.
func setup(t *testing.T) Setup {
	t.Helper()
	scheme, err := partition.NewScheme("t_idempotent_flow")
	if err != nil {
		t.Fatal(err)
	}
	return Setup{
		Scheme: scheme, Zone: time.UTC, Retention: 30 * day, Slack: 5 * time.Minute,
		KeyTemplate: "idempotent:{biz_type}:{order_id}", Lease: 2 * time.Minute, CompletedTTL: day, Now: time.Now,
		Handlers: []Handler{{Name: "coupon", Topic: "order-paid", BizType: "COUPON", Key: "orderId", EventTime: "paidAt", P99: 200 * time.Millisecond}},
	}
}

// on is setup on a schema with its months made.
func on(t *testing.T, s *testenv.Schema) Setup {
	t.Helper()
	c := setup(t)
	c.DB = s.DB
	m := partition.NewManager(s.DB, c.Scheme, c.Zone)
	plan, err := m.PlanCreate(t.Context(), partition.CreateRequest{Ahead: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	return c
}

// check runs one check, with nothing remembered.
func check(t *testing.T, s Setup, name string) Result {
	t.Helper()
	all := Checks()
	i := slices.IndexFunc(all, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %s", name)
	}
	rep, err := Run(t.Context(), NewFacts(s), all[i:i+1])
	if err != nil {
		t.Fatal(err)
	}
	return rep.Checks[0]
}

// expect wants a status, and a piece of what was read. What is found wrong always says why and what mends it.
func expect(t *testing.T, r Result, want Status, read string) {
	t.Helper()
	if r.Status != want || !strings.Contains(r.Read, read) {
		t.Errorf("%s: %s: %s\nwant %s: …%s…", r.Name, r.Status, r.Read, want, read)
	}
	bad := r.Status == Warn || r.Status == Fail
	if bad != (r.Why != "") || bad != (r.Mend != "") {
		t.Errorf("%s: %s, but why %q, mend %q", r.Name, r.Status, r.Why, r.Mend)
	}
}

func exec(t *testing.T, s *testenv.Schema, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := s.DB.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// each runs a test on every database.
func each(t *testing.T, test func(t *testing.T, s *testenv.Schema)) {
	t.Helper()
	for _, d := range testenv.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			test(t, d.Schema(t))
		})
	}
}

// month is the table of the current month.
func month(s Setup, ahead int) string {
	return s.Scheme.Table(partition.MonthOf(time.Now(), s.Zone) + partition.Month(ahead))
}

// change alters the catalog by hand.
func change(t *testing.T, s Setup, fn func(c *partition.Catalog)) {
	t.Helper()
	if _, err := partition.UpdateCatalog(t.Context(), s.DB, s.Scheme, func(c *partition.Catalog) (bool, error) {
		fn(c)
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Names are unique and of one form, since scripts hold them, and each is explained.
func TestChecksAreNamedAndDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.Name] {
			t.Errorf("%s twice", c.Name)
		}
		seen[c.Name] = true
		if !strings.Contains(string(doc), "| `"+c.Name+"` |") {
			t.Errorf("docs/doctor.md does not explain %s", c.Name)
		}
		if len(c.Name) > 20 {
			t.Errorf("%s is wider than its column", c.Name)
		}
		if c.About == "" || c.Run == nil {
			t.Errorf("%s has no text or no function", c.Name)
		}
	}
}

// What is not configured is skipped; what is configured and away is unknown. Neither is ok.
func TestServersThatAreNotThere(t *testing.T) {
	t.Parallel()
	s := setup(t)
	rep, err := Run(t.Context(), NewFacts(s), Checks())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Checks {
		if want := strings.HasPrefix(r.Name, "config."); want != (r.Status == OK) || !want && r.Status != Skipped {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Read)
		}
	}
	away := context.DeadlineExceeded
	s.DBErr, s.RedisErr, s.KafkaErr = away, away, away
	rep, err = Run(t.Context(), NewFacts(s), Checks())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Checks {
		want := Unknown
		if strings.HasPrefix(r.Name, "config.") {
			want = OK
		}
		if r.Status != want || want == Unknown && !strings.Contains(r.Read, away.Error()) {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Read)
		}
	}
	if rep.Count(Unknown) == 0 || rep.Looked() != rep.Count(OK) {
		t.Errorf("counts %v", rep.Counts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rep, err := Run(ctx, NewFacts(s), Checks()); err == nil || len(rep.Checks) != 0 {
		t.Errorf("an ended context: %v, %d results", err, len(rep.Checks))
	}
}

// Of several findings the worst decides, comes first, and each reason is told once.
func TestMerge(t *testing.T) {
	t.Parallel()
	var bad []Result
	for range 6 {
		bad = append(bad, finding(Warn, "a", "why a", "mend a"))
	}
	bad = append(bad, finding(Fail, "b", "why b", "mend b"))
	r := merge(ok("fine"), bad)
	if r.Status != Fail || r.Read != "b; a; a; a; a; and 2 more" || r.Why != "why b why a" || r.Mend != "mend b; mend a" {
		t.Errorf("%+v", r)
	}
	if r := merge(ok("fine"), nil); r.Status != OK || r.Read != "fine" {
		t.Errorf("%+v", r)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 2 * time.Minute: "2m", time.Hour: "1h", 24 * time.Hour: "24h", 30 * day: "30d", 60 * time.Hour: "2.5d",
		90*time.Second + 300*time.Millisecond: "1m30s", 200 * time.Millisecond: "200ms", 1234 * time.Millisecond: "1.2s", 10 * time.Minute: "10m",
	} {
		if got := Short(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
