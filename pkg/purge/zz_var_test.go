package purge_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestZZVar(t *testing.T) {
	if os.Getenv("ZZVAR") == "" {
		t.Skip()
	}
	dbs, cpu, _ := ownDBs(t)
	for _, n := range []int{0, 1} {
		b := newBench(t, dbs[n])
		tb := b.table(-2)
		b.fill(tb)
		rows, err := b.DB.Query("SELECT order_id, CAST(expire_at AS CHAR), CAST(create_time AS CHAR) FROM " + tb + " FORCE INDEX(idx_expire_at) ORDER BY expire_at, create_time, order_id")
		b.must(err)
		var ids, exp, cr []string
		for rows.Next() {
			var a, e, c string
			b.must(rows.Scan(&a, &e, &c))
			ids, exp, cr = append(ids, a), append(exp, e), append(cr, c)
		}
		rows.Close()
		conn, _ := b.DB.Conn(t.Context())
		pos := 0
		for range 2 {
			for _, v := range []string{"multi", "single", "singlesort", "noexp", "range", "rangeidx", "pkrange"} {
				began, c0 := time.Now(), cpu[n]()
				for range 25 {
					c := slices.Clone(ids[pos : pos+1000])
					lo, hi, mc := exp[pos], exp[pos+999], cr[pos+999]
					pos += 1000
					if v == "singlesort" || v == "pkrange" {
						slices.Sort(c)
					}
					in := "biz_type = 'COUPON' AND order_id IN ('" + strings.Join(c, "','") + "')"
					bounds := fmt.Sprintf(" AND expire_at >= '%s' AND expire_at <= '%s' AND create_time <= '%s'", lo, hi, mc)
					q := ""
					switch v {
					case "multi":
						q = "DELETE " + tb + " FROM " + tb + " FORCE INDEX (PRIMARY) WHERE " + in + bounds
					case "single", "singlesort":
						q = "DELETE FROM " + tb + " WHERE " + in + bounds
					case "noexp":
						q = "DELETE FROM " + tb + " WHERE " + in
					case "range":
						q = "DELETE FROM " + tb + " WHERE expire_at >= '" + lo + "'" + bounds
					case "rangeidx":
						q = "DELETE FROM " + tb + " WHERE " + fmt.Sprintf("expire_at >= '%s' AND expire_at <= '%s' AND create_time <= '%s'", lo, hi, mc) + " ORDER BY expire_at, create_time LIMIT 1000"
					case "pkrange":
						q = "DELETE FROM " + tb + " WHERE order_id >= '" + c[0] + "' AND order_id <= '" + c[999] + "'" + bounds
					}
					if _, err := conn.ExecContext(t.Context(), q); err != nil {
						t.Fatal(v, err)
					}
				}
				t.Logf("%s %-10s %.1f ms/stmt cpu %.1f", b.db.Name, v, float64(time.Since(began).Microseconds())/25000, (cpu[n]()-c0)*1000/25)
			}
		}
		conn.Close()
	}
}
