package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // month boundaries must not depend on what the host has installed

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/replay"
)

// Bounds of durations. The lower ones keep a slip (30 for 30d, 0) from dropping or repeating work (P4); the upper ones are
// there to catch a unit mistaken.
const (
	minRetention    = day
	maxRetention    = 10 * 366 * day
	maxSlack        = day
	minLease        = time.Second
	maxLease        = day
	maxCompletedTTL = 366 * day
	minRedisTimeout = time.Millisecond
	maxRedisTimeout = 10 * time.Second
	maxHandlerP99   = day
	maxAttempts     = 1000
)

// validate refuses a configuration that would lose or repeat work, or mean two things. All complaints come at once: who
// corrects one wants to know of the next.
func (c *Config) validate() error {
	var errs []error
	complain := func(key, format string, args ...any) {
		place := ""
		if from := c.origins.of(key); from.source != fromDefault {
			place = " (" + from.String() + ")"
		}
		errs = append(errs, fmt.Errorf("%s%s: %s", key, place, fmt.Sprintf(format, args...)))
	}
	c.validateLedger(complain)
	c.validateRedis(complain)
	c.validateKafka(complain)
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		c.validateHandler(name, complain)
	}
	c.validatePairs(complain)
	c.validateMachines(complain)
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.Error()
	}
	return usageErrorf("configuration: %s", strings.Join(texts, "; "))
}

type complainFunc func(key, format string, args ...any)

func (c *Config) validateLedger(complain complainFunc) {
	l := &c.Ledger
	if _, err := partition.NewScheme(l.TablePrefix); err != nil {
		complain("ledger.table_prefix", "%s", err)
	}
	loc, err := time.LoadLocation(l.TimeZone)
	// The host's own zone is nobody's: the same month would begin elsewhere on the next machine (P1).
	if err != nil || l.TimeZone == "" || l.TimeZone == "Local" {
		complain("ledger.time_zone", "%q is no time zone; expected a name such as Asia/Shanghai or UTC", l.TimeZone)
		loc = time.UTC
	}
	c.location = loc
	within(complain, "ledger.retention", l.Retention, minRetention, maxRetention)
	within(complain, "ledger.horizon_slack", l.HorizonSlack, 0, maxSlack)
}

func (c *Config) validateRedis(complain complainFunc) {
	r := &c.Redis
	within(complain, "redis.timeout", r.Timeout, minRedisTimeout, maxRedisTimeout)
	within(complain, "redis.lease", r.Lease, minLease, maxLease)
	within(complain, "redis.completed_ttl", r.CompletedTTL, r.Lease, maxCompletedTTL)
	if _, err := ledger.ParseKeyTemplate(r.Key); err != nil {
		complain("redis.key", "%s", err)
	}
	oneOf(complain, "redis.markers", r.Markers, markersOwned, markersBare)
	if r.URL != "" {
		if err := checkRedisURL(r.URL); err != nil {
			complain("redis.url", "%s", err)
		}
	}
	ways := 0
	for _, set := range []bool{r.URL != "", len(r.Cluster) > 0, r.Sentinel.Master != "" || len(r.Sentinel.Addresses) > 0} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		complain("redis", "url, cluster and sentinel are three ways to say where Redis is: set one")
	}
	if (r.Sentinel.Master == "") != (len(r.Sentinel.Addresses) == 0) {
		complain("redis.sentinel", "master and addresses go together")
	}
	addresses(complain, "redis.cluster", r.Cluster)
	addresses(complain, "redis.sentinel.addresses", r.Sentinel.Addresses)
	if r.DB < 0 {
		complain("redis.db", "%d is negative", r.DB)
	}
}

func (c *Config) validateKafka(complain complainFunc) {
	k := &c.Kafka
	addresses(complain, "kafka.brokers", k.Brokers)
	if k.SASL.Mechanism != "" {
		oneOf(complain, "kafka.sasl.mechanism", strings.ToLower(k.SASL.Mechanism), saslPlain, saslScram256, saslScram512)
		if k.SASL.Username == "" {
			complain("kafka.sasl.username", "is needed with a mechanism")
		}
	} else if k.SASL.Username != "" || k.SASL.Password != "" || k.SASL.PasswordFile != "" {
		complain("kafka.sasl.mechanism", "is needed with a username or a password")
	}
}

func (c *Config) validateHandler(name string, complain complainFunc) {
	h := c.Handlers[name]
	at := func(key string) string { return "handlers." + name + "." + key }
	if h.Topic == "" {
		complain(at("topic"), "is missing")
	}
	if err := ledger.ValidateBizType(h.BizType); err != nil {
		complain(at("biz_type"), "%s", err)
	}
	if h.Key == "" {
		complain(at("key"), "is missing: a path into the message, header:NAME, or key")
	} else if _, err := replay.NewExtractor(h.extractor(c.location)); err != nil {
		var wrong *replay.ExtractorError
		if !errors.As(err, &wrong) {
			wrong = &replay.ExtractorError{Setting: "key", Err: err}
		}
		complain(at(wrong.Setting), "%q: %s", wrong.Value, wrong.Err)
	}
	if _, err := h.memorySince(c.location); err != nil {
		complain(at("memory_since"), "%s", err)
	}
	if h.Effect != "" {
		if err := readable(h.Effect); err != nil {
			complain(at("effect"), "%s", err)
		}
	}
	if h.HandlerP99 != 0 {
		within(complain, at("handler_p99"), h.HandlerP99, time.Millisecond, maxHandlerP99)
	}
	if h.MaxAttempts < 1 || h.MaxAttempts > maxAttempts {
		complain(at("max_attempts"), "%d is not 1 to %d", h.MaxAttempts, maxAttempts)
	}
	if h.DeadLetter != "" && h.DeadLetter == h.Topic {
		complain(at("dead_letter"), "is the topic itself: a parked message would come back for ever")
	}
}

// validatePairs holds that one biz_type has one effect and one source of time. Otherwise the same key would mean two
// things, and the first to come would make the ledger refuse the other as a duplicate.
func (c *Config) validatePairs(complain complainFunc) {
	first := map[string]string{}
	perTopic := map[[2]string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		h := c.Handlers[name]
		other, seen := first[h.BizType]
		if !seen {
			first[h.BizType] = name
		} else if o := c.Handlers[other]; o.Effect != h.Effect {
			complain("handlers."+name+".effect", "biz_type %s has another effect in handler %s; one biz_type has one effect", h.BizType, other)
		} else if o.EventTime != h.EventTime || o.EventTimeFormat != h.EventTimeFormat || o.Fallback != h.Fallback {
			complain("handlers."+name+".event_time", "biz_type %s has another source of time in handler %s; one biz_type has one", h.BizType, other)
		}
		pair := [2]string{h.Topic, h.BizType}
		if twin, ok := perTopic[pair]; ok {
			complain("handlers."+name, "handler %s has the same topic and biz_type", twin)
		}
		perTopic[pair] = name
	}
}

func within(complain complainFunc, key string, d, low, high time.Duration) {
	if d < low || d > high {
		complain(key, "%s is not between %s and %s", formatDuration(d), formatDuration(low), formatDuration(high))
	}
}

func oneOf(complain complainFunc, key, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	hint := ""
	if near, ok := nearest(value, allowed); ok {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	complain(key, "%q is not %s%s", value, strings.Join(allowed, " or "), hint)
}

func addresses(complain complainFunc, key string, list []string) {
	for _, a := range list {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			complain(key, "%q is not host:port", a)
		}
	}
}

var errNoFile = errors.New("is a folder, not a file")

// readable opens a file for a moment: that it is there and may be read is known before the first message, not at it.
func readable(path string) error {
	f, err := os.Open(path) //nolint:gosec // the operator's own configuration names it
	if err != nil {
		return err //nolint:wrapcheck // names the file already
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err //nolint:wrapcheck // names the file already
	}
	if info.IsDir() {
		return fmt.Errorf("%s %w", path, errNoFile)
	}
	return nil
}
