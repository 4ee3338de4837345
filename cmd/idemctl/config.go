package main

import (
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// Config is the effective configuration: flags over IDEMCTL_* variables over the file over defaults. Its shape is the
// file's. Tag koanf names the key; secret says what config show must hide (all of the value, or the password inside it).
type Config struct {
	Ledger   LedgerConfig             `koanf:"ledger"`
	Redis    RedisConfig              `koanf:"redis"`
	Kafka    KafkaConfig              `koanf:"kafka"`
	Handlers map[string]HandlerConfig `koanf:"handlers"`
	Machines map[string]MachineConfig `koanf:"machines"`

	origins  origins
	location *time.Location
	specs    []ledger.MachineSpec // of the machines, by name
}

// LedgerConfig says where the ledger is and how it keeps its entries.
type LedgerConfig struct {
	DSN          string        `koanf:"dsn" secret:"dsn"`
	Password     string        `koanf:"password" secret:"all"`
	PasswordFile string        `koanf:"password_file"`
	OptionFile   string        `koanf:"option_file"` // of MySQL clients: user, password, host, port, socket of its [client]
	TablePrefix  string        `koanf:"table_prefix"`
	TimeZone     string        `koanf:"time_zone"` // of month boundaries
	Retention    time.Duration `koanf:"retention"`
	HorizonSlack time.Duration `koanf:"horizon_slack"`
	Columns      ColumnConfig  `koanf:"columns"`
}

// ColumnConfig maps the columns of a ledger made by someone else. Empty: the column has its usual name.
type ColumnConfig struct {
	OrderID    string `koanf:"order_id"`
	BizType    string `koanf:"biz_type"`
	CreateTime string `koanf:"create_time"`
	ExpireAt   string `koanf:"expire_at"`
}

// RedisConfig says where the filter is, as exactly one of url, cluster and sentinel, and how markers look.
type RedisConfig struct {
	URL          string         `koanf:"url" secret:"url"`
	Cluster      []string       `koanf:"cluster"` // seed nodes, host:port
	Sentinel     SentinelConfig `koanf:"sentinel"`
	Username     string         `koanf:"username"`
	Password     string         `koanf:"password" secret:"all"`
	PasswordFile string         `koanf:"password_file"`
	DB           int            `koanf:"db"` // with sentinel; a url carries its own
	TLS          TLSConfig      `koanf:"tls"`
	Timeout      time.Duration  `koanf:"timeout"` // of one call
	Key          string         `koanf:"key"`
	Lease        time.Duration  `koanf:"lease"`
	CompletedTTL time.Duration  `koanf:"completed_ttl"`
	Markers      string         `koanf:"markers"` // owned or bare
}

// SentinelConfig names a Redis master watched by sentinels.
type SentinelConfig struct {
	Master       string   `koanf:"master"`
	Addresses    []string `koanf:"addresses"` // host:port
	Username     string   `koanf:"username"`
	Password     string   `koanf:"password" secret:"all"`
	PasswordFile string   `koanf:"password_file"`
}

// KafkaConfig says where the topics are.
type KafkaConfig struct {
	Brokers  []string   `koanf:"brokers"` // host:port
	ClientID string     `koanf:"client_id"`
	TLS      TLSConfig  `koanf:"tls"`
	SASL     SASLConfig `koanf:"sasl"`
}

// TLSConfig turns on TLS. Naming a file turns it on as well.
type TLSConfig struct {
	Enabled            bool   `koanf:"enabled"`
	CAFile             string `koanf:"ca_file"`
	CertFile           string `koanf:"cert_file"`
	KeyFile            string `koanf:"key_file"`
	ServerName         string `koanf:"server_name"`
	InsecureSkipVerify bool   `koanf:"insecure_skip_verify"`
}

// SASLConfig is how a client proves to a broker who it is.
type SASLConfig struct {
	Mechanism    string `koanf:"mechanism"` // plain, scram-sha-256 or scram-sha-512
	Username     string `koanf:"username"`
	Password     string `koanf:"password" secret:"all"`
	PasswordFile string `koanf:"password_file"`
}

// HandlerConfig pairs a topic with an effect: how to find key and time in a message, and what to do once per key.
type HandlerConfig struct {
	Topic           string        `koanf:"topic"`
	BizType         string        `koanf:"biz_type"`
	Key             string        `koanf:"key"`          // a path into the JSON value, header:NAME, or key
	MemorySince     string        `koanf:"memory_since"` // a date in the ledger's zone, or RFC 3339
	EventTime       string        `koanf:"event_time"`   // a path, key:LAYOUT, or record (the default)
	EventTimeFormat string        `koanf:"event_time_format"`
	Fallback        string        `koanf:"fallback"` // record, or empty: a message without a time is invalid
	Fingerprint     []string      `koanf:"fingerprint"`
	Effect          string        `koanf:"effect"` // a file of SQL, relative to the configuration file
	HandlerP99      time.Duration `koanf:"handler_p99"`
	MaxAttempts     int           `koanf:"max_attempts"`
	DeadLetter      string        `koanf:"dead_letter"`
}

// MachineConfig declares a state machine: in place, or in a file of its own.
type MachineConfig struct {
	File        string   `koanf:"file"` // of the keys below, relative to the configuration file
	BizType     string   `koanf:"biz_type"`
	States      []string `koanf:"states"`      // the first is where every order begins
	Transitions []string `koanf:"transitions"` // FROM -> TO, or a chain of them
	Terminal    []string `koanf:"terminal"`
}

// Location is the zone of month boundaries (ledger.time_zone).
func (c *Config) Location() *time.Location { return c.location }

// defaults are the values of keys that nobody set. A key that is not here has none: a server that is not named is not
// used.
func defaults() map[string]any {
	return map[string]any{
		"ledger.table_prefix":  "t_idempotent_flow",
		"ledger.time_zone":     "UTC",
		"ledger.retention":     "30d",
		"ledger.horizon_slack": "5m",
		"redis.timeout":        "250ms",
		"redis.key":            "idempotent:{biz_type}:{order_id}",
		"redis.lease":          "2m",
		"redis.completed_ttl":  "24h",
		"redis.markers":        markersOwned,
		"kafka.client_id":      "idemctl",
	}
}

// handlerDefaults are those of each handler.
func handlerDefaults() map[string]any {
	return map[string]any{
		"event_time":        "record",
		"event_time_format": "auto",
		"max_attempts":      5,
	}
}

// The values of redis.markers.
const (
	markersOwned = "owned"
	markersBare  = "bare"
)
