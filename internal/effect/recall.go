package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"belay/internal/core"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/recall"
	"belay/internal/symbols"
	"belay/internal/workspace"
)

// recaller is what one goal may find again.
type recaller struct {
	g *Goal
	s core.State
}

// Search implements tool.Recall. The repository is searched as it was last
// observed, which is after each change that the goal made.
func (r recaller) Search(ctx context.Context, q recall.Query, earlier bool) (recall.Answer, error) {
	q.Goal, q.Repo = r.g.ID, ""
	if earlier {
		q.Goal, q.Repo = "", core.Row(r.s).Repo
	}
	return r.g.Index.Search(ctx, q, Files(r.g.Workspace, r.s.Revision.Tree), Definitions(r.g.Symbols)...)
}

// Definitions is an index of symbols as recall asks it; none for nil.
func Definitions(i symbols.Index) []recall.Source {
	if i == nil {
		return nil
	}
	return []recall.Source{definitions{i}}
}

type definitions struct{ symbols.Finder }

// perName is how many definitions of one name are found.
const perName = 12

// Name implements recall.Source.
func (definitions) Name() string { return "symbols" }

// Find implements recall.Source: where the query's names are defined, and for a
// query of one name where names that begin with it are.
func (d definitions) Find(ctx context.Context, q recall.Query) ([]recall.Hit, error) {
	var out []recall.Hit
	names := q.Names()
	for _, name := range names {
		found, _, err := d.Finder.Find(ctx, symbols.Query{Name: name, Prefix: len(names) == 1 && len(name) > 2, Limit: perName})
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if q.File != "" && !slices.Contains(recall.Places(s.Path), recall.CleanPath(q.File)) {
				continue
			}
			out = append(out, recall.Hit{Kind: recall.Symbol, Ref: fmt.Sprintf("%s:%d", s.Path, s.Line), Path: s.Path, Line: s.Line,
				Action: string(s.Kind) + " " + s.Qualified(), Text: s.Signature})
		}
	}
	return out, nil
}

// Event implements tool.Recall.
func (r recaller) Event(ctx context.Context, ref string) (string, error) {
	goal, seq, ok := recall.ParseReference(ref)
	none := fault.New(fault.NotFound, fault.Model, "there is no "+ref+" to see", "copy the reference from the hit of recall that names it")
	if !ok {
		return "", none
	}
	if goal == "" {
		goal = r.g.ID
	}
	if goal != r.g.ID {
		row, err := r.g.Ledger.Goal(ctx, goal)
		if errors.Is(err, ledger.ErrNotFound) || err == nil && row.Repo != core.Row(r.s).Repo {
			return "", none
		}
		if err != nil {
			return "", err
		}
	}
	es, err := r.g.Ledger.Read(ctx, goal, seq-1, 1)
	if err != nil {
		return "", err
	}
	if len(es) == 0 || es[0].Seq != seq {
		return "", none
	}
	return recall.Render(es[0])
}

// Files is a workspace as recall reads it: a tree that was observed, or the
// present one where that is not known here or none is named.
func Files(ws workspace.Workspace, tree string) recall.Files { return observed{ws, tree} }

type observed struct {
	ws   workspace.Workspace
	tree string
}

// Root implements recall.Files.
func (o observed) Root() string { return o.ws.Root() }

// Tree implements recall.Files.
func (o observed) Tree(ctx context.Context) (string, error) {
	if o.tree != "" {
		if held, err := o.ws.Holds(ctx, o.tree); err != nil || held {
			return o.tree, err
		}
	}
	return o.ws.Observe(ctx)
}

// List implements recall.Files. Links are left out: what they lead to is listed
// under its own name, or is not of the repository.
func (o observed) List(ctx context.Context, tree string) ([]recall.FileID, error) {
	entries, err := o.ws.Entries(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("list the files of the repository: %w", err)
	}
	out := make([]recall.FileID, 0, len(entries))
	for _, e := range entries {
		if !e.Link {
			out = append(out, recall.FileID{Path: e.Path, ID: e.ID})
		}
	}
	return out, nil
}

// Read implements recall.Files.
func (o observed) Read(ctx context.Context, tree string, paths []string, limit int64) (map[string][]byte, error) {
	content, err := o.ws.Contents(ctx, tree, paths, limit)
	if err != nil {
		return nil, fmt.Errorf("read files of the repository: %w", err)
	}
	return content, nil
}
