package api

import (
	"fmt"

	"belay/client"
	"belay/internal/core"
	"belay/internal/service"
)

// appliedResult is what an apply would change, and whether it did.
type appliedResult struct {
	Plan             service.ApplyPlan `json:"plan"`
	Done             bool              `json:"done"`
	LatestToolResult *core.LastResult  `json:"latest_tool_result,omitempty"`
}

func applyResult(c *call, in client.Apply) (appliedResult, error) {
	p, err := c.Service.PlanApply(c.ctx, c.goal, service.ApplyRequest{Branch: in.Branch, Commits: in.Commits, Conflicts: in.Conflicts, Message: in.Message})
	if err != nil || in.Result == "" || !p.Possible() {
		return appliedResult{Plan: p}, err
	}
	if in.Result != p.Result || in.From != p.From || in.Tree != p.Tree {
		return appliedResult{}, fmt.Errorf("%w: the directory or the result is another by now; ask again what would change", core.ErrChanged)
	}
	snap, err := c.Service.Apply(c.ctx, c.goal, p)
	return appliedResult{Plan: p, Done: service.Applied(snap), LatestToolResult: snap.LatestToolResult}, err
}

func removeWorktree(c *call, in client.RemoveWorktree) (core.Snapshot, error) {
	return c.then(c.Service.RemoveWorktree(c.ctx, c.goal, in.Discard))
}

func worktrees(c *call) ([]service.WorktreeOf, error) { return c.Service.Worktrees(c.ctx) }
