package partition

import (
	"context"
	"regexp"
	"strings"
)

// heldForm is the end of a held table's name, after its month's.
var heldForm = regexp.MustCompile(`^_held_[0-9a-f]{8}$`)

// readNames finds all that is called like the ledger's tables.
func (c *checker) readNames(ctx context.Context) error {
	c.names = map[string]bool{}
	return each(ctx, c.m.db, `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE ?`,
		[]any{likePrefix(c.m.scheme.prefix) + "%"}, func(row []string) { c.names[row[0]] = true })
}

// checkNames looks for tables that bear a month's name, or nearly, and that nobody knows of.
func (c *checker) checkNames(context.Context) error {
	if c.m.scheme.Legacy() {
		return nil // its tables are those that are called so
	}
	for _, name := range sortedKeys(c.names) {
		if c.cat.listed(name) {
			continue
		}
		prefix := c.m.scheme.prefix
		if len(name) < len(prefix) {
			continue
		}
		rest := name[len(prefix):]
		_, month := c.m.scheme.Month(name)
		switch {
		case month:
			c.add(Fail, KindUnlisted, name, "it is there and the catalog does not list it: no guard looks into it", createCommand)
		case c.isHeldName(name):
			c.add(Fail, KindUnlisted, name, "a held month that the catalog does not list: no guard looks into it",
				"# compare it with its month, then drop it")
		case rest == "" || looksLikeMonth(rest):
			c.add(Warn, KindLookAlike, name, "it is called like a month and is none: no guard looks into it, no purge touches it",
				"# rename it, or drop it, if it is not needed")
		}
	}
	return nil
}

func (c *checker) isHeldName(name string) bool {
	at := len(c.m.scheme.Table(c.current))
	if len(name) < at || !heldForm.MatchString(name[at:]) {
		return false
	}
	_, month := c.m.scheme.Month(name[:at])
	return month
}

// looksLikeMonth takes what follows the prefix: _202604_bak, _202613, _20260, 202604.
func looksLikeMonth(rest string) bool {
	rest = strings.TrimLeft(rest, "_")
	return rest != "" && rest[0] >= '0' && rest[0] <= '9'
}
