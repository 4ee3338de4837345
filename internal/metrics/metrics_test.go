package metrics_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/metrics"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path string, at time.Time, code int, labels ...metrics.Label) {
	t.Helper()
	s := metrics.New(labels...)
	s.Run(at.Add(-3*time.Second), at, code)
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
}

// A run that failed leaves the time of the last success where it was, and one that never succeeded has 0. hazard T6
func TestLastSuccess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "purge.prom")
	purge := []metrics.Label{{Name: "command", Value: "purge"}, {Name: "prefix", Value: "t_a"}}
	const first, second = 1_800_000_000, 1_800_086_400
	for _, step := range []struct {
		at, code int
		labels   []metrics.Label
		want     []string
	}{
		{first, 4, purge, []string{`idemctl_last_success_timestamp_seconds{command="purge",prefix="t_a"} 0`, `idemctl_exit_code{command="purge",prefix="t_a"} 4`}},
		{first, 0, purge, []string{`idemctl_last_success_timestamp_seconds{command="purge",prefix="t_a"} 1.8e+09`}},
		{second, 3, purge, []string{`idemctl_last_success_timestamp_seconds{command="purge",prefix="t_a"} 1.8e+09`, `idemctl_last_run_timestamp_seconds{command="purge",prefix="t_a"} 1.8000864e+09`, `idemctl_run_duration_seconds{command="purge",prefix="t_a"} 3`}},
		{second, 5, purge, []string{`idemctl_last_success_timestamp_seconds{command="purge",prefix="t_a"} 1.8e+09`}},
		// the success of another ledger is not this one's
		{second, 3, []metrics.Label{{Name: "command", Value: "purge"}, {Name: "prefix", Value: "t_b"}}, []string{`idemctl_last_success_timestamp_seconds{command="purge",prefix="t_b"} 0`}},
	} {
		write(t, path, time.Unix(int64(step.at), 0), step.code, step.labels...)
		got := read(t, path)
		for _, line := range step.want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("after exit %d there is no line %s in\n%s", step.code, line, got)
			}
		}
	}
	if err := os.WriteFile(path, []byte("half a li"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, path, time.Unix(second, 0), 3, purge...)
	if got := read(t, path); !strings.Contains(got, `idemctl_last_success_timestamp_seconds{command="purge",prefix="t_a"} 0`) {
		t.Errorf("after a broken file:\n%s", got)
	}
}

// The exporter runs as another user, whatever the umask and the mode of the file before. hazard T6
func TestModeAndLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "purge.prom")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, path, time.Unix(1, 0), 0)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, want 0644", info.Mode().Perm())
	}
	// What cannot be written leaves the file before whole, and nothing beside it.
	s := metrics.New()
	s.Add("idemctl_twice", "Help.", 1)
	s.Add("idemctl_twice", "Help.", 2)
	before := read(t, path)
	if err := s.Write(path); err == nil {
		t.Error("a gauge given twice was written")
	}
	if read(t, path) != before {
		t.Error("the file before was touched")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left in the folder, %v", len(entries), err)
	}
	if err := metrics.New().Write(filepath.Join(dir, "missing", "x.prom")); err == nil {
		t.Error("a folder was made")
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.prom")
	s := metrics.New(metrics.Label{Name: "command", Value: "purge"})
	s.Add("idemctl_rows", "Rows.", 2, metrics.Label{Name: "biz_type", Value: "A\xff\"\n"})
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, path), `idemctl_rows{biz_type="A`+"\uFFFD"+`\"\n",command="purge"} 2`; !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
	s.Add("idemctl_rows", "Rows.", 2, metrics.Label{Name: "command", Value: "other"})
	if err := s.Write(path); err == nil {
		t.Error("a label given twice was written")
	}
}
