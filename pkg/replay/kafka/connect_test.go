package kafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

const secret = "hunter2-the-password"

// Whatever keeps a broker from answering, the error is of one type, names the brokers, and carries no password; it comes
// within the connect timeout, or the test's own deadline ends it.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	_, plain := newFake(t)
	_, sasl := newFake(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "idem", "another"))
	for name, tc := range map[string]struct {
		brokers []string
		tls     *tls.Config
		sasl    *kafka.SASL
	}{
		"nobody listens":     {brokers: []string{closedPort(t)}},
		"two, nobody":        {brokers: []string{closedPort(t), closedPort(t)}},
		"accepts, is silent": {brokers: []string{silentPort(t)}},
		"plain, asked TLS":   {brokers: plain.Brokers, tls: &tls.Config{MinVersion: tls.VersionTLS12}},
		"wrong password":     {brokers: sasl.Brokers, sasl: &kafka.SASL{Mechanism: kafka.ScramSHA256, User: "idem", Password: secret}},
		"SASL not offered":   {brokers: sasl.Brokers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, err := kafka.Open(kafka.Config{Brokers: tc.brokers, TLS: tc.tls, SASL: tc.sasl, ConnectTimeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(src.Close)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for what, call := range map[string]func() error{
				"ping":    func() error { return src.Ping(ctx) },
				"resolve": func() error { _, err := src.Resolve(ctx, "orders", nil, parse(t, "start")); return err },
				"read":    func() error { return src.Read(ctx, "orders", []replay.Bounds{{End: 1}}, nil) },
			} {
				err := call()
				ue, ok := errors.AsType[*kafka.UnreachableError](err)
				if !ok || !errors.Is(err, kafka.ErrUnreachable) {
					t.Fatalf("%s gives %v, want an UnreachableError", what, err)
				}
				for _, b := range tc.brokers {
					if !strings.Contains(ue.Error(), b) {
						t.Errorf("%s: %q does not name broker %s", what, err, b)
					}
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the error has the password in it: %q", what, err)
				}
			}
		})
	}
}

// Each mechanism lets in who has the right password.
func TestSASL(t *testing.T) {
	t.Parallel()
	for _, m := range []kafka.Mechanism{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(string(m), "idem", secret),
				kfake.SeedTopics(1, "orders"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(fake.Close)
			src, err := kafka.Open(kafka.Config{
				Brokers: fake.ListenAddrs(),
				SASL:    &kafka.SASL{Mechanism: m, User: "idem", Password: secret},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(src.Close)
			wantBounds(t, resolve(t, src, "orders", "start"), replay.Bounds{})
		})
	}
}

// A broker that goes away in mid-run is waited for, and then given up, with the position.
func TestBrokerGoesAway(t *testing.T) {
	t.Parallel()
	const topic = "orders"
	fake, c := newFake(t, kfake.SeedTopics(1, topic))
	cl := newProducer(t, c.Brokers)
	for range 10 {
		produceWith(t, cl, topic, 0, strings.Repeat("x", 70_000))
	}
	src := c.open(t, func(cfg *kafka.Config) {
		cfg.MaxBufferedBytes = 1
		cfg.RetryTimeout = 300 * time.Millisecond
	})
	var next int64
	err := src.Read(t.Context(), topic, resolve(t, src, topic, "start"), func(_ context.Context, b replay.Batch) error {
		fake.Close()
		next = b.Next
		return nil
	})
	if _, ok := errors.AsType[*kafka.UnreachableError](err); !ok || !strings.Contains(err.Error(), fmt.Sprintf("%s[0] at %d", topic, next)) {
		t.Errorf("the read ended with %v, want an UnreachableError at offset %d", err, next)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]kafka.Config{
		"no brokers":          {},
		"no host":             {Brokers: []string{":9092"}},
		"empty":               {Brokers: []string{""}},
		"port":                {Brokers: []string{"localhost:http"}},
		"port 0":              {Brokers: []string{"localhost:0"}},
		"a URL":               {Brokers: []string{"kafka://localhost:9092"}},
		"negative timeout":    {Brokers: []string{"localhost"}, ConnectTimeout: -1},
		"mechanism":           {Brokers: []string{"localhost"}, SASL: &kafka.SASL{Mechanism: "OAUTH", User: "u", Password: secret}},
		"SASL without a user": {Brokers: []string{"localhost"}, SASL: &kafka.SASL{Mechanism: kafka.Plain, Password: secret}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, err := kafka.Open(cfg)
			if err == nil {
				src.Close()
			}
			if !errors.Is(err, kafka.ErrConfig) || strings.Contains(err.Error(), secret) {
				t.Errorf("open gives %v, want an ErrConfig without the password", err)
			}
		})
	}
}

// hazard T1
func TestPasswordIsNotPrinted(t *testing.T) {
	t.Parallel()
	cfg := kafka.Config{Brokers: []string{"b"}, SASL: &kafka.SASL{Mechanism: kafka.Plain, User: "idem", Password: secret}}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "sasl", *cfg.SASL, "pointer", cfg.SASL)
	for _, text := range []string{
		cfg.SASL.String(), fmt.Sprintf("%v", cfg), fmt.Sprintf("%+v", *cfg.SASL), fmt.Sprintf("%#v", *cfg.SASL), fmt.Sprintf("%#v", cfg.SASL),
		fmt.Sprintf("%+v", cfg), log.String(),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%q has the password in it", text)
		}
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l := listen(t)
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}

// silentPort accepts connections and never says anything.
func silentPort(t *testing.T) string {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
