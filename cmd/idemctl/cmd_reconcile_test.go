package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/testenv"
)

// On a real cluster of three masters: found, repaired, clean. hazard C1
func TestReconcileCluster(t *testing.T) {
	t.Parallel()
	cluster, client := testenv.OwnRedisCluster(t)
	cmd, _, _ := newCommand(t, nil)
	cmd = cmd.with("IDEMCTL_REDIS_URL=", "IDEMCTL_REDIS_CLUSTER="+strings.Join(cluster.Addrs(), ","), "IDEMCTL_REDIS_KEY=own:{biz_type}:{order_id}")
	cmd.must(t, exitDone, "partition", "create", "--ahead", "0", "--execute")
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := client.Set(t.Context(), "own:COUPON:"+id, "PROCESSING:x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	res := cmd.must(t, exitFinding, "reconcile", "--settle", "10ms")
	if !strings.Contains(res.stdout, "\nCompared 6 keys of 3 Redis masters with the ledger") || !strings.Contains(res.stdout, "stuck    warn          6") {
		t.Errorf("%s%s", res.stdout, res.stderr)
	}
	cmd.must(t, exitDone, "reconcile", "--settle", "10ms", "--fix", "stuck", "--execute", "--undo-file", "undo")
	cmd.must(t, exitDone, "reconcile", "--settle", "10ms")
	cmd.must(t, exitDone, "reconcile", "undo", "undo", "--execute")
	cmd.must(t, exitFinding, "reconcile", "--settle", "10ms")
}

// Ctrl-C before the second look: what was scanned is said, nothing is called a finding that was seen once only, and nothing is
// repaired. hazard C3
func TestReconcileInterrupted(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	cmd, schema, _ := newCommand(t, nil)
	cmd = cmd.with("IDEMCTL_REDIS_URL="+server.URL(), "IDEMCTL_REDIS_KEY=own:{biz_type}:{order_id}")
	cmd.must(t, exitDone, "partition", "create", "--ahead", "0", "--execute")
	if err := client.Set(t.Context(), "own:COUPON:1", "PROCESSING:x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	run := exec.CommandContext(t.Context(), exe)
	run.Args = []string{programName, "reconcile", "--settle", "1h", "--fix", "stuck", "--execute", "-o", "json"}
	run.Dir, run.Env, run.Stdout, run.Stderr = cmd.dir, cmd.env, &stdout, &stderr
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	waitGet(t, client)
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	res := commandResult{stdout: stdout.String(), stderr: stderr.String(), code: run.ProcessState.ExitCode()}
	if res.code != exitInterrupted {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	checkJSON(t, "json", res)
	for _, want := range []string{`"complete": false`, `"code": "interrupted"`, `"findings": []`} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("%s is not in %s", want, res.stdout)
		}
	}
	if ttl := client.PTTL(t.Context(), "own:COUPON:1").Val(); ttl != -1 {
		t.Errorf("repaired: TTL %v", ttl)
	}
	if got := text(t, schema, "SELECT COUNT(*) FROM t_idempotent_run WHERE command = 'reconcile'"); got != "0" {
		t.Errorf("%s runs recorded, and nothing was written", got)
	}
}

// waitGet polls until a connection of the command has read a marker.
func waitGet(t *testing.T, client *redis.Client) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := client.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(list) {
			if strings.Contains(line, "name="+programName) && strings.Contains(line, "cmd=get ") {
				return
			}
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
