package purge_test

import (
	"os"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/purge"
)

func TestZZDrop(t *testing.T) {
	for _, f := range []string{"mariadb", "mysql"} {
		start := lab.MariaDB
		if f == "mysql" {
			start = lab.MySQL
		}
		s, err := start(t.Context(), lab.LaunchOptions{Host: lab.NewHost(os.Getenv), Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("IDEMCTL_TEST_MYSQL_DSN", s.DSN("mysql"))
		b := newBench(t, testenv.Databases(t)[0])
		b.keep(-2, -1)
		b.sql("CREATE TABLE d (i INT PRIMARY KEY)")
		b.sql("INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
		for _, rowsOnly := range []bool{false, true} {
			if rowsOnly {
				b.recreate(-3)
			}
			for _, k := range []string{"0", "1000000"} {
				b.sql(`INSERT INTO ` + b.table(-3) + ` SELECT CONCAT('202608',LPAD(n DIV 40000,2,'0'),'-',LPAD(CONV(CRC32(n),10,10),10,'0'), LPAD(n,7,'0')), 'COUPON', '2026-08-01' + INTERVAL n SECOND,
 '2026-08-31' + INTERVAL n SECOND, UNHEX(RPAD(HEX(n),32,'A')), NULL, 'order-paid', n%6, n FROM (SELECT ` + k + `+a.i+10*b.i+100*c.i+1000*e.i+10000*f.i+100000*g.i n FROM d a,d b,d c,d e,d f,d g) x`)
			}
			began := time.Now()
			p := b.plan(purge.PlanOptions{RowsOnly: rowsOnly})
			planned := time.Since(began)
			o := quick()
			last := time.Now()
			o.OnStep = func(s purge.Step) {
				if !rowsOnly {
					t.Log(s.Name, time.Since(last))
					last = time.Now()
				}
			}
			rep := b.run(p, o)
			t.Logf("%s rowsOnly %v: plan %s, all %s; %d %d", b.Name, rowsOnly, planned, time.Since(began), rep.Deleted, rep.DroppedRows)
		}
		s.Close()
	}
}
