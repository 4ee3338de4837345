package drill

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// Account is what one strategy's effects come to, compared with the orders that were published.
type Account struct {
	Orders     int `json:"orders"`
	Effects    int `json:"effects"`
	Duplicates int `json:"duplicates"` // effects beyond the first of an order
	Lost       int `json:"lost"`       // orders without an effect
	Unknown    int `json:"unknown"`    // effects of an order that was never published
}

// Exact reports that there is one effect for each order and none besides.
func (a *Account) Exact() bool {
	return a.Effects == a.Orders && a.Duplicates == 0 && a.Lost == 0 && a.Unknown == 0
}

func (a *Account) add(b *Account) {
	a.Orders += b.Orders
	a.Effects += b.Effects
	a.Duplicates += b.Duplicates
	a.Lost += b.Lost
	a.Unknown += b.Unknown
}

// takeAccount compares effects by order with the orders published.
func takeAccount(orders []string, effects map[string]int) Account {
	a := Account{Orders: len(orders)}
	known := make(map[string]bool, len(orders))
	for _, id := range orders {
		known[id] = true
		n := effects[id]
		a.Effects += n
		if n == 0 {
			a.Lost++
		} else {
			a.Duplicates += n - 1
		}
	}
	for id, n := range effects {
		if !known[id] {
			a.Effects += n
			a.Unknown += n
		}
	}
	return a
}

// countEffects reads the business table.
func countEffects(ctx context.Context, db *sql.DB) (map[string]int, error) {
	rows, err := db.QueryContext(ctx, "SELECT order_id, COUNT(*) FROM drill_effect GROUP BY order_id")
	if err != nil {
		return nil, fmt.Errorf("count the effects: %w", err)
	}
	defer rows.Close()
	effects := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return nil, fmt.Errorf("count the effects: %w", err)
		}
		effects[id] = n
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count the effects: %w", err)
	}
	return effects, nil
}

// tally counts what consumers decide while they run.
type tally struct {
	executed, byFilter, byLedger, inFlight, degraded atomic.Int64

	mu        sync.Mutex
	notes     []string
	latencies []time.Duration
}

func (t *tally) count(o ledger.Outcome) {
	switch o { //nolint:exhaustive // what does not pass is not counted here
	case ledger.Executed:
		t.executed.Add(1)
	case ledger.AbsorbedFilter:
		t.byFilter.Add(1)
	case ledger.AbsorbedLedger:
		t.byLedger.Add(1)
	}
}

// keep remembers what must be looked at.
func (t *tally) keep(note string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, note)
}

// took notes how long a delivery took from its first try until it passed.
func (t *tally) took(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.latencies = append(t.latencies, d)
}

// passage sums up the deliveries of a stretch of a run.
type passage struct {
	executed, byFilter, byLedger int64
	statements                   int64
	latencies                    []time.Duration // sorted
	took                         time.Duration
}

// Measures are what a stretch of deliveries comes to.
type Measures struct {
	// Deliveries that passed, redeliveries included.
	Deliveries int `json:"deliveries"`
	// What became of them. Absorbed by the filter: nobody asked the database.
	Executed       int64 `json:"executed"`
	AbsorbedFilter int64 `json:"absorbed_filter"`
	AbsorbedLedger int64 `json:"absorbed_ledger"`
	// FilterShare is the part of the duplicates that the filter absorbed, 0 to 1.
	FilterShare float64 `json:"filter_share"`
	// PerSecond is deliveries by the time that the stretch took, faults included.
	PerSecond float64 `json:"per_second"`
	// P50 and P99 are milliseconds from a delivery's first try until it passed.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Statements are those that consumers sent to the database for one delivery.
	Statements float64 `json:"statements_per_message"`
}

func (p *passage) measures() Measures {
	m := Measures{
		Deliveries: len(p.latencies), Executed: p.executed, AbsorbedFilter: p.byFilter, AbsorbedLedger: p.byLedger,
		P50: milliseconds(percentile(p.latencies, 50)), P99: milliseconds(percentile(p.latencies, 99)),
	}
	if absorbed := p.byFilter + p.byLedger; absorbed > 0 {
		m.FilterShare = float64(p.byFilter) / float64(absorbed)
	}
	if m.Deliveries > 0 {
		m.Statements = float64(p.statements) / float64(m.Deliveries)
	}
	if p.took > 0 {
		m.PerSecond = float64(m.Deliveries) / p.took.Seconds()
	}
	return m
}

func (p *passage) add(q *passage) {
	p.executed += q.executed
	p.byFilter += q.byFilter
	p.byLedger += q.byLedger
	p.statements += q.statements
	p.took += q.took
	p.latencies = append(p.latencies, q.latencies...)
	slices.Sort(p.latencies)
}

// percentile of sorted durations, by the nearest rank; 0 where there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100 //nolint:mnd // rounded up
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// mark is how far a tally was at a moment.
type mark struct {
	executed, byFilter, byLedger, statements int64
	latencies                                int
	at                                       time.Time
}

func (t *tally) mark(statements int64, now time.Time) mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return mark{
		executed: t.executed.Load(), byFilter: t.byFilter.Load(), byLedger: t.byLedger.Load(), statements: statements, latencies: len(t.latencies), at: now,
	}
}

// since sums up what came between two marks.
func (t *tally) since(a, b mark) passage {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := passage{
		executed: b.executed - a.executed, byFilter: b.byFilter - a.byFilter, byLedger: b.byLedger - a.byLedger, statements: b.statements - a.statements,
		latencies: slices.Clone(t.latencies[a.latencies:b.latencies]), took: b.at.Sub(a.at),
	}
	slices.Sort(p.latencies)
	return p
}
