package partition

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// ErrHorizonFuture says that the horizon would be raised to a time that has not come: every message would be refused until
// then (hazard P18).
var ErrHorizonFuture = errors.New("the horizon would lie in the future")

// RaiseHorizon writes down, for each biz_type, the latest create_time of the rows that are about to be purged. It must be
// committed before the first of them goes (invariant 9). A horizon is only ever raised: what lies below the present one
// changes nothing. conn is the connection that holds the ledger's lock.
func RaiseHorizon(ctx context.Context, conn *sql.Conn, s Scheme, purged map[string]time.Time) (Catalog, error) {
	if err := checkHorizon(ctx, conn, purged); err != nil {
		return Catalog{}, fmt.Errorf("raise the horizon of %s: %w", s.prefix, err)
	}
	return updateCatalog(ctx, overConn(conn), s, func(c *Catalog) (bool, error) {
		return c.raise(purged, time.Time{}), nil
	})
}

func checkHorizon(ctx context.Context, conn *sql.Conn, purged map[string]time.Time) error {
	now, err := mysqlx.Now(ctx, conn)
	if err != nil {
		return err
	}
	for biz, t := range purged {
		if t.After(now) {
			return fmt.Errorf("%w: %q to %s, and it is %s", ErrHorizonFuture, biz, stamp(t), stamp(now))
		}
	}
	return nil
}

// raise lifts what the catalog has forgotten, by biz_type and for all, and reports whether that changed it.
func (c *Catalog) raise(purged map[string]time.Time, lost time.Time) bool {
	changed := false
	for biz, t := range purged {
		t = upToMilli(t)
		if m := c.Biz[biz]; t.After(m.Purged) {
			m.Purged = t
			c.Biz[biz] = m
			changed = true
		}
	}
	if lost.After(c.LostUntil) {
		c.LostUntil = lost.UTC()
		changed = true
	}
	return changed
}

// upToMilli rounds up: columns hold whole milliseconds, and a horizon below the row it speaks of would forget it silently.
func upToMilli(t time.Time) time.Time {
	t = t.UTC()
	if whole := t.Truncate(time.Millisecond); whole.Before(t) {
		return whole.Add(time.Millisecond)
	}
	return t
}
