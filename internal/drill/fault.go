package drill

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fault is a kind of trouble that can be switched on.
type Fault string

// The faults.
const (
	Redelivery       Fault = "redelivery"
	Crash            Fault = "crash"
	Rebalance        Fault = "rebalance"
	RedisFlush       Fault = "redis-flush"
	RedisStall       Fault = "redis-stall"
	RedisFailover    Fault = "redis-failover"
	ForeignCompleted Fault = "foreign-completed"
	MySQLFailover    Fault = "mysql-failover"
	MySQLKill        Fault = "mysql-kill"
	Locks            Fault = "locks"
	Slow             Fault = "slow"
	MonthTurn        Fault = "month-turn"
	Burst            Fault = "burst"
)

// Faults lists all of them, in the order in which they are documented.
func Faults() []Fault {
	return []Fault{
		Redelivery, Crash, Rebalance, RedisFlush, RedisStall, RedisFailover, ForeignCompleted, MySQLFailover, MySQLKill, Locks, Slow, MonthTurn, Burst,
	}
}

// Words that stand for sets of faults; All also for every strategy.
const (
	All  = "all"
	None = "none"
)

// ErrUnknown is a fault or a strategy that does not exist.
var ErrUnknown = errors.New("unknown")

// ParseFaults reads names of faults, or the one word all or none. The result is in the order of Faults, each once.
func ParseFaults(names []string) ([]Fault, error) {
	if slices.Equal(names, []string{All}) {
		return Faults(), nil
	}
	if slices.Equal(names, []string{None}) {
		return nil, nil
	}
	wanted := map[Fault]bool{}
	for _, n := range names {
		if !slices.Contains(Faults(), Fault(n)) {
			return nil, fmt.Errorf("fault %q: %w; expected %s, %s, or some of %s", n, ErrUnknown, All, None, words(Faults()))
		}
		wanted[Fault(n)] = true
	}
	var faults []Fault
	for _, f := range Faults() {
		if wanted[f] {
			faults = append(faults, f)
		}
	}
	return faults, nil
}

func words[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, w := range list {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
