package effect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"belay/internal/core"
	"belay/internal/environment"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
)

const (
	// maxChanges is how many changed paths an event lists; the rest is counted.
	maxChanges = 200
	// maxDiff is how many bytes of the diff an event holds; the whole is an
	// artifact.
	maxDiff = 48 << 10
	// maxInstructions caps the repository's own words for agents.
	maxInstructions = 32 << 10
)

// attach looks at the workspace for the first time and keeps what it found.
func (g *Goal) attach(ctx context.Context, s core.State) (core.Body, error) {
	a, err := g.Workspace.Attach(ctx)
	facts := make(chan map[string]string, 1)
	go func() { facts <- g.facts(ctx, a.Root, a.Files) }() // programs answer while git does
	index := ""
	if err == nil {
		if index, err = g.staged(ctx); err != nil {
			return nil, err
		}
		err = g.Workspace.Keep(ctx, g.ID+"/cp0", a.Tree)
	}
	failpoint.Hit(failpoint.AttachKept)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return core.AttachFailed{Fault: *asFault(err, fault.Internal, fault.Environment)}, nil
	}
	w := event.WorkspaceAttached{Root: a.Root, Git: a.Git, Head: a.Head, Branch: a.Branch, Dirty: a.Dirty, Doing: a.Doing, Tree: a.Tree, Index: index,
		TestCommands: a.TestCommands, InstructionsPath: a.InstructionsPath, Sandbox: g.Sandbox.Name() + ": " + g.Sandbox.Describe()}
	if a.Instructions != "" {
		w.Instructions, err = g.text(ctx, a.Instructions, maxInstructions)
	}
	b := core.Attached{Workspace: w, Environment: <-facts}
	if g.Recall != nil {
		b.Memory = g.Recall(ctx, s, w.TestCommands)
	}
	return b, err
}

// observe looks at the workspace as it is now.
func (g *Goal) observe(ctx context.Context, s core.State, e core.Observe) (core.Body, error) {
	failpoint.Hit(failpoint.ObserveBefore)
	o, err := g.look(ctx, s, e.From, e.Baseline)
	failpoint.Hit(failpoint.ObserveAfter)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, errUnkept) {
			return nil, err
		}
		return core.AttachFailed{Fault: *asFault(err, fault.Internal, fault.Environment)}, nil
	}
	b := core.Observed{Observation: o}
	if e.Deep {
		b.Symbols = g.deepFacts(ctx)
	}
	return b, nil
}

// look computes the present tree and, when it is another than before, what
// changed.
func (g *Goal) look(ctx context.Context, s core.State, from, baseline string) (core.Observation, error) {
	tree, err := g.Workspace.Observe(ctx)
	if err != nil {
		return core.Observation{}, err
	}
	o := core.Observation{Tree: tree, From: from}
	if o.Index, err = g.staged(ctx); err != nil {
		return o, err
	}
	git, err := g.Workspace.Standing(ctx)
	if err != nil {
		return o, err
	}
	o.Git = &git
	if tree == from {
		return o, nil
	}
	if told, err := g.compare(ctx, s, from, baseline); err != nil || !told {
		o.More, o.DiffMore = 1, 1
		o.Diff.Head = "(what the goal found is not kept on this machine, so there is no diff)\n"
		return o, err
	}
	changes, err := g.Workspace.Changes(ctx, from, tree)
	if err != nil {
		return o, err
	}
	o.Changes, o.More = capChanges(changes)
	if slices.ContainsFunc(changes, func(c event.Change) bool { return environment.IsManifest(c.Path) }) {
		if _, files, err := g.Workspace.Present(ctx); err == nil {
			o.Environment = g.facts(ctx, g.Workspace.Root(), files)
		}
	}
	if o.Instructions, err = g.changedInstructions(ctx, s, changes); err != nil || tree == baseline {
		return o, err
	}
	against := changes
	if from != baseline {
		if against, err = g.Workspace.Changes(ctx, baseline, tree); err != nil {
			return o, err
		}
	}
	o.DiffChanges, o.DiffMore = capChanges(against)
	diff, err := g.Workspace.Diff(ctx, baseline, tree)
	if err != nil {
		return o, err
	}
	o.Diff, err = g.text(ctx, string(diff), maxDiff)
	return o, err
}

// staged is what is staged in the user's repository, "" where that cannot be
// told: the files are what counts, and an index that git cannot read is the
// user's to mend. The error is the context's.
func (g *Goal) staged(ctx context.Context) (string, error) {
	index, err := g.Workspace.Staged(ctx)
	if err != nil {
		return "", ctx.Err()
	}
	return index, nil
}

// compare reports whether the earlier trees are here to be compared with. They
// may not be where a person took another directory for the goal's, whose
// workspace did not travel: then what changed is not known, only that it did,
// and no scope can be judged.
func (g *Goal) compare(ctx context.Context, s core.State, trees ...string) (bool, error) {
	if s.Workspace == nil || !core.Elsewhere(s.Workspace.Place, g.Place) {
		return true, nil
	}
	for _, t := range trees {
		if err := g.takeIn(ctx, s.Packs.All(), t); err != nil {
			return false, err
		}
		if held, err := g.Workspace.Holds(ctx, t); err != nil || !held {
			return false, err
		}
	}
	return true, nil
}

func capChanges(cs []event.Change) ([]event.Change, int) {
	if len(cs) <= maxChanges {
		return cs, 0
	}
	return cs[:maxChanges], len(cs) - maxChanges
}

// text takes the secrets out of a text and keeps a long one whole as an artifact and its head in the event.
func (g *Goal) text(ctx context.Context, s string, limit int) (event.Text, error) {
	s = g.Secrets.Text(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= limit {
		return event.Text{Head: s}, nil
	}
	ref, err := g.Ledger.PutArtifact(ctx, bytes.NewReader([]byte(s)), "text/plain; charset=utf-8")
	if err != nil {
		return event.Text{}, fmt.Errorf("%w: %w", errUnkept, err)
	}
	head := s[:limit]
	if i := strings.LastIndexByte(head, '\n'); i > 0 {
		head = head[:i+1]
	}
	return event.Text{Head: strings.ToValidUTF8(head, ""), Whole: ref, Cut: true}, nil
}
