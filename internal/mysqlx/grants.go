package mysqlx

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// Grants are an account's privileges, as SHOW GRANTS lists them.
type Grants []Grant

// Grant is one line of SHOW GRANTS.
type Grant struct {
	// Privileges in capitals; "ALL PRIVILEGES" stands for each.
	Privileges []string
	// Schema is * for all, else a name or a pattern; Table is * for all of them.
	Schema, Table string
	// Revoked marks a partial revoke: the line takes away what a wider one gives.
	Revoked bool
}

// ReadGrants reads the privileges of the session's user, those of its active roles included.
func ReadGrants(ctx context.Context, q Queryer) (Grants, error) {
	var version string
	var roles sql.NullString
	if err := q.QueryRowContext(ctx, "SELECT VERSION(), CURRENT_ROLE()").Scan(&version, &roles); err != nil {
		return nil, fmt.Errorf("current roles: %w", err)
	}
	query := "SHOW GRANTS" // MariaDB adds those of the active role by itself
	if !strings.Contains(version, "MariaDB") {
		query = "SHOW GRANTS FOR CURRENT_USER()"
		if roles.Valid && !strings.EqualFold(roles.String, "NONE") {
			query += " USING " + roles.String // as the server itself has quoted them
		}
	}
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("privileges: %w", err)
	}
	defer rows.Close()
	var grants Grants
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, fmt.Errorf("privileges: %w", err)
		}
		if g, ok := parseGrant(line); ok {
			grants = append(grants, g)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("privileges: %w", err)
	}
	return grants, nil
}

// Has reports whether the account has a privilege on a table, or on the whole schema where table is "".
func (g Grants) Has(privilege, schema, table string) bool {
	has := false
	for _, line := range g {
		if !line.gives(privilege) || !line.covers(schema, table) {
			continue
		}
		if line.Revoked {
			return false
		}
		has = true
	}
	return has
}

func (g Grant) gives(privilege string) bool {
	return slices.Contains(g.Privileges, privilege) || slices.Contains(g.Privileges, allPrivileges)
}

func (g Grant) covers(schema, table string) bool {
	switch {
	case g.Schema == "*":
		return true
	case g.Table == "*":
		return SchemaMatches(g.Schema, schema)
	}
	return g.Schema == schema && g.Table == table // a grant on one table names its schema literally
}

const allPrivileges = "ALL PRIVILEGES"

// parseGrant reads one line of SHOW GRANTS. Lines that give no privilege on tables (roles, proxies, routines) are not ok.
func parseGrant(line string) (Grant, bool) {
	g := Grant{}
	rest, granted := strings.CutPrefix(line, "GRANT ")
	if !granted {
		if rest, g.Revoked = strings.CutPrefix(line, "REVOKE "); !g.Revoked {
			return g, false
		}
	}
	privileges, target, ok := strings.Cut(rest, " ON ")
	if !ok {
		return g, false
	}
	// A privilege on columns, SELECT (a, b), falls apart here into pieces that are no privilege's name.
	for p := range strings.SplitSeq(privileges, ",") {
		g.Privileges = append(g.Privileges, strings.TrimSpace(p))
	}
	if g.Schema, target, ok = cutName(target); !ok || !strings.HasPrefix(target, ".") {
		return g, false
	}
	g.Table, _, ok = cutName(target[1:])
	return g, ok
}

// cutName reads * or an identifier in backticks from the beginning of s.
func cutName(s string) (name, rest string, ok bool) {
	if rest, ok := strings.CutPrefix(s, "*"); ok {
		return "*", rest, true
	}
	if !strings.HasPrefix(s, "`") {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '`':
		case i+1 < len(s) && s[i+1] == '`':
			i++
		default:
			return strings.ReplaceAll(s[1:i], "``", "`"), s[i+1:], true
		}
	}
	return "", s, false
}

// SchemaMatches reads the name of a schema as GRANT does: as a pattern with _, % and \-escapes.
func SchemaMatches(pattern, schema string) bool {
	if pattern == "" {
		return schema == ""
	}
	switch c := pattern[0]; {
	case c == '%':
		return SchemaMatches(pattern[1:], schema) || (schema != "" && SchemaMatches(pattern, schema[1:]))
	case schema == "":
		return false
	case c == '_':
		return SchemaMatches(pattern[1:], schema[1:])
	case c == '\\' && len(pattern) > 1:
		return pattern[1] == schema[0] && SchemaMatches(pattern[2:], schema[1:])
	default:
		return c == schema[0] && SchemaMatches(pattern[1:], schema[1:])
	}
}

// MayTrigger reports whether the session's user has the TRIGGER privilege on the whole schema, without which MySQL hides
// triggers.
func MayTrigger(ctx context.Context, q Queryer) (bool, error) {
	schema, err := Schema(ctx, q)
	if err != nil {
		return false, err
	}
	grants, err := ReadGrants(ctx, q)
	if err != nil {
		return false, err
	}
	return grants.Has("TRIGGER", schema, ""), nil
}
