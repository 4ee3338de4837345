package drill

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// echoServer answers each packet with its own bytes and a name in front.
func echoServer(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if _, err := c.Write(append([]byte(name), buf[:n]...)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func packet(sequence byte, body string) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(len(body))|uint32(sequence)<<24)
	return append(p, body...)
}

func ask(t *testing.T, c net.Conn, request []byte) (string, error) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	// In two pieces: packets do not come as they were sent.
	for _, piece := range [][]byte{request[:2], request[2:]} {
		if _, err := c.Write(piece); err != nil {
			return "", err
		}
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

func dialRelay(t *testing.T, r *relay) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	r, err := newRelay(t.Context(), target, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestRelayPointsElsewhere(t *testing.T) {
	t.Parallel()
	r := startRelay(t, echoServer(t, "A"))
	old := dialRelay(t, r)
	if got, err := ask(t, old, packet(0, "\x03SELECT 1")); err != nil || got[0] != 'A' {
		t.Fatalf("%q, %v", got, err)
	}
	r.point(echoServer(t, "B"))
	if got, err := ask(t, old, packet(0, "\x03SELECT 1")); err == nil {
		t.Errorf("the old connection still answers: %q", got)
	}
	if got, err := ask(t, dialRelay(t, r), packet(0, "\x03SELECT 1")); err != nil || got[0] != 'B' {
		t.Errorf("a new connection: %q, %v", got, err)
	}
}

func TestRelayCountsStatements(t *testing.T) {
	t.Parallel()
	r := startRelay(t, echoServer(t, "A"))
	c := dialRelay(t, r)
	for _, p := range [][]byte{
		packet(1, "\x03a login is no statement"), packet(0, "\x03SELECT 1"), packet(0, "\x16SELECT ?"), packet(0, "\x17\x01"), packet(0, "\x0e"), packet(0, "\x01"),
	} {
		if got, err := ask(t, c, p); err != nil || !bytes.HasSuffix([]byte(got), p) {
			t.Fatalf("%q: %q, %v", p, got, err)
		}
	}
	if n := r.statements.Load(); n != 3 {
		t.Errorf("%d statements, want 3: query, prepare and execute", n)
	}
}

// A strike comes at the next COMMIT, once: before the server has it, or after it has answered. Either way the client never
// learns what became of it.
func TestRelayStrikesAtCommit(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		r := startRelay(t, echoServer(t, "A"))
		struck := 0
		r.strikeAtCommit(before, func() { struck++ })
		c := dialRelay(t, r)
		if got, err := ask(t, c, packet(0, "\x03SELECT 'COMMIT'")); err != nil || got[0] != 'A' || struck != 0 {
			t.Fatalf("before %v: another statement: %q, %v, struck %d", before, got, err, struck)
		}
		if got, err := ask(t, c, packet(0, "\x03COMMIT")); !errors.Is(err, io.EOF) && !errors.As(err, new(*net.OpError)) {
			t.Errorf("before %v: COMMIT was answered: %q, %v", before, got, err)
		}
		if got, err := ask(t, dialRelay(t, r), packet(0, "\x03COMMIT")); err != nil || got[0] != 'A' {
			t.Errorf("before %v: the next COMMIT: %q, %v", before, got, err)
		}
		if struck != 1 || r.disarm() != nil {
			t.Errorf("before %v: struck %d times", before, struck)
		}
	}
}

// A process that is killed has no connection any more, and gets none.
func TestProcessKill(t *testing.T) {
	t.Parallel()
	p := newProcess(nil, 1)
	c, err := p.dial(t.Context(), echoServer(t, "A"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t, c, packet(0, "\x03SELECT 1")); err != nil || got[0] != 'A' {
		t.Fatalf("%q, %v", got, err)
	}
	if !p.kill() || p.kill() || !p.killed() {
		t.Error("killed once, it must be dead, and dead only once")
	}
	if got, err := ask(t, c, packet(0, "\x03SELECT 1")); err == nil {
		t.Errorf("it still talks: %q", got)
	}
	if _, err := p.dial(context.WithoutCancel(t.Context()), echoServer(t, "B")); !errors.Is(err, errDead) {
		t.Errorf("it connects again: %v", err)
	}
	goneOn := make(chan bool, 1)
	go func() {
		defer close(goneOn)
		p.At(t.Context(), StepWritten, &Delivery{process: p})
		goneOn <- true
	}()
	if <-goneOn {
		t.Error("it goes on behind the step at which it died")
	}
}
