package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/runtime"
	"belay/internal/workspace"
)

// RollbackPlan is what a rollback would change, before it does.
type RollbackPlan struct {
	core.RollbackOf
	// Changes lead from the workspace as it is now to what it would be.
	Changes []event.Change `json:"changes"`
	Diff    string         `json:"diff"`
	seen    core.Observation
}

// PlanRollback says what a rollback to a target would change: "cp0" or another
// checkpoint by id or name, "todo:ID" for the state in which a todo was first
// done, "event:SEQ" for the one after an event. It changes nothing.
func (s *Service) PlanRollback(ctx context.Context, goal, target string) (RollbackPlan, error) {
	st, err := s.restable(ctx, goal)
	if err != nil {
		return RollbackPlan{}, err
	}
	if st.RollingBack() { // one that a crash left open goes first
		if _, err := s.finishRollback(ctx, st); err != nil {
			return RollbackPlan{}, err
		}
		if st, err = s.state(ctx, goal); err != nil {
			return RollbackPlan{}, err
		}
	}
	tree, since, err := s.target(ctx, st, target)
	if err != nil {
		return RollbackPlan{}, err
	}
	g, err := s.bare(ctx, st)
	if err != nil {
		return RollbackPlan{}, err
	}
	defer g.Workspace.Close()
	ws := g.Workspace
	if ok, err := ws.Holds(ctx, tree); err != nil || !ok {
		return RollbackPlan{}, errors.Join(err, fmt.Errorf("%w: the state at %s is not kept on this machine", ErrUsage, target))
	}
	p := RollbackPlan{RollbackOf: core.RollbackOf{Target: target}}
	if p.seen, err = g.Now(ctx, st); err != nil {
		return p, err
	}
	p.From = p.seen.Tree
	theirs, err := s.foreign(ctx, ws, goal, since, st.Revision.Tree, p.From)
	if err != nil {
		return p, err
	}
	if p.Tree, err = ws.Mix(ctx, tree, p.From, func(path string) bool { return theirs[path] }); err != nil {
		return p, err
	}
	if p.Changes, err = ws.Changes(ctx, p.From, p.Tree); err != nil {
		return p, err
	}
	diff, err := ws.Diff(ctx, p.From, p.Tree)
	if err != nil {
		return p, err
	}
	p.Diff = string(diff)
	whole, err := ws.Changes(ctx, p.From, tree)
	if err != nil {
		return p, err
	}
	for _, c := range whole {
		if theirs[c.Path] {
			p.Kept = append(p.Kept, c.Path)
		}
	}
	return p, nil
}

// Rollback does what a plan says, as long as the workspace is still what it was
// made from. It is an operation of the goal: recorded before it begins, gone on
// with after a crash, and undone by a rollback to the checkpoint before it.
func (s *Service) Rollback(ctx context.Context, goal string, p RollbackPlan) (core.Snapshot, error) {
	st, err := s.do(ctx, goal, core.Rollback{Of: p.RollbackOf, Observation: p.seen})
	if err != nil {
		return core.Snapshot{}, err
	}
	return s.finishRollback(ctx, st)
}

// finishRollback works on a goal at rest until its rollback has ended.
func (s *Service) finishRollback(ctx context.Context, st core.State) (core.Snapshot, error) {
	goal := st.Goal
	if s.working.Load() > 0 {
		return s.awaitRollback(ctx, st) // by a worker of this process: two would be in each other's way
	}
	g, err := s.bare(ctx, st)
	if held := (*workspace.Held)(nil); errors.As(err, &held) && held.Goal == goal {
		return s.awaitRollback(ctx, st)
	}
	if err != nil {
		return core.Snapshot{}, err
	}
	defer g.Workspace.Close()
	c := runtime.Config{Ledger: s.Ledger, Goal: g, Worker: s.Worker(), Lease: s.Lease, After: st.Head}
	row, err := s.Ledger.Goal(ctx, goal)
	if err != nil {
		return core.Snapshot{}, err
	}
	if row.LeaseOwner != "" && s.Dead != nil && s.Dead(row.LeaseOwner) {
		c.Evict = row.LeaseOwner
	}
	err = runtime.Drive(ctx, c)
	if errors.Is(err, ledger.ErrHeld) || errors.Is(err, runtime.ErrSteppedDown) {
		// Whoever holds the goal does it, but not while we have the workspace.
		if err = g.Workspace.Close(); err == nil {
			return s.awaitRollback(ctx, st)
		}
	}
	if err != nil {
		return core.Snapshot{}, recordedOnly(err)
	}
	return s.Snapshot(ctx, goal)
}

// rollbackTime is how long a rollback that a worker does is waited for.
const rollbackTime = time.Minute

func recordedOnly(err error) error {
	return fmt.Errorf("the rollback is recorded, and any worker goes on with it: %w", err)
}

// awaitRollback returns when the worker that holds the goal has done it.
func (s *Service) awaitRollback(ctx context.Context, st core.State) (core.Snapshot, error) {
	waiting, cancel := context.WithTimeout(ctx, rollbackTime)
	defer cancel()
	for it, err := range s.Ledger.Follow(waiting, st.Goal, st.Head) {
		if err != nil {
			return core.Snapshot{}, err
		}
		if !it.CaughtUp {
			st = core.Fold(st, []event.Event{it.Event})
		}
		if !st.RollingBack() {
			return s.Snapshot(ctx, st.Goal)
		}
	}
	return core.Snapshot{}, recordedOnly(context.Cause(waiting))
}

// restable is a goal that nobody works on.
func (s *Service) restable(ctx context.Context, goal string) (core.State, error) {
	st, err := s.state(ctx, goal)
	if err != nil {
		return st, err
	}
	held, err := s.Held(ctx, goal)
	if err == nil && held {
		err = fmt.Errorf("%w: pause it (belay pause %s), then roll back", ErrBusy, goal)
	}
	return st, err
}

// bare opens what a rollback needs of a goal: no model, no tools.
func (s *Service) bare(ctx context.Context, st core.State) (*effect.Goal, error) {
	if core.Elsewhere(st.Place, s.Place) {
		return nil, fmt.Errorf("%w: the goal's workspace is at %s; roll back there", ErrUsage, st.Place)
	}
	box, err := s.OpenSandbox(ctx, st.Settings.Sandbox)
	if err != nil {
		return nil, fmt.Errorf("goal %s: %w", st.Goal, sandboxFault(st.Settings.Sandbox, err))
	}
	ws, err := s.OpenWorkspace(ctx, st.Repo, st.Goal)
	if err != nil {
		return nil, err
	}
	if err := ws.Clean(ctx); err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	return &effect.Goal{ID: st.Goal, Ledger: s.Ledger, Workspace: ws, Sandbox: box, NewTools: s.NewTools, Place: s.Place,
		BaseEnv: s.BaseEnv, Secrets: s.Secrets, Protected: s.Protected, Scratch: s.Scratch}, nil
}

// target resolves what a person named to a tree, and the event from which on
// others may have changed files.
func (s *Service) target(ctx context.Context, st core.State, target string) (tree string, since uint64, err error) {
	for _, c := range st.Checkpoints {
		if c.ID == target || c.Name == target {
			return c.Tree, c.Seq, nil
		}
	}
	kind, id, _ := strings.Cut(target, ":")
	seq, isSeq := strconv.ParseUint(id, 10, 64)
	if kind != "todo" && (kind != "event" || isSeq != nil) {
		return "", 0, fmt.Errorf("%w: goal %s has no checkpoint %q (belay checkpoints %s lists them; todo:ID and event:SEQ are targets too)", ErrUsage, st.Goal, target, st.Goal)
	}
	var at core.State
	for at.Head < st.Head {
		es, err := s.Ledger.Read(ctx, st.Goal, at.Head, 1000)
		if err != nil {
			return "", 0, err
		}
		for _, e := range es {
			at = core.Fold(at, []event.Event{e})
			done := kind == "todo" && slices.ContainsFunc(at.Todos, func(t event.Todo) bool { return t.ID == id && t.Status == event.TodoCompleted })
			if (done || kind == "event" && e.Seq == seq) && at.Workspace != nil {
				return at.Revision.Tree, e.Seq, nil
			}
		}
	}
	return "", 0, fmt.Errorf("%w: goal %s was never at %s", ErrUsage, st.Goal, target)
}

// foreign are the paths that others than the goal have changed since an event.
func (s *Service) foreign(ctx context.Context, ws workspace.Workspace, goal string, since uint64, last, now string) (map[string]bool, error) {
	theirs := map[string]bool{}
	add := func(from, to string) error {
		cs, err := ws.Changes(ctx, from, to)
		for _, c := range cs {
			theirs[c.Path] = true
		}
		return err
	}
	for after := since; ; {
		es, err := s.Ledger.Read(ctx, goal, after, 1000)
		if err != nil {
			return nil, err
		}
		if len(es) == 0 {
			return theirs, add(last, now)
		}
		for _, e := range es {
			after = e.Seq
			if p, ok := e.Payload.(event.RepoStateMutated); ok && p.By == "external" {
				if err := add(p.From, p.Revision.Tree); err != nil {
					return nil, err
				}
			}
		}
	}
}
