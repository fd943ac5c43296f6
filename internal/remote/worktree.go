package remote

import (
	"context"
	"net/http"

	"belay/client"
	"belay/internal/core"
	"belay/internal/service"
)

// applied is what an apply would change, and whether it did.
type applied struct {
	Plan service.ApplyPlan `json:"plan"`
}

// PlanApply implements service.Door.
func (d *Door) PlanApply(ctx context.Context, goal string, r service.ApplyRequest) (service.ApplyPlan, error) {
	a, err := post[applied](d, goal, "apply", client.Apply{Branch: r.Branch, Commits: r.Commits, Conflicts: r.Conflicts, Message: r.Message})(ctx)
	return a.Plan, told(err)
}

// Apply implements service.Door. The server makes the plan anew and refuses when
// it is another by now.
func (d *Door) Apply(ctx context.Context, goal string, p service.ApplyPlan) (core.Snapshot, error) {
	in := client.Apply{Branch: p.Branch, Commits: p.Commits, Conflicts: len(p.Marked) > 0, Message: p.Message, Result: p.Result, From: p.From, Tree: p.Tree}
	if _, err := post[applied](d, goal, "apply", in)(ctx); err != nil {
		return core.Snapshot{}, told(err)
	}
	return d.Snapshot(ctx, goal)
}

// RemoveWorktree implements service.Door.
func (d *Door) RemoveWorktree(ctx context.Context, goal string, discard bool) error {
	return say(ctx, post[core.Snapshot](d, goal, "remove-worktree", client.RemoveWorktree{Discard: discard}))
}

// Worktrees implements service.Door.
func (d *Door) Worktrees(ctx context.Context) ([]service.WorktreeOf, error) {
	list, err := client.Call[[]service.WorktreeOf](ctx, d.c, http.MethodGet, "/v1/worktrees", nil)
	return list, told(err)
}
