package purge_test

import (
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/purge"
)

func TestZZPerf(t *testing.T) {
	if os.Getenv("ZZPERF") == "" {
		t.Skip()
	}
	dbs, cpu, ports, pids := ownDBs(t)
	for n := range dbs {
		t.Run("", func(t *testing.T) { perf(t, newBench(t, dbs[n]), cpu[n], ports[n], pids[n]) })
	}
}

func perf(t *testing.T, b *bench, cpu func() float64, port string, pid int) {
	load := func() {
		b.fill(b.table(-2))
		b.insert(b.table(-2), live("L", 10)...)
		time.Sleep(3 * time.Second)
	}
	b.sql("UPDATE t_idempotent_control SET body = body")
	for _, what := range strings.Split(os.Getenv("ZZPERF"), ",") {
		load()
		began := time.Now()
		w := watch(pid)
		c0, me := cpu(), procCPU(os.Getpid())
		switch what {
		case "ours":
			f, _ := os.Create("/tmp/prep/p5/b_cpu.prof")
			pprof.StartCPUProfile(f)
			p := b.plan(purge.PlanOptions{RowsOnly: true})
			planned := time.Since(began)
			rep := b.run(p, quick())
			pprof.StopCPUProfile()
			t.Logf("%s ours: plan %s all %s: %d rows/s (%d)", b.db.Name, planned, time.Since(began), int(float64(rep.Deleted)/time.Since(began).Seconds()), rep.Deleted)
		case "archive":
			p := b.plan(purge.PlanOptions{RowsOnly: true})
			o := quick()
			o.Archive = &purge.ArchiveOptions{Dir: t.TempDir()}
			rep := b.run(p, o)
			t.Logf("%s archive: all %s: %d rows/s (%d)", b.db.Name, time.Since(began), int(float64(rep.Deleted)/time.Since(began).Seconds()), rep.Deleted)
		default:
			args := []string{"--source", "h=127.0.0.1,P=" + port + ",u=root,D=" + b.Name + ",t=" + b.table(-2), "--where", "expire_at < '" + b.now.Format("2006-01-02 15:04:05") + "'", "--purge", "--bulk-delete", "--commit-each", "--limit", "1000", "--statistics", "--no-check-charset"}
			if what == "ptidx" {
				args[1] += ",i=idx_expire_at"
			}
			if what == "ptfile" {
				args[4] = "--file=" + t.TempDir() + "/x.txt"
			}
			out, err := exec.Command("pt-archiver", args...).CombinedOutput()
			t.Logf("%s %s: %s %v\n%s", b.db.Name, what, time.Since(began), err, string(out[max(0, len(out)-800):]))
		}
		t.Log("threads", w())
		t.Logf("server cpu %.1f client cpu %.1f", cpu()-c0, procCPU(os.Getpid())-me)
		t.Log(len(b.ids(b.table(-2))))
	}
}
