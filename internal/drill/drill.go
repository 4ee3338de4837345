package drill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// The bounds of Options.Orders.
const (
	MinOrders     = 100
	DefaultOrders = 600
	MaxOrders     = 100_000
)

// Options shape a drill.
type Options struct {
	// Orders is how many different orders the ordinary stream has.
	Orders int
	Faults []Fault
	// Seed decides stream and places; each repetition has the next one.
	Seed       uint64
	Strategies []Strategy
	// Repeat is how often all of it is done; 0 means once.
	Repeat int
	// Progress is told of each run that is over. nil: nobody is.
	Progress func(done, total int, r *Result)
	// Now is this machine's clock; nil means time.Now.
	Now func() time.Time
	// Logger hears of each fault, at debug level; nil: nobody does.
	Logger *slog.Logger
}

// Result is one strategy's run over one seed.
type Result struct {
	Account
	Strategy string `json:"strategy"`
	Seed     uint64 `json:"seed"`
	// Failed says that the guard lost or repeated something; of other strategies nothing is asserted.
	Failed bool `json:"failed"`
	// All measures the whole run, Burst the burst alone; null where there was none.
	All   Measures  `json:"all"`
	Burst *Measures `json:"burst"`
	// Parked are dead letters written. Degraded and InFlight count what the guard reports of itself.
	Parked   int   `json:"parked"`
	Degraded int64 `json:"degraded"`
	InFlight int64 `json:"in_flight"`
	// Injected counts the faults that struck, Missed those that found nothing to strike at.
	Injected map[Action]int `json:"injected"`
	Missed   map[Action]int `json:"missed,omitempty"`
	// Notes are what must be looked at, such as why something was parked.
	Notes []string `json:"notes,omitempty"`

	all, burst passage
}

// Row is one strategy over all seeds.
type Row struct {
	Account
	Strategy string    `json:"strategy"`
	What     string    `json:"what"`
	Guarded  bool      `json:"guarded"`
	Runs     int       `json:"runs"`
	Failed   bool      `json:"failed"`
	All      Measures  `json:"all"`
	Burst    *Measures `json:"burst"`
	Parked   int       `json:"parked"`

	all, burst passage
}

// Report is what a drill found.
type Report struct {
	// OK says that the guard neither lost nor repeated anything, in all its runs. False also where none of its runs is over.
	OK bool `json:"ok"`
	// Complete says that all runs are over.
	Complete bool     `json:"complete"`
	Seed     uint64   `json:"seed"`
	Repeat   int      `json:"repeat"`
	Orders   int      `json:"orders"`  // of one run, that of the burst included
	Records  int      `json:"records"` // published in one run of the first seed
	Faults   []Fault  `json:"faults"`
	Servers  []string `json:"servers"`
	// Schedule is that of the first seed.
	Schedule []Injection `json:"schedule"`
	Rows     []Row       `json:"strategies"`
	Results  []Result    `json:"runs"`
	// Took is in seconds, without the servers' start.
	Took float64 `json:"took_seconds"`
}

// Run drills. After an error the report holds the runs that were over by then.
func Run(ctx context.Context, s *Servers, opts Options) (*Report, error) {
	switch {
	case opts.Orders < MinOrders || opts.Orders > MaxOrders:
		return nil, fmt.Errorf("%d orders: expected %d to %d", opts.Orders, MinOrders, MaxOrders)
	case len(opts.Strategies) == 0:
		return nil, errors.New("no strategies")
	}
	opts.Repeat = max(1, opts.Repeat)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	began := opts.Now()
	rep := &Report{Seed: opts.Seed, Repeat: opts.Repeat, Faults: opts.Faults, Servers: s.Names()}
	for _, strategy := range opts.Strategies {
		t := strategy.Traits()
		rep.Rows = append(rep.Rows, Row{Strategy: t.Name, What: t.What, Guarded: t.Guarded})
	}
	var stragglers sync.WaitGroup
	defer stragglers.Wait()
	err := drill(ctx, s, &opts, rep, &stragglers)
	rep.Complete = err == nil
	rep.finish()
	rep.Took = opts.Now().Sub(began).Seconds()
	return rep, err
}

func drill(ctx context.Context, s *Servers, opts *Options, rep *Report, stragglers *sync.WaitGroup) error {
	now, err := mysqlx.Now(ctx, s.db())
	if err != nil {
		return err
	}
	begin, boundary := now.Add(-time.Hour), partition.MonthOf(now, time.UTC).Start(time.UTC)
	total := opts.Repeat * len(opts.Strategies)
	for n := range opts.Repeat {
		seed := opts.Seed + uint64(n)
		for i, strategy := range opts.Strategies {
			schedule := NewSchedule(opts.Orders, opts.Faults, seed, begin, boundary)
			if len(rep.Schedule) == 0 {
				rep.Schedule, rep.Orders, rep.Records = schedule.Injections, len(schedule.stream.orders), len(schedule.stream.records())
			}
			r := newRun(s, strategy, schedule, strconv.FormatInt(s.runs.Add(1), 10), boundary, opts.Now)
			r.stragglers, r.logger = stragglers, opts.Logger
			result, err := r.result(ctx, seed)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", r.traits.Name, seed, err)
			}
			rep.Rows[i].add(result)
			rep.Results = append(rep.Results, *result)
			opts.Logger.DebugContext(ctx, "run over", "strategy", result.Strategy, "seed", seed, "duplicates", result.Duplicates, "lost", result.Lost)
			if opts.Progress != nil {
				opts.Progress(len(rep.Results), total, result)
			}
		}
	}
	return nil
}

// result does the run and counts what became of it.
func (r *run) result(ctx context.Context, seed uint64) (*Result, error) {
	all, err := r.do(ctx)
	if err != nil {
		return nil, err
	}
	w, done, err := r.world()
	if err != nil {
		return nil, err
	}
	defer done()
	effects, err := countEffects(ctx, w.DB)
	if err != nil {
		return nil, err
	}
	parked, err := r.parked(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.forget(ctx, w); err != nil {
		return nil, err
	}
	res := &Result{
		Strategy: r.traits.Name, Seed: seed, Account: takeAccount(r.stream.orders, effects), All: all.measures(), Parked: parked,
		Degraded: r.tally.degraded.Load(), InFlight: r.tally.inFlight.Load(), Injected: r.fired, Missed: r.missed, Notes: r.tally.notes,
		all: *all, burst: r.burst,
	}
	if len(r.stream.burst) > 0 {
		m := r.burst.measures()
		res.Burst = &m
	}
	res.Failed = r.traits.Guarded && (!res.Exact() || parked > 0)
	return res, nil
}

// parked counts the dead letters of a run that is over.
func (r *run) parked(ctx context.Context) (int, error) {
	b, err := newBroker(r.servers.Kafka.Brokers(), r.broker.topic)
	if err != nil {
		return 0, err
	}
	defer b.close()
	n, err := b.parked(ctx)
	if err != nil {
		return 0, err
	}
	_, err = b.admin.DeleteTopics(ctx, b.topic, b.deadLetters())
	if err != nil {
		return 0, fmt.Errorf("delete topic %s: %w", b.topic, err)
	}
	return n, nil
}

// forget drops the run's schema: a nightly drill has hundreds.
func (r *run) forget(ctx context.Context, w *World) error {
	if _, err := w.DB.ExecContext(ctx, "DROP DATABASE `"+r.schema+"`"); err != nil {
		return fmt.Errorf("drop schema %s: %w", r.schema, err)
	}
	return nil
}

func (row *Row) add(r *Result) {
	row.Runs++
	row.Account.add(&r.Account)
	row.Parked += r.Parked
	row.Failed = row.Failed || r.Failed
	row.all.add(&r.all)
	row.All = row.all.measures()
	if r.Burst != nil {
		row.burst.add(&r.burst)
		m := row.burst.measures()
		row.Burst = &m
	}
}

// finish draws the verdict.
func (rep *Report) finish() {
	guarded := 0
	failed := false
	for i := range rep.Rows {
		row := &rep.Rows[i]
		if row.Guarded {
			guarded += row.Runs
			failed = failed || row.Failed
		}
	}
	rep.OK = !failed && (guarded > 0 || !rep.hasGuard())
}

func (rep *Report) hasGuard() bool {
	for i := range rep.Rows {
		if rep.Rows[i].Guarded {
			return true
		}
	}
	return false
}

// Verdict is the last line: the guard's runs.
func (rep *Report) Verdict() string {
	var g Account
	runs := 0
	for i := range rep.Rows {
		if row := &rep.Rows[i]; row.Guarded {
			g.add(&row.Account)
			runs += row.Runs
		}
	}
	word := "FAILED"
	switch {
	case rep.OK && rep.Complete:
		word = "ok"
	case rep.OK || runs == 0:
		word = "incomplete"
	}
	if !rep.hasGuard() {
		return "drill: the guard was not drilled"
	}
	return fmt.Sprintf("drill: %s runs=%d orders=%d effects=%d duplicates=%d lost=%d", word, runs, g.Orders, g.Effects, g.Duplicates, g.Lost)
}

// Kinds is the faults in one word.
func (rep *Report) Kinds() string {
	switch len(rep.Faults) {
	case 0:
		return None
	case len(Faults()):
		return All
	}
	return strings.ReplaceAll(words(rep.Faults), " ", "")
}
