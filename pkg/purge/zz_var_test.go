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
	dbs, _, _, pids := ownDBs(t)
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
		var id, tid string
		b.must(conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		if n == 0 {
			b.must(conn.QueryRowContext(t.Context(), "SELECT TID FROM information_schema.processlist WHERE id="+id).Scan(&tid))
		} else {
			b.must(conn.QueryRowContext(t.Context(), "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE processlist_id="+id).Scan(&tid))
		}
		pos := 0
		for range 3 {
			for _, v := range strings.Split(os.Getenv("ZZVAR"), ",") {
				began, c0 := time.Now(), tasks(pids[n])[tid]
				const stmts = 20
				type del struct{ ids, bounds string }
				var dels []del
				page := ids[pos : pos+1000*stmts]
				if strings.HasSuffix(v, "page") {
					page = slices.Clone(page)
					slices.Sort(page)
				}
				for k := range stmts {
					c := slices.Clone(page[k*1000 : k*1000+1000])
					i, j := pos+k*1000, pos+k*1000+999
					if strings.HasSuffix(v, "page") {
						i, j = pos, pos+1000*stmts-1
					}
					if strings.HasSuffix(v, "sort") {
						slices.Sort(c)
					}
					dels = append(dels, del{"'" + strings.Join(c, "','") + "'", fmt.Sprintf("expire_at >= '%s' AND expire_at <= '%s' AND create_time <= '%s'", exp[i], exp[j], cr[j])})
				}
				pos += 1000 * stmts
				if strings.HasPrefix(v, "prep") {
					st, err := conn.PrepareContext(t.Context(), "DELETE "+tb+" FROM "+tb+" FORCE INDEX (PRIMARY) WHERE biz_type = 'COUPON' AND order_id IN (?"+strings.Repeat(",?", 999)+") AND expire_at >= ? AND expire_at < ? AND create_time <= ?")
					b.must(err)
					for k := range stmts {
						var args []any
						for _, id := range page[k*1000 : k*1000+1000] {
							args = append(args, []byte(id))
						}
						args = append(args, "2020-01-01", "2029-01-01", "2028-01-01")
						if _, err := st.ExecContext(t.Context(), args...); err != nil {
							t.Fatal(err)
						}
					}
					st.Close()
					dels = nil
				}
				for _, d := range dels {
					q := ""
					switch strings.Split(v, "-")[0] {
					case "multi":
						q = "DELETE " + tb + " FROM " + tb + " FORCE INDEX (PRIMARY) WHERE biz_type = 'COUPON' AND order_id IN (" + d.ids + ") AND " + d.bounds
					case "single":
						q = "DELETE FROM " + tb + " WHERE biz_type = 'COUPON' AND order_id IN (" + d.ids + ") AND " + d.bounds
					case "pred":
						q = "DELETE FROM " + tb + " WHERE biz_type = 'COUPON' AND order_id IN (" + d.ids + ")"
					case "range":
						q = "DELETE FROM " + tb + " WHERE " + d.bounds
					case "bare":
						q = "DO 1"
					case "parse":
						q = "SELECT COUNT(*) FROM " + tb + " FORCE INDEX (PRIMARY) WHERE biz_type = 'COUPON' AND order_id IN (" + d.ids + ") AND " + d.bounds
					}
					if _, err := conn.ExecContext(t.Context(), q); err != nil {
						t.Fatal(v, err)
					}
				}
				t.Logf("%s %-12s %.1f ms/stmt thread cpu %.2f", b.db.Name, v, float64(time.Since(began).Microseconds())/1000/stmts, (tasks(pids[n])[tid]-c0)*1000/stmts)
			}
		}
		conn.Close()
	}
}
