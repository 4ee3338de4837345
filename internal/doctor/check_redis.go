package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// checkEviction: markers have a TTL, so every policy but noeviction may take them before it.
func checkEviction(ctx context.Context, f *Facts) (Result, error) {
	nodes, err := f.redisNodes(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	for _, n := range nodes {
		bad = append(bad, judgeEviction(n, f.Bare)...)
	}
	first := nodes[0]
	return merge(ok("maxmemory-policy %s, maxmemory %s, evicted_keys %s", first.info["maxmemory_policy"], memory(first), first.info["evicted_keys"]), bad), nil
}

func judgeEviction(n node, bare bool) []Result {
	policy, evicted, limit, used := n.info["maxmemory_policy"], n.number("evicted_keys"), n.number("maxmemory"), n.number("used_memory")
	const mend = "CONFIG SET maxmemory-policy noeviction, and enough maxmemory; or a Redis of its own for the markers"
	status := Warn // the ledger decides; an evicted marker costs a look
	if bare && evicted > 0 {
		status = Fail
	}
	var bad []Result
	switch {
	case policy != "noeviction":
		why := "An evicted marker costs a look in the ledger. A service that trusts Redis alone does that order a second time."
		if evicted > 0 {
			why = "It has happened: " + why
		}
		bad = append(bad, finding(status, fmt.Sprintf("%smaxmemory-policy %s, maxmemory %s, evicted_keys %d", n.prefix(), policy, memory(n), evicted), why, mend))
	case evicted > 0:
		bad = append(bad, finding(status, fmt.Sprintf("%sevicted_keys %d under an earlier policy", n.prefix(), evicted), "Markers have gone before their time since the server started.", "nothing more to do; CONFIG RESETSTAT clears the count"))
	}
	const nearlyFull = 90
	if policy == "noeviction" && limit > 0 && used*100/limit >= nearlyFull {
		bad = append(bad, finding(Warn, fmt.Sprintf("%smemory %d%% of maxmemory used", n.prefix(), used*100/limit),
			"When it is full Redis refuses markers: every order then goes to the ledger.", "raise maxmemory, or shorten redis.completed_ttl"))
	}
	return bad
}

func memory(n node) string {
	if n.number("maxmemory") == 0 {
		return "unlimited"
	}
	return n.info["maxmemory_human"]
}

// checkPersistence: what a restart forgets.
func checkPersistence(ctx context.Context, f *Facts) (Result, error) {
	nodes, err := f.redisNodes(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	for _, n := range nodes {
		bad = append(bad, judgePersistence(n)...)
	}
	return merge(ok("%s", nodes[0].persistence()), bad), nil
}

func judgePersistence(n node) []Result {
	var bad []Result
	if n.info["aof_enabled"] != "1" && n.saves() == "" {
		bad = append(bad, finding(Warn, n.prefix()+"appendonly no, save \"\": nothing is kept over a restart",
			"After a restart every duplicate goes to the ledger at once, at the worst moment. A service that trusts Redis alone does its orders again.",
			"CONFIG SET appendonly yes, and the same in redis.conf"))
	}
	for _, what := range []string{"rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"} {
		if v := n.info[what]; v != "" && v != "ok" {
			bad = append(bad, finding(Fail, fmt.Sprintf("%s%s:%s", n.prefix(), what, v), "Redis cannot write its data to disk; by default it then refuses all writes.", "look at the disk and the Redis log"))
		}
	}
	return bad
}

// replicaLag is from when on a failover would lose markers that matter: longer than a lease's renewal, in seconds.
const replicaLag = 10

func checkReplicas(ctx context.Context, f *Facts) (Result, error) {
	nodes, err := f.redisNodes(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	replicas := 0
	for _, n := range nodes {
		replicas += int(n.number("connected_slaves"))
		bad = append(bad, judgeReplicas(n)...)
	}
	return merge(ok("role %s, %s, none more than %ds behind", nodes[0].info["role"], count(replicas, "replica"), replicaLag), bad), nil
}

func judgeReplicas(n node) []Result {
	if role := n.info["role"]; role != "master" {
		return []Result{finding(Fail, fmt.Sprintf("%srole %s of %s", n.prefix(), role, n.info["master_host"]),
			"A replica takes no markers: every order goes to the ledger, and what it shows is late.", "point redis at the master")}
	}
	var bad []Result
	for i := range n.number("connected_slaves") {
		name := fmt.Sprintf("slave%d", i)
		fields := map[string]string{}
		for part := range strings.SplitSeq(n.info[name], ",") {
			k, v, _ := strings.Cut(part, "=")
			fields[k] = v
		}
		lag, err := strconv.Atoi(fields["lag"])
		if fields["state"] == "online" && err == nil && lag <= replicaLag {
			continue
		}
		bad = append(bad, finding(Warn, fmt.Sprintf("%sreplica %s:%s %s, lag %s s", n.prefix(), fields["ip"], fields["port"], fields["state"], fields["lag"]),
			"A failover to it forgets the newest markers: their duplicates go to the ledger, and a service that trusts Redis alone does them again.",
			"look at the replica and its network"))
	}
	return bad
}

// checkTTL looks for markers that never end.
func checkTTL(ctx context.Context, f *Facts) (Result, error) {
	s, err := f.sample(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	if n := s.stuck; n.count > 0 {
		bad = append(bad, finding(Fail, fmt.Sprintf("%d of %d sampled markers are PROCESSING without TTL, such as %s", n.count, s.total, n.example),
			"If its owner has died the order is held until a guard has seen the same value for a whole lease; a service that waits for the key waits for ever.",
			"idemctl reconcile; have the writer set key and TTL in one command (SET NX PX)"))
	}
	if n := s.immortal; n.count > 0 {
		bad = append(bad, finding(Warn, fmt.Sprintf("%d of %d sampled markers are COMPLETED without TTL, such as %s", n.count, s.total, n.example),
			"They outlive their ledger row and fill the memory.", "idemctl reconcile; have the writer set a TTL"))
	}
	return merge(ok("%s: each has a TTL", s.size()), bad), nil
}

// checkMarkers looks at what others write under the same names (hazards G1, G27).
func checkMarkers(ctx context.Context, f *Facts) (Result, error) {
	s, err := f.sample(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	say := func(n tally, status Status, what, why, mend string) {
		if n.count > 0 {
			bad = append(bad, finding(status, fmt.Sprintf("%d of %d sampled %s, such as %s", n.count, s.total, what, n.example), why, mend))
		}
	}
	say(s.longProcessing, Fail, fmt.Sprintf("are PROCESSING for longer than a lease (%s)", Short(f.Lease)),
		"So writes a service that sets PROCESSING once and takes it for done: when its worker dies, the order is lost, and here it is in flight until the key ends.",
		"idemctl inspect ORDER_ID shows whether it was done; put that service behind the guard")
	if !f.Bare {
		say(s.bareProcessing, Warn, "are a bare PROCESSING", "Another service claims under the same names. Nobody can tell whose lease it is, so it ends only by its TTL.",
			"guard that service too, or give it names of its own (redis.key)")
		say(s.bareCompleted, Warn, "are a bare COMPLETED", "Another service marks orders done, perhaps before its commit. A guard does not trust it and looks in the ledger each time.",
			"guard that service too, or give it names of its own (redis.key)")
	}
	say(s.foreign, Warn, "carry another ledger's id", "Another environment uses the same names, or the ledger's id was rotated: such a marker never absorbs alone.",
		"one Redis database or redis.key per environment; after a rotation they end by their TTL")
	say(s.malformed, Warn, "are no markers", "A guard cannot claim a key that holds something else: the ledger decides alone.", "find the writer; idemctl reconcile lists them")
	say(s.alien, Warn, "keys fit no key template", "Something else uses the same beginning of names.", "give the markers a prefix of their own (redis.key)")
	return merge(ok("%s: none from another writer", s.size()), bad), nil
}

func (s *markerSample) size() string {
	if s.partial {
		return fmt.Sprintf("%s, a sample", count(s.total, "marker"))
	}
	return fmt.Sprintf("%s, all there are", count(s.total, "marker"))
}

// leaseSlack is how much longer than a lease a marker's TTL may be: clocks tick while it is read.
const leaseSlack = time.Second
