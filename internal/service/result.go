package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/workspace"
)

// ApplyRequest says how the result of a goal is to be brought to the user.
type ApplyRequest struct {
	// Branch makes a commit on this new branch instead of changing files.
	Branch string `json:"branch,omitempty"`
	// Commits brings the commits that the goal made, too; without Branch onto
	// belay/GOAL.
	Commits bool `json:"commits,omitempty"`
	// Conflicts has files with conflicts get git's conflict marks; without it
	// nothing is applied when there are any.
	Conflicts bool `json:"conflicts,omitempty"`
	// Message is that of the commit; the goal's text if it is empty.
	Message string `json:"message,omitempty"`
}

// ApplyPlan is what an apply would do, before it does.
type ApplyPlan struct {
	core.ApplyOf
	// Changes lead from the user's directory as it is to what it would be; of a
	// branch, they are what the goal changed.
	Changes   []event.Change       `json:"changes"`
	Diff      string               `json:"diff"`
	Conflicts []workspace.Conflict `json:"conflicts,omitempty"`
	// NewCommits counts the commits on a new branch.
	NewCommits int `json:"new_commits,omitempty"`
	seen       core.Observation
}

// Possible reports whether the plan can be carried out.
func (p ApplyPlan) Possible() bool {
	if p.How == core.ApplyBranch {
		return len(p.Conflicts) == 0 && p.NewCommits > 0
	}
	return p.Tree != "" && p.Tree != p.From
}

// other opens another directory for a goal.
func (s *Service) other(goal string) func(context.Context, string) (workspace.Workspace, error) {
	return func(ctx context.Context, root string) (workspace.Workspace, error) {
		ws, err := s.OpenWorkspace(ctx, root, goal)
		if err != nil {
			return nil, err
		}
		if err := ws.Clean(ctx); err != nil {
			return nil, errors.Join(err, ws.Close())
		}
		return ws, nil
	}
}

// PlanApply says what it would take to bring the result of a goal to the user's
// directory or repository. It changes neither.
func (s *Service) PlanApply(ctx context.Context, goal string, r ApplyRequest) (ApplyPlan, error) {
	st, err := s.settled(ctx, goal)
	if err != nil {
		return ApplyPlan{}, err
	}
	if st.Workspace == nil {
		return ApplyPlan{}, fmt.Errorf("%w: goal %s has not looked at its workspace yet", ErrUsage, goal)
	}
	g, err := s.bare(ctx, st)
	if err != nil {
		return ApplyPlan{}, err
	}
	defer g.Workspace.Close()
	p := ApplyPlan{ApplyOf: core.ApplyOf{How: core.ApplyPatch, Into: st.Repo, Base: st.BaselineTree()}}
	if p.seen, err = g.Now(ctx, st); err != nil {
		return p, err
	}
	p.Result = p.seen.Tree
	target := g.Workspace
	if st.Worktree != nil {
		p.Into = st.Worktree.Of
		if target, err = g.OpenOther(ctx, p.Into); err != nil {
			return p, err
		}
		defer target.Close()
	}
	if err := carry(ctx, g.Workspace, target, p.Base, p.Result); err != nil {
		return p, err
	}
	if r.Commits && r.Branch == "" {
		r.Branch = "belay/" + goal
	}
	if r.Branch != "" {
		return p, s.planBranch(ctx, st, g, target, r, &p)
	}
	if st.Worktree == nil {
		return p, fmt.Errorf("%w: goal %s works in %s itself: its result is there (--branch NAME makes a commit of it)", ErrUsage, goal, st.Repo)
	}
	return p, planPatch(ctx, target, r, &p)
}

// settled is a goal that nobody works on, with no operation of a person left
// open by a crash.
func (s *Service) settled(ctx context.Context, goal string) (core.State, error) {
	st, err := s.restable(ctx, goal)
	if err != nil || !st.RollingBack() {
		return st, err
	}
	if _, err := s.finishDeed(ctx, st); err != nil {
		return st, err
	}
	return s.state(ctx, goal)
}

// carry makes trees known to another workspace.
func carry(ctx context.Context, from, to workspace.Workspace, base, tree string) error {
	if from == to {
		return nil
	}
	for _, t := range [][2]string{{base, ""}, {tree, base}} {
		held, err := to.Holds(ctx, t[0])
		if err != nil {
			return err
		}
		if held {
			continue
		}
		pack, err := from.Export(ctx, t[0], t[1])
		if err != nil {
			return err
		}
		err = to.Import(ctx, pack)
		if err = errors.Join(err, pack.Close()); err != nil {
			return err
		}
	}
	return nil
}

func planPatch(ctx context.Context, target workspace.Workspace, r ApplyRequest, p *ApplyPlan) error {
	var err error
	if p.From, err = target.Observe(ctx); err != nil {
		return err
	}
	m, err := target.Merge(ctx, p.Base, p.From, p.Result, true)
	if err != nil {
		return err
	}
	p.Conflicts = m.Conflicts
	if p.Changes, err = target.Changes(ctx, p.From, m.Tree); err != nil {
		return err
	}
	diff, err := target.Diff(ctx, p.From, m.Tree)
	if err != nil {
		return err
	}
	p.Diff = string(diff)
	if len(m.Conflicts) > 0 && !r.Conflicts {
		return nil
	}
	p.Tree = m.Tree
	for _, c := range m.Conflicts {
		p.Marked = append(p.Marked, c.Path)
	}
	return nil
}

func (s *Service) planBranch(ctx context.Context, st core.State, g *effect.Goal, target workspace.Workspace, r ApplyRequest, p *ApplyPlan) error {
	if st.Workspace.Git == "" {
		return fmt.Errorf("%w: %s is in no git repository: there can be no branch", ErrUsage, p.Into)
	}
	p.How, p.Branch, p.Parent, p.Message, p.At, p.Commits = core.ApplyBranch, r.Branch, st.Workspace.Head, r.Message, moment.Of(time.Now()), r.Commits
	if p.Message == "" {
		p.Message = strings.TrimSpace(st.Spec.Text) + "\n\nGoal: " + st.Goal + "\n"
	}
	if r.Commits {
		if st.Worktree == nil {
			return fmt.Errorf("%w: goal %s has no worktree of its own: its commits are in %s", ErrUsage, st.Goal, st.Repo)
		}
		now, err := g.Workspace.Standing(ctx)
		if err != nil {
			return err
		}
		p.Parent = now.Head
	}
	var err error
	if p.Changes, err = target.Changes(ctx, p.Base, p.Result); err != nil {
		return err
	}
	diff, err := target.Diff(ctx, p.Base, p.Result)
	if err != nil {
		return err
	}
	p.Diff = string(diff)
	of := effect.CommitOf(st, p.ApplyOf)
	of.Dry = true
	would, err := target.Commit(ctx, of)
	if err != nil {
		return err
	}
	p.Conflicts, p.NewCommits = would.Conflicts, would.Commits
	if would.Changed > 0 {
		p.NewCommits++
	}
	return nil
}

// Apply does what a plan says, as long as the user's directory is still what it
// was made from. It is an operation of the goal: recorded before it begins, and
// gone on with after a crash.
func (s *Service) Apply(ctx context.Context, goal string, p ApplyPlan) (core.Snapshot, error) {
	st, err := s.do(ctx, goal, core.ApplyResult{Of: p.ApplyOf, Observation: p.seen})
	if err != nil {
		return core.Snapshot{}, err
	}
	return s.finishDeed(ctx, st)
}

// RemoveWorktree removes a goal's own checkout. A result that was applied nowhere
// goes only with discard.
func (s *Service) RemoveWorktree(ctx context.Context, goal string, discard bool) error {
	st, err := s.settled(ctx, goal)
	if err != nil {
		return err
	}
	if st.Removed { // a crash came between the record and the deed
		return s.Checkouts.Drop(st.Worktree.Dir)
	}
	b := core.RemoveWorktree{Discard: discard, Observation: core.Observation{From: st.Revision.Tree}}
	if st.Worktree != nil && st.Workspace != nil && st.Status.Final() {
		if b.Observation, err = s.lookOnce(ctx, st); err != nil && !discard {
			return err
		} else if err != nil {
			b.Observation = core.Observation{From: st.Revision.Tree} // what cannot be looked at is discarded as it is
		}
	}
	if st, err = s.do(ctx, goal, b); err != nil {
		return err
	}
	return s.Checkouts.Drop(st.Worktree.Dir)
}

func (s *Service) lookOnce(ctx context.Context, st core.State) (core.Observation, error) {
	g, err := s.bare(ctx, st)
	if err != nil {
		return core.Observation{}, err
	}
	defer g.Workspace.Close()
	return g.Now(ctx, st)
}

// WorktreeOf is a goal's own checkout, as a list of them shows it.
type WorktreeOf struct {
	Goal   string `json:"goal"`
	Title  string `json:"title"`
	Status string `json:"status"`
	event.Worktree
	// Unapplied says that there is a result that is nowhere else, as far as the
	// goal was last looked at.
	Unapplied bool `json:"unapplied"`
}

// Worktrees lists the checkouts that goals have of their own.
func (s *Service) Worktrees(ctx context.Context) ([]WorktreeOf, error) {
	rows, err := s.Goals(ctx, ledger.Filter{})
	if err != nil {
		return nil, err
	}
	list := []WorktreeOf{}
	for _, r := range rows {
		st, err := s.state(ctx, r.Goal)
		if err != nil {
			return nil, err
		}
		if st.Worktree != nil && !st.Removed {
			list = append(list, WorktreeOf{Goal: r.Goal, Title: r.Title, Status: r.Status, Worktree: *st.Worktree, Unapplied: st.Unapplied()})
		}
	}
	return list, nil
}

// Applied reports whether the latest operation of a goal brought its result.
func Applied(s core.Snapshot) bool {
	r := s.LatestToolResult
	return r != nil && r.Tool == core.ToolApply && r.Outcome == event.Succeeded
}
