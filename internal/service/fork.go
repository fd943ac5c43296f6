package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/workspace"
)

// ForkRequest says where a new goal begins.
type ForkRequest struct {
	// At is the last event of the other goal that is its history too; 0 is the
	// latest.
	At uint64
	// Text is the first message to it: what is to be different.
	Text string
}

// Fork begins a new goal where another one stood after an event: from its state
// and in a worktree that holds its tree. What happened is history: nothing of it
// runs again, what was open is closed, no approval counts, and the budget is a new
// one with the same limits.
func (s *Service) Fork(ctx context.Context, goal string, r ForkRequest) (Started, error) {
	now, err := s.state(ctx, goal)
	if err != nil {
		return Started{}, err
	}
	if r.At == 0 {
		r.At = now.Head
	}
	if r.At > now.Head {
		return Started{}, fmt.Errorf("%w: goal %s has no event %d; its last one is %d", ErrUsage, goal, r.At, now.Head)
	}
	if s.Checkouts == nil || s.ReadWorkspace == nil {
		return Started{}, fmt.Errorf("%w: worktrees are not kept here", ErrUsage)
	}
	out := Started{}
	if out.Goal, err = NewGoalID(time.Now()); err != nil {
		return out, err
	}
	records, err := s.Ledger.Records(ctx, goal, 0, int(r.At))
	if err != nil {
		return out, err
	}
	if uint64(len(records)) != r.At {
		return out, fmt.Errorf("goal %s: events are missing; belay audit %s tells more", goal, goal)
	}
	copies, err := s.verbatim(ctx, out.Goal, records)
	if err != nil {
		return out, err
	}
	then, err := s.foldAs(ctx, out.Goal, records)
	if err != nil {
		return out, err
	}
	if then.Workspace == nil {
		return out, fmt.Errorf("%w: goal %s had not looked at its workspace at event %d; start a new goal", ErrUsage, goal, r.At)
	}
	b := core.Fork{From: goal, At: r.At, Hash: records[len(records)-1].Hash, Tree: then.Revision.Tree, Place: s.Place, Text: s.Secrets.Text(r.Text)}
	made, err := s.checkoutAt(ctx, now, out.Goal, b.Tree, &out)
	if err != nil {
		return out, err
	}
	b.Worktree, b.Repo = made.tree, made.root
	if b.Foreign = now.Imported; b.Foreign {
		if err := s.foreign(ctx, then, &b, &out); err != nil {
			return out, errors.Join(err, s.Checkouts.Drop(b.Worktree.Dir))
		}
	}
	if err := s.appendFork(ctx, then, copies, b); err != nil {
		return out, errors.Join(err, s.Checkouts.Drop(b.Worktree.Dir))
	}
	return out, s.Checkouts.Keep(b.Worktree.Dir)
}

// foreign puts the user's own word in place of that of a history that came in a
// file.
func (s *Service) foreign(ctx context.Context, then core.State, b *core.Fork, out *Started) error {
	m, warnings, err := s.mine(ctx, b.Repo, "")
	if err != nil {
		return err
	}
	b.Mine = m
	out.Warnings = append(out.Warnings, warnings...)
	for _, c := range then.TestCommands() {
		out.Warnings = append(out.Warnings, "its history came in a file; this counts as its test, and is run without a question: "+c)
	}
	return nil
}

// foldAs folds another goal's records as those of a new one.
func (s *Service) foldAs(ctx context.Context, goal string, records []ledger.Stored) (core.State, error) {
	var st core.State
	for _, r := range records {
		r.Record.Goal = goal
		e := event.Decode(r.Record, r.Hash, func(ref event.Ref) ([]byte, error) { return s.content(ctx, ref.SHA256) })
		st = core.Fold(st, []event.Event{e})
	}
	if st.Refuse != "" {
		return st, fmt.Errorf("%w: %s", core.ErrRefused, st.Refuse)
	}
	return st, nil
}

type checkout struct {
	tree *event.Worktree
	root string
}

// checkoutAt makes a checkout of what the goal's directory is a checkout of, and
// lays a tree into it that was kept.
func (s *Service) checkoutAt(ctx context.Context, of core.State, goal, tree string, out *Started) (checkout, error) {
	kept, err := s.kept(ctx, of)
	if err != nil {
		return checkout{}, err
	}
	defer kept.Close()
	if held, err := kept.Holds(ctx, tree); err != nil || !held {
		return checkout{}, errors.Join(err, fmt.Errorf("%w: the tree that goal %s had then is not kept on this machine", ErrUsage, of.Goal))
	}
	var made checkout
	var bring workspace.Bring
	if of.Worktree != nil {
		bring.Setup = of.Worktree.Setup // those that goal.yaml named, too
	}
	if made.tree, made.root, err = s.isolate(ctx, goal, of.Repo, bring, out); err != nil {
		return made, err
	}
	if of.Worktree != nil {
		made.tree.Of = of.Worktree.Of // what it does goes where that of the other would
	}
	err = func() error {
		ws, err := s.OpenWorkspace(ctx, made.root, goal)
		if err != nil {
			return err
		}
		defer ws.Close()
		now, err := ws.Observe(ctx)
		if err != nil {
			return err
		}
		for _, t := range []string{of.BaselineTree(), tree} {
			// The baseline is what the diff and the checks compare with.
			held, err := kept.Holds(ctx, t)
			if err != nil || !held {
				continue
			}
			if err := carry(ctx, kept, ws, t, t); err != nil {
				return err
			}
		}
		_, err = ws.MoveIn(ctx, tree, []string{now})
		return err
	}()
	if err != nil {
		return made, errors.Join(fmt.Errorf("lay the tree of that time into the worktree: %w", err), s.Checkouts.Drop(made.tree.Dir))
	}
	return made, nil
}

// appendFork appends the copies and what makes them the history of a goal of its
// own, in one transaction.
func (s *Service) appendFork(ctx context.Context, then core.State, copies []event.Event, b core.Fork) error {
	in := core.Input{Now: moment.Of(time.Now()), By: event.ActorUser, StoreFence: then.Fence, Body: b}
	if _, err := rand.Read(in.Seed[:]); err != nil {
		return err
	}
	ready, err := core.Step(then, in)
	if err != nil {
		return err
	}
	_, err = s.Ledger.Append(ctx, ledger.Append{Goal: then.Goal, Events: append(copies, ready.Events...), Copied: len(copies), Row: core.Row(ready.State), Durable: true})
	if err != nil {
		return fmt.Errorf("the ledger did not take the goal: %w", err)
	}
	return nil
}
