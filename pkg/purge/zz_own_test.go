package purge_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
)

// ownDBs starts servers of this test's own and returns cpu clocks.
func ownDBs(t *testing.T) (dbs []testenv.Database, cpu []func() float64, ports []string, pids []int) {
	var dsns []string
	for _, k := range []lab.Kind{lab.KindMariaDB, lab.KindMySQL} {
		f := lab.MariaDB
		if k == lab.KindMySQL {
			f = lab.MySQL
		}
		s, err := f(t.Context(), lab.LaunchOptions{Host: lab.NewHost(os.Getenv), Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		dsns = append(dsns, s.DSN("mysql"))
		ports = append(ports, s.Addr[strings.LastIndex(s.Addr, ":")+1:])
		pid := s.PID()
		pids = append(pids, pid)
		cpu = append(cpu, func() float64 { return procCPU(pid) })
	}
	t.Setenv("IDEMCTL_TEST_MYSQL_DSN", strings.Join(dsns, " "))
	return testenv.Databases(t), cpu, ports, pids
}

func procCPU(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b[strings.LastIndex(string(b), ")")+2:]))
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	cu, _ := strconv.ParseFloat(f[13], 64)
	cs, _ := strconv.ParseFloat(f[14], 64)
	if pid == os.Getpid() {
		return (u + s + cu + cs) / 100
	}
	return (u + s) / 100
}

const seqSQL = `INSERT INTO %s SELECT CONCAT('202608',LPAD(n DIV 40000,2,'0'),'-',LPAD(CONV(CRC32(n),10,10),10,'0'), LPAD(n,7,'0')), 'COUPON', '2026-08-01' + INTERVAL n SECOND,
 '2026-08-31' + INTERVAL n SECOND, UNHEX(RPAD(HEX(n),32,'A')), NULL, 'order-paid', n%%6, n FROM (
 SELECT a.i+10*b.i+100*c.i+1000*e.i+10000*f.i+100000*g.i n FROM d a,d b,d c,d e,d f,d g WHERE g.i < 5) x`

func (b *bench) fill(table string) {
	b.sql("CREATE TABLE IF NOT EXISTS d (i INT PRIMARY KEY)")
	b.sql("REPLACE INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
	b.sql("TRUNCATE " + table)
	q := fmt.Sprintf(seqSQL, table)
	if os.Getenv("ZZKEY") == "random" {
		q = strings.Replace(q, "CONCAT('202608',LPAD(n DIV 40000,2,'0'),'-',LPAD(CONV(CRC32(n),10,10),10,'0'), LPAD(n,7,'0'))", "CONCAT(LPAD(CONV(CRC32(n),10,16),8,'0'),'-',n)", 1)
	}
	if os.Getenv("ZZKEY") == "seq" {
		q = strings.Replace(q, "CONCAT('202608',LPAD(n DIV 40000,2,'0'),'-',LPAD(CONV(CRC32(n),10,10),10,'0'), LPAD(n,7,'0'))", "CONCAT('20260801-',LPAD(n,7,'0'))", 1)
	}
	b.sql(q)
}
