package purge

import (
	"errors"

	"github.com/idemctl/idemctl/pkg/partition"
)

// The reasons for which a plan or a run is refused. Nothing has been changed then.
var (
	// ErrRehearsal says that a plan was made for another time than the database's now.
	ErrRehearsal = errors.New("the plan is a rehearsal for another time; it cannot be executed")
	// ErrCutoffFuture says that rows were to go that have not expired by the database's clock.
	ErrCutoffFuture = errors.New("the cutoff lies in the future")
	// ErrPlanStale says that the catalog's tables contradict the plan: plan again.
	ErrPlanStale = partition.ErrPlanStale
	// ErrOptions says that an option makes no sense; the text names it.
	ErrOptions = errors.New("purge options")
	// ErrNoIndex says that a table lacks the index by which it would have to be read.
	ErrNoIndex = errors.New("an index is missing")
	// ErrNoPlan says that Run got a value that PlanPurge did not return.
	ErrNoPlan = errors.New("not a plan of PlanPurge")
)
