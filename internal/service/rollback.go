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
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/runtime"
	"belay/internal/workspace"
)

// RollbackPlan is what a rollback would change, before it does.
type RollbackPlan struct {
	core.RollbackOf
	// Changes lead from the workspace as it is now to what it would be, Staged
	// from what is staged now to what would be.
	Changes []event.Change `json:"changes"`
	Staged  []event.Change `json:"staged,omitempty"`
	Diff    string         `json:"diff"`
	// Because says why a path of Kept or KeptStaged is left alone.
	Because map[string]string `json:"because,omitempty"`
	// Note says why what is staged is left as it is altogether.
	Note string `json:"note,omitempty"`
	seen core.Observation
}

// Empty reports whether a rollback would change nothing.
func (p RollbackPlan) Empty() bool { return len(p.Changes) == 0 && len(p.Staged) == 0 }

// instant is the state that a rollback is to: what the workspace was, and the
// event from which on others may have changed it.
type instant struct {
	core.Standing
	since uint64
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
		if _, err := s.finishDeed(ctx, st); err != nil {
			return RollbackPlan{}, err
		}
		if st, err = s.state(ctx, goal); err != nil {
			return RollbackPlan{}, err
		}
	}
	then, err := s.target(ctx, st, target)
	if err != nil {
		return RollbackPlan{}, err
	}
	g, err := s.bare(ctx, st)
	if err != nil {
		return RollbackPlan{}, err
	}
	defer g.Workspace.Close()
	ws := g.Workspace
	if ok, err := ws.Holds(ctx, then.Tree); err != nil || !ok {
		return RollbackPlan{}, errors.Join(err, fmt.Errorf("%w: the state at %s is not kept on this machine (another one made it, or belay gc removed it)", ErrUsage, target))
	}
	p := RollbackPlan{RollbackOf: core.RollbackOf{Target: target}, Because: map[string]string{}}
	if p.seen, err = g.Now(ctx, st); err != nil {
		return p, err
	}
	p.From = p.seen.Tree
	passages, err := s.passages(ctx, goal, then.since)
	if err != nil {
		return p, err
	}
	passages = append(passages, core.Unrecorded(core.Standing{Tree: st.Revision.Tree, Index: st.Index}, core.Standing{Tree: p.From, Index: p.seen.Index})...)
	if err := p.planFiles(ctx, ws, then.Tree, passages); err != nil {
		return p, err
	}
	if err := p.planStaged(ctx, ws, then.Index, passages); err != nil {
		return p, err
	}
	return p, nil
}

// What is said of a path that is left alone.
const (
	byOthers  = "changed by others since"
	notOurs   = "no part of the workspace stands there, or it was ignored then"
	forOthers = "a file of others stands in its way"
	restaged  = "staged by others since"
	bytesGone = "its staged bytes are gone from the repository"
)

// planFiles plans what becomes of the files.
func (p *RollbackPlan) planFiles(ctx context.Context, ws workspace.Workspace, tree string, passages []core.Passage) error {
	others := map[string]bool{}
	for _, step := range passages {
		if step.Staged {
			continue
		}
		cs := step.Changes
		if !step.Listed {
			var err error
			if cs, err = ws.Changes(ctx, step.From, step.To); err != nil {
				return err
			}
		}
		for _, c := range cs {
			others[c.Path] = true
			p.Because[c.Path] = byOthers
		}
	}
	blocked, err := ws.InTheWay(ctx, p.From, tree)
	if err != nil {
		return err
	}
	for _, path := range blocked {
		if !others[path] {
			others[path] = true
			p.Because[path] = notOurs
		}
	}
	whole, err := ws.Changes(ctx, p.From, tree)
	if err != nil {
		return err
	}
	p.Kept = core.LeftAlone(whole, others)
	p.because(p.Kept, forOthers)
	kept := map[string]bool{}
	for _, path := range p.Kept {
		kept[path] = true
	}
	if p.Tree, err = ws.Mix(ctx, tree, p.From, func(path string) bool { return kept[path] }); err != nil {
		return err
	}
	if p.Changes, err = ws.Changes(ctx, p.From, p.Tree); err != nil {
		return err
	}
	diff, err := ws.Diff(ctx, p.From, p.Tree)
	p.Diff = string(diff)
	return err
}

// because drops the reasons of paths that need none, and gives the others one.
func (p *RollbackPlan) because(kept []string, otherwise string) {
	why := map[string]string{}
	for _, path := range kept {
		if why[path] = p.Because[path]; why[path] == "" {
			why[path] = otherwise
		}
	}
	p.Because = why
}

// planStaged plans what becomes of what is staged. Where that cannot be told,
// it is left as it is, and the plan says so.
func (p *RollbackPlan) planStaged(ctx context.Context, ws workspace.Workspace, index string, passages []core.Passage) error {
	if index == "" || p.seen.Index == "" || index == p.seen.Index {
		return nil
	}
	changes, lost, err := ws.StagedChanges(ctx, p.seen.Index, index)
	others := map[string]bool{}
	why := map[string]string{}
	for _, step := range passages {
		if err != nil || !step.Staged {
			continue
		}
		var cs []event.Change
		cs, _, err = ws.StagedChanges(ctx, step.From, step.To)
		for _, c := range cs {
			others[c.Path], why[c.Path] = true, restaged
		}
	}
	if f := (*fault.Fault)(nil); errors.As(err, &f) {
		p.Note = "what is staged is left as it is: " + f.Message
		return nil
	}
	if err != nil {
		return err
	}
	for _, path := range lost {
		others[path], why[path] = true, bytesGone
	}
	for _, path := range p.Kept {
		others[path] = true
	}
	left := core.LeftAlone(changes, others)
	for _, path := range left {
		if slices.Contains(p.Kept, path) {
			continue
		}
		p.KeptStaged = append(p.KeptStaged, path)
		if p.Because[path] = why[path]; why[path] == "" {
			p.Because[path] = forOthers
		}
	}
	p.Staged = slices.DeleteFunc(changes, func(c event.Change) bool { return slices.Contains(left, c.Path) })
	if len(p.Staged) > 0 {
		p.Index, p.FromIndex = index, p.seen.Index
	}
	return nil
}

// Rollback does what a plan says, as long as the workspace is still what it was
// made from. It is an operation of the goal: recorded before it begins, gone on
// with after a crash, and undone by a rollback to the checkpoint before it.
func (s *Service) Rollback(ctx context.Context, goal string, p RollbackPlan) (core.Snapshot, error) {
	st, err := s.do(ctx, goal, core.Rollback{Of: p.RollbackOf, Observation: p.seen})
	if err != nil {
		return core.Snapshot{}, err
	}
	return s.finishDeed(ctx, st)
}

// finishDeed works on a goal at rest until the open operation of a person, a
// rollback or an apply, has ended.
func (s *Service) finishDeed(ctx context.Context, st core.State) (core.Snapshot, error) {
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
	return fmt.Errorf("it is recorded, and any worker goes on with it: %w", err)
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
		err = fmt.Errorf("%w: pause it first (belay pause %s)", ErrBusy, goal)
	}
	return st, err
}

// bare opens what a rollback needs of a goal: no model, no tools.
func (s *Service) bare(ctx context.Context, st core.State) (*effect.Goal, error) {
	if core.Elsewhere(st.Place, s.Place) {
		return nil, fmt.Errorf("%w: the goal's workspace is at %s; do it there", ErrUsage, st.Place)
	}
	box, err := s.OpenSandbox(ctx, st.Settings.Sandbox)
	if err != nil {
		return nil, fmt.Errorf("goal %s: %w", st.Goal, sandboxFault(st.Settings.Sandbox, err))
	}
	if f := st.Gone(); f != nil {
		return nil, f
	}
	ws, err := s.OpenWorkspace(ctx, st.Repo, st.Goal)
	if err != nil {
		return nil, err
	}
	if err := ws.Clean(ctx); err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	return &effect.Goal{ID: st.Goal, Ledger: s.Ledger, Workspace: ws, OpenOther: s.other(st.Goal), Sandbox: box, NewTools: s.NewTools, Place: s.Place,
		BaseEnv: s.BaseEnv, Secrets: s.Secrets, Protected: s.Protected, Scratch: s.Scratch}, nil
}

// target resolves what a person named.
func (s *Service) target(ctx context.Context, st core.State, target string) (instant, error) {
	for _, c := range st.Checkpoints {
		if c.ID == target || c.Name == target {
			return instant{core.Standing{Tree: c.Tree, Index: c.Index}, c.Seq}, nil
		}
	}
	kind, id, _ := strings.Cut(target, ":")
	seq, isSeq := strconv.ParseUint(id, 10, 64)
	if kind != "todo" && (kind != "event" || isSeq != nil) {
		return instant{}, fmt.Errorf("%w: goal %s has no checkpoint %q (belay checkpoints %s lists them; todo:ID and event:SEQ are targets too)", ErrUsage, st.Goal, target, st.Goal)
	}
	var at core.State
	for at.Head < st.Head {
		es, err := s.Ledger.Read(ctx, st.Goal, at.Head, 1000)
		if err != nil {
			return instant{}, err
		}
		for _, e := range es {
			at = core.Fold(at, []event.Event{e})
			done := kind == "todo" && slices.ContainsFunc(at.Todos, func(t event.Todo) bool { return t.ID == id && t.Status == event.TodoCompleted })
			if (done || kind == "event" && e.Seq == seq) && at.Workspace != nil {
				return instant{core.Standing{Tree: at.Revision.Tree, Index: at.Index}, e.Seq}, nil
			}
		}
	}
	return instant{}, fmt.Errorf("%w: goal %s was never at %s", ErrUsage, st.Goal, target)
}

// passages are the steps that others than the goal took after an event.
func (s *Service) passages(ctx context.Context, goal string, since uint64) ([]core.Passage, error) {
	var list []core.Passage
	for after := since; ; {
		es, err := s.Ledger.Read(ctx, goal, after, 1000)
		if err != nil || len(es) == 0 {
			return list, err
		}
		after = es[len(es)-1].Seq
		list = append(list, core.OthersPassages(es)...)
	}
}
