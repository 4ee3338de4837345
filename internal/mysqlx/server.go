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

// MayTrigger reports whether the session's user has the TRIGGER privilege on the whole schema, without which MySQL hides
// triggers.
func MayTrigger(ctx context.Context, q Queryer) (bool, error) {
	schema, err := Schema(ctx, q)
	if err != nil {
		return false, err
	}
	var roles string
	if err := q.QueryRowContext(ctx, "SELECT CURRENT_ROLE()").Scan(&roles); err != nil {
		return false, fmt.Errorf("current roles: %w", err)
	}
	query := "SHOW GRANTS FOR CURRENT_USER()"
	if !strings.EqualFold(roles, "NONE") {
		query += " USING " + roles // as the server itself has quoted them
	}
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return false, fmt.Errorf("privileges: %w", err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		var grant string
		if err := rows.Scan(&grant); err != nil {
			return false, fmt.Errorf("privileges: %w", err)
		}
		found = found || grantsTrigger(grant, schema)
	}
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("privileges: %w", err)
	}
	return found, nil
}

// grantsTrigger reads one line of SHOW GRANTS. Names of schemas in it may be patterns.
func grantsTrigger(grant, schema string) bool {
	privileges, rest, ok := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON ")
	if !ok {
		return false
	}
	has := false
	for p := range strings.SplitSeq(privileges, ",") {
		p = strings.TrimSpace(p)
		has = has || p == "TRIGGER" || strings.HasPrefix(p, "ALL PRIVILEGES")
	}
	target, _, _ := strings.Cut(rest, " TO ")
	name, ok := strings.CutSuffix(target, ".*")
	if !has || !ok {
		return false
	}
	name = strings.ReplaceAll(strings.Trim(name, "`"), "``", "`")
	return name == "*" || likeMatch(name, schema)
}

// likeMatch matches a name against a pattern with _, % and \-escapes, as GRANT reads schema names.
func likeMatch(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	switch c := pattern[0]; {
	case c == '%':
		return likeMatch(pattern[1:], name) || (name != "" && likeMatch(pattern, name[1:]))
	case name == "":
		return false
	case c == '_':
		return likeMatch(pattern[1:], name[1:])
	case c == '\\' && len(pattern) > 1:
		return pattern[1] == name[0] && likeMatch(pattern[2:], name[1:])
	default:
		return c == name[0] && likeMatch(pattern[1:], name[1:])
	}
}
