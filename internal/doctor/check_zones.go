package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// checkZones compares the zones that times and months are read in (hazards P1, P3).
func checkZones(ctx context.Context, f *Facts) (Result, error) {
	var bad []Result
	months := f.Zone.String()
	if !f.Scheme.Legacy() {
		cat, err := f.catalog(ctx)
		switch {
		case err == nil && cat.TimeZone != months:
			bad = append(bad, finding(Fail, fmt.Sprintf("the catalog has months of %s, the configuration of %s", cat.TimeZone, months),
				"Guards with another zone than the catalog refuse to start: near midnight of the 1st they would look for an order in another month.", "set ledger.time_zone to "+cat.TimeZone))
		case err != nil && !errors.Is(err, errNoCatalog):
			return Result{}, err
		}
	}
	s, err := f.serverSettings(ctx)
	if err != nil {
		return Result{}, err
	}
	zone := s.TimeZone
	if zone == "SYSTEM" {
		zone += " (" + s.SystemTimeZone + ")"
	}
	ahead, err := mysqlx.UTCOffset(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	if ahead != 0 {
		bad = append(bad, finding(Warn, fmt.Sprintf("the server's time_zone %s is %+d minutes from UTC", zone, ahead),
			"A service that writes NOW() stores local time where the ledger means UTC: its rows lie in the future, or are purged too early. (idemctl's own sessions are UTC.)",
			"SET GLOBAL time_zone = '+00:00', or have that service write UTC_TIMESTAMP(3)"))
	}
	return merge(ok("months of %s; the server's time_zone is %s", months, zone), bad), nil
}
