package replay

import (
	"context"
	"errors"
	"fmt"
)

// PartialError is a run that ended before its work was done. The report beside it says how far it came.
type PartialError struct {
	Done   int64 // records with an outcome
	Failed int64 // of these, the ones that failed
	Err    error // why it ended
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("stopped after %d records (%d failed): %v", e.Done, e.Failed, e.Err)
}

// Unwrap returns why the run ended.
func (e *PartialError) Unwrap() error { return e.Err }

// interruption is why ctx ended: its error, with the cause where the caller gave one.
func interruption(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
