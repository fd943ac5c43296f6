package effect

import (
	"context"
	"time"

	"belay/internal/core"
)

// wake waits for an instant.
func (g *Goal) wake(ctx context.Context, e core.Wake) (core.Body, error) {
	t := time.NewTimer(time.Until(e.At.Std()))
	defer t.Stop()
	select {
	case <-t.C:
		return core.Poke{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
