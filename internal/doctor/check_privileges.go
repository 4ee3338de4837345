package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/pkg/partition"
)

// errNoCatalog is a short name.
var errNoCatalog = partition.ErrNoCatalog

// need is what a command must be allowed on the ledger's schema. update lists the tables of the program's own that it
// changes, where UPDATE on those alone is enough.
type need struct {
	command    string
	privileges []string
	update     []string
	// onMySQL: it must see triggers, which MySQL hides from a user without TRIGGER (invariant 5).
	triggers bool
}

func needs() []need {
	control, runs := partition.ControlTable, runlog.Table
	return []need{
		{"partition list, inspect, reconcile", []string{"SELECT"}, nil, false},
		{"replay --mode verify", []string{"SELECT"}, nil, true},
		{"replay --mode execute, consume", []string{"SELECT", "INSERT"}, []string{control, runs}, true},
		{"partition create --execute", []string{"SELECT", "INSERT", "CREATE"}, []string{control, runs}, true},
		{"purge --execute", []string{"SELECT", "INSERT", "CREATE", "ALTER", "DELETE", "DROP"}, []string{control, runs}, true},
		{"purge restore --execute", []string{"SELECT", "INSERT", "CREATE"}, []string{control, runs}, true},
	}
}

// checkPrivileges reads what the configured account may do, and says which commands it would stop.
func checkPrivileges(ctx context.Context, f *Facts) (Result, error) {
	server, err := f.mysql(ctx)
	if err != nil {
		return Result{}, err
	}
	schema, err := mysqlx.Schema(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	grants, err := mysqlx.ReadGrants(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	account, err := currentUser(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	return judgePrivileges(grants, account, schema, !server.MariaDB), nil
}

func judgePrivileges(grants mysqlx.Grants, account, schema string, hidesTriggers bool) Result {
	var bad []Result
	for i, n := range needs() {
		var lacks []string
		for _, p := range n.privileges {
			if !grants.Has(p, schema, "") {
				lacks = append(lacks, p)
			}
		}
		if n.triggers && hidesTriggers && !grants.Has("TRIGGER", schema, "") {
			lacks = append(lacks, "TRIGGER")
		}
		if slices.ContainsFunc(n.update, func(table string) bool { return !grants.Has("UPDATE", schema, table) }) && !grants.Has("UPDATE", schema, "") {
			lacks = append(lacks, "UPDATE")
		}
		if len(lacks) == 0 {
			continue
		}
		status := Warn
		if i == 0 {
			status = Fail // nothing can be looked at
		}
		bad = append(bad, finding(status, fmt.Sprintf("no %s for %s", strings.Join(lacks, ", "), n.command),
			"The command stops when it is needed most. An account that is not meant to run it is right to lack this.",
			fmt.Sprintf("GRANT %s ON %s.* TO %s", strings.Join(lacks, ", "), mysqlx.Quote(schema), account)))
	}
	return merge(ok("%s may run every command on %s", account, schema), widest(bad))
}

// widest makes one GRANT of all that the remedies say: one statement is easier to run than five.
func widest(bad []Result) []Result {
	if len(bad) == 0 {
		return bad
	}
	all := map[string]bool{}
	prefix, suffix := "", ""
	for _, b := range bad {
		rest := strings.TrimPrefix(b.Mend, "GRANT ")
		privileges, to, _ := strings.Cut(rest, " ON ")
		prefix, suffix = "GRANT ", " ON "+to
		for p := range strings.SplitSeq(privileges, ", ") {
			all[p] = true
		}
	}
	for i := range bad {
		bad[i].Mend = prefix + strings.Join(sortedKeys(all), ", ") + suffix
	}
	return bad
}

func currentUser(ctx context.Context, q mysqlx.Queryer) (string, error) {
	var account string
	if err := q.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&account); err != nil {
		return "", fmt.Errorf("current user: %w", err)
	}
	user, host, _ := strings.Cut(account, "@")
	return "'" + user + "'@'" + host + "'", nil
}

// checkForeignGrants looks for other accounts that may remove what the ledger remembers.
func checkForeignGrants(ctx context.Context, f *Facts) (Result, error) {
	schema, err := mysqlx.Schema(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	grants, err := mysqlx.ReadGrants(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	me, err := currentUser(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	if !grants.Has("SELECT", "mysql", "") {
		return skipped("%s may not see the grants of others (SELECT on mysql.* shows them)", me), nil
	}
	holders := map[string][]string{} // account to what it may do and where
	administrators := map[string]bool{}
	var grantee, privilege, in, table string
	err = query(ctx, f.DB, `SELECT grantee, privilege_type, '*', '*' FROM information_schema.user_privileges WHERE privilege_type IN ('DELETE', 'DROP')
		UNION ALL SELECT grantee, privilege_type, table_schema, '*' FROM information_schema.schema_privileges WHERE privilege_type IN ('DELETE', 'DROP')
		UNION ALL SELECT grantee, privilege_type, table_schema, table_name FROM information_schema.table_privileges WHERE privilege_type IN ('DELETE', 'DROP')`,
		nil, []any{&grantee, &privilege, &in, &table}, func() {
			_, month := f.Scheme.Month(table)
			switch {
			case grantee == me:
			case in == "*":
				administrators[grantee] = true
			case table == "*" && mysqlx.SchemaMatches(in, schema):
				holders[grantee] = addOnce(holders[grantee], privilege+" on "+in+".*")
			case in == schema && month:
				holders[grantee] = addOnce(holders[grantee], privilege+" on "+table)
			}
		})
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	for _, who := range sortedKeys(holders) {
		bad = append(bad, finding(Warn, fmt.Sprintf("%s has %s", who, strings.Join(holders[who], ", ")),
			"A row that someone deletes, or a month that someone drops, without raising the horizon first: its orders run again as if they were new.",
			"REVOKE DELETE, DROP on the months from every account but the one that runs idemctl purge"))
	}
	return merge(ok("no other account but %s with global privileges", count(len(administrators), "administrator")), bad), nil
}
