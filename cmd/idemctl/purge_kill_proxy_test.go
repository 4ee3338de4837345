package main

import (
	"io"
	"net"
	"regexp"
	"sync"
	"testing"
)

// killPoint is a request: the left-th from now, or of those that change something. left 0: none.
type killPoint struct {
	left    int
	changes bool
	before  bool // the server does not get it
	kill    func()
}

// changing finds the requests that change rows, tables or the catalog.
var changing = regexp.MustCompile("DELETE `|RENAME TABLE|DROP TABLE|UPDATE `t_idempotent_control`")

// killProxy stands between the program and the server, counts requests, and kills at the one that was asked for.
type killProxy struct {
	addr   string
	target string

	mu     sync.Mutex
	point  killPoint
	open   int           // connections
	closed chan struct{} // gets a word whenever one ends
}

func newKillProxy(t *testing.T, target string) *killProxy {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &killProxy{addr: l.Addr().String(), target: target, closed: make(chan struct{}, 1)}
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.count(1)
			go func() {
				defer p.count(-1)
				p.serve(client)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-accepting
		p.drain()
	})
	return p
}

func (p *killProxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += n
	select {
	case p.closed <- struct{}{}:
	default:
	}
}

func (p *killProxy) killAt(point killPoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.point = point
}

// drain waits until the server has ended the connections of a run that is gone.
func (p *killProxy) drain() {
	for {
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		if open == 0 {
			return
		}
		<-p.closed
	}
}

// counted says whether this request is the one.
func (p *killProxy) counted(request []byte) (killPoint, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.point.left == 0 || p.point.changes && !changing.Match(request) {
		return killPoint{}, false
	}
	p.point.left--
	return p.point, p.point.left == 0
}

func (p *killProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, server)
		_, _ = io.Copy(io.Discard, server) // the client is gone: what the server still says is of no use
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		point, hit := p.counted(buf[:n])
		if hit && point.before {
			point.kill()
			break
		}
		if _, err := server.Write(buf[:n]); err != nil {
			break
		}
		if hit {
			point.kill()
		}
	}
	// The server ends its side once it has worked off what it got and sees the end of ours.
	if tcp, ok := server.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	<-back
}
