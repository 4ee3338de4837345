package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// consumeJob is a consumer that is ready to join its group.
type consumeJob struct {
	app      *app
	opts     *consumeOptions
	plan     consumePlan
	monitor  *consumeMonitor
	gate     *replay.Gate
	consumer *kafka.Consumer
	// after completes the result when the consumer has ended; it may be nil.
	after func(ctx context.Context, r *consumeResult)
}

// consumePlan is what is recorded of a run.
type consumePlan struct {
	Topic    string          `json:"topic"`
	Group    string          `json:"group"`
	Batch    int             `json:"batch"`
	Handlers []string        `json:"handlers"`
	Deadline string          `json:"deadline"`
	Starts   map[int32]int64 `json:"starts,omitempty"`
	Until    map[int32]int64 `json:"until,omitempty"`
}

// newConsumeJob reads the effects, opens the servers and checks all that can be checked before the first message.
func newConsumeJob(ctx context.Context, a *app, opts *consumeOptions, topic string, handlers []Handler) (*consumeJob, error) {
	job := &consumeJob{app: a, opts: opts, monitor: newConsumeMonitor(topic, opts.group)}
	deadline, err := opts.deadline(a.config, handlers)
	if err != nil {
		return nil, err
	}
	job.plan = consumePlan{Topic: topic, Group: opts.group, Batch: opts.batch, Deadline: deadline.String()}
	letters, err := a.deadLetters(ctx, handlers)
	if err != nil {
		return nil, err
	}
	gate := replay.GateOptions{Observe: job.monitor.observe, Deadline: deadline}
	if letters != nil {
		gate.Park = letters.Park
	}
	for _, h := range handlers {
		job.plan.Handlers = append(job.plan.Handlers, h.Name)
		gh, err := a.gateHandler(ctx, opts, h)
		if err != nil {
			return nil, err
		}
		gh.Handler = job.monitor.timed(h.Name, gh.Handler)
		gate.Handlers = append(gate.Handlers, gh)
	}
	if job.gate, err = replay.NewGate(gate); err != nil {
		return nil, fmt.Errorf("%s: %w", a.command, err)
	}
	return job, nil
}

// run consumes, prints what came of it also where it was cut short, and turns that into an exit status.
func (j *consumeJob) run(ctx context.Context) error {
	if err := j.openConsumer(); err != nil {
		return err
	}
	finish, err := j.app.record(ctx, j.plan)
	if err != nil {
		return err
	}
	err = j.consume(ctx)
	result := j.monitor.result()
	if errors.Is(err, kafka.ErrBlocked) {
		err = nil // the result says which records, and why
	}
	if j.after != nil {
		j.after(ctx, result)
	}
	if err == nil && !result.complete() {
		err = exitStatus(exitIncomplete)
	}
	finish(consumeWord(err), result.counts())
	if perr := j.app.Print(result.render()); perr != nil {
		return errors.Join(err, perr)
	}
	if err == nil || words(err) == "" {
		return err
	}
	return fmt.Errorf("%s: %w", j.app.command, err)
}

func consumeWord(err error) string {
	if exitCode(err) == exitIncomplete {
		return "incomplete"
	}
	return resultWord(err)
}

// deadline bounds one call of a handler, so that a batch ends before its leases do, and before the group stops waiting for
// the partition (hazard G21).
func (o *consumeOptions) deadline(cfg *Config, handlers []Handler) (time.Duration, error) {
	const share = 4 // a quarter is left for what comes before and after
	bound := min(cfg.Redis.Lease, time.Duration(o.rebalanceTimeout)/time.Duration(len(handlers)))
	bound -= bound / share
	for i := range handlers {
		h := &handlers[i]
		if need := h.HandlerP99 * time.Duration(o.batch); need > bound {
			return 0, usageErrorf("handlers.%s.handler_p99 %s times --batch %d is %s, more than the %s that lease and rebalance timeout leave a batch: lower --batch",
				h.Name, formatDuration(h.HandlerP99), o.batch, formatDuration(need), formatDuration(bound))
		}
	}
	return bound, nil
}

// deadLetters opens the writer of dead letters if any handler has a topic for them, which must be there.
func (a *app) deadLetters(ctx context.Context, handlers []Handler) (*kafka.DeadLetters, error) {
	var letters *kafka.DeadLetters
	for i := range handlers {
		h := &handlers[i]
		if h.DeadLetter == "" {
			a.log().Warn("no dead_letter is configured: a record that may not pass holds its partition", "handler", h.Name)
			continue
		}
		if letters == nil {
			cfg, err := a.KafkaConfig()
			if err != nil {
				return nil, err
			}
			if letters, err = kafka.OpenDeadLetters(cfg); err != nil {
				return nil, usageErrorf("kafka: %w", err)
			}
			a.closeLater(closerFunc(letters.Close))
		}
		if err := letters.Check(ctx, h.DeadLetter); err != nil {
			return nil, fmt.Errorf("handlers.%s.dead_letter: %w", h.Name, err)
		}
	}
	return letters, nil
}

func (a *app) gateHandler(ctx context.Context, opts *consumeOptions, h Handler) (replay.GateHandler, error) {
	effect, err := a.effect(h, replay.ModeExecute)
	if err != nil {
		return replay.GateHandler{}, err
	}
	extractor, err := a.extractor(h, effect)
	if err != nil {
		return replay.GateHandler{}, err
	}
	guard, err := a.openGuard(ctx, opts.guard(), h, replay.ModeExecute, effect)
	if err != nil {
		return replay.GateHandler{}, err
	}
	return replay.GateHandler{
		Name: h.Name, Extractor: extractor, MaxAttempts: h.MaxAttempts, DeadLetter: h.DeadLetter,
		Handler: &guardHandler{guard: guard, effect: effect, mode: replay.ModeExecute, bizType: h.BizType},
	}, nil
}

func (j *consumeJob) openConsumer() error {
	base, err := j.app.KafkaConfig()
	if err != nil {
		return err
	}
	if base.Logger == nil {
		base.Logger = j.app.log()
	}
	j.consumer, err = kafka.OpenConsumer(kafka.ConsumerConfig{
		Config: base, Group: j.opts.group, Topic: j.plan.Topic, InstanceID: j.opts.instanceID, FromEnd: j.opts.from.value == fromEnd, Batch: j.opts.batch,
		SessionTimeout: time.Duration(j.opts.sessionTimeout), RebalanceTimeout: time.Duration(j.opts.rebalanceTimeout),
		Starts: j.plan.Starts, Until: j.plan.Until, GivenUp: j.monitor.forget, Now: j.app.now,
	}, j.gate)
	if err != nil {
		return usageErrorf("kafka: %w", err)
	}
	return nil
}

// ends are the topic's ends now, and the first contact with it: a topic that is not there is an error before the run begins.
func (j *consumeJob) ends(ctx context.Context, topic string) (map[int32]int64, error) {
	client, err := j.app.Kafka(nil)
	if err != nil {
		return nil, err
	}
	all, err := replay.ParseRange("start", j.app.now(), time.UTC)
	if err != nil {
		return nil, err
	}
	bounds, err := client.Resolve(ctx, topic, nil, all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.app.command, err)
	}
	until := make(map[int32]int64, len(bounds))
	for _, b := range bounds {
		until[b.Partition] = b.End
		if b.HeldBack > 0 && j.opts.untilEnd {
			j.app.log().Warn("an open transaction holds back the end", "topic", topic, "partition", b.Partition, "offsets", b.HeldBack)
		}
	}
	return until, nil
}

// consume goes on until the end, and serves the monitor meanwhile.
func (j *consumeJob) consume(ctx context.Context) error {
	stop, err := j.monitor.serve(ctx, j.opts.listen, j.consumer, j.health)
	if err != nil {
		return err
	}
	defer stop()
	j.app.log().Info("consuming", "topic", j.plan.Topic, "group", j.plan.Group, "handlers", j.plan.Handlers, "batch", j.plan.Batch, "deadline", j.plan.Deadline)
	return j.consumer.Run(ctx)
}

// health names the partitions that have work and have not got on for too long (hazard G21).
func (j *consumeJob) health() []kafka.PartitionState {
	var stalled []kafka.PartitionState
	for _, s := range j.consumer.States() {
		if s.Waiting > 0 && j.app.now().Sub(s.Progress) > time.Duration(j.opts.stall) {
			stalled = append(stalled, s)
		}
	}
	return stalled
}

var _ kafka.Passage = (*replay.Gate)(nil)
