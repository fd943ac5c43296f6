package remote

import (
	"context"
	"io"
	"net/http"
	"net/url"

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

// Fork implements service.Door.
func (d *Door) Fork(ctx context.Context, goal string, r service.ForkRequest) (service.Started, error) {
	g, err := post[client.Started](d, goal, "fork", client.Fork{At: r.At, Text: r.Text})(ctx)
	return service.Started{Goal: g.Goal, Warnings: g.Warnings}, told(err)
}

// GiveUp implements service.Door.
func (d *Door) GiveUp(ctx context.Context, goal, to string) error {
	return say(ctx, post[core.Snapshot](d, goal, "give-up", client.GiveUp{To: to}))
}

// Bundle implements service.Door.
func (d *Door) Bundle(ctx context.Context, goal string, out io.Writer) error {
	return d.stream(ctx, "/v1/goals/"+url.PathEscape(goal)+"/export", out)
}

// ExportLines implements service.Door.
func (d *Door) ExportLines(ctx context.Context, goal string, private bool, out io.Writer) error {
	format := "jsonl"
	if private {
		format = "jsonl-redacted"
	}
	return d.stream(ctx, "/v1/goals/"+url.PathEscape(goal)+"/export?format="+format, out)
}

func (d *Door) stream(ctx context.Context, path string, out io.Writer) error {
	answer, err := d.c.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return told(err)
	}
	defer answer.Body.Close()
	_, err = io.Copy(out, answer.Body)
	return err
}
