package ledgertest

import (
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
)

// Guard puts a way of driving a guard through the suite, on one database and one Redis.
func Guard(t *testing.T, db testenv.Database, server testenv.RedisServer, do Do) {
	t.Helper()
	for name, test := range guardTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T) *Workbench { t.Helper(); return New(t, db.Schema(t), server.Space(t)) }, do)
		})
	}
}

// bench makes a workbench for one test.
type bench func(t *testing.T) *Workbench

type guardTest func(t *testing.T, mk bench, do Do)

func guardTests() map[string]guardTest {
	return map[string]guardTest{
		"executes once":                        executesOnce,
		"keys are byte exact":                  keysAreByteExact,
		"invalid before any SQL":               invalidBeforeSQL,
		"conflict of fingerprints":             conflictOfFingerprints,
		"completed only after commit":          completedOnlyAfterCommit,
		"foreign lease is in flight":           foreignLeaseIsInFlight,
		"lease without end is taken over":      leaseWithoutEndIsTakenOver,
		"foreign completed costs a look":       foreignCompletedCostsALook,
		"bare markers":                         bareMarkers,
		"alien value is left alone":            alienValueIsLeftAlone,
		"effect error releases and rolls back": effectErrorRollsBack,
		"duplicate key of the effect":          duplicateKeyOfTheEffect,
		"swallowed lock wait timeout":          swallowedLockWaitTimeout,
		"transaction undone under the effect":  transactionUndone,
		"effect that commits":                  effectThatCommits,
		"first of three rolls back":            firstOfThreeRollsBack,
		"many goroutines on one key":           manyOnOneKey,
		"expired lease: the unique key holds":  expiredLease,
		"new ledger":                           newLedger,
		"missing month":                        missingMonth,
		"catalog row is gone":                  catalogGone,
		"unsafe tables are refused":            unsafeTables,
		"1062 of another unique key":           foreignUniqueKey,
		"stale list of months":                 staleMonths,
		"horizon raised at every step":         horizonRaised,
		"held and moving months are probed":    heldMonths,
		"held month that was dropped":          droppedMonth,
		"moving month that is nowhere":         lostMonth,
		"rehearsal leaves nothing":             rehearsal,
		"lost COMMIT reply":                    lostCommitReply,
		"other time zone is refused":           otherZone,
		"classify agrees with do":              classifyAgrees,
		"classify writes nothing":              classifyWritesNothing,
	}
}
