package ledgertest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a server and cuts the connection on a request of the test's choice.
type Proxy struct {
	Addr string

	mu     sync.Mutex
	match  []byte
	before bool
	cuts   int
	onCut  func()
	target string
}

// NewProxy forwards to target until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(ctx, client) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		wg.Wait()
	})
	return p
}

// CutOn cuts the connection at the next request that contains match: before it reaches the server, or after it was
// forwarded and before any answer comes back.
func (p *Proxy) CutOn(match string, before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.before = []byte(match), before
}

// OnCut has fn called at each cut, after the server has worked off what was forwarded and before the client notices.
func (p *Proxy) OnCut(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onCut = fn
}

// Cuts counts the connections cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Dial connects to the proxy, whatever the address.
func (p *Proxy) Dial(ctx context.Context, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", p.Addr)
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	gate := &gate{Writer: client}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(gate, server)
		if gate.isShut() {
			p.mu.Lock()
			fn := p.onCut
			p.mu.Unlock()
			if fn != nil {
				fn()
			}
		}
		_ = client.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		cut, before := p.decide(buf[:n])
		if cut && before {
			break
		}
		if cut {
			gate.shut() // no byte of the answer gets through
		}
		if _, err := server.Write(buf[:n]); err != nil {
			break
		}
		if cut {
			// The server ends its side once it has worked off the request and sees the end of ours.
			if tcp, ok := server.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			<-back
			return
		}
	}
	_ = server.Close()
	<-back
}

func (p *Proxy) decide(request []byte) (cut, before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.match == nil || !bytes.Contains(request, p.match) {
		return false, false
	}
	p.match = nil
	p.cuts++
	return true, p.before
}

// gate forwards until it is shut, then swallows.
type gate struct {
	io.Writer
	mu     sync.Mutex
	closed bool
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return len(b), nil
	}
	return g.Writer.Write(b)
}
