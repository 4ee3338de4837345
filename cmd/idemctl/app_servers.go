package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// unreachableError is a server that could not be used at the first contact: exit 3. Its text names the server and carries
// no secret.
type unreachableError struct {
	What    string // MySQL, Redis, Kafka
	Address string
	Err     error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("connect to %s at %s: %s", e.What, e.Address, e.Err)
}

// Unwrap returns the cause.
func (e *unreachableError) Unwrap() error { return e.Err }

// noAnswerError is a server that said nothing within the bound.
type noAnswerError struct{ after time.Duration }

func (e noAnswerError) Error() string { return "no answer within " + formatDuration(e.after) }

// DB opens the ledger's server for looking and operating, and makes sure that it answers.
func (a *app) DB(ctx context.Context) (*sql.DB, error) { return a.openDB(ctx, false) }

// GuardDB opens connections of a guard's own: autocommit is off on them (invariant 6).
func (a *app) GuardDB(ctx context.Context) (*sql.DB, error) { return a.openDB(ctx, true) }

// openDB opens each of the two pools once.
func (a *app) openDB(ctx context.Context, guard bool) (*sql.DB, error) {
	if db := a.pools[guard]; db != nil {
		return db, nil
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	dsn, password, err := cfg.LedgerDSN()
	if err != nil {
		return nil, err
	}
	db, err := mysqlx.Open(mysqlx.Options{DSN: dsn, Password: password, ConnectTimeout: a.flags.connectTimeout, Guard: guard})
	if err != nil {
		return nil, usageErrorf("ledger.dsn: %w", err)
	}
	a.closeLater(db)
	if err := a.firstContact(ctx, "MySQL", mysqlx.Address(dsn), db.PingContext); err != nil {
		return nil, err
	}
	if a.pools == nil {
		a.pools = map[bool]*sql.DB{}
	}
	a.pools[guard] = db
	return db, nil
}

// Redis opens the filter's server and makes sure that it answers.
func (a *app) Redis(ctx context.Context) (redis.UniversalClient, error) {
	client, err := a.RedisClient()
	if err != nil {
		return nil, err
	}
	err = a.firstContact(ctx, "Redis", a.config.redisAddress(), func(ctx context.Context) error { return client.Ping(ctx).Err() })
	if err != nil {
		return nil, err
	}
	return client, nil
}

// RedisClient is a client that has not dialled yet: a guard goes on without Redis, and must not wait for it to begin.
func (a *app) RedisClient() (redis.UniversalClient, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	opts, err := cfg.redisOptions(a.flags.connectTimeout)
	if err != nil {
		return nil, err
	}
	client := redis.NewUniversalClient(opts)
	a.closeLater(client)
	return client, nil
}

// redisOptions are the client's, with timeouts that bound what a stalled Redis can cost (redis.timeout a call), and
// without retries by the client: a SET NX whose reply was lost is recognised by its token, not sent twice (G10).
func (c *Config) redisOptions(dial time.Duration) (*redis.UniversalOptions, error) {
	r := &c.Redis
	opts := &redis.UniversalOptions{
		ClientName:            programName,
		Username:              r.Username,
		DialTimeout:           dial,
		DialerRetries:         1,
		ReadTimeout:           r.Timeout,
		WriteTimeout:          r.Timeout,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
	}
	urlPassword := ""
	switch {
	case r.URL != "":
		parsed, err := redis.ParseURL(r.URL)
		if err != nil {
			return nil, usageErrorf("redis.url (%s): %w", c.origins.of("redis.url"), checkRedisURL(r.URL))
		}
		opts.Addrs = []string{parsed.Addr}
		opts.DB = parsed.DB
		opts.TLSConfig = parsed.TLSConfig
		if parsed.Username != "" {
			opts.Username = parsed.Username
		}
		urlPassword = parsed.Password
	case len(r.Cluster) > 0:
		opts.Addrs = r.Cluster
		opts.IsClusterMode = true
	case r.Sentinel.Master != "":
		opts.Addrs = r.Sentinel.Addresses
		opts.MasterName = r.Sentinel.Master
		opts.DB = r.DB
		opts.SentinelUsername = r.Sentinel.Username
		var err error
		opts.SentinelPassword, err = c.secret(
			literal("redis.sentinel.password", r.Sentinel.Password),
			fromSecretFile("redis.sentinel.password_file", r.Sentinel.PasswordFile))
		if err != nil {
			return nil, err
		}
	default:
		return nil, usageErrorf("the filter's server is not configured: set redis.url, %s or --redis-url", envName("redis.url"))
	}
	var err error
	opts.Password, err = c.secret(
		literal("redis.password", r.Password),
		fromSecretFile("redis.password_file", r.PasswordFile),
		literal("redis.url", urlPassword))
	if err != nil {
		return nil, err
	}
	if r.TLS.on() {
		if opts.TLSConfig, err = r.TLS.config("redis.tls"); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

func (c *Config) redisAddress() string {
	switch r := &c.Redis; {
	case r.URL != "":
		if parsed, err := redis.ParseURL(r.URL); err == nil {
			return parsed.Addr
		}
		return redactURL(r.URL)
	case len(r.Cluster) > 0:
		return strings.Join(r.Cluster, ", ")
	default:
		return fmt.Sprintf("master %s of %s", r.Sentinel.Master, strings.Join(r.Sentinel.Addresses, ", "))
	}
}

// KafkaConfig is what the Kafka client needs, from the configuration.
func (a *app) KafkaConfig() (kafka.Config, error) {
	cfg, err := a.Config()
	if err != nil {
		return kafka.Config{}, err
	}
	k := &cfg.Kafka
	if len(k.Brokers) == 0 {
		return kafka.Config{}, usageErrorf("no Kafka broker is configured: set kafka.brokers, %s or --brokers", envName("kafka.brokers"))
	}
	out := kafka.Config{Brokers: k.Brokers, ClientID: k.ClientID, ConnectTimeout: a.flags.connectTimeout}
	// What the client says at its own levels repeats, several times over, the error that the command ends with.
	if a.flags.logLevel <= slog.LevelDebug {
		out.Logger = a.log()
	}
	if k.TLS.on() {
		if out.TLS, err = k.TLS.config("kafka.tls"); err != nil {
			return kafka.Config{}, err
		}
	}
	if k.SASL.Mechanism != "" {
		password, err := cfg.secret(
			literal("kafka.sasl.password", k.SASL.Password),
			fromSecretFile("kafka.sasl.password_file", k.SASL.PasswordFile))
		if err != nil {
			return kafka.Config{}, err
		}
		out.SASL = &kafka.SASL{Mechanism: kafka.Mechanism(strings.ToUpper(k.SASL.Mechanism)), User: k.SASL.Username, Password: password}
	}
	return out, nil
}

// Kafka opens the source of records. It dials at its first look-up, bounded by --connect-timeout. adjust, which may be
// nil, changes what the configuration does not say.
func (a *app) Kafka(adjust func(*kafka.Config)) (*kafka.Client, error) {
	cfg, err := a.KafkaConfig()
	if err != nil {
		return nil, err
	}
	if adjust != nil {
		adjust(&cfg)
	}
	client, err := kafka.Open(cfg)
	if err != nil {
		return nil, usageErrorf("kafka: %w", err)
	}
	a.closeLater(closerFunc(client.Close))
	return client, nil
}

// closerFunc makes a Close without a result an io.Closer.
type closerFunc func()

func (f closerFunc) Close() error {
	f()
	return nil
}

// redisLog takes what the Redis client would print to stderr by itself. Its errors reach the command as well.
type redisLog struct{ app *app }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.app.log().DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}
