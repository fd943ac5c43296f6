package api

import (
	"fmt"
	"net/http"

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

func fork(c *call, in client.Fork) (client.Started, error) {
	f, err := c.Service.Fork(c.ctx, c.goal, service.ForkRequest{At: in.At, Text: in.Text})
	if err != nil {
		return client.Started{}, err
	}
	c.w.Header().Set("Location", "/v1/goals/"+f.Goal)
	return client.Started{Goal: f.Goal, Warnings: f.Warnings}, nil
}

func giveUp(c *call, in client.GiveUp) (core.Snapshot, error) {
	if in.To == "" {
		return core.Snapshot{}, bad("say where it goes: to")
	}
	return c.then(c.Service.GiveUp(c.ctx, c.goal, in.To))
}

// late sets the type of an answer when its first byte comes: an error before
// that is a problem like any other. One after it breaks the answer off.
type late struct {
	c     *call
	media string
	begun bool
}

func (l *late) Write(b []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.c.w.Header().Set("Content-Type", l.media)
	}
	return l.c.w.Write(b)
}

func export(c *call) error {
	out := &late{c: c, media: "application/zstd"}
	var err error
	switch f := c.r.URL.Query().Get("format"); f {
	case "", "bundle":
		err = c.Service.Bundle(c.ctx, c.goal, out)
	case "jsonl", "jsonl-redacted":
		out.media = "application/x-ndjson"
		err = c.Service.ExportLines(c.ctx, c.goal, f == "jsonl-redacted", out)
	default:
		return bad("format is bundle, jsonl or jsonl-redacted, not %q", f)
	}
	if err != nil && out.begun {
		panic(http.ErrAbortHandler) // a cut answer must not pass for a whole one
	}
	return err
}
