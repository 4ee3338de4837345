package mysqlx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrReplaced says that the server was restarted or replaced: a pool connects again by itself, and what answers then may
// have lost commits.
var ErrReplaced = errors.New("the server was restarted or replaced")

// Watch holds one connection for as long as a job reads: the connection cannot outlive the server that it was made to.
type Watch struct {
	conn *sql.Conn
	stop context.CancelFunc
	done chan struct{}

	mu  sync.Mutex
	err error
}

// watchEvery is how often the connection is used, so that neither the server nor anything in between takes it for idle.
const watchEvery = 15 * time.Second

// StartWatch begins to watch. End must be called.
func StartWatch(ctx context.Context, db *sql.DB) (*Watch, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch the server: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &Watch{conn: conn, stop: stop, done: make(chan struct{})}
	go w.keep(ctx)
	return w, nil
}

func (w *Watch) keep(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if w.ask(ctx) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// ask uses the connection. The first failure is kept.
func (w *Watch) ask(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	var one int
	err := w.conn.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	if err != nil && ctx.Err() == nil {
		w.err = fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	return w.err
}

// End ends the watch. It returns ErrReplaced unless the server has been the same all the time.
func (w *Watch) End(ctx context.Context) error {
	w.stop()
	<-w.done
	err := w.ask(ctx)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	_ = w.conn.Close() // what is reported is what it was for
	return err
}
