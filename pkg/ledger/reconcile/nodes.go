package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ErrNotMaster says that a Redis that should be scanned is a replica: its keys may be behind.
var ErrNotMaster = errors.New("this Redis is a replica")

// node is one master, with a client that talks to it alone: SCAN through a cluster's client reads one node and does not say
// so (hazard C1).
type node struct {
	client *redis.Client
	addr   string
	// runID changes with every start of a server, flushes with every FLUSHALL, FLUSHDB or SWAPDB.
	runID   string
	flushes string
	keys    int64 // in its database when it was asked
}

// topology is the masters at one moment.
type topology struct {
	nodes []node
	slots string // who has which slots; "" without a cluster
}

// masters lists all masters of what c talks to.
func masters(ctx context.Context, c redis.UniversalClient) (topology, error) {
	var t topology
	clients, err := clientsOf(ctx, c)
	if err != nil {
		return t, fmt.Errorf("list the Redis masters: %w", err)
	}
	for _, client := range clients {
		n, err := describe(ctx, client)
		if err != nil {
			return t, err
		}
		t.nodes = append(t.nodes, n)
	}
	slices.SortFunc(t.nodes, func(a, b node) int { return cmp.Compare(a.addr, b.addr) })
	if cluster, ok := c.(*redis.ClusterClient); ok {
		t.slots, err = slots(ctx, cluster)
	}
	return t, err
}

func clientsOf(ctx context.Context, c redis.UniversalClient) ([]*redis.Client, error) {
	var mu sync.Mutex
	var clients []*redis.Client
	collect := func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		clients = append(clients, c)
		return nil
	}
	var err error
	switch c := c.(type) {
	case *redis.Client:
		clients = append(clients, c)
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, collect)
	case *redis.Ring:
		err = c.ForEachShard(ctx, collect)
	default:
		err = fmt.Errorf("a client of type %T cannot be scanned", c)
	}
	if err == nil && len(clients) == 0 {
		err = errors.New("there is none")
	}
	return clients, err
}

// describe asks a master who it is, over a connection of its own: a pooled one may still lead to a server that a sentinel
// has replaced, and that does not know it yet.
func describe(ctx context.Context, c *redis.Client) (n node, err error) {
	n = node{client: c, addr: c.Options().Addr}
	opts := *c.Options()
	opts.PoolSize, opts.MinIdleConns = 1, 0
	opts.PushNotificationProcessor = nil // the other client's
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c = redis.NewClient(&opts)
	defer func() { err = errors.Join(err, c.Close()) }()
	var server, replication, commands *redis.StringCmd
	var size *redis.IntCmd
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		server, replication, commands = p.Info(ctx, "server"), p.Info(ctx, "replication"), p.Info(ctx, "commandstats")
		size = p.DBSize(ctx)
		return nil
	}); err != nil {
		return n, fmt.Errorf("ask Redis %s who it is: %w", n.addr, err)
	}
	about := info(server.Val())
	n.runID, n.keys = about["run_id"], size.Val()
	if host, _, ok := strings.Cut(n.addr, ":"); !ok || host == "" { // a Sentinel's client has no address of its own
		n.addr = "master on port " + about["tcp_port"]
	}
	if role := info(replication.Val())["role"]; role != "" && role != "master" {
		return n, fmt.Errorf("redis %s: %w", n.addr, ErrNotMaster)
	}
	stats := info(commands.Val())
	for _, name := range []string{"flushall", "flushdb", "swapdb"} {
		calls, _, _ := strings.Cut(stats["cmdstat_"+name], ",")
		n.flushes += calls + ";"
	}
	return n, nil
}

// info reads the lines of a reply to INFO.
func info(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[k] = v
		}
	}
	return m
}

// slots writes down who has which slots.
func slots(ctx context.Context, c *redis.ClusterClient) (string, error) {
	list, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS is there from Redis 7.0 on
	if err != nil {
		return "", fmt.Errorf("list the slots of the cluster: %w", err)
	}
	lines := make([]string, len(list))
	for i, s := range list {
		lines[i] = fmt.Sprintf("%05d-%05d", s.Start, s.End)
		if len(s.Nodes) > 0 {
			lines[i] += " " + s.Nodes[0].ID + " " + s.Nodes[0].Addr // the first is the master
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

const allSlots = 16384

// uncovered is how many slots nobody has: keys of theirs cannot be read.
func (t *topology) uncovered() int {
	if t.slots == "" {
		return 0
	}
	covered := 0
	for line := range strings.SplitSeq(t.slots, "\n") {
		span, _, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(span, "-")
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA == nil && errB == nil {
			covered += b - a + 1
		}
	}
	return allSlots - covered
}

// changes compares the masters of the beginning with those of the end (hazard C8).
func (t *topology) changes(end *topology) []Gap {
	var gaps []Gap
	if t.slots != end.slots {
		gaps = append(gaps, gapf(GapTopology, "slots of the Redis Cluster moved meanwhile: keys may have been passed over"))
	}
	now := map[string]node{}
	for _, n := range end.nodes {
		now[n.addr] = n
	}
	for _, n := range t.nodes {
		m, there := now[n.addr]
		switch {
		case !there:
			gaps = append(gaps, gapf(GapTopology, "Redis %s is no master any more", n.addr))
		case m.runID != n.runID:
			gaps = append(gaps, gapf(GapRestarted, "Redis %s was restarted or failed over meanwhile", n.addr))
		case m.flushes != n.flushes:
			gaps = append(gaps, gapf(GapFlushed, "keys of Redis %s were flushed meanwhile", n.addr))
		}
	}
	if len(end.nodes) > len(t.nodes) {
		gaps = append(gaps, gapf(GapTopology, "the Redis Cluster has more masters than before"))
	}
	return gaps
}
