package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// node is one Redis server that holds markers, and what it says of itself.
type node struct {
	addr   string
	many   bool // it is one of several
	info   map[string]string
	save   string // the setting, where it may be read
	client *redis.Client
}

func (n *node) number(field string) int64 {
	v, err := strconv.ParseInt(n.info[field], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// prefix names the node where there are several.
func (n *node) prefix() string {
	if n.many {
		return n.addr + ": "
	}
	return ""
}

// saves is the save setting; where it may not be read, whether a dump was written since the start stands for it.
func (n *node) saves() string {
	switch {
	case n.save != unreadable:
		return n.save
	case n.number("rdb_saves") > 0:
		return "(written)"
	}
	return "(not shown)"
}

func (n *node) persistence() string {
	aof := "no"
	if n.info["aof_enabled"] == "1" {
		aof = "yes"
	}
	return fmt.Sprintf("appendonly %s, save %q", aof, n.saves())
}

// unreadable stands for a setting that a managed Redis does not show.
const unreadable = "\x00"

// redisNodes asks every master. A cluster has several, and each has its own settings (hazard C1).
func (f *Facts) redisNodes(ctx context.Context) ([]node, error) {
	return f.nodes.get(func() ([]node, error) {
		cluster, isCluster := f.Redis.(*redis.ClusterClient)
		if !isCluster {
			one, err := askNode(ctx, f.Redis)
			return []node{one}, err
		}
		var mu sync.Mutex
		var all []node
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			n, err := askNode(ctx, c)
			n.addr, n.many, n.client = c.Options().Addr, true, c
			mu.Lock()
			defer mu.Unlock()
			all = append(all, n)
			return err
		})
		if err == nil && len(all) == 0 {
			err = errors.New("the Redis cluster has no master")
		}
		return all, err
	})
}

func askNode(ctx context.Context, c redis.Cmdable) (node, error) {
	n := node{info: map[string]string{}, save: unreadable}
	for _, section := range []string{"memory", "stats", "persistence", "replication"} {
		text, err := c.Info(ctx, section).Result()
		if err != nil {
			return n, fmt.Errorf("redis INFO %s: %w", section, err)
		}
		for line := range strings.Lines(text) {
			if k, v, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				n.info[k] = v
			}
		}
	}
	if conf, err := c.ConfigGet(ctx, "save").Result(); err == nil {
		n.save = conf["save"] // managed services refuse the command
	}
	return n, nil
}

// The bounds of a sample: enough to meet what a writer does all the time, and over in a moment. Of a larger Redis only the
// beginning is seen.
const (
	scanPage  = 1000
	scanPages = 200  // keys looked at: most may be others'
	scanKeep  = 5000 // markers read
)

// tally counts markers of one kind.
type tally struct {
	count   int
	example string
}

func (t *tally) add(name string) {
	if t.count == 0 {
		t.example = render.Key([]byte(name))
	}
	t.count++
}

// markerSample is what some of the markers look like.
type markerSample struct {
	total   int
	partial bool

	stuck, immortal, longProcessing, bareProcessing, bareCompleted, foreign, malformed, alien tally
}

func (f *Facts) sample(ctx context.Context) (*markerSample, error) {
	s, err := f.markers.get(func() (markerSample, error) { return f.readSample(ctx) })
	return &s, err
}

func (f *Facts) readSample(ctx context.Context) (markerSample, error) {
	var s markerSample
	template, err := ledger.ParseKeyTemplate(f.KeyTemplate)
	if err != nil {
		return s, fmt.Errorf("redis.key: %w", err)
	}
	nodes, err := f.redisNodes(ctx)
	if err != nil {
		return s, err
	}
	ledgerID := ""
	if f.DB != nil && f.DBErr == nil && !f.Scheme.Legacy() {
		if cat, err := f.catalog(ctx); err == nil { // without it no id is foreign
			ledgerID = cat.LedgerID
		}
	}
	before, _, _ := strings.Cut(f.KeyTemplate, "{biz_type}")
	for i := range nodes {
		var c redis.Cmdable = f.Redis
		if nodes[i].client != nil {
			c = nodes[i].client
		}
		if err := f.scanNode(ctx, c, globQuote(before)+"*", template, ledgerID, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// globQuote makes a text match itself alone in a SCAN pattern.
func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}

func (f *Facts) scanNode(ctx context.Context, c redis.Cmdable, pattern string, template ledger.KeyTemplate, ledgerID string, s *markerSample) error {
	var cursor uint64
	for page := 0; ; page++ {
		names, next, err := c.Scan(ctx, cursor, pattern, scanPage).Result()
		if err != nil {
			return fmt.Errorf("redis SCAN: %w", err)
		}
		if err := f.readMarkers(ctx, c, names, template, ledgerID, s); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		if page+1 == scanPages || s.total >= scanKeep {
			s.partial = true
			return nil
		}
		cursor = next
	}
}

// readMarkers looks at each reply by itself: a key may be gone, or of another type (hazard C5).
func (f *Facts) readMarkers(ctx context.Context, c redis.Cmdable, names []string, template ledger.KeyTemplate, ledgerID string, s *markerSample) error {
	if len(names) == 0 {
		return nil
	}
	gets := make([]*redis.StringCmd, len(names))
	ttls := make([]*redis.DurationCmd, len(names))
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range names {
			gets[i], ttls[i] = p.Get(ctx, n), p.PTTL(ctx, n)
		}
		return nil
	})
	var reply redis.Error
	if err != nil && !errors.As(err, &reply) {
		return fmt.Errorf("redis GET: %w", err)
	}
	for i, name := range names {
		ttl, err := ttls[i].Result()
		if err != nil {
			return fmt.Errorf("redis PTTL: %w", err)
		}
		const gone = -2
		if ttl == gone {
			continue
		}
		s.total++
		if _, fits := template.Parse(name); !fits {
			s.alien.add(name)
			continue
		}
		m := ledger.Marker{State: ledger.MarkerMalformed}
		if raw, err := gets[i].Result(); err == nil {
			m = ledger.ParseMarker(raw)
		} else if !redis.HasErrorPrefix(err, "WRONGTYPE") {
			s.total--
			continue // gone between the two questions
		}
		m.TTL = ttl
		s.sort(name, m, f, ledgerID)
	}
	return nil
}

// sort puts a marker into the tallies that it belongs to.
func (s *markerSample) sort(name string, m ledger.Marker, f *Facts, ledgerID string) {
	switch m.State {
	case ledger.MarkerProcessing:
		if m.TTL < 0 {
			s.stuck.add(name)
		} else if m.TTL > f.Lease+leaseSlack {
			s.longProcessing.add(name)
		}
		if m.Owner == "" {
			s.bareProcessing.add(name)
		}
	case ledger.MarkerCompleted:
		if m.TTL < 0 {
			s.immortal.add(name)
		}
		if m.Ledger == "" {
			s.bareCompleted.add(name)
		} else if ledgerID != "" && m.Ledger != ledgerID {
			s.foreign.add(name)
		}
	case ledger.MarkerMalformed, ledger.MarkerNone:
		s.malformed.add(name)
	}
}
