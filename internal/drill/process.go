package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// errDead is what a killed process gets from every connection.
var errDead = errors.New("the process has been killed")

// Process is one consumer process: the connections that it has opened, which end with it. A process that is killed stops
// where it is: its goroutines end at their next step, the database learns it from its sockets and rolls back, and what it has
// in Redis stays there.
type Process struct {
	run *run
	// exec is how many connections to the database one process may have.
	pool int

	mu    sync.Mutex
	conns map[net.Conn]bool
	opens []func() error // closes what was opened
	pools []*sql.DB
	dead  bool
}

func newProcess(r *run, pool int) *Process {
	return &Process{run: r, pool: pool, conns: map[net.Conn]bool{}}
}

// MySQL opens a pool on the database's address. guard asks for sessions of a guard's own. Others wait a second for a lock.
func (p *Process) MySQL(guard bool) (*sql.DB, error) {
	dsn := "root@tcp(" + p.run.servers.mysql.addr + ")/" + p.run.schema
	if !guard {
		dsn += "?innodb_lock_wait_timeout=1"
	}
	db, err := mysqlx.Open(mysqlx.Options{DSN: dsn, Guard: guard, MaxOpen: p.pool, Dial: p.dial})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.pools = append(p.pools, db)
	p.mu.Unlock()
	p.later(db.Close)
	return db, nil
}

// warm opens all connections that a burst will want: a consumer under load has them. One after the other, since a server's
// queue of those that knock is short.
func (p *Process) warm(ctx context.Context) {
	p.mu.Lock()
	pools := p.pools
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, db := range pools {
		wg.Go(func() {
			conns := make([]*sql.Conn, 0, p.pool)
			for range p.pool {
				c, err := db.Conn(ctx)
				if err != nil {
					break // what does not come up now comes up when it is needed
				}
				conns = append(conns, c)
			}
			for _, c := range conns {
				_ = c.Close() // back into the pool, when all are open
			}
		})
	}
	wg.Wait()
}

// redisConnections is how many a process has to Redis, which answers one at a time anyway.
const redisConnections = 16

// redisTimeout bounds one call to Redis: short, as a consumer's must be.
const redisTimeout = 250 * time.Millisecond

// Redis opens a client on Redis' address.
func (p *Process) Redis() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: p.run.servers.redis.addr, Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) { return p.dial(ctx, addr) },
		DialerRetries: 1, MaxRetries: -1, ReadTimeout: redisTimeout, WriteTimeout: redisTimeout, ContextTimeoutEnabled: true, PoolSize: redisConnections, PoolTimeout: 10 * redisTimeout,
	})
	p.later(client.Close)
	return client
}

// later has something closed with the process.
func (p *Process) later(end func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opens = append(p.opens, end)
}

// dial connects, unless the process is dead.
func (p *Process) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return nil, errors.Join(errDead, conn.Close())
	}
	c := &processConn{Conn: conn, process: p}
	p.conns[c] = true
	return c, nil
}

// processConn is known to its process while it is open.
type processConn struct {
	net.Conn
	process *Process
}

// Close implements net.Conn.
func (c *processConn) Close() error {
	c.process.mu.Lock()
	delete(c.process.conns, c)
	c.process.mu.Unlock()
	return c.Conn.Close()
}

// kill ends the process as SIGKILL would. It reports whether it was alive.
func (p *Process) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false
	}
	p.dead = true
	for c := range p.conns {
		if pc, ok := c.(*processConn); ok {
			_ = pc.Conn.Close() // not through the wrapper, which wants the lock
		}
	}
	return true
}

// close ends the process in order; a dead one gives back what it holds on this side.
func (p *Process) close() {
	p.mu.Lock()
	opens := p.opens
	p.opens, p.pools = nil, nil
	p.mu.Unlock()
	for _, end := range opens {
		_ = end() // its connections may be cut already
	}
}

func (p *Process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// At reports that a message has come to a step. A fault may be waiting there. It does not return in a process that has been
// killed: the goroutine ends, and what was deferred finds its connections gone.
func (p *Process) At(ctx context.Context, step ledger.Step, d *Delivery) {
	if !p.killed() {
		p.run.reached(ctx, step, d)
	}
	if p.killed() {
		runtime.Goexit()
	}
}

// Effect is the business write of every strategy: the order's row, which has no unique key, so that a second one shows, and
// what it takes from a budget that orders share.
func (p *Process) Effect(ctx context.Context, tx ledger.Tx, d *Delivery) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO drill_effect (order_id) VALUES (?)", d.Record.Order); err != nil {
		return fmt.Errorf("write the effect: %w", err)
	}
	p.At(ctx, StepWritten, d)
	if _, err := tx.ExecContext(ctx, "UPDATE drill_budget SET spent = spent + 1 WHERE id = ?", budgetOf(d.Record.Order)); err != nil {
		return fmt.Errorf("write the budget: %w", err)
	}
	p.At(ctx, ledger.StepEffect, d)
	return nil
}

// budgets is how many budgets the orders share.
const budgets = 64

// budgetOf spreads orders evenly.
func budgetOf(order string) int {
	sum := 0
	for _, c := range []byte(order) {
		sum = sum*31 + int(c)
	}
	return sum % budgets
}

// businessTables are the tables of the effect.
func businessTables(ctx context.Context, db *sql.DB) error {
	statements := []string{
		"CREATE TABLE drill_effect (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, order_id VARBINARY(64) NOT NULL, KEY (order_id)) ENGINE=InnoDB",
		"CREATE TABLE drill_budget (id INT NOT NULL PRIMARY KEY, spent BIGINT NOT NULL) ENGINE=InnoDB",
		"CREATE TABLE drill_scratch (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB",
	}
	rows := make([]string, budgets)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, 0)", i)
	}
	return execAll(ctx, db, append(statements, "INSERT INTO drill_budget (id, spent) VALUES "+strings.Join(rows, ", ")))
}

func execAll(ctx context.Context, db *sql.DB, statements []string) error {
	for _, q := range statements {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%.60s: %w", q, err)
		}
	}
	return nil
}
