package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
)

// syncTimeout bounds the wait until a replica has what its source has.
const syncTimeout = 15 * time.Second

// Servers are all that a drill runs on. Of the two databases, and of the two Redis servers, the first is the primary and the
// other its replica; a failover changes their places.
type Servers struct {
	Databases [2]*lab.Server
	Redises   [2]*lab.Server
	Kafka     *lab.Server

	dbs    [2]*sql.DB // straight to the server, past the relay, for the drill's own hands
	caches [2]*redis.Client
	mysql  *relay
	redis  *relay
	runs   atomic.Int64 // so far: no two have a name in common

	// strikes has one hand at a time at the databases: a strike comes when it comes.
	strikes sync.Mutex

	mu       sync.Mutex
	paused   *lab.Server
	restarts []chan struct{} // of databases that were killed; closed when it is done
	failed   error           // the first restart that did not work
}

// StartServers starts them. kafka is lab.KafkaEmbedded or lab.KafkaApache.
func StartServers(ctx context.Context, host lab.Host, kafka string, logger *slog.Logger) (_ *Servers, err error) {
	s := &Servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	g, gctx := errgroup.WithContext(ctx)
	opts := lab.LaunchOptions{Host: host, Logger: logger}
	for i := range s.Databases {
		g.Go(func() (err error) {
			o := opts
			// A crash here is of the process, never of the machine: what is written is there without a flush to the disk.
			o.Args = []string{
				"--log-bin=bin", "--server-id=" + strconv.Itoa(i+1), "--binlog-format=ROW", "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2",
				"--slave-net-timeout=5", "--innodb-buffer-pool-size=128M",
			}
			s.Databases[i], err = lab.MariaDB(gctx, o)
			return err
		})
		g.Go(func() (err error) {
			o := opts
			o.Args = []string{"--repl-diskless-sync-delay", "0"}
			s.Redises[i], err = lab.AnyRedis(gctx, o)
			return err
		})
	}
	g.Go(func() (err error) {
		if kafka == lab.KafkaApache {
			s.Kafka, err = lab.ApacheKafka(gctx, opts)
		} else {
			s.Kafka, err = lab.EmbeddedKafka(gctx, opts)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Servers) connect(ctx context.Context) (err error) {
	for i := range s.dbs {
		if s.dbs[i], err = mysqlx.Open(mysqlx.Options{DSN: s.Databases[i].DSN("mysql")}); err != nil {
			return err
		}
		s.caches[i] = redis.NewClient(&redis.Options{Addr: s.Redises[i].Addr, ContextTimeoutEnabled: true})
	}
	if s.mysql, err = newRelay(ctx, s.Databases[0].Addr, true); err != nil {
		return err
	}
	s.redis, err = newRelay(ctx, s.Redises[0].Addr, false)
	return err
}

// Names says what runs, for people.
func (s *Servers) Names() []string {
	return []string{"2 x " + s.Databases[0].Name, "2 x " + s.Redises[0].Name, s.Kafka.Name}
}

// Close ends all of them and removes their data.
func (s *Servers) Close() error {
	s.settled() //nolint:errcheck // all of it ends now
	var errs []error
	for _, r := range []*relay{s.mysql, s.redis} {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	for i := range s.dbs {
		if s.dbs[i] != nil {
			errs = append(errs, s.dbs[i].Close())
		}
		if s.caches[i] != nil {
			errs = append(errs, s.caches[i].Close())
		}
	}
	for _, server := range []*lab.Server{s.Kafka, s.Redises[0], s.Redises[1], s.Databases[0], s.Databases[1]} {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	return errors.Join(errs...)
}

// db is the primary, past the relay.
func (s *Servers) db() *sql.DB {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dbs[0]
}

// cache is the primary Redis, past the relay.
func (s *Servers) cache() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caches[0]
}

// replicate makes the second server of each pair a replica of the first, from now on. What either had before belongs to runs
// that are over.
func (s *Servers) replicate(ctx context.Context) error {
	if err := s.settled(); err != nil {
		return err
	}
	file, pos, err := s.position(ctx)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Databases[0].Addr)
	if err != nil {
		return err
	}
	for _, q := range []string{
		"STOP SLAVE", "RESET SLAVE ALL",
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_LOG_FILE='%s', MASTER_LOG_POS=%d, MASTER_USE_GTID=no, MASTER_CONNECT_RETRY=1", host, port, file, pos),
		"START SLAVE",
	} {
		if _, err := s.dbs[1].ExecContext(ctx, q); err != nil {
			return fmt.Errorf("make %s a replica: %w", s.Databases[1].Addr, err)
		}
	}
	if err := s.caches[0].Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		return fmt.Errorf("make %s a primary: %w", s.Redises[0].Addr, err)
	}
	if err := s.caches[0].FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("empty %s: %w", s.Redises[0].Addr, err)
	}
	host, port, err = net.SplitHostPort(s.Redises[0].Addr)
	if err != nil {
		return err
	}
	if err := s.caches[1].Do(ctx, "REPLICAOF", host, port).Err(); err != nil {
		return fmt.Errorf("make %s a replica: %w", s.Redises[1].Addr, err)
	}
	return s.syncRedis(ctx)
}

func (s *Servers) position(ctx context.Context) (file string, pos int64, err error) {
	var doDB, ignoreDB sql.NullString
	err = s.dbs[0].QueryRowContext(ctx, "SHOW MASTER STATUS").Scan(&file, &pos, &doDB, &ignoreDB)
	if err != nil {
		return "", 0, fmt.Errorf("ask %s for its position: %w", s.Databases[0].Addr, err)
	}
	return file, pos, nil
}

// detachMySQL stops the replica once it has all that is committed at this moment.
func (s *Servers) detachMySQL(ctx context.Context) error {
	s.strikes.Lock()
	defer s.strikes.Unlock()
	if err := s.settled(); err != nil {
		return err
	}
	file, pos, err := s.position(ctx)
	if err != nil {
		return err
	}
	var events sql.NullInt64
	if err := s.dbs[1].QueryRowContext(ctx, "SELECT MASTER_POS_WAIT(?, ?, ?)", file, pos, int(syncTimeout.Seconds())).Scan(&events); err != nil {
		return fmt.Errorf("wait for the database's replica: %w", err)
	}
	if !events.Valid || events.Int64 < 0 {
		return fmt.Errorf("the database's replica does not come to %s:%d", file, pos)
	}
	if _, err := s.dbs[1].ExecContext(ctx, "STOP SLAVE"); err != nil {
		return fmt.Errorf("stop the database's replica: %w", err)
	}
	return nil
}

// switchMySQL kills the primary, has the replica take its place, and does then what then does before anything strikes the new
// one. The old one starts again behind the drill's back: it is the next run's replica.
func (s *Servers) switchMySQL(ctx context.Context, then func() error) error {
	s.strikes.Lock()
	defer s.strikes.Unlock()
	if err := s.settled(); err != nil {
		return err
	}
	if _, err := s.dbs[1].ExecContext(ctx, "RESET SLAVE ALL"); err != nil {
		return fmt.Errorf("promote the database's replica: %w", err)
	}
	old := s.Databases[0]
	if err := old.Kill(); err != nil {
		return err
	}
	s.mu.Lock()
	s.Databases[0], s.Databases[1] = s.Databases[1], s.Databases[0]
	s.dbs[0], s.dbs[1] = s.dbs[1], s.dbs[0]
	s.mu.Unlock()
	s.mysql.point(s.Databases[0].Addr)
	s.startAgain(ctx, old)
	return then()
}

// killMySQL kills the primary, which starts again on the same data.
func (s *Servers) killMySQL(ctx context.Context) error {
	s.strikes.Lock()
	defer s.strikes.Unlock()
	if err := s.Databases[0].Kill(); err != nil {
		return err
	}
	s.mysql.cut()
	s.startAgain(ctx, s.Databases[0])
	return nil
}

func (s *Servers) startAgain(ctx context.Context, server *lab.Server) {
	done := make(chan struct{})
	s.mu.Lock()
	s.restarts = append(s.restarts, done)
	s.mu.Unlock()
	go func() {
		defer close(done)
		err := server.Restart(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil && s.failed == nil {
			s.failed = fmt.Errorf("start %s again: %w", server.Name, err)
		}
	}()
}

// settled waits until no database is on its way up.
func (s *Servers) settled() error {
	s.mu.Lock()
	waiting := s.restarts
	s.restarts = nil
	s.mu.Unlock()
	for _, done := range waiting {
		<-done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// syncRedis waits until the replica has all keys.
func (s *Servers) syncRedis(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	conn := s.caches[0].Conn()
	defer conn.Close() //nolint:errcheck // back to the pool
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := conn.Set(ctx, "drill:fence", n, 0).Err(); err != nil {
			return fmt.Errorf("wait for the Redis replica: %w", err)
		}
		acks, err := conn.Wait(ctx, 1, 500*time.Millisecond).Result()
		if err != nil {
			return fmt.Errorf("wait for the Redis replica: %w", err)
		}
		if acks > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the Redis replica: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// detachRedis stops the replica once it has all keys of this moment.
func (s *Servers) detachRedis(ctx context.Context) error {
	if err := s.resumeRedis(); err != nil {
		return err
	}
	if err := s.syncRedis(ctx); err != nil {
		return err
	}
	if err := s.caches[1].Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		return fmt.Errorf("stop the Redis replica: %w", err)
	}
	return nil
}

// switchRedis has the replica take the primary's place.
func (s *Servers) switchRedis() error {
	if err := s.resumeRedis(); err != nil {
		return err
	}
	s.mu.Lock()
	s.Redises[0], s.Redises[1] = s.Redises[1], s.Redises[0]
	s.caches[0], s.caches[1] = s.caches[1], s.caches[0]
	s.mu.Unlock()
	s.redis.point(s.Redises[0].Addr)
	return nil
}

// flushRedis forgets every key.
func (s *Servers) flushRedis(ctx context.Context) error {
	if err := s.resumeRedis(); err != nil {
		return err
	}
	if err := s.caches[0].FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("flush Redis: %w", err)
	}
	return nil
}

// pauseRedis stalls the primary.
func (s *Servers) pauseRedis() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != nil {
		return nil
	}
	if err := s.Redises[0].Pause(); err != nil {
		return err
	}
	s.paused = s.Redises[0]
	return nil
}

// resumeRedis ends a stall, if there is one.
func (s *Servers) resumeRedis() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		return nil
	}
	paused := s.paused
	s.paused = nil
	return paused.Resume()
}
