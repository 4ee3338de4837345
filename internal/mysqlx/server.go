package mysqlx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrMultiPrimary says that a lock taken on this server is not seen on its peers (Galera, or a group replication in
// multi-primary mode): two claims of one key could both pass (invariant 8).
var ErrMultiPrimary = errors.New("the server belongs to a multi-primary cluster")

// ErrNotPrimary says that the server takes no writes.
var ErrNotPrimary = errors.New("the server is read-only")

// Server is what is known of a server.
type Server struct {
	Version string // as the server says it
	MariaDB bool
	vars    map[string]string
}

// Inspect asks the server who it is.
func Inspect(ctx context.Context, q Queryer) (Server, error) {
	var s Server
	if err := q.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.Version); err != nil {
		return s, fmt.Errorf("server version: %w", err)
	}
	s.MariaDB = strings.Contains(s.Version, "MariaDB")
	s.vars = map[string]string{}
	rows, err := q.QueryContext(ctx, `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider',
		'group_replication_group_name', 'group_replication_single_primary_mode', 'read_only', 'innodb_read_only')`)
	if err != nil {
		return s, fmt.Errorf("server variables: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return s, fmt.Errorf("server variables: %w", err)
		}
		s.vars[strings.ToLower(name)] = value
	}
	if err := rows.Err(); err != nil {
		return s, fmt.Errorf("server variables: %w", err)
	}
	return s, nil
}

// Name is the product and its version without the distribution's suffix: "MariaDB 10.11.19", "MySQL 9.7.4".
func (s Server) Name() string {
	version, _, _ := strings.Cut(s.Version, "-")
	if s.MariaDB {
		return "MariaDB " + version
	}
	return "MySQL " + version
}

// RequireSingleWriter returns ErrMultiPrimary for a server whose row locks its peers do not see.
func (s Server) RequireSingleWriter() error {
	provider := s.vars["wsrep_provider"]
	if on(s.vars["wsrep_on"]) && provider != "" && !strings.EqualFold(provider, "none") {
		return fmt.Errorf("%w: Galera (wsrep_on=ON)", ErrMultiPrimary)
	}
	if s.vars["group_replication_group_name"] != "" && !on(s.vars["group_replication_single_primary_mode"]) {
		return fmt.Errorf("%w: group_replication_single_primary_mode=OFF", ErrMultiPrimary)
	}
	return nil
}

// RequireWritable returns ErrNotPrimary for a replica or a server in read-only mode.
func (s Server) RequireWritable() error {
	for _, name := range []string{"read_only", "innodb_read_only"} {
		if v := s.vars[name]; v != "" && v != "0" && !strings.EqualFold(v, "off") {
			return fmt.Errorf("%w: %s=%s", ErrNotPrimary, name, v)
		}
	}
	return nil
}

func on(v string) bool { return v == "1" || strings.EqualFold(v, "on") }

// ShareNoWait is the clause of a locking read that fails at once where it would have to wait.
func (s Server) ShareNoWait() string {
	if s.MariaDB {
		return " LOCK IN SHARE MODE NOWAIT"
	}
	return " FOR SHARE NOWAIT"
}

// Now reads the server's clock: UTC, whole milliseconds.
func Now(ctx context.Context, q Queryer) (time.Time, error) {
	var t time.Time
	if err := q.QueryRowContext(ctx, "SELECT UTC_TIMESTAMP(3)").Scan(&t); err != nil {
		return time.Time{}, fmt.Errorf("server clock: %w", err)
	}
	return t.UTC(), nil
}

// Quote puts an identifier into backticks.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Schema names the connection's default schema.
func Schema(ctx context.Context, q Queryer) (string, error) {
	var s string
	if err := q.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&s); err != nil {
		return "", fmt.Errorf("current schema: %w", err)
	}
	return s, nil
}
