package effect

import (
	"context"
	"fmt"
	"strings"

	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
)

// merger takes over what a goal's children changed.
type merger struct {
	g *Goal
	s core.State
}

// Prepare computes what taking over a child's result would make of the
// workspace: what the child changed of the tree that it began with, merged into
// the tree of now.
func (m merger) Prepare(ctx context.Context, call tool.Call) (tool.Prepared, error) {
	var p tool.Prepared
	op, _ := m.s.Find(call.Op)
	c, f := core.ChildToApply(m.s, op)
	if f != nil {
		return p, f
	}
	ws := m.g.Workspace
	now, err := ws.Observe(ctx)
	if err != nil {
		return p, err
	}
	if err := m.g.Family.Fetch(ctx, c.Goal, c.Base, c.Tree, ws); err != nil {
		return p, err
	}
	merged, err := ws.Merge(ctx, c.Base, now, c.Tree, false)
	if err != nil {
		return p, err
	}
	if len(merged.Conflicts) > 0 {
		var words []string
		for _, c := range merged.Conflicts {
			words = append(words, strings.TrimSpace(c.Path+": "+c.Why+"\n"+c.Text))
		}
		return p, fault.New(fault.Foreign, fault.Model, fmt.Sprintf("%d paths that the child changed were changed here too, in ways that do not fit; nothing was applied:\n%s",
			len(merged.Conflicts), m.g.Secrets.Text(strings.Join(words, "\n"))), "make the child's change by hand (its diff is in the result of delegate), or delegate it again")
	}
	changes, err := ws.Changes(ctx, now, merged.Tree)
	if err != nil {
		return p, err
	}
	if len(changes) == 0 {
		return p, fault.New(fault.AlreadyExists, fault.Model, "the workspace has all that child goal "+c.Goal+" changed", "go on")
	}
	for _, ch := range changes {
		p.Files = append(p.Files, event.FilePrint{Path: ch.Path})
	}
	// The trees say what the paths hold before and after.
	p.Key = merged.Tree
	p.Inputs = []event.FilePrint{{Path: "child:" + c.Goal, Base: now, Result: merged.Tree}}
	diff, err := ws.Diff(ctx, now, merged.Tree)
	p.Preview = string(diff)
	return p, err
}

// Run makes the workspace hold the merged tree that was prepared. Like a
// rollback it can be done again after a crash in its middle: each path is then
// either as it was or as it is to be, and whatever is neither belongs to
// somebody else and stops it.
func (m merger) Run(ctx context.Context, call tool.Call) (event.Outcome, event.Result, error) {
	o, _ := m.s.Find(call.Op)
	if _, err := m.g.Workspace.MoveIn(ctx, call.Intent.Key, []string{o.Tree}); err != nil {
		if ctx.Err() != nil {
			return "", event.Result{}, ctx.Err()
		}
		f := asFault(err, fault.Internal, fault.Environment)
		return event.Failed, event.Result{Fault: f, Output: event.Text{Head: f.Error()}}, nil
	}
	return event.Succeeded, m.result(o), nil
}

// Probe finds out how far an application came. One that stopped in its middle is
// brought to its end; where somebody has edited meanwhile, nobody can tell.
func (m merger) Probe(ctx context.Context, call tool.Call) (tool.Finding, error) {
	o, _ := m.s.Find(call.Op)
	now, err := m.g.Workspace.Observe(ctx)
	if err != nil {
		return tool.Finding{}, err
	}
	switch now {
	case o.Tree:
		return tool.Finding{What: tool.FoundNever}, nil
	case call.Intent.Key:
	default:
		if _, err := m.g.Workspace.MoveIn(ctx, call.Intent.Key, []string{o.Tree}); err != nil {
			return tool.Finding{What: tool.FoundUnknown, Detail: "the workspace is neither as before nor as after it: " + err.Error()}, nil
		}
	}
	return tool.Finding{What: tool.FoundFinished, Outcome: event.Succeeded, Result: m.result(o)}, nil
}

func (m merger) result(o operation.Op) event.Result {
	c, _ := core.ChildToApply(m.s, o)
	var paths []string
	for _, f := range o.Intent.Files {
		paths = append(paths, f.Path)
	}
	return event.Result{Output: event.Text{Head: fmt.Sprintf("%d paths hold what child goal %s made of them now: %s\nIts evidence was for another tree: run what shows that this one is right.",
		len(paths), c.Goal, strings.Join(paths, ", "))}}
}
