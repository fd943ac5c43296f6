package effect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// rollback makes the workspace hold the tree that a person wants. It is done
// again after a crash in its middle: each path is then either as it was or as it
// is to be, and whatever is neither belongs to somebody else and stops it.
func (g *Goal) rollback(ctx context.Context, s core.State, o operation.Op, attempt int, recovered string) (core.Body, error) {
	of, err := core.RollbackArgs(o)
	if err != nil {
		return nil, err
	}
	e := core.Ended{Op: o.ID, Attempt: attempt, Recovered: recovered, Outcome: event.Succeeded}
	failpoint.Hit(failpoint.RunBefore)
	to := workspace.Restore{Tree: of.Tree, From: of.From, Leave: of.Kept}
	if of.Index != "" {
		to.Staged = &workspace.Restage{Index: of.Index, From: of.FromIndex, Leave: slices.Concat(of.Kept, of.KeptStaged)}
	}
	written, left, err := g.Workspace.Restore(ctx, to)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		e.Outcome = event.Failed
		e.Result.Fault = asFault(err, fault.Internal, fault.Environment)
		e.Result.Output.Head = "Nothing more was changed: " + e.Result.Fault.Message
	} else {
		e.Result.Output.Head = fmt.Sprintf("%d paths are as they were at %s.", written, of.Target)
		if of.Index != "" {
			e.Result.Output.Head += " So is what was staged."
		}
		if len(left) > 0 {
			e.Result.Output.Head += " What is staged of these was left alone, because others have staged since, or its bytes are gone: " + strings.Join(left, ", ") + "."
		}
	}
	after, err := g.look(ctx, s, s.Revision.Tree, s.BaselineTree())
	if err != nil {
		return nil, err
	}
	e.After = &after
	return e, nil
}

// Now is the workspace as it is, compared with what was last recorded.
func (g *Goal) Now(ctx context.Context, s core.State) (core.Observation, error) {
	return g.look(ctx, s, s.Revision.Tree, s.BaselineTree())
}
