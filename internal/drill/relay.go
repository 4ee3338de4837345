package drill

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// relay is the address by which consumers know a server. It forwards to whatever server it points at, so a failover is a
// change of where it points. Of the MySQL protocol it understands as much as is needed to count statements and to strike at a
// COMMIT.
type relay struct {
	addr       string
	mysql      bool
	listener   net.Listener
	statements atomic.Int64
	wg         sync.WaitGroup

	mu     sync.Mutex
	target string
	links  map[*link]bool
	strike *strike
	closed bool
}

// strike is what happens at the next COMMIT.
type strike struct {
	before bool // before the server gets it; else after it has answered, and the answer is not passed on
	fn     func()
}

// link is one connection through the relay.
type link struct {
	client, server net.Conn
	swallow        atomic.Pointer[strike] // struck when the server's next answer comes
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func newRelay(ctx context.Context, target string, mysql bool) (*relay, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a relay to %s: %w", target, err)
	}
	r := &relay{addr: listener.Addr().String(), mysql: mysql, listener: listener, target: target, links: map[*link]bool{}}
	r.wg.Go(func() { r.accept(context.WithoutCancel(ctx)) })
	return r, nil
}

// point changes the server, and cuts all connections to the one before.
func (r *relay) point(target string) {
	r.mu.Lock()
	r.target = target
	r.mu.Unlock()
	r.cut()
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.cut()
	}
}

// strikeAtCommit has fn called once, at the next COMMIT: before the server gets it, or after it has done it and before the
// client knows. The client never gets an answer.
func (r *relay) strikeAtCommit(before bool, fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strike = &strike{before: before, fn: fn}
}

// disarm takes back a strike that has not come.
func (r *relay) disarm() *strike {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.strike
	r.strike = nil
	return s
}

func (r *relay) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	err := r.listener.Close()
	r.cut()
	r.wg.Wait()
	return err
}

func (r *relay) accept(ctx context.Context) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.serve(ctx, client) })
	}
}

func (r *relay) serve(ctx context.Context, client net.Conn) {
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	r.mu.Lock()
	current := r.target == target && !r.closed
	r.links[l] = true
	r.mu.Unlock()
	defer func() {
		l.cut()
		r.mu.Lock()
		delete(r.links, l)
		r.mu.Unlock()
	}()
	if !current {
		return // it was pointed elsewhere while we dialled
	}
	back := make(chan struct{})
	r.wg.Go(func() {
		defer close(back)
		defer l.cut()
		l.answers()
	})
	if r.mysql {
		err = r.requests(l)
	} else {
		_, err = io.Copy(server, client)
	}
	_ = err // either end closed; the other learns it by the cut
	l.cut()
	<-back
}

// answers forwards what the server says.
func (l *link) answers() {
	buf := make([]byte, 16<<10)
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			if s := l.swallow.Load(); s != nil {
				s.fn()
				return
			}
			if _, werr := l.client.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

const (
	comQuery       = 0x03
	comStmtPrepare = 0x16
	comStmtExecute = 0x17
	packetHeader   = 4 // three bytes of length, one of sequence: 0 begins a command
)

// errStruck ends a connection whose COMMIT was struck.
var errStruck = errors.New("struck")

// requests forwards the client's packets one by one.
func (r *relay) requests(l *link) error {
	in := bufio.NewReader(l.client)
	var packet []byte
	for {
		packet = append(packet[:0], make([]byte, packetHeader)...)
		if _, err := io.ReadFull(in, packet); err != nil {
			return err
		}
		size := int(binary.LittleEndian.Uint32(packet) & 0xFFFFFF)
		first := packet[3] == 0
		packet = append(packet, make([]byte, size)...)
		if _, err := io.ReadFull(in, packet[packetHeader:]); err != nil {
			return err
		}
		if first && size > 0 {
			if err := r.command(l, packet[packetHeader:]); err != nil {
				return err
			}
		}
		if _, err := l.server.Write(packet); err != nil {
			return err
		}
	}
}

// command looks at one command before it goes to the server.
func (r *relay) command(l *link, c []byte) error {
	switch c[0] {
	case comQuery, comStmtPrepare, comStmtExecute:
		r.statements.Add(1)
	}
	if c[0] != comQuery || string(c[1:]) != "COMMIT" {
		return nil
	}
	s := r.disarm()
	switch {
	case s == nil:
	case s.before:
		s.fn()
		return errStruck
	default:
		l.swallow.Store(s)
	}
	return nil
}
