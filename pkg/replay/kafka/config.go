package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Defaults of Config.
const (
	DefaultClientID       = "idemctl"
	DefaultConnectTimeout = 5 * time.Second
	// DefaultRetryTimeout is long enough for a broker to restart and for a partition to find a new leader.
	DefaultRetryTimeout = 30 * time.Second
	// DefaultMaxBufferedBytes keeps a run of any number of partitions well below a small container's memory.
	DefaultMaxBufferedBytes = 4 << 20
)

// ErrConfig marks a Config that cannot be used.
var ErrConfig = errors.New("kafka configuration")

// Config says how to reach the brokers, and how to read.
type Config struct {
	// Brokers are host:port addresses to start from; the port may be left out (9092).
	Brokers []string
	// ClientID is what the brokers log and count quotas by. Default DefaultClientID.
	ClientID string
	// TLS encrypts the connections; nil is plain text. Its ServerName is set per broker when empty.
	TLS *tls.Config
	// SASL authenticates; nil does not.
	SASL *SASL
	// ConnectTimeout bounds the first contact as a whole: connecting, authenticating, and the look-ups that pin a range.
	// Default DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// RetryTimeout bounds how long one partition is tried again without progress while its broker is away or has no
	// leader for it. Default DefaultRetryTimeout.
	RetryTimeout time.Duration
	// AllowClipped cuts a range that asks for more than a partition has, where it would be refused.
	AllowClipped bool
	// MaxBufferedBytes bounds what is fetched ahead of the callback, summed over the partitions, in bytes as the broker
	// sends them (compressed). A partition is never given less than 64 KiB, and a single record batch that is larger is
	// still read whole. Default DefaultMaxBufferedBytes.
	MaxBufferedBytes int
	// Logger receives what the Kafka client has to say, at its own levels; nil is silent.
	Logger *slog.Logger
}

// Mechanism is a SASL mechanism by its registered name.
type Mechanism string

// The mechanisms understood.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
)

// SASL holds credentials. It prints without the password.
type SASL struct {
	Mechanism Mechanism
	User      string
	Password  string
}

// String names the mechanism and the user, never the password.
func (s SASL) String() string { return string(s.Mechanism) + " as " + s.User }

// GoString is String, so that %#v prints no password either.
func (s SASL) GoString() string { return s.String() }

// LogValue is String, so that a logger that encodes fields prints no password either.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.User == "" {
		return nil, fmt.Errorf("%w: SASL without a user", ErrConfig)
	}
	switch s.Mechanism {
	case Plain:
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case ScramSHA256:
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case ScramSHA512:
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	default:
		return nil, fmt.Errorf("%w: SASL mechanism %q: want %s, %s or %s", ErrConfig, s.Mechanism, Plain, ScramSHA256, ScramSHA512)
	}
}

// withDefaults checks c and fills what was left out.
func (c Config) withDefaults() (Config, error) {
	if len(c.Brokers) == 0 {
		return c, fmt.Errorf("%w: no brokers", ErrConfig)
	}
	c.Brokers = slices.Clone(c.Brokers)
	for _, addr := range c.Brokers {
		if err := checkAddr(addr); err != nil {
			return c, err
		}
	}
	if c.ConnectTimeout < 0 || c.RetryTimeout < 0 || c.MaxBufferedBytes < 0 {
		return c, fmt.Errorf("%w: a negative timeout or buffer", ErrConfig)
	}
	if c.ClientID == "" {
		c.ClientID = DefaultClientID
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.RetryTimeout == 0 {
		c.RetryTimeout = DefaultRetryTimeout
	}
	if c.MaxBufferedBytes == 0 {
		c.MaxBufferedBytes = DefaultMaxBufferedBytes
	}
	return c, nil
}

func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	var addrErr *net.AddrError
	switch {
	case errors.As(err, &addrErr) && addrErr.Err == "missing port in address":
		host = addr
	case err != nil:
		return fmt.Errorf("%w: broker %q: want host:port", ErrConfig, addr)
	default:
		if n, perr := strconv.ParseUint(port, 10, 16); perr != nil || n == 0 {
			return fmt.Errorf("%w: broker %q: port %q is not 1 to 65535", ErrConfig, addr, port)
		}
	}
	if host == "" {
		return fmt.Errorf("%w: broker %q has no host", ErrConfig, addr)
	}
	return nil
}

// options are what c means to the Kafka client.
func (c Config) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.DialTimeout(c.ConnectTimeout),
		kgo.RetryTimeout(c.RetryTimeout),
		// Nothing is sent to the cluster that was not asked for.
		kgo.DisableClientMetrics(),
		// A leader that moved is looked up at once: reads here wait for nothing else.
		kgo.MetadataMinAge(minMetadataAge),
	}
	if c.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(c.TLS))
	}
	if c.SASL != nil {
		m, err := c.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(m))
	}
	if c.Logger != nil {
		opts = append(opts, kgo.WithLogger(logAdapter{c.Logger.With("component", "kafka client")}))
	}
	return opts, nil
}
