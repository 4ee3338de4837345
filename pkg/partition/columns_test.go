package partition_test

import (
	"strings"
	"testing"

	"github.com/idemctl/idemctl/pkg/partition"
)

func TestWithColumns(t *testing.T) {
	t.Parallel()
	own := scheme(t, prefix)
	if own.Legacy() || own.Columns() != partition.OwnColumns() {
		t.Errorf("without a map: legacy %v, %+v", own.Legacy(), own.Columns())
	}
	for _, c := range []struct{ given, want partition.Columns }{
		{partition.Columns{}, partition.Columns{OrderID: "order_id", CreateTime: "create_time"}},
		{partition.Columns{OrderID: "msg_key", ExpireAt: "ttl$1"}, partition.Columns{OrderID: "msg_key", CreateTime: "create_time", ExpireAt: "ttl$1"}},
		{partition.OwnColumns(), partition.OwnColumns()},
		{partition.Columns{OrderID: strings.Repeat("x", 64)}, partition.Columns{OrderID: strings.Repeat("x", 64), CreateTime: "create_time"}},
	} {
		s, err := own.WithColumns(c.given)
		if err != nil || !s.Legacy() || s.Columns() != c.want || s.Prefix() != own.Prefix() {
			t.Errorf("%+v: %+v, legacy %v, %v; want %+v", c.given, s.Columns(), s.Legacy(), err, c.want)
		}
	}
	for _, bad := range []partition.Columns{
		{OrderID: "a b"}, {BizType: "a`b"}, {CreateTime: "a'b"}, {ExpireAt: "é"}, {OrderID: strings.Repeat("x", 65)},
		{OrderID: "k", BizType: "K"}, {ExpireAt: "create_time"}, {BizType: "order_id"},
	} {
		if _, err := own.WithColumns(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// hazard P4: what only looks like a month, or like the ledger, is not found.
func TestConformanceFindTables(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		for _, name := range []string{"_202612", "_202601", "", "_202604_bak", "_202613", "_20260", "x", "_202602_held_0badcafe"} {
			b.sql("CREATE TABLE " + prefix + name + " (order_id INT)")
		}
		b.sql("CREATE TABLE `" + strings.ReplaceAll(prefix, "_", "X") + "_202603` (order_id INT)")
		b.sql("CREATE VIEW " + prefix + "_202605 AS SELECT 1 AS order_id")
		legacy, err := b.scheme.WithColumns(partition.Columns{})
		b.must(err)
		for name, c := range map[string]struct {
			s    partition.Scheme
			want []string
		}{
			"own":    {b.scheme, []string{prefix + "_202601", prefix + "_202612"}},
			"legacy": {legacy, []string{prefix + "_202601", prefix + "_202612", prefix}},
		} {
			found, err := partition.FindTables(b.Context(), b.DB, c.s)
			b.must(err)
			var names []string
			for _, f := range found {
				names = append(names, f.Name)
				if want := f.Name == prefix; (f.Month == 0) != want || f.State != partition.Live {
					b.Errorf("%s: %+v", name, f)
				}
			}
			b.same(names, c.want)
		}
	})
}
