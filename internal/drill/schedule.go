package drill

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// StepWritten is the point between the two statements of the effect: the order's row is written, the budget's is not.
const StepWritten ledger.Step = "written"

// steps are the points at which a consumer can be stopped, in order. A strategy that has no such point is stopped at its next
// one.
func steps() []ledger.Step {
	return []ledger.Step{
		ledger.StepStart, ledger.StepLeased, ledger.StepInserted, ledger.StepProbed, ledger.StepConfirmed,
		StepWritten, ledger.StepEffect, ledger.StepCommitted, ledger.StepMarked,
	}
}

// Action is what an injection does.
type Action string

// The actions.
const (
	actRewind      Action = "partition read again"
	actCrash       Action = "consumer killed"
	actZombie      Action = "partition moved, owner stalled"
	actMoveAll     Action = "all partitions moved"
	actFlush       Action = "redis flushed"
	actStall       Action = "redis stalled"
	actDetachRedis Action = "redis replica detached"
	actSwitchRedis Action = "redis failed over"
	actForeign     Action = "foreign COMPLETED"
	actDetachMySQL Action = "mysql replica detached"
	actSwitchMySQL Action = "mysql failed over"
	actKillBefore  Action = "mysql killed before COMMIT"
	actKillAfter   Action = "mysql killed after COMMIT"
	actHoldRows    Action = "business rows locked"
	actDeadlock    Action = "deadlock"
	actRival       Action = "rival claim rolled back"
	actSlow        Action = "slow effect"
	actTurn        Action = "month turned"
	actBurst       Action = "burst"
)

// Injection is one fault at its place.
type Injection struct {
	Fault  Fault  `json:"fault"`
	Action Action `json:"action"`
	// At is a place in the stream. OnRecord: the record with this index, at its first delivery. Else when so many different
	// records have been delivered.
	At       int         `json:"at"`
	OnRecord bool        `json:"on_record"`
	Step     ledger.Step `json:"step,omitempty"`
}

// Schedule is the stream of a seed and what happens on the way.
type Schedule struct {
	Injections []Injection

	stream *stream
}

// lossWindow is how many messages before a failover the replica is detached: what is done between is what it lacks.
const lossWindow = 25

// NewSchedule makes the stream and the schedule of a seed. begin is the hour that ordinary business times lie in, boundary a
// month's beginning; neither has a say in the places.
func NewSchedule(orders int, faults []Fault, seed uint64, begin, boundary time.Time) *Schedule {
	rng := rand.New(rand.NewPCG(seed, 0x1DE))
	on := map[Fault]bool{}
	for _, f := range faults {
		on[f] = true
	}
	s := &Schedule{stream: newStream(orders, on, rng, begin, boundary)}
	var open []Injection // without a place yet
	for _, f := range faults {
		open = append(open, injectionsOf(f)...)
	}
	rng.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
	used := map[int]bool{}
	for i := range s.stream.main {
		if s.stream.main[i].slow {
			used[i] = true
			s.add(Injection{Fault: Slow, Action: actSlow, At: i, OnRecord: true, Step: StepWritten})
		}
	}
	if on[MonthTurn] {
		s.add(Injection{Fault: MonthTurn, Action: actTurn, At: s.stream.turn})
	}
	for n, inj := range open {
		inj.At = len(s.stream.main) * (n + 1) / (len(open) + 1)
		s.place(inj, used)
	}
	s.keepApart()
	slices.SortStableFunc(s.Injections, func(a, b Injection) int { return cmp.Compare(a.At, b.At) })
	return s
}

// keepApart moves a burst out of the windows that a failover forgets: its thousand messages would be read again, and drown
// all else.
func (s *Schedule) keepApart() {
	for i := range s.Injections {
		burst := &s.Injections[i]
		if burst.Action != actBurst {
			continue
		}
		for moved := true; moved; {
			moved = false
			for _, inj := range s.Injections {
				if (inj.Action == actSwitchRedis || inj.Action == actSwitchMySQL) && burst.At > inj.At-lossWindow-1 && burst.At <= inj.At {
					burst.At, moved = inj.At+1, true
				}
			}
		}
	}
}

func (s *Schedule) add(inj Injection) { s.Injections = append(s.Injections, inj) }

// place gives an injection its place near the one it has.
func (s *Schedule) place(inj Injection, used map[int]bool) {
	if inj.OnRecord {
		// The first publication of an order, and none that has trouble already.
		for used[inj.At] || s.stream.main[inj.At].copied {
			inj.At = (inj.At + 1) % len(s.stream.main)
		}
		used[inj.At] = true
	}
	inj.At = max(1, inj.At)
	switch inj.Action { //nolint:exhaustive // these two come in two parts
	case actSwitchRedis:
		s.add(Injection{Fault: inj.Fault, Action: actDetachRedis, At: max(1, inj.At-lossWindow)})
	case actSwitchMySQL:
		s.add(Injection{Fault: inj.Fault, Action: actDetachMySQL, At: max(1, inj.At-lossWindow)})
	}
	s.add(inj)
}

// injectionsOf are the injections of a fault that get their places from the shuffle.
func injectionsOf(f Fault) []Injection {
	counted := func(actions ...Action) []Injection {
		list := make([]Injection, len(actions))
		for i, a := range actions {
			list[i] = Injection{Fault: f, Action: a}
		}
		return list
	}
	on := func(a Action, at ...ledger.Step) []Injection {
		list := make([]Injection, len(at))
		for i, s := range at {
			list[i] = Injection{Fault: f, Action: a, OnRecord: true, Step: s}
		}
		return list
	}
	switch f {
	case Redelivery:
		return counted(actRewind, actRewind, actRewind)
	case Crash:
		return on(actCrash, steps()...)
	case Rebalance:
		return append(counted(actMoveAll, actMoveAll, actMoveAll),
			on(actZombie, ledger.StepLeased, ledger.StepInserted, ledger.StepEffect, ledger.StepCommitted)...)
	case RedisFlush:
		return counted(actFlush, actFlush)
	case RedisStall:
		return counted(actStall)
	case RedisFailover:
		return counted(actSwitchRedis)
	case ForeignCompleted:
		return on(actForeign, ledger.StepStart, ledger.StepStart, ledger.StepStart)
	case MySQLFailover:
		return counted(actSwitchMySQL)
	case MySQLKill:
		return counted(actKillBefore, actKillAfter)
	case Locks:
		return slices.Concat(counted(actHoldRows), on(actDeadlock, StepWritten, StepWritten), on(actRival, ledger.StepStart, ledger.StepStart))
	case Burst:
		return counted(actBurst)
	case Slow, MonthTurn: // the stream says where
	}
	return nil
}
