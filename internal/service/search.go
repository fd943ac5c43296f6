package service

import (
	"context"
	"errors"
	"fmt"

	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/recall"
	"belay/internal/workspace"
)

// Search finds again what goals went through and what repositories hold. With
// q.Goal it looks at that goal and at its repository as it was last observed;
// with q.Repo at the goals of that repository and at it as it is now; else at all
// goals, and at the repository here, if there is one that a goal has worked on.
func (s *Service) Search(ctx context.Context, q recall.Query, here string) (recall.Answer, error) {
	if err := q.Check(); err != nil {
		return recall.Answer{}, SearchUsage(err)
	}
	if s.Index == nil {
		return recall.Answer{}, fault.New(fault.Internal, fault.Runtime, "this belay cannot search", "")
	}
	root, tree := here, ""
	switch {
	case q.Goal != "":
		st, err := s.state(ctx, q.Goal)
		if err != nil {
			return recall.Answer{}, err
		}
		root, tree = st.Repo, st.Revision.Tree
	case q.Repo != "":
		root = q.Repo
	}
	ws, note, err := s.searched(ctx, q, root)
	if err != nil {
		return recall.Answer{}, err
	}
	var files recall.Files
	var more []recall.Source
	if ws != nil {
		defer ws.Close()
		files = effect.Files(ws, tree)
		if s.Symbols != nil {
			marks := s.Symbols(ws)
			defer marks.Close()
			more = effect.Definitions(marks)
		}
	}
	a, err := s.Index.Search(ctx, q, files, more...)
	if note != "" {
		a.Notes = append(a.Notes, note)
	}
	for i := range a.Hits {
		h := &a.Hits[i]
		h.Action, h.Text, h.Because = s.Secrets.Text(h.Action), s.Secrets.Text(h.Text), s.Secrets.Text(h.Because)
	}
	return a, err
}

// SearchUsage says what is wrong with a query.
func SearchUsage(err error) error { return fmt.Errorf("%w: search: %w", ErrUsage, err) }

// Event is an event as a text that holds everything of it, by its reference.
func (s *Service) Event(ctx context.Context, ref string) (string, error) {
	text, err := ReadEvent(ctx, ref, s.Resolve, s.Page)
	return s.Secrets.Text(text), err
}

// ReadEvent reads an event through a door's own ways to goals and events.
func ReadEvent(ctx context.Context, ref string, resolve func(context.Context, string) (string, error),
	page func(ctx context.Context, goal string, after uint64, limit int) ([]event.Event, error)) (string, error) {
	goal, seq, ok := recall.ParseReference(ref)
	if !ok || goal == "" {
		return "", fmt.Errorf("%w: %q is no reference of an event (event:GOAL/SEQ)", ErrUsage, ref)
	}
	goal, err := resolve(ctx, goal)
	if err != nil {
		return "", err
	}
	es, err := page(ctx, goal, seq-1, 1)
	if err != nil {
		return "", err
	}
	if len(es) == 0 || es[0].Seq != seq {
		return "", fmt.Errorf("%w: goal %s has no event %d", ErrUsage, goal, seq)
	}
	return recall.Render(es[0])
}

// searched opens the repository to search, nil for none. A directory in which no
// goal has worked is nobody's to read; one that cannot be opened leaves the events
// to search, and note says so.
func (s *Service) searched(ctx context.Context, q recall.Query, root string) (ws workspace.Workspace, note string, err error) {
	if root == "" || s.ReadWorkspace == nil || q.OnlyEvents() || !q.Wants(recall.File, recall.Symbol) {
		return nil, "", nil
	}
	if q.Goal == "" {
		rows, err := s.Ledger.Goals(ctx, ledger.Filter{Repo: root, Limit: 1})
		if err != nil {
			return nil, "", err
		}
		if len(rows) == 0 && q.Repo != "" {
			return nil, "", fmt.Errorf("%w: search: no goal has worked on %s (belay goals lists them)", ErrUsage, root)
		}
		if len(rows) == 0 {
			return nil, "", nil
		}
	}
	if ws, err = s.ReadWorkspace(ctx, root); err == nil {
		return ws, "", nil
	}
	if ctx.Err() != nil || !errors.As(err, new(*fault.Fault)) {
		return nil, "", err
	}
	return nil, fmt.Sprintf("the repository was not searched: %v", err), nil
}
