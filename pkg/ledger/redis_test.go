package ledger_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
)

// ownRedis is a ledger over a Redis of the test's own, asked through a client that counts, by a clock that stands still.
type ownRedis struct {
	*ledgertest.Workbench

	server *lab.Server
	guard  *ledger.Guard
	calls  *counter
	clock  atomic.Int64 // what the filter takes for now, ns
}

// filterTimeout bounds a call; the client's own limits are an hour, so that a call which nobody bounds ends the test.
const filterTimeout = 250 * time.Millisecond

// cooldown is how long a Redis that failed is left alone.
const cooldown = time.Second

func newOwnRedis(t *testing.T, change ...func(*ledger.GuardOptions)) *ownRedis {
	t.Helper()
	server := testenv.OwnRedis(t)
	o := &ownRedis{server: server, calls: &counter{}}
	o.clock.Store(time.Now().UnixNano())
	opt, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(opt)
	opt.ContextTimeoutEnabled = true
	opt.ReadTimeout, opt.WriteTimeout, opt.DialTimeout, opt.PoolTimeout = time.Hour, time.Hour, time.Hour, time.Hour
	client := redis.NewClient(opt)
	client.AddHook(o.calls)
	t.Cleanup(func() { _, _ = admin.Close(), client.Close() })
	o.Workbench = ledgertest.New(t, testenv.MySQL(t), &testenv.RedisSpace{URL: server.URL(), Prefix: "own:", Client: admin})
	o.Redis = client
	o.guard = o.Guard(append(change, func(g *ledger.GuardOptions) {
		g.Filter = o.Filter(func(f *ledger.FilterOptions) {
			f.Timeout = filterTimeout
			f.Now = func() time.Time { return time.Unix(0, o.clock.Load()) }
		})
	})...)
	return o
}

// coolDown lets the filter's clock pass the time for which a Redis that failed is left alone.
func (o *ownRedis) coolDown() { o.clock.Add(cooldown.Nanoseconds()) }

// deliver brings a message and says what must become of it.
func (o *ownRedis) deliver(t *testing.T, m ledger.Message, want ledger.Outcome, degraded bool) {
	t.Helper()
	res, err := o.guard.Do(t.Context(), m, o.Grant(m))
	o.Want(want, res, err)
	if res.Degraded != degraded {
		t.Fatalf("%s: degraded %v, want %v", m.Key.OrderID, res.Degraded, degraded)
	}
	o.ExactlyOnce(m)
}

// counter counts what a client is asked, whatever becomes of it; the greeting of a new connection aside.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds[0])
		return next(ctx, cmds)
	}
}

func (c *counter) count(first redis.Cmder) {
	switch first.Name() {
	case "set", "get", "eval", "evalsha":
		c.n.Add(1)
	}
}

// during returns how often Redis was asked while f ran.
func (c *counter) during(f func()) int64 {
	before := c.n.Load()
	f()
	return c.n.Load() - before
}

// hazard G14: a Redis that is down costs nothing but its help; once it is back, and the cool-down over, it helps again.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	o := newOwnRedis(t)
	before := o.NewMessage()
	o.deliver(t, before, ledger.Executed, false)
	o.deliver(t, before, ledger.AbsorbedFilter, false)
	if err := o.server.Kill(); err != nil {
		t.Fatal(err)
	}
	m := o.NewMessage()
	o.deliver(t, m, ledger.Executed, true)
	o.deliver(t, m, ledger.AbsorbedLedger, true)
	o.deliver(t, before, ledger.AbsorbedLedger, true)
	looks, err := o.guard.Classify(t.Context(), []ledger.Message{m, o.NewMessage()})
	if err != nil || !looks[0].Degraded || looks[0].Outcome != ledger.AbsorbedLedger || looks[1].Outcome != ledger.Executed {
		t.Errorf("looks: %+v, %v", looks, err)
	}
	if err := o.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := o.calls.during(func() { o.deliver(t, m, ledger.AbsorbedLedger, true) })
	if asked != 0 {
		t.Errorf("asked %d times before the cool-down was over", asked)
	}
	o.coolDown()
	o.deliver(t, m, ledger.AbsorbedLedger, false) // it came back empty
	o.deliver(t, m, ledger.AbsorbedFilter, false)
	o.deliver(t, o.NewMessage(), ledger.Executed, false)
}

// hazard G14: a Redis that accepts and never answers costs one timeout per cool-down, not one per message.
func TestRedisStalled(t *testing.T) {
	t.Parallel()
	o := newOwnRedis(t)
	o.deliver(t, o.NewMessage(), ledger.Executed, false) // the client is connected
	if err := o.server.Pause(); err != nil {
		t.Fatal(err)
	}
	var messages []ledger.Message
	for period := range 3 {
		asked := o.calls.during(func() {
			for range 20 {
				m := o.NewMessage()
				messages = append(messages, m)
				o.deliver(t, m, ledger.Executed, true)
			}
		})
		if asked != 1 {
			t.Errorf("cool-down %d: a stalled Redis was asked %d times by 20 messages, want once", period, asked)
		}
		o.coolDown()
	}
	if err := o.server.Resume(); err != nil {
		t.Fatal(err)
	}
	// What was sent before the stall is worked off now: leases of claims that went on without them. They decide nothing.
	for _, m := range messages {
		o.deliver(t, m, ledger.AbsorbedLedger, false)
		o.deliver(t, m, ledger.AbsorbedFilter, false)
	}
}

// Many consumers at once: a stall costs each at most the call it was in, and of those that come later one per cool-down asks.
func TestRedisStalledForMany(t *testing.T) {
	t.Parallel()
	o := newOwnRedis(t)
	o.deliver(t, o.NewMessage(), ledger.Executed, false)
	if err := o.server.Pause(); err != nil {
		t.Fatal(err)
	}
	o.deliver(t, o.NewMessage(), ledger.Executed, true)
	o.coolDown()
	messages := make([]ledger.Message, 16)
	for i := range messages {
		messages[i] = o.NewMessage()
	}
	asked := o.calls.during(func() {
		var wg sync.WaitGroup
		for _, m := range messages {
			wg.Go(func() {
				res, err := o.guard.Do(t.Context(), m, o.Grant(m))
				if err != nil || res.Outcome != ledger.Executed || !res.Degraded {
					t.Errorf("%s: %s, degraded %v, %v", m.Key.OrderID, res.Outcome, res.Degraded, err)
				}
			})
		}
		wg.Wait()
	})
	if asked != 1 {
		t.Errorf("16 consumers asked a stalled Redis %d times after the cool-down, want once", asked)
	}
	for _, m := range messages {
		o.ExactlyOnce(m)
	}
}

// hazard G14: a Redis that is stalled, or killed, in the middle of a message. What it was told before does not matter.
func TestRedisLostInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*lab.Server) error{"killed": (*lab.Server).Kill, "stalled": (*lab.Server).Pause} {
		for _, at := range []ledger.Step{ledger.StepLeased, ledger.StepInserted, ledger.StepEffect, ledger.StepCommitted} {
			t.Run(name+"/"+string(at), func(t *testing.T) {
				t.Parallel()
				var o *ownRedis
				lost := false
				o = newOwnRedis(t, func(g *ledger.GuardOptions) {
					g.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
						if s == at && !lost {
							lost = true
							if err := lose(o.server); err != nil {
								t.Error(err)
							}
						}
					}
				})
				m := o.NewMessage()
				o.deliver(t, m, ledger.Executed, true) // its marker could not be written
				o.deliver(t, m, ledger.AbsorbedLedger, true)
			})
		}
	}
}

// hazard G14: emptied at any point of a message, Redis forgets leases and markers; the key has its effect once.
func TestRedisFlushedInTheMiddle(t *testing.T) {
	t.Parallel()
	steps := []ledger.Step{
		ledger.StepStart, ledger.StepLeased, ledger.StepInserted, ledger.StepProbed, ledger.StepConfirmed, ledger.StepEffect,
		ledger.StepCommitted, ledger.StepMarked,
	}
	for _, at := range steps {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			var o *ownRedis
			flushed := false
			o = newOwnRedis(t, func(g *ledger.GuardOptions) {
				g.OnStep = func(ctx context.Context, s ledger.Step, _ ledger.Message) {
					if s == at && !flushed {
						flushed = true
						if err := o.Space.Client.FlushAll(ctx).Err(); err != nil {
							t.Error(err)
						}
					}
				}
			})
			m := o.NewMessage()
			o.deliver(t, m, ledger.Executed, false)
			if !flushed {
				t.Fatalf("%s was not reached", at)
			}
			if at == ledger.StepMarked {
				o.deliver(t, m, ledger.AbsorbedLedger, false)
			}
			o.deliver(t, m, ledger.AbsorbedFilter, false)
			for range 5 { // and between messages
				o.deliver(t, o.NewMessage(), ledger.Executed, false)
				if err := o.Space.Client.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			o.deliver(t, m, ledger.AbsorbedLedger, false)
		})
	}
}

// The lease is flushed away while its owner works, and a second consumer gets it: the unique key holds (hazard G3), and the
// first one's end leaves the second's marker alone.
func TestRedisFlushedUnderTheOwner(t *testing.T) {
	t.Parallel()
	var o *ownRedis
	var second chan ledger.Result
	o = newOwnRedis(t, func(g *ledger.GuardOptions) {
		g.OnStep = func(ctx context.Context, s ledger.Step, m ledger.Message) {
			if s != ledger.StepInserted || second != nil {
				return
			}
			second = make(chan ledger.Result, 1)
			leased := make(chan struct{})
			if err := o.Space.Client.FlushAll(ctx).Err(); err != nil {
				t.Error(err)
			}
			other := o.Guard(func(g *ledger.GuardOptions) {
				g.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
					if s == ledger.StepLeased {
						close(leased)
					}
				}
			})
			go func() {
				res, err := other.Do(t.Context(), m, o.Grant(m))
				if err != nil {
					t.Error(err)
				}
				second <- res
			}()
			<-leased
		}
	})
	m := o.NewMessage()
	res, err := o.guard.Do(t.Context(), m, o.Grant(m))
	o.Want(ledger.Executed, res, err)
	res = <-second
	o.Want(ledger.AbsorbedLedger, res, nil)
	o.ExactlyOnce(m)
	o.deliver(t, m, ledger.AbsorbedFilter, false)
}

// hazard G14: a Redis that answers every write with an error (full, or a replica after a failover) is one that is away.
func TestRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spoil, mend []any }{
		"full":      {[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"a replica": {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwnRedis(t)
			do := func(command []any) {
				t.Helper()
				if err := o.Space.Client.Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			do(c.spoil)
			m := o.NewMessage()
			o.deliver(t, m, ledger.Executed, true)
			o.deliver(t, m, ledger.AbsorbedLedger, true)
			do(c.mend)
			o.coolDown()
			o.deliver(t, m, ledger.AbsorbedLedger, false)
			o.deliver(t, m, ledger.AbsorbedFilter, false)
		})
	}
}
