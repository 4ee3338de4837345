package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// Ports are taken from below the ranges that systems hand out to outgoing connections (32768 up on Linux, 49152 up on
// macOS), so that a server which is restarted on its port does not find a client sitting there.
const (
	firstPort = 15000
	lastPort  = 31999
)

// freePorts finds n ports that nobody listens on now. Somebody may before the server does, so starting is tried again
// with others when the log says so.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var lc net.ListenConfig
	ports := make([]int, 0, n)
	// Held until all are found, so that they differ.
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // nothing was written to it
		}
	}()
	for range 1000 {
		p := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := lc.Listen(ctx, "tcp", address(p))
		if err != nil {
			continue
		}
		held = append(held, l)
		if ports = append(ports, p); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.Join(errors.New("no free port on "+loopback), ctx.Err())
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
