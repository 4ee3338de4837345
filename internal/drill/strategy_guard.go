package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

const (
	// guardBatch is how many records share a transaction in the second of the guard's rows, as in `idemctl consume`.
	guardBatch = kafka.DefaultBatch
	guardBiz   = "COUPON"
	guardTable = "t_idempotent_flow"
	guardKey   = "idempotent:{biz_type}:{order_id}"
	// guardRetention is an entry's life.
	guardRetention = 30 * 24 * time.Hour
	// settleTimeout bounds what a killed consumer's last goroutine can still try, without any connection.
	settleTimeout = 5 * time.Second
	// inFlightWait bounds the wait for another owner's lease.
	inFlightWait = lease / 8
)

// lease is what a marker of work in progress lives: a second stands for the minutes of life.
const lease = time.Second

// guard is this project: the gate of `idemctl consume` in front of ledger.Guard.
type guard struct{ batch int }

// Traits implements Strategy.
func (s guard) Traits() Traits {
	t := Traits{
		Name: "guard", What: "idemctl: one message at a time", Guarded: true, Batch: s.batch, Marker: "idempotent:" + guardBiz + ":",
		// A claim that its owner will roll back, in the month of the database's now.
		Rival: "INSERT INTO %s (order_id, biz_type, create_time, expire_at) VALUES (?, '" + guardBiz + "', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))",
	}
	if s.batch > 1 {
		t.Name, t.What = "guard-batch", fmt.Sprintf("idemctl: %d messages in a transaction", s.batch)
	}
	return t
}

func guardScheme() (partition.Scheme, error) { return partition.NewScheme(guardTable) }

// Prepare implements Strategy: `idemctl partition create`, with the operator's word for the time before.
func (guard) Prepare(ctx context.Context, w *World) error {
	m, err := guardManager(w)
	if err != nil {
		return err
	}
	before := partition.MonthOf(w.Boundary, time.UTC) - 1
	plan, err := m.PlanCreate(ctx, partition.CreateRequest{Ahead: 1, From: before, MemorySince: before.Start(time.UTC)})
	if err != nil {
		return fmt.Errorf("plan the ledger's months: %w", err)
	}
	if _, err := m.Create(ctx, plan); err != nil {
		return fmt.Errorf("make the ledger's months: %w", err)
	}
	return nil
}

// Operate implements Strategy: `idemctl partition rotate`, so that markers of commits that are lost absorb no more.
func (guard) Operate(ctx context.Context, w *World) error {
	m, err := guardManager(w)
	if err != nil {
		return err
	}
	plan, err := m.PlanRotate(ctx)
	if err != nil {
		return fmt.Errorf("plan the rotation: %w", err)
	}
	if _, err := m.Rotate(ctx, plan); err != nil {
		return fmt.Errorf("rotate the ledger's id: %w", err)
	}
	return nil
}

func guardManager(w *World) (*partition.Manager, error) {
	scheme, err := guardScheme()
	if err != nil {
		return nil, err
	}
	return partition.NewManager(w.DB, scheme, time.UTC), nil
}

// guardConsumer is a gate over a guard, in one process.
type guardConsumer struct {
	process *Process
	guard   *ledger.Guard
	gate    *replay.Gate
}

// inHand are the deliveries of one Handle, by order: hooks of the guard know only the message.
type inHand struct{}

// Open implements Strategy.
func (s guard) Open(ctx context.Context, p *Process) (Consumer, error) {
	scheme, err := guardScheme()
	if err != nil {
		return nil, err
	}
	tx, err := p.MySQL(true)
	if err != nil {
		return nil, err
	}
	read, err := p.MySQL(false)
	if err != nil {
		return nil, err
	}
	filter, err := newFilter(p.Redis(), p.run.prefix)
	if err != nil {
		return nil, err
	}
	c := &guardConsumer{process: p}
	c.guard, err = ledger.NewGuard(ctx, ledger.GuardOptions{
		Store: ledger.NewStore(tx, read, scheme), Filter: filter, BizType: guardBiz, Zone: time.UTC, Retention: guardRetention,
		// Whoever says COMPLETED here shares the ledger, so what has no row was not done: `consume --phantom execute`.
		Phantom: ledger.Run, SettleTimeout: settleTimeout, OnStep: c.onStep,
	})
	if err != nil {
		return nil, fmt.Errorf("open the guard: %w", err)
	}
	letters, err := kafka.OpenDeadLetters(kafka.Config{Brokers: p.run.broker.addrs})
	if err != nil {
		return nil, fmt.Errorf("open the dead letters: %w", err)
	}
	p.later(func() error { letters.Close(); return nil })
	x, err := replay.NewExtractor(replay.ExtractorConfig{Key: "orderId", EventTime: "paidAt", BizType: guardBiz, Location: time.UTC, ValidateKey: ledger.ValidateOrderID})
	if err != nil {
		return nil, fmt.Errorf("read the records: %w", err)
	}
	c.gate, err = replay.NewGate(replay.GateOptions{
		Handlers: []replay.GateHandler{{Name: "coupon", Extractor: x, Handler: c.handler(), DeadLetter: p.run.broker.deadLetters()}},
		Park:     letters.Park,
		Observe:  func(o replay.Observation) { c.observe(&o) },
	})
	return c, err
}

func newFilter(client redis.UniversalClient, prefix string) (*ledger.Filter, error) {
	template, err := ledger.ParseKeyTemplate(prefix + guardKey)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	f, err := ledger.NewFilter(client, ledger.FilterOptions{Template: template, Lease: lease, CompletedTTL: markerTTL, Timeout: redisTimeout})
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return f, nil
}

func newTokens(client redis.UniversalClient, prefix string) (*ledger.Token, error) {
	t, err := ledger.NewToken(client, ledger.TokenOptions{Prefix: prefix + "token:"})
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return t, nil
}

// Handle implements Consumer.
func (c *guardConsumer) Handle(ctx context.Context, batch []*Delivery) (int, time.Duration) {
	byOffset := make(map[int64]*Delivery, len(batch))
	pending := make([]*replay.Pending, len(batch))
	for i, d := range batch {
		if d.pending == nil {
			d.pending = c.gate.Admit(record(d.Kafka))
		}
		pending[i] = d.pending
		byOffset[d.Kafka.Offset] = d
	}
	n, wait := c.gate.Pass(context.WithValue(ctx, inHand{}, byOffset), pending)
	if wait.Err != nil {
		c.process.run.trouble(wait.Err)
	}
	// The consumer waits as long as is left of a lease of minutes; here a second stands for them.
	return n, min(wait.After, inFlightWait)
}

// onStep reports the guard's steps, at the delivery that they are about.
func (c *guardConsumer) onStep(ctx context.Context, s ledger.Step, m ledger.Message) {
	if s == ledger.StepEffect {
		return // Process.Effect has reported it for each message
	}
	if d := deliveryOf(ctx, m.Source); d != nil {
		c.process.At(ctx, s, d)
	}
}

func deliveryOf(ctx context.Context, s *ledger.Source) *Delivery {
	byOffset, ok := ctx.Value(inHand{}).(map[int64]*Delivery)
	if !ok || s == nil {
		return nil
	}
	return byOffset[s.Offset]
}

// handlerFunc is a replay.Handler.
type handlerFunc func(ctx context.Context, items []replay.Item) ([]replay.Verdict, error)

// Handle implements replay.Handler.
func (f handlerFunc) Handle(ctx context.Context, items []replay.Item) ([]replay.Verdict, error) {
	return f(ctx, items)
}

// handler puts the guard behind the gate, as cmd does for `idemctl consume`.
func (c *guardConsumer) handler() replay.Handler {
	return handlerFunc(func(ctx context.Context, items []replay.Item) ([]replay.Verdict, error) {
		messages := make([]ledger.Message, len(items))
		for i := range items {
			item := &items[i]
			messages[i] = ledger.Message{
				Key: ledger.Key{BizType: guardBiz, OrderID: item.OrderID}, Time: item.Time, Fingerprint: item.Fingerprint,
				Source: &ledger.Source{Topic: item.Record.Topic, Partition: item.Record.Partition, Offset: item.Record.Offset},
			}
		}
		results := c.guard.DoBatch(ctx, messages, func(ctx context.Context, tx ledger.Tx, indexes []int) error {
			for _, i := range indexes {
				if err := c.process.Effect(ctx, tx, deliveryOf(ctx, messages[i].Source)); err != nil {
					return err
				}
			}
			return nil
		})
		verdicts := make([]replay.Verdict, len(results))
		for i := range results {
			verdicts[i] = verdictOf(&results[i])
		}
		return verdicts, nil
	})
}

func verdictOf(r *ledger.Result) replay.Verdict {
	v := replay.Verdict{Outcome: r.Outcome.String(), Reason: r.Reason, Degraded: r.Degraded, RetryAfter: r.RetryAfter, Class: replay.Held}
	switch r.Outcome {
	case ledger.Executed:
		v.Class = replay.Executed
	case ledger.AbsorbedFilter, ledger.AbsorbedLedger:
		v.Class = replay.Absorbed
	case ledger.Failed:
		v.Class, v.Reason = replay.Failed, r.Err.Error()
		if _, ok := errors.AsType[*ledger.EffectError](r.Err); !ok {
			v.Stop = r.Err
		}
	case ledger.InFlight, ledger.Conflict, ledger.OutsideHorizon, ledger.Invalid, ledger.Phantom:
	}
	return v
}

// observe counts what the gate decides.
func (c *guardConsumer) observe(o *replay.Observation) {
	if c.process.killed() {
		return
	}
	t := &c.process.run.tally
	switch {
	case o.Verdict.Outcome == ledger.Executed.String():
		t.count(ledger.Executed)
	case o.Verdict.Outcome == ledger.AbsorbedFilter.String():
		t.count(ledger.AbsorbedFilter)
	case o.Verdict.Outcome == ledger.AbsorbedLedger.String():
		t.count(ledger.AbsorbedLedger)
	case o.Verdict.Outcome == ledger.InFlight.String():
		t.inFlight.Add(1)
	case o.Parked:
		t.keep(fmt.Sprintf("parked %s[%d]@%d: %s: %s", o.Record.Topic, o.Record.Partition, o.Record.Offset, o.Verdict.Outcome, o.Verdict.Reason))
	}
	if o.Verdict.Degraded {
		t.degraded.Add(1)
	}
}
