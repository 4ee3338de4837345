package replay

import (
	"context"
	"fmt"
	"strings"
)

// RunAll writes the effects of several messages: in one statement where the effect is a single INSERT … VALUES, else one
// after the other. An error says nothing about which of them failed.
func (e *Effect) RunAll(ctx context.Context, ex Execer, messages []Args) error {
	prefix, row, suffix, ok := e.MultiRow()
	if !ok || len(messages) == 1 {
		for _, args := range messages {
			if err := e.Run(ctx, ex, args); err != nil {
				return err
			}
		}
		return nil
	}
	names := e.RowNames()
	values := make([]any, 0, len(names)*len(messages))
	for _, args := range messages {
		for _, name := range names {
			v, ok := args.Value(name)
			if !ok {
				return fmt.Errorf("effect %s: no value for :%s", e.name, name)
			}
			values = append(values, v)
		}
	}
	if _, err := ex.ExecContext(ctx, prefix+row+strings.Repeat(", "+row, len(messages)-1)+suffix, values...); err != nil {
		return fmt.Errorf("effect %s: %w", e.name, err)
	}
	return nil
}
