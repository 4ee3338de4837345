package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

const (
	// minMetadataAge is how soon the client may look for a leader again.
	minMetadataAge = 100 * time.Millisecond
	// unknownFor is how long the brokers must go on saying that a topic is unknown before it is believed: one that has just
	// started, or a topic just made, is unknown for a moment.
	unknownFor = time.Second
)

var _ replay.Source = (*Client)(nil)

// Client is a replay.Source over one cluster. It is safe for concurrent use.
type Client struct {
	cfg Config
	kgo *kgo.Client
	// lastDial is the newest failure to connect: the reason behind a context that ran out.
	lastDial *dialLog

	mu sync.Mutex
	// pinned are the ids of the topics that Resolve saw, by name.
	pinned map[string]topicID
}

// Open checks cfg. It connects to nothing: the first call that needs a broker does.
func Open(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	dials := &dialLog{}
	cl, err := kgo.NewClient(append(opts, kgo.WithHooks(dials))...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return &Client{cfg: cfg, kgo: cl, lastDial: dials, pinned: map[string]topicID{}}, nil
}

// Close ends all connections. Calls still running fail.
func (c *Client) Close() { c.kgo.Close() }

// Ping answers whether a broker can be reached and lets us in, within the connect timeout: nil or an *UnreachableError.
func (c *Client) Ping(ctx context.Context) error {
	return c.firstContact(ctx, "connect", func(context.Context) error { return nil })
}

// firstContact runs fn after a broker has answered, all within the connect timeout. Where the time ran out, or no broker
// answered, the error is an *UnreachableError that names op.
func (c *Client) firstContact(ctx context.Context, op string, fn func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	if err := c.kgo.Ping(bounded); err != nil {
		return c.contactError(ctx, bounded, op, err)
	}
	if err := fn(bounded); err != nil {
		if bounded.Err() != nil || !isAnswer(err) {
			return c.contactError(ctx, bounded, op, err)
		}
		return err
	}
	return nil
}

// contactError tells the caller's own cancellation from a cluster that does not answer.
func (c *Client) contactError(ctx, bounded context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if bounded.Err() != nil {
		cause := fmt.Errorf("no answer within %v", c.cfg.ConnectTimeout)
		if dial := c.lastDial.get(); dial != nil {
			cause = fmt.Errorf("no answer within %v: %w", c.cfg.ConnectTimeout, dial)
		}
		err = cause
	}
	return &UnreachableError{Brokers: c.cfg.Brokers, Op: op, Err: err}
}

// isAnswer says whether err is what a broker answered, or made of that, rather than a connection that failed.
func isAnswer(err error) bool {
	if _, ok := errors.AsType[*replay.TopicError](err); ok {
		return true
	}
	_, ok := errors.AsType[*kerr.Error](err)
	return ok && !errors.Is(err, kerr.SaslAuthenticationFailed)
}

// dialLog keeps the newest connection failure. It implements kgo.HookBrokerConnect.
type dialLog struct {
	mu   sync.Mutex
	addr string
	err  error
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (d *dialLog) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	addr := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && addr == d.addr:
		d.addr, d.err = "", nil // it is no longer the reason of anything
	case err != nil && !errors.Is(err, context.Canceled):
		d.addr, d.err = addr, fmt.Errorf("connect to %s: %w", addr, err)
	}
}

func (d *dialLog) get() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
