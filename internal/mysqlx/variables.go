package mysqlx

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Settings are the server's global defaults that decide what a crash, a replica or another service's session does to a
// ledger. Connections of Open pin their own session, so what stands here is what everybody else gets.
type Settings struct {
	// SQLMode are the modes of a session that sets none, in the server's spelling.
	SQLMode []string
	// Isolation of a session that asks for none: REPEATABLE-READ, READ-COMMITTED, …
	Isolation string
	// Binlog says that changes are written to a binary log; BinlogFormat (ROW, STATEMENT, MIXED) means nothing without it.
	Binlog       bool
	BinlogFormat string
	// FlushLog is innodb_flush_log_at_trx_commit; SyncBinlog is sync_binlog.
	FlushLog   int64
	SyncBinlog int64
	// TimeZone of a session that sets none; SYSTEM means SystemTimeZone.
	TimeZone       string
	SystemTimeZone string
}

// Strict reports whether a session that sets no mode is refused what does not fit, instead of having it cut.
func (s *Settings) Strict() bool {
	for _, m := range s.SQLMode {
		if m == "STRICT_TRANS_TABLES" || m == "STRICT_ALL_TABLES" {
			return true
		}
	}
	return false
}

// ReadSettings asks the server for its global defaults.
func ReadSettings(ctx context.Context, q Queryer) (Settings, error) {
	// tx_isolation is MariaDB's name for it, which knows the other one from 11.1 on.
	rows, err := q.QueryContext(ctx, `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('sql_mode', 'tx_isolation', 'transaction_isolation', 'log_bin',
		'binlog_format', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'time_zone', 'system_time_zone')`)
	if err != nil {
		return Settings{}, fmt.Errorf("server settings: %w", err)
	}
	defer rows.Close()
	vars := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return Settings{}, fmt.Errorf("server settings: %w", err)
		}
		vars[strings.ToLower(name)] = value
	}
	if err := rows.Err(); err != nil {
		return Settings{}, fmt.Errorf("server settings: %w", err)
	}
	s := Settings{
		Isolation: vars["transaction_isolation"], Binlog: on(vars["log_bin"]), BinlogFormat: strings.ToUpper(vars["binlog_format"]),
		TimeZone: vars["time_zone"], SystemTimeZone: vars["system_time_zone"],
	}
	if s.Isolation == "" {
		s.Isolation = vars["tx_isolation"]
	}
	if modes := vars["sql_mode"]; modes != "" {
		s.SQLMode = strings.Split(modes, ",")
	}
	for name, into := range map[string]*int64{"innodb_flush_log_at_trx_commit": &s.FlushLog, "sync_binlog": &s.SyncBinlog} {
		if *into, err = strconv.ParseInt(vars[name], 10, 64); err != nil {
			return s, fmt.Errorf("server settings: %s is %q", name, vars[name])
		}
	}
	return s, nil
}

// UTCOffset is how many minutes the clock of a session that sets no time zone is ahead of UTC at this moment.
func UTCOffset(ctx context.Context, q Queryer) (int64, error) {
	var minutes *int64
	err := q.QueryRowContext(ctx,
		"SELECT TIMESTAMPDIFF(MINUTE, t, CONVERT_TZ(t, '+00:00', @@global.time_zone)) FROM (SELECT UTC_TIMESTAMP() AS t) AS moment").Scan(&minutes)
	if err == nil && minutes == nil {
		return 0, fmt.Errorf("server time zone: the server cannot say how far it is from UTC (its time zone tables are not loaded)")
	}
	if err != nil {
		return 0, fmt.Errorf("server time zone: %w", err)
	}
	return *minutes, nil
}
