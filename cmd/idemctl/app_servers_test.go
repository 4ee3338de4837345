package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// silentServer accepts connections and never says a word.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return l.Addr().String()
}

func testApp(t *testing.T, flags ...string) *app {
	t.Helper()
	std := &streams{Out: newOutWriter(&bytes.Buffer{}), Err: &errWriter{w: &bytes.Buffer{}}}
	a := newApp(std, func() []string { return []string{"XDG_CONFIG_HOME=" + t.TempDir()} })
	if err := newRoot(a).PersistentFlags().Parse(flags); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

// --connect-timeout bounds every first contact, with a server that is there and says nothing too.
func TestFirstContactIsBounded(t *testing.T) {
	t.Parallel()
	address := silentServer(t)
	a := testApp(t, "--connect-timeout", "50ms", "--dsn", "u:hunter2@tcp("+address+")/s", "--redis-url", "redis://u:hunter2@"+address+"/0")
	for name, open := range map[string]func(context.Context) error{
		"MySQL": func(ctx context.Context) error { _, err := a.DB(ctx); return err },
		"Redis": func(ctx context.Context) error { _, err := a.Redis(ctx); return err },
	} {
		err := open(t.Context())
		if want := "connect to " + name + " at " + address + ": no answer within 50ms"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if exitCode(err) != exitFailure {
			t.Errorf("%s: exit %d", name, exitCode(err))
		}
	}
}

// A first contact that the caller gives up reads as that, not as a server's silence.
func TestFirstContactCancelled(t *testing.T) {
	t.Parallel()
	address := silentServer(t)
	a := testApp(t, "--dsn", "u@tcp("+address+")/s")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.DB(ctx); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
}

// A client that has not been used has not dialled: a guard must start while Redis is down.
func TestRedisClientDoesNotDial(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := testApp(t, "--redis-url", "redis://"+l.Addr().String()+"/0")
	if _, err := a.RedisClient(); err != nil {
		t.Fatal(err)
	}
	a.close()
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if conn, err := l.Accept(); err == nil {
		_ = conn.Close()
		t.Error("it dialled")
	}
}
