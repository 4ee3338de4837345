package partition_test

import (
	"strings"
	"testing"

	"github.com/idemctl/idemctl/pkg/partition"
)

const prefix = "t_idempotent_flow"

func scheme(t testing.TB, prefix string) partition.Scheme {
	t.Helper()
	s, err := partition.NewScheme(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A prefix ends up in statements and in the names of tables: at most 64 characters with what is put behind it.
func TestSchemeRefusesPrefixes(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"", strings.Repeat("p", 41), "a`b", "a'b", `a"b`, "a b", "a-b", "a.b", "a;b", "a%", "prefix\n", "ü", "a\x00", "a\\",
	} {
		if _, err := partition.NewScheme(p); err == nil {
			t.Errorf("%q is taken for a prefix", p)
		}
	}
	longest := scheme(t, strings.Repeat("p", 40))
	if n := len(longest.Table(month(t, "2026-11"))); n > 64 {
		t.Errorf("a table name has %d characters", n)
	}
}

// hazard P4: a look-alike is nobody's month.
func TestSchemeMonth(t *testing.T) {
	t.Parallel()
	s := scheme(t, prefix)
	if s.Prefix() != prefix {
		t.Errorf("prefix %q", s.Prefix())
	}
	for m := month(t, "2000-01"); m <= month(t, "2100-12"); m++ {
		if got, ok := s.Month(s.Table(m)); !ok || got != m {
			t.Fatalf("%s is %s, %v; want %s", s.Table(m), got, ok, m)
		}
	}
	for _, name := range []string{
		"t_idempotent_flow_202604_bak", "t_idempotent_flow_202613", "t_idempotent_flow_202600", "t_idempotent_flow_2026-4", "t_idempotent_flow_2026-04",
		"t_idempotent_flow_20260", "t_idempotent_flow_2026041", "t_idempotent_flow_", "t_idempotent_flow", "t_idempotent_flow202604",
		"t_idempotent_flow2_202604", "xt_idempotent_flow_202604", "T_IDEMPOTENT_FLOW_202604", "t_idempotent_flow_202604 ", "t_idempotent_flow__202604",
		"tXidempotentXflow_202604", "t_idempotent_flow_199912", "", partition.ControlTable,
	} {
		if m, ok := s.Month(name); ok {
			t.Errorf("%q is taken for %s", name, m)
		}
	}
}
