package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/replay"
)

// clockTolerance is what clocks that are kept by NTP differ at most, with room.
const clockTolerance = time.Second

// reading is how far a clock is ahead of this machine's, give or take the time that the question took.
type reading struct {
	who   string
	ahead time.Duration
	give  time.Duration
}

// checkClocks compares clocks by asking for the time, and takes half of what the answer took as the error. Kafka has no
// clock to ask: a record that is newer than now says that its broker's clock (LogAppendTime) or its producer's is ahead, and
// of a broker that is behind nothing is known.
func checkClocks(ctx context.Context, f *Facts) (Result, error) {
	var read []reading
	var notes []string
	var errs []error
	ask := func(s Server, clock func(context.Context) (time.Time, error)) {
		switch configured, err := f.server(s); {
		case err != nil:
			errs = append(errs, err)
		case configured:
			r, err := f.readClock(ctx, string(s), clock)
			if err != nil {
				errs = append(errs, err)
				return
			}
			read = append(read, r)
		}
	}
	ask(MySQL, func(ctx context.Context) (time.Time, error) { return mysqlx.Now(ctx, f.DB) })
	ask(Redis, func(ctx context.Context) (time.Time, error) { return f.Redis.Time(ctx).Result() })
	bad := judgeClocks(read, f.Slack)
	if configured, err := f.server(Kafka); err != nil {
		errs = append(errs, err)
	} else if configured && len(f.Handlers) > 0 {
		future, err := f.recordsAhead(ctx)
		if err != nil {
			errs = append(errs, err)
		}
		bad = append(bad, future...)
		notes = append(notes, "no record newer than now (Kafka has no clock to ask)")
	}
	if len(read)+len(notes)+len(errs) == 0 {
		return skipped("no server is configured"), nil
	}
	var parts []string
	for _, r := range read {
		parts = append(parts, fmt.Sprintf("%s %+d ms (+-%d)", r.who, r.ahead.Milliseconds(), r.give.Milliseconds()))
	}
	res := merge(ok("against this machine: %s", strings.Join(append(parts, notes...), ", ")), bad)
	if len(errs) > 0 { // what was read is told all the same
		res.Status, res.Read = Unknown, fmt.Sprintf("not all could be looked at: %s; %s", oneLine(errors.Join(errs...)), res.Read)
	}
	return res, nil
}

// oneLine puts joined errors behind one another.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// readClock takes the quickest of a few answers: the first may have opened a connection.
func (f *Facts) readClock(ctx context.Context, who string, clock func(context.Context) (time.Time, error)) (reading, error) {
	const tries = 3
	best := reading{who: who, give: time.Hour}
	for range tries {
		sent := f.Now()
		there, err := clock(ctx)
		if err != nil {
			return best, fmt.Errorf("the clock of %s: %w", who, err)
		}
		took := f.Now().Sub(sent)
		if took/2 <= best.give {
			best.ahead, best.give = there.Sub(sent.Add(took/2)), took/2
		}
	}
	return best, nil
}

func judgeClocks(read []reading, slack time.Duration) []Result {
	all := append([]reading{{who: "this machine"}}, read...)
	var bad []Result
	for i, a := range all {
		for _, b := range all[i+1:] {
			apart := (b.ahead - a.ahead).Abs() - a.give - b.give
			if apart <= clockTolerance {
				continue
			}
			status := Warn
			if apart > max(slack, clockTolerance) {
				status = Fail
			}
			word := "ahead of"
			if b.ahead < a.ahead {
				word = "behind"
			}
			bad = append(bad, finding(status, fmt.Sprintf("%s is %s %s %s", b.who, Short((b.ahead-a.ahead).Abs().Round(time.Millisecond)), word, a.who),
				"The horizon compares messages' times with the database's clock: beyond horizon_slack new orders are refused, or forgotten ones pass for new.",
				"keep all clocks by NTP (chronyc tracking)"))
		}
	}
	return bad
}

func (f *Facts) recordsAhead(ctx context.Context) ([]Result, error) {
	var bad []Result
	for _, topic := range f.topics() {
		newest, byBroker, err := f.Kafka.NewestRecord(ctx, topic)
		if _, missing := errors.AsType[*replay.TopicError](err); missing {
			continue // topic.retention tells of it
		}
		if err != nil {
			return nil, err
		}
		ahead := newest.Sub(f.Now())
		if newest.IsZero() || ahead <= clockTolerance {
			continue
		}
		status, whose := Warn, "its producer's clock"
		if byBroker {
			whose = "its broker's clock"
		}
		if ahead > max(f.Slack, clockTolerance) {
			status = Fail
		}
		bad = append(bad, finding(status, fmt.Sprintf("%s has a record %s in the future, by %s", topic, Short(ahead.Round(time.Second)), whose),
			"A record's time chooses its month, and counts against the horizon where a message has no time of its own.", "keep all clocks by NTP; find the producer that sends such times"))
	}
	return bad, nil
}
