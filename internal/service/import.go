package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"belay/internal/bundle"
	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
)

// importTree lays the goal's tree into a directory, where that holds nothing that
// is somebody else's: it may be empty, new, or a clone at a state that the goal
// knows.
func (s *Service) importTree(ctx context.Context, r ImportRequest, m bundle.Manifest, st core.State) (string, error) {
	dir := r.Repo
	if dir == "" {
		dir = st.Repo
		if st.Worktree != nil {
			dir = ""
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return "", fmt.Errorf("%w: the goal's directory %s is not here; name the one that gets its tree with --repo (new, empty, or a clone of the repository)", ErrUsage, st.Repo)
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	ws, err := s.OpenWorkspace(ctx, dir, m.Goal)
	if err != nil {
		return "", err
	}
	defer ws.Close()
	var trees []string
	err = s.eachPiece(r, func(f io.Reader) error {
		_, _, err := bundle.Read(f, r.Max, nil, func(kind, name string, piece io.Reader) error {
			if kind != "tree" {
				return nil
			}
			trees = append(trees, name)
			if err := ws.Import(ctx, piece); err != nil {
				return &bundle.Broken{Where: "tree " + name, Why: err.Error()}
			}
			held, err := ws.Holds(ctx, name)
			if err == nil && !held {
				err = &bundle.Broken{Where: "tree " + name, Why: "the pack does not hold it"}
			}
			return err
		})
		return err
	})
	if err != nil {
		return "", err
	}
	if st.Workspace == nil {
		return dir, nil
	}
	if held, err := ws.Holds(ctx, st.Revision.Tree); err != nil || !held {
		return "", errors.Join(err, &bundle.Broken{Where: "trees", Why: "the present tree " + st.Revision.Tree + " is not in the file"})
	}
	_, err = ws.MoveIn(ctx, st.Revision.Tree, trees)
	return dir, err
}

// mine says what the user's own configuration allows here. The sandbox is the
// user's, too: whatever the file says, the strongest that holds unless the user
// names another one.
func (s *Service) mine(ctx context.Context, repo, sandbox string) (m core.Mine, warnings []string, err error) {
	if s.Rules != nil {
		if m.Rules, warnings, err = s.Rules(repo); err != nil {
			return m, warnings, fmt.Errorf("%w: %w", ErrUsage, err)
		}
	}
	m.Protected = s.ProtectedPatterns()
	if s.PickSandbox == nil {
		return m, warnings, nil
	}
	if m.Sandbox, err = s.PickSandbox(ctx, sandbox); err != nil {
		return m, warnings, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return m, warnings, nil
}

// appendImport appends what is not here yet, byte for byte, and that the goal is
// of this place now, in one transaction.
func (s *Service) appendImport(ctx context.Context, st core.State, events []event.Event, known int, b core.Import) error {
	in := core.Input{Now: moment.Of(time.Now()), By: event.ActorUser, StoreFence: st.Fence, Body: b}
	if _, err := rand.Read(in.Seed[:]); err != nil {
		return err
	}
	ready, err := core.Step(st, in)
	if err != nil {
		return err
	}
	a := ledger.Append{Goal: st.Goal, Head: uint64(known), Events: append(events[known:len(events):len(events)], ready.Events...), Copied: len(events) - known,
		Row: core.Row(ready.State), Durable: true}
	if known > 0 {
		row, err := s.Ledger.Goal(ctx, st.Goal)
		if err != nil {
			return err
		}
		a.Fence, a.Row.Fence = row.Fence, max(a.Row.Fence, row.Fence)
	}
	got, err := s.Ledger.Append(ctx, a)
	if err != nil {
		return fmt.Errorf("the ledger did not take the goal: %w", err)
	}
	for i, e := range got[:a.Copied] {
		if want := events[known+i].Hash; e.Hash != want {
			return fmt.Errorf("event %d of goal %s was stored as other bytes (belay audit %s)", e.Seq, st.Goal, st.Goal)
		}
	}
	s.mu.Lock()
	delete(s.seen, st.Goal)
	s.mu.Unlock()
	return nil
}
