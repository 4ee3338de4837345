package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// checkPrimary refuses what guard and purge refuse: locks of one node that others do not see, and a server that takes no
// writes (invariant 8).
func checkPrimary(ctx context.Context, f *Facts) (Result, error) {
	s, err := f.mysql(ctx)
	if err != nil {
		return Result{}, err
	}
	return judgePrimary(s.Name(), s.RequireSingleWriter(), s.RequireWritable()), nil
}

func judgePrimary(name string, single, writable error) Result {
	var bad []Result
	if single != nil {
		bad = append(bad, finding(Fail, fmt.Sprintf("%s: %s", name, single),
			"A lock on one node is not seen on another, so two claims of one order can both pass. Guards and purge refuse such a server.",
			"send all writers to one node that is the only primary (group_replication_single_primary_mode=ON), or use a server of its own"))
	}
	if writable != nil {
		bad = append(bad, finding(Fail, fmt.Sprintf("%s: %s", name, writable),
			"A replica shows what it has got so far: an order that was just done looks new on it, and nothing can be claimed.",
			"point ledger.dsn at the primary"))
	}
	return merge(ok("%s, writable, the only primary", name), bad)
}

func checkSQLMode(ctx context.Context, f *Facts) (Result, error) {
	s, err := f.serverSettings(ctx)
	if err != nil {
		return Result{}, err
	}
	modes := strings.Join(s.SQLMode, ", ")
	if !s.Strict() {
		return finding(Fail, fmt.Sprintf("the server's default sql_mode %q is not strict", modes),
			"In a session of another service a key that does not fit is cut instead of refused: two orders become one, and the second is dropped. (idemctl's own sessions are strict.)",
			"SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',STRICT_TRANS_TABLES'), and the same in the option file"), nil
	}
	return ok("strict: %s", modes), nil
}

func checkIsolation(ctx context.Context, f *Facts) (Result, error) {
	s, err := f.serverSettings(ctx)
	if err != nil {
		return Result{}, err
	}
	const mend = "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED, and the same in the option file"
	switch s.Isolation {
	case "READ-UNCOMMITTED":
		return finding(Fail, "the server's default is "+s.Isolation,
			"Another service that looks before it writes sees rows whose transaction then rolls back: it drops an order that was never done.", mend), nil
	case "SERIALIZABLE":
		return finding(Warn, "the server's default is "+s.Isolation,
			"Every look of another service takes a lock: claims of the same orders wait and deadlock at the height of a sale.", mend), nil
	}
	return ok("the server's default is %s; idemctl's sessions are READ-COMMITTED", s.Isolation), nil
}

func checkDurability(ctx context.Context, f *Facts) (Result, error) {
	s, err := f.serverSettings(ctx)
	if err != nil {
		return Result{}, err
	}
	return judgeDurability(&s), nil
}

// judgeDurability looks for commits that a crash undoes after the marker said COMPLETED (hazard G27). MariaDB's 3 is 1 with
// more syncs.
func judgeDurability(s *mysqlx.Settings) Result {
	const why = "A crash can undo a commit after Redis was told COMPLETED and the offset was passed: the order is then neither done nor delivered again."
	var bad []Result
	switch s.FlushLog {
	case 0:
		bad = append(bad, finding(Fail, "innodb_flush_log_at_trx_commit=0: a crash of the server loses up to a second of commits", why, "SET GLOBAL innodb_flush_log_at_trx_commit = 1"))
	case 2: //nolint:mnd // written at commit, synced once a second
		bad = append(bad, finding(Warn, "innodb_flush_log_at_trx_commit=2: a crash of the machine loses up to a second of commits", why, "SET GLOBAL innodb_flush_log_at_trx_commit = 1"))
	}
	if s.Binlog && s.SyncBinlog != 1 {
		bad = append(bad, finding(Warn, fmt.Sprintf("sync_binlog=%d: a crash of the machine loses commits that replicas never get", s.SyncBinlog), why, "SET GLOBAL sync_binlog = 1"))
	}
	binlog := "no binary log"
	if s.Binlog {
		binlog = fmt.Sprintf("sync_binlog=%d", s.SyncBinlog)
	}
	return merge(ok("innodb_flush_log_at_trx_commit=%d, %s", s.FlushLog, binlog), bad)
}

func checkBinlog(ctx context.Context, f *Facts) (Result, error) {
	s, err := f.serverSettings(ctx)
	if err != nil {
		return Result{}, err
	}
	return judgeBinlog(&s), nil
}

func judgeBinlog(s *mysqlx.Settings) Result {
	const mend = "SET GLOBAL binlog_format = 'ROW', and the same in the option file"
	switch {
	case !s.Binlog:
		return ok("log_bin=OFF: nothing is replicated from here")
	case s.BinlogFormat == "STATEMENT":
		return finding(Fail, "binlog_format=STATEMENT", "The server refuses the writes of READ COMMITTED transactions (error 1665), so no guard can claim anything.", mend)
	case s.BinlogFormat != "ROW":
		return finding(Warn, "binlog_format="+s.BinlogFormat,
			"Statements of other services may do something else on a replica: a primary after a failover then lacks rows, and those orders run twice.", mend)
	}
	return ok("binlog_format=ROW")
}
