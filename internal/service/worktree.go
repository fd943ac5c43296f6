package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/workspace"
)

// Bring is what a goal's own checkout gets beside the files that count.
type Bring = workspace.Bring

// isolate makes the checkout of a new goal. It stands before the goal is on
// record, so that the state is that of the user's command; what a crash leaves
// half made is removed later, when it is old and no goal has it.
func (s *Service) isolate(ctx context.Context, goal, from string, more workspace.Bring, out *Started) (*event.Worktree, string, error) {
	if s.Checkouts == nil {
		return nil, "", fmt.Errorf("%w: worktrees are not kept here", ErrUsage)
	}
	if err := s.sweep(ctx); err != nil {
		return nil, "", err
	}
	bring := more
	if s.Bring != nil {
		conf, warnings, err := s.Bring(from)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", ErrUsage, err)
		}
		out.Warnings = append(out.Warnings, warnings...)
		bring = workspace.Bring{Copy: union(conf.Copy, more.Copy), Link: union(conf.Link, more.Link), Never: union(conf.Never, more.Never), Setup: union(conf.Setup, more.Setup)}
	}
	if err := s.checkSetup(bring.Setup); err != nil {
		return nil, "", err
	}
	made, err := s.Checkouts.Make(ctx, from, goal, bring)
	if err != nil {
		return nil, "", fmt.Errorf("make the worktree: %w", err)
	}
	return &event.Worktree{Of: from, Dir: made.Dir, Head: made.Head, Branch: made.Branch, Copied: made.Copied, Linked: made.Linked, Setup: bring.Setup}, made.Root, nil
}

// checkSetup says what is wrong with the commands that prepare a checkout. They
// are recorded, and so must hold no secret.
func (s *Service) checkSetup(commands []string) error {
	if err := core.CheckSetup(commands); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	for _, c := range commands {
		if kind, yes := s.Secrets.Holds(c); yes {
			return fmt.Errorf("%w: a setup command holds a secret (%s), which would be recorded: have it read the secret from a file", ErrUsage, kind)
		}
	}
	return nil
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// sweep removes checkouts whose maker died before the goal was on record.
func (s *Service) sweep(ctx context.Context) error {
	list, err := s.Checkouts.Abandoned()
	if err != nil {
		return err
	}
	for goal, dir := range list {
		_, err := s.Ledger.Goal(ctx, goal)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			err = s.Checkouts.Drop(dir)
		case err == nil:
			err = s.Checkouts.Keep(dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
