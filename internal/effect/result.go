package effect

import (
	"context"
	"fmt"
	"path/filepath"

	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// bring brings the goal's result to the user's directory or repository. It is
// done again after a crash in its middle: a file is then as it was or as it is to
// be, and the commit that is made again is the same one.
func (g *Goal) bring(ctx context.Context, s core.State, o operation.Op, attempt int, recovered string) (core.Body, error) {
	of, err := core.ApplyArgs(o)
	if err != nil {
		return nil, err
	}
	e := core.Ended{Op: o.ID, Attempt: attempt, Recovered: recovered, Outcome: event.Succeeded}
	failpoint.Hit(failpoint.RunBefore)
	e.Result.Output.Head, e.Commit, err = g.bringTo(ctx, s, of)
	failpoint.Hit(failpoint.RunAfter)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		e.Outcome = event.Failed
		e.Result.Fault = asFault(err, fault.Internal, fault.Environment)
		e.Result.Output.Head = "Nothing more was changed: " + e.Result.Fault.Message
	}
	return e, nil
}

func (g *Goal) bringTo(ctx context.Context, s core.State, of core.ApplyOf) (said, commit string, err error) {
	target := g.Workspace
	if of.Into != s.Repo {
		if target, err = g.OpenOther(ctx, of.Into); err != nil {
			return "", "", err
		}
		defer target.Close()
	}
	if of.How == core.ApplyPatch {
		n, err := target.MoveIn(ctx, of.Tree, []string{of.From})
		return fmt.Sprintf("%d paths in %s have what the goal did.", n, of.Into), "", err
	}
	done, err := target.Commit(ctx, CommitOf(s, of))
	if err != nil {
		return "", "", err
	}
	if len(done.Conflicts) > 0 {
		c := done.Conflicts[0]
		return "", "", fault.New(fault.Foreign, fault.User, c.Path+" "+c.Why, "look again with belay apply")
	}
	return fmt.Sprintf("The branch %s has what the goal did, in %d commits; its tip is %.12s.", of.Branch, done.Commits, done.Commit), done.Commit, nil
}

// CommitOf is the commit that an apply to a branch makes.
func CommitOf(s core.State, of core.ApplyOf) workspace.CommitOf {
	c := workspace.CommitOf{Branch: of.Branch, Start: s.Workspace.Head, Parent: of.Parent, Base: of.Base, Result: of.Result, Message: of.Message, At: of.At.Std()}
	if of.Commits && s.Worktree != nil {
		c.Clone = filepath.Join(s.Worktree.Dir, ".git")
	}
	return c
}
