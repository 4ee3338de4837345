package purge_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// hazard P8: what is written is all of it, in order, and says so.
func TestConformanceArchive(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		base := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
		claim := []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff")
		s.put(s.table, entry{order: "B", createdAt: base, expiresAt: base.Add(2 * time.Hour), claim: claim, topic: []byte("order-paid"), part: 3, offset: 10233})
		s.put(s.table, entry{order: "A", createdAt: base.Add(time.Minute), expiresAt: base.Add(time.Hour), print: claim})
		s.put(s.table, entry{order: "C", biz: "SHIPMENT", createdAt: base, expiresAt: base.Add(3 * time.Hour), offset: int64(-9223372036854775808)})
		s.put(s.table, entry{order: "D", biz: "SHIPMENT", createdAt: base.Add(time.Second), expiresAt: base.Add(4 * time.Hour)})
		s.put(s.table, entry{order: "live", createdAt: base, expiresAt: s.now.Add(time.Millisecond)})
		s.put(s.table, entry{order: "odd", createdAt: s.now.Add(time.Millisecond), expiresAt: base}) // hazard P18
		a := s.archive()
		want := []string{
			`{"order_id":"A","biz_type":"COUPON","create_time":"2026-01-02T03:05:05.678Z","expire_at":"2026-01-02T04:04:05.678Z","claim_id":null,"fingerprint":"000102030405060708090a0b0c0d0eff","src_topic":null,"src_partition":null,"src_offset":null}`,
			`{"order_id":"B","biz_type":"COUPON","create_time":"2026-01-02T03:04:05.678Z","expire_at":"2026-01-02T05:04:05.678Z","claim_id":"000102030405060708090a0b0c0d0eff","fingerprint":null,"src_topic":"order-paid","src_partition":3,"src_offset":10233}`,
			`{"order_id":"C","biz_type":"SHIPMENT","create_time":"2026-01-02T03:04:05.678Z","expire_at":"2026-01-02T06:04:05.678Z","claim_id":null,"fingerprint":null,"src_topic":null,"src_partition":null,"src_offset":-9223372036854775808}`,
			`{"order_id":"D","biz_type":"SHIPMENT","create_time":"2026-01-02T03:04:06.678Z","expire_at":"2026-01-02T07:04:05.678Z","claim_id":null,"fingerprint":null,"src_topic":null,"src_partition":null,"src_offset":null}`,
		}
		if got := s.lines(a); !slices.Equal(got, want) {
			s.Errorf("lines\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		m := a.Manifest()
		if m.Rows != 4 || m.Table != s.table || m.Month != s.month || m.Prefix != "t_flow" || m.Run != "00000001" || len(m.Columns) != 9 ||
			!m.MinCreate.Equal(base) || !m.MaxCreate.Equal(base.Add(time.Minute)) || !m.MinExpiry.Equal(base.Add(time.Hour)) || !m.MaxExpiry.Equal(base.Add(4*time.Hour)) {
			s.Errorf("manifest %+v", m)
		}
		if want := []purge.ArchiveBiz{{BizType: "COUPON", Rows: 2, MaxCreate: base.Add(time.Minute)}, {BizType: "SHIPMENT", Rows: 2, MaxCreate: base.Add(time.Second)}}; !slices.Equal(m.BizTypes, want) {
			s.Errorf("biz_types %+v, want %+v", m.BizTypes, want)
		}
		name := s.table + "." + s.now.Format("20060102T150405Z") + ".00000001"
		if got := s.files(); !slices.Equal(got, []string{name + ".jsonl.zst", name + ".manifest.json"}) {
			s.Errorf("files %q", got)
		}
		for _, path := range []string{a.Path(), a.ManifestPath()} {
			again, err := purge.OpenArchive(path)
			s.must(err)
			s.must(again.Verify(s.Context()))
			if again.Manifest().Checksum != m.Checksum {
				s.Errorf("%s: manifest %+v", path, again.Manifest())
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				s.Errorf("%s: mode %v, %v", path, info.Mode(), err)
			}
		}
		wantVictims := []purge.Victim{
			{OrderID: "A", BizType: "COUPON", CreateTime: base.Add(time.Minute), Expiry: base.Add(time.Hour)},
			{OrderID: "B", BizType: "COUPON", CreateTime: base, Expiry: base.Add(2 * time.Hour)},
			{OrderID: "C", BizType: "SHIPMENT", CreateTime: base, Expiry: base.Add(3 * time.Hour)},
			{OrderID: "D", BizType: "SHIPMENT", CreateTime: base.Add(time.Second), Expiry: base.Add(4 * time.Hour)},
		}
		for _, page := range []int{1, 2, 3, 100} {
			if got := s.victims(a, page); !slices.Equal(got, wantVictims) {
				s.Errorf("by %d: victims %+v, want %+v", page, got, wantVictims)
			}
		}
	})
}

// hazard P6: thousands of rows with one and the same expiry are neither skipped nor read for ever, and a limit is exact.
func TestConformanceArchivePages(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		const n = 12_345
		s.fill(s.table, n)
		a := s.archive()
		seen := map[string]bool{}
		var last purge.Victim
		for _, v := range s.victims(a, 1000) {
			if seen[v.OrderID] {
				s.Fatalf("%s twice", v.OrderID)
			}
			seen[v.OrderID] = true
			if v.CreateTime.Before(last.CreateTime) || v.CreateTime.Equal(last.CreateTime) && v.OrderID <= last.OrderID {
				s.Fatalf("%+v after %+v", v, last)
			}
			last = v
		}
		if len(seen) != n || a.Manifest().Rows != n {
			s.Errorf("%d keys, manifest %d; want %d", len(seen), a.Manifest().Rows, n)
		}
		s.must(a.Compare(s.Context(), s.DB, s.table))
		for _, limit := range []int64{1, 4999, 5000, 5001, 10_000, n + 1} {
			part, err := purge.WriteArchive(s.Context(), s.DB, s.selection(), s.options(), limit)
			s.must(err)
			got := s.victims(part, 5000)
			if want := min(limit, n); int64(len(got)) != want || part.Manifest().Rows != want || part.Manifest().Condition.Limit != limit {
				s.Errorf("limit %d: %d rows, manifest %d", limit, len(got), part.Manifest().Rows)
			}
		}
	})
}

// Every column goes in, also those that someone added, and nothing of any value is lost.
func TestConformanceArchiveColumns(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.sql("ALTER TABLE " + s.table + ` ADD note VARCHAR(40) CHARACTER SET utf8mb4, ADD price DECIMAL(12,2), ADD ratio DOUBLE, ADD small FLOAT, ADD flags BIT(9),
			ADD day DATE, ADD at6 TIMESTAMP(6) NULL, ADD took TIME(2), ADD y YEAR, ADD kind ENUM('a','ß'), ADD doc JSON, ADD raw BLOB, ADD zf INT(6) UNSIGNED ZEROFILL,
			ADD latin VARCHAR(10) CHARACTER SET latin1, ADD twice INT GENERATED ALWAYS AS (src_partition * 2) STORED, ADD ` + "`odd \"name`" + ` TINYINT`)
		s.put(s.table, entry{order: "full", part: 21})
		s.put(s.table, entry{order: "null"})
		s.sql("UPDATE "+s.table+" SET note = 'tab\tquote\" € \\\\', price = -1234567890.10, ratio = 0.1, small = 0.1, flags = b'100000001', day = '2026-02-28', "+
			"at6 = '2026-02-28 23:59:59.000001', took = '-12:00:00.50', y = 2026, kind = 'ß', doc = '{\"a\": [1, null]}', raw = ?, zf = 42, latin = 'é', `odd \"name` = -1 WHERE order_id = 'full'",
			[]byte{0, 0xff, '"', '\n'})
		a := s.archive()
		lines := s.lines(a)
		for _, l := range lines {
			if !json.Valid([]byte(l)) {
				s.Errorf("no JSON: %s", l)
			}
		}
		full := lines[slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"full"`) })]
		for _, want := range []string{
			`"note":"tab\tquote\" € \\"`, `"price":-1234567890.10`, `"ratio":0.1,`, `"small":0.1000000014`, `"flags":"0101"`, `"day":"2026-02-28"`,
			`"at6":"2026-02-28T23:59:59.000001Z"`, `"took":"-12:00:00.50"`, `"y":"2026"`, `"kind":"ß"`, `"doc":"{\"a\": [1, null]}"`, `"raw_b64":"AP8iCg=="`,
			`"zf":"000042"`, `"latin":"é"`, `"twice":42`, `"odd \"name":-1`,
		} {
			if !strings.Contains(full, want) {
				s.Errorf("no %s in %s", want, full)
			}
		}
		s.must(a.Compare(s.Context(), s.DB, s.table))

		// Restored into the same table they are the same; into a table of the ledger's own form, what it has not is left out.
		digest := "SELECT COUNT(*) FROM " + s.table + ` x JOIN before_restore b USING (order_id) WHERE x.note <=> b.note AND x.price <=> b.price AND x.ratio <=> b.ratio
			AND x.small <=> b.small AND x.flags <=> b.flags AND x.day <=> b.day AND x.at6 <=> b.at6 AND x.took <=> b.took AND x.y <=> b.y AND x.kind <=> b.kind
			AND x.raw <=> b.raw AND x.zf <=> b.zf AND x.latin <=> b.latin AND x.twice <=> b.twice AND x.` + "`odd \"name` <=> b.`odd \"name`" + ` AND CAST(x.doc AS CHAR) <=> CAST(b.doc AS CHAR)`
		s.sql("CREATE TABLE before_restore LIKE " + s.table)
		s.sql("INSERT INTO before_restore (order_id, biz_type, create_time, expire_at, note, price, ratio, small, flags, day, at6, took, y, kind, doc, raw, zf, latin, `odd \"name`, src_partition) " +
			"SELECT order_id, biz_type, create_time, expire_at, note, price, ratio, small, flags, day, at6, took, y, kind, doc, raw, zf, latin, `odd \"name`, src_partition FROM " + s.table)
		s.sql("DELETE FROM " + s.table)
		p := s.plan(a, "")
		if len(p.LeftOut) != 0 {
			s.Errorf("left out %q", p.LeftOut)
		}
		if rep := s.restore(p); rep.Restored != 2 {
			s.Errorf("report %+v", rep)
		}
		if n := s.count(digest); n != 2 {
			s.Errorf("%d of 2 rows came back as they were", n)
		}
		if p := s.plan(a, "restored"); len(p.LeftOut) != 15 || !p.Create {
			s.Errorf("left out %q, create %t", p.LeftOut, p.Create)
		}
		if rep := s.restore(s.plan(a, "restored")); rep.Restored != 2 || !rep.Created {
			s.Errorf("report %+v", rep)
		}
	})
}

func TestConformanceArchiveEmpty(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		a := s.archive()
		if m := a.Manifest(); m.Rows != 0 || len(m.BizTypes) != 0 || !m.MinCreate.IsZero() {
			s.Errorf("manifest %+v", m)
		}
		again, err := purge.OpenArchive(a.Path())
		s.must(err)
		s.must(again.Verify(s.Context()))
		if got := s.victims(again, 10); len(got) != 0 {
			s.Errorf("victims %v", got)
		}
		s.must(again.Compare(s.Context(), s.DB, s.table))
		if rep := s.restore(s.plan(again, "")); rep.Rows != 0 {
			s.Errorf("report %+v", rep)
		}
	})
}

// hazard P7: a table that has anything else than the archive must not be dropped.
func TestConformanceCompare(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 100)
		a := s.archive()
		s.must(a.Compare(s.Context(), s.DB, s.table))
		for _, c := range []struct{ change, undo string }{
			{"INSERT INTO %s (order_id, biz_type, create_time, expire_at) VALUES ('late', 'COUPON', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL 30 DAY)", "DELETE FROM %s WHERE order_id = 'late'"},
			{"UPDATE %s SET expire_at = expire_at + INTERVAL 1 SECOND WHERE order_id = 'ORD-0000050'", "UPDATE %s SET expire_at = expire_at - INTERVAL 1 SECOND WHERE order_id = 'ORD-0000050'"},
			{"UPDATE %s SET claim_id = NULL WHERE order_id = 'ORD-0000000'", "UPDATE %s SET claim_id = x'00000000000000000000000000000000' WHERE order_id = 'ORD-0000000'"},
			{"ALTER TABLE %s ADD extra INT", "ALTER TABLE %s DROP COLUMN extra"},
			{"UPDATE %s SET order_id = 'ord-0000001' WHERE order_id = 'ORD-0000001'", "UPDATE %s SET order_id = 'ORD-0000001' WHERE order_id = 'ord-0000001'"},
			{"DELETE FROM %s WHERE order_id = 'ORD-0000099'", ""},
		} {
			s.sql(strings.Replace(c.change, "%s", s.table, 1))
			err := a.Compare(s.Context(), s.DB, s.table)
			if _, ok := errors.AsType[*purge.MismatchError](err); !ok || strings.Contains(err.Error(), "\n") {
				s.Errorf("after %s: %v, want a MismatchError", c.change, err)
			}
			if c.undo != "" {
				s.sql(strings.Replace(c.undo, "%s", s.table, 1))
				s.must(a.Compare(s.Context(), s.DB, s.table))
			}
		}
	})
}

// A ledger made by someone else: other names, no biz_type, no expiry, another primary key, a collation.
func TestConformanceArchiveLegacy(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.sql("CREATE TABLE flow (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, orderNo VARCHAR(64) CHARACTER SET utf8mb4 NOT NULL, gmt_create DATETIME NOT NULL, UNIQUE KEY (orderNo))")
		for i := range 7 {
			s.sql("INSERT INTO flow (orderNo, gmt_create) VALUES (?, '2026-01-01 00:00:00' + INTERVAL ? DAY)", "É-"+string(rune('a'+i)), i/2)
		}
		sel := purge.Selection{Table: "flow", Columns: partition.Columns{OrderID: "orderNo", CreateTime: "gmt_create"}, Retention: 24 * time.Hour,
			To: time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC), Cutoff: s.now}
		opts := s.options()
		opts.Month = 0
		for _, index := range []string{"", "ALTER TABLE flow ADD KEY (gmt_create)"} {
			if index != "" {
				s.sql(index)
			}
			opts.Run = map[bool]string{true: "aaaaaaaa", false: "bbbbbbbb"}[index == ""]
			a, err := purge.WriteArchive(s.Context(), s.DB, sel, opts, 0)
			s.must(err)
			got := s.victims(a, 3)
			if len(got) != 4 || got[0].OrderID != "É-a" || got[0].BizType != "" || !got[3].Expiry.Equal(time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)) {
				s.Errorf("victims %+v", got)
			}
			if line := s.lines(a)[0]; line != `{"id":1,"orderNo":"É-a","gmt_create":"2026-01-01T00:00:00Z"}` {
				s.Errorf("line %s", line)
			}
			if filepath.Base(a.Path()) != "flow."+s.now.Format("20060102T150405Z")+"."+opts.Run+".jsonl.zst" {
				s.Errorf("path %s", a.Path())
			}
			again, err := purge.OpenArchive(a.Path())
			s.must(err)
			if _, err := purge.PlanRestore(s.Context(), s.DB, s.scheme, time.UTC, again, purge.RestoreOptions{Retention: retention}); !errors.Is(err, purge.ErrRestoreLegacy) {
				s.Errorf("restore: %v", err)
			}
		}
		s.sql("CREATE TABLE nokey (order_id VARBINARY(10), create_time DATETIME)")
		sel.Table, sel.Columns = "nokey", partition.Columns{OrderID: "order_id", CreateTime: "create_time"}
		if _, err := purge.WriteArchive(s.Context(), s.DB, sel, s.options(), 0); err == nil || !strings.Contains(err.Error(), "primary key") {
			s.Errorf("a table without a primary key: %v", err)
		}
	})
}

// A run that cannot archive leaves nothing behind, and says what to do.
func TestArchiveRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		setup func(s *shelf, o *purge.ArchiveOptions)
		want  error
		text  string
	}{
		{"no folder", func(s *shelf, o *purge.ArchiveOptions) { o.Dir = s.path("none") }, purge.ErrArchiveFolder, "mkdir -p "},
		{"a file", func(s *shelf, o *purge.ArchiveOptions) {
			o.Dir = s.path("file")
			s.must(os.WriteFile(o.Dir, nil, 0o600))
		}, purge.ErrArchiveFolder, "is no folder"},
		{"little space", func(_ *shelf, o *purge.ArchiveOptions) {
			o.FreeSpace = func(string) (uint64, error) { return 1 << 20, nil }
		}, purge.ErrNoSpace, "MiB are free"},
		{"there already", func(s *shelf, o *purge.ArchiveOptions) {
			s.must(os.WriteFile(s.path(s.table+"."+s.now.Format("20060102T150405Z")+"."+o.Run+".jsonl.zst"), []byte("mine"), 0o600))
		}, purge.ErrArchiveExists, ""},
		{"manifest there already", func(s *shelf, o *purge.ArchiveOptions) {
			s.must(os.WriteFile(s.path(s.table+"."+s.now.Format("20060102T150405Z")+"."+o.Run+".manifest.json"), []byte("mine"), 0o600))
		}, purge.ErrArchiveExists, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, testenv.MySQL(t))
			s.fill(s.table, 10)
			o := s.options()
			c.setup(s, &o)
			before := s.files()
			_, err := purge.WriteArchive(s.Context(), s.DB, s.selection(), o, 0)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %v with %q on one line", err, c.want, c.text)
			}
			if got := s.files(); !slices.Equal(got, before) {
				t.Errorf("files %q, before %q", got, before)
			}
			if n := s.count("SELECT COUNT(*) FROM " + s.table); n != 10 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

func TestArchiveInterrupted(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testenv.MySQL(t))
	s.fill(s.table, 6000)
	ctx, cancel := context.WithCancel(t.Context())
	o := s.options()
	o.FreeSpace = func(string) (uint64, error) {
		cancel()
		return 1 << 40, nil
	}
	if _, err := purge.WriteArchive(ctx, s.DB, s.selection(), o, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := s.files(); len(got) != 0 {
		t.Errorf("left behind %q", got)
	}
}
