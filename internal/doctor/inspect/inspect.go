// Package inspect gathers all that is known of one order: its markers in Redis, its rows in every month and held table, the
// runs that may have touched it, where it stands in state machines, and says in words what that means for the next delivery.
//
// It changes nothing. The caller owns the servers it is given.
package inspect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Options are what a Looker uses.
type Options struct {
	DB     *sql.DB // commits by itself
	Scheme partition.Scheme
	// Redis is nil where no filter is configured; RedisErr says why one that is could not be reached.
	Redis    redis.Cmdable
	RedisErr error
	Template ledger.KeyTemplate
	Lease    time.Duration
	Slack    time.Duration // of the horizon
	// Bare says that the guards here write the bare words, so that no marker proves anything.
	Bare bool
	// BizTypes are those that are looked up even where no table knows the order: the configured handlers'.
	BizTypes []string
	// Only, where it is not empty, leaves all other biz_types out.
	Only string
}

// Looker looks orders up.
type Looker struct {
	opts Options
	cat  partition.Catalog
	// hasCatalog is false in a ledger made by someone else.
	hasCatalog bool
	tables     []partition.Table
	runs       []runlog.Entry
	now        time.Time
}

// recentRuns is how many runs are searched for those that touched an order.
const recentRuns = 2000

// New reads what all orders have in common: the catalog, the clock, the runs. It returns partition.ErrNoCatalog where the
// ledger has none, unless someone else made it.
func New(ctx context.Context, opts Options) (*Looker, error) {
	l := &Looker{opts: opts}
	var err error
	if l.now, err = mysqlx.Now(ctx, opts.DB); err != nil {
		return nil, err
	}
	if opts.Scheme.Legacy() {
		if l.tables, err = partition.FindTables(ctx, opts.DB, opts.Scheme); err != nil {
			return nil, err
		}
	} else {
		if l.cat, err = partition.LoadCatalog(ctx, opts.DB, opts.Scheme); err != nil {
			return nil, err
		}
		l.tables, l.hasCatalog = l.cat.Tables, true
	}
	l.runs, err = runlog.New(opts.DB).List(ctx, runlog.Filter{Prefix: opts.Scheme.Prefix(), Limit: recentRuns})
	if err != nil && !errors.Is(err, runlog.ErrNoTable) {
		return nil, err
	}
	return l, nil
}

// Order is all that is known of one order.
type Order struct {
	OrderID string `json:"order_id"`
	// OrderIDB64 is there where the id is not UTF-8.
	OrderIDB64 []byte    `json:"order_id_b64,omitempty"`
	Now        time.Time `json:"now"` // the database's clock
	// Keys are its business keys, one for each biz_type that is configured or has left something.
	Keys []Key `json:"keys"`
	// Runs are those that may have touched it, the newest first.
	Runs []Run `json:"runs"`
}

// Key is one business key.
type Key struct {
	BizType string  `json:"biz_type"`
	Marker  *Marker `json:"marker,omitempty"` // nil: no filter is configured
	// MarkerError says why the marker could not be read.
	MarkerError string `json:"marker_error,omitempty"`
	Rows        []Row  `json:"rows"`
	// MemorySince is the horizon: for later business times the ledger's memory is complete. Zero: the biz_type has not
	// claimed yet, or the ledger has no catalog.
	MemorySince time.Time `json:"memory_complete_after,omitzero"`
	State       *State    `json:"state,omitempty"`
	// Records are those of a topic range, where one was asked for. The caller adds them.
	Records []Record `json:"records,omitempty"`
	// Finding is a word for programs, Verdict a sentence for people.
	Finding Finding `json:"finding"`
	Verdict string  `json:"verdict"`
}

// Run is a run of this program that may have touched the order.
type Run struct {
	ID      int64     `json:"id"`
	Command string    `json:"command"`
	Args    string    `json:"args"`
	Who     string    `json:"who"`
	Host    string    `json:"host"`
	Started time.Time `json:"started_at"`
	// Finished is zero where it still runs, or was killed.
	Finished time.Time `json:"finished_at,omitzero"`
	Result   string    `json:"result"`
	// Why it may have: it names the order, or was at work when the row was written.
	Why string `json:"why"`
}

// State is where the order stands in a state machine.
type State struct {
	State     string    `json:"state"`
	UpdatedAt time.Time `json:"updated_at"`
	History   []Change  `json:"history"`
}

// Change is one transition.
type Change struct {
	At   time.Time `json:"at"`
	From string    `json:"from"` // empty: the order was begun
	To   string    `json:"to"`
	Who  string    `json:"who"`
	Why  string    `json:"why"`
}

// Record is one record of a topic with this key, and what would come of it.
type Record struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	Outcome   string    `json:"outcome"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"` // the record that executed the key: topic[partition]@offset
}

// Look gathers what is known of an order. A Redis that does not answer is part of the result (MarkerError), the ledger's
// server is not.
func (l *Looker) Look(ctx context.Context, orderID string) (Order, error) {
	o := Order{OrderID: orderID, Now: l.now, Keys: []Key{}, Runs: []Run{}}
	if !utf8.ValidString(orderID) {
		o.OrderIDB64 = []byte(orderID)
	}
	rows, err := l.rows(ctx, orderID)
	if err != nil {
		return o, err
	}
	states, err := l.states(ctx, orderID)
	if err != nil {
		return o, err
	}
	for _, biz := range l.bizTypes(rows, states) {
		k := Key{BizType: biz, Rows: []Row{}, State: states[biz]}
		for _, r := range rows {
			if r.BizType == biz {
				k.Rows = append(k.Rows, r)
			}
		}
		if h, known := l.cat.Horizon(biz); l.hasCatalog && known {
			k.MemorySince = h
		}
		l.addMarker(ctx, &k, orderID)
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		k.Finding, k.Verdict = l.judge(&k)
		o.Keys = append(o.Keys, k)
	}
	o.Runs = l.touched(orderID, rows)
	return o, nil
}

// bizTypes are those configured and those that have left something, by name.
func (l *Looker) bizTypes(rows []Row, states map[string]*State) []string {
	all := slices.Clone(l.opts.BizTypes)
	for _, r := range rows {
		all = append(all, r.BizType)
	}
	for biz := range states {
		all = append(all, biz)
	}
	if l.opts.Only != "" {
		all = []string{l.opts.Only}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *Looker) states(ctx context.Context, orderID string) (map[string]*State, error) {
	store := ledger.NewStateStore(nil, l.opts.DB)
	found, err := store.Find(ctx, orderID)
	if errors.Is(err, ledger.ErrNoStateTables) {
		return map[string]*State{}, nil
	}
	if err != nil {
		return nil, err
	}
	states := map[string]*State{}
	for _, st := range found {
		changes, err := store.History(ctx, st.Key)
		if err != nil {
			return nil, err
		}
		s := &State{State: st.State, UpdatedAt: st.UpdatedAt, History: make([]Change, len(changes))}
		for i, c := range changes {
			s.History[i] = Change{At: c.At, From: c.From, To: c.To, Who: c.Who, Why: c.Why}
		}
		states[st.Key.BizType] = s
	}
	return states, nil
}

// position writes a record's place.
func position(topic string, part int32, offset int64) string {
	return fmt.Sprintf("%s[%d]@%d", topic, part, offset)
}
