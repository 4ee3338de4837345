package doctor

import "context"

// Checks are all of them, in the order in which they are told. Names stay as they are: scripts and alerts hold them.
func Checks() []Check {
	return []Check{
		{"ledger.tables", "unique key, types, collation, expiry index, engine, triggers", []Server{MySQL}, nil, checkTables},
		{"ledger.months", "the catalog's months, the current one and the next", []Server{MySQL}, nil, checkMonths},
		{"ledger.horizon", "from when on the ledger's memory is complete", []Server{MySQL}, []Server{Kafka}, checkHorizon},
		{"ledger.times", "newest create_time against the server's UTC", []Server{MySQL}, nil, checkTimes},
		{"ledger.writers", "rows that no guard wrote", []Server{MySQL}, nil, checkWriters},
		{"ledger.truncated", "signs of INSERT IGNORE or a lax sql_mode: cut or empty keys", []Server{MySQL}, nil, checkTruncated},
		{"ledger.leftover", "tables held or being moved", []Server{MySQL}, nil, checkLeftover},
		{"ledger.grants", "other accounts that may DELETE from or DROP the months", []Server{MySQL}, nil, checkForeignGrants},
		{"mysql.primary", "writable, and not one of several primaries", []Server{MySQL}, nil, checkPrimary},
		{"mysql.sql-mode", "strictness of other services' sessions", []Server{MySQL}, nil, checkSQLMode},
		{"mysql.isolation", "isolation of other services' sessions", []Server{MySQL}, nil, checkIsolation},
		{"mysql.durability", "innodb_flush_log_at_trx_commit, sync_binlog", []Server{MySQL}, nil, checkDurability},
		{"mysql.binlog", "binlog_format", []Server{MySQL}, nil, checkBinlog},
		{"mysql.privileges", "what each command needs", []Server{MySQL}, nil, checkPrivileges},
		{"redis.eviction", "maxmemory-policy, evicted_keys", []Server{Redis}, nil, checkEviction},
		{"redis.persistence", "appendonly, save", []Server{Redis}, nil, checkPersistence},
		{"redis.replicas", "role, replica lag", []Server{Redis}, nil, checkReplicas},
		{"redis.ttl", "markers without TTL (sample)", []Server{Redis}, nil, checkTTL},
		{"redis.markers", "markers that others wrote (sample)", []Server{Redis}, []Server{MySQL}, checkMarkers},
		{"topic.retention", "ledger.retention against each topic's", []Server{Kafka}, nil, checkTopicRetention},
		{"topic.group", "age of the group's lag against retention (--group)", []Server{Kafka}, nil, checkGroup},
		{"time.clocks", "this machine, MySQL, Redis and the brokers", nil, []Server{MySQL, Redis, Kafka}, checkClocks},
		{"time.zones", "month boundaries, the server's default zone", []Server{MySQL}, nil, checkZones},
		{"config.lease", "redis.lease against handler_p99", nil, nil, pure(checkLease)},
		{"config.poll", "handler_p99 of a poll against the rebalance timeout", nil, nil, pure(checkPoll)},
		{"config.completed-ttl", "redis.completed_ttl against ledger.retention", nil, nil, pure(checkCompletedTTL)},
		{"config.key", "redis.key: collisions between biz_types", nil, nil, pure(checkKeyTemplate)},
		{"config.event-time", "handlers without an immutable business time", nil, nil, pure(checkEventTime)},
		{"config.biz-type", "biz_types with several handlers", nil, nil, pure(checkBizTypes)},
	}
}

// pure is a check of the configuration alone.
func pure(check func(s *Setup) Result) func(context.Context, *Facts) (Result, error) {
	return func(_ context.Context, f *Facts) (Result, error) { return check(&f.Setup), nil }
}
