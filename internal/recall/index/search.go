package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belay/internal/fault"
	"belay/internal/recall"
)

// worth is the part of the best answer's coverage of the query below which
// another is left out, while there are words to cover.
const worth = 0.4

// Search implements recall.Recall.
func (x *Index) Search(ctx context.Context, q recall.Query, files recall.Files, more ...recall.Source) (a recall.Answer, err error) {
	if err := q.Check(); err != nil {
		return a, fault.New(fault.InvalidArguments, fault.User, "search: "+err.Error(), "filters are "+recall.Filters)
	}
	if q.Limit <= 0 {
		q.Limit = recall.DefaultLimit
	}
	q.Limit = min(q.Limit, recall.MaxLimit)
	err = x.with(ctx, func(s *store) error {
		r := &search{x: x, s: s, q: q, want: recall.Words(q.Text), files: files, more: more}
		a, err = r.run(ctx)
		return err
	})
	if a.Hits == nil {
		a.Hits = []recall.Hit{}
	}
	return a, err
}

// search is one search on its way.
type search struct {
	x     *Index
	s     *store
	q     recall.Query
	want  []recall.Wanted
	files recall.Files
	more  []recall.Source
	notes []string

	// What was found, by the key that it is ranked under.
	groups  map[string]group
	parts   map[string]part
	foreign map[string]recall.Hit
	by      map[string][]string
}

func (r *search) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); n != "" && !slices.Contains(r.notes, n) {
		r.notes = append(r.notes, n)
	}
}

func (r *search) run(ctx context.Context) (recall.Answer, error) {
	r.groups, r.parts, r.foreign, r.by = map[string]group{}, map[string]part{}, map[string]recall.Hit{}, map[string][]string{}
	until := time.Now().Add(r.x.Wait)
	goals, err := r.ledger(ctx, until)
	if err != nil {
		return recall.Answer{}, err
	}
	if r.q.OnlyEvents() || !r.q.Wants(recall.File, recall.Symbol) {
		r.files = nil
	}
	if err := r.repository(ctx, until); err != nil {
		return recall.Answer{}, err
	}
	events, err := r.s.events(ctx, r.q, r.want, goals)
	if err != nil {
		return recall.Answer{}, err
	}
	var parts []part
	if r.files != nil && r.q.Wants(recall.File) {
		if parts, err = r.s.files(ctx, r.q, r.want, r.files.Root()); err != nil {
			return recall.Answer{}, err
		}
	}
	lists := r.textLists(events, parts)
	alike, err := r.alike(ctx, goals)
	if err != nil {
		return recall.Answer{}, err
	}
	lists = append(lists, alike...)
	lists = append(lists, r.sources(ctx)...)
	hits, err := r.hits(ctx, recall.Fuse(lists...))
	return recall.Answer{Hits: hits, Notes: r.notes}, err
}

// ledger takes in what is new of the goals that are asked about.
func (r *search) ledger(ctx context.Context, until time.Time) ([]stream, error) {
	if !r.q.Wants(recall.Operation, recall.Said, recall.Fact) {
		return nil, nil
	}
	goals, err := r.x.streams(ctx, r.q)
	if err != nil {
		return nil, err
	}
	left, err := r.x.feed(ctx, r.s, goals, until)
	if left > 0 {
		r.note("%s", unread(left))
	}
	return goals, err
}

// repository takes in what is new of the repository. One that cannot be read
// leaves the events to search.
func (r *search) repository(ctx context.Context, until time.Time) error {
	if r.files == nil {
		return nil
	}
	note, err := r.x.tree(ctx, r.s, r.files, until)
	switch {
	case err == nil:
		r.note("%s", note)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, new(*fault.Fault)):
		r.note("the repository was not searched: %v", err)
		r.files = nil
	default:
		return err
	}
	return nil
}

// textLists are the rankings by text. What covers much less of the query than the
// best does is noise as long as there are words to cover.
func (r *search) textLists(events []group, parts []part) [][]string {
	top := 0.0
	for _, g := range events {
		top = max(top, g.part)
	}
	for _, p := range parts {
		top = max(top, p.share)
	}
	lists := make([][]string, 2)
	for _, g := range events {
		if g.part >= worth*top {
			r.groups[g.key] = g
			lists[0] = append(lists[0], g.key)
			r.found(g.key, "text")
		}
	}
	for _, p := range parts {
		if p.share >= worth*top {
			r.parts[p.key()] = p
			lists[1] = append(lists[1], p.key())
			r.found(p.key(), "text")
		}
	}
	return lists
}

func (r *search) found(key, by string) {
	if !slices.Contains(r.by[key], by) {
		r.by[key] = append(r.by[key], by)
	}
}

// sources asks the further rankings. One that fails is left out, and that is
// said.
func (r *search) sources(ctx context.Context) [][]string {
	var lists [][]string
	if r.q.OnlyEvents() || !r.q.Wants(recall.Symbol) || len(r.want) == 0 {
		return nil
	}
	for _, src := range r.more {
		hits, err := src.Find(ctx, r.q)
		if err != nil {
			r.note("%s were not searched: %v", src.Name(), err)
			continue
		}
		var keys []string
		for _, h := range hits[:min(len(hits), short)] {
			r.foreign[h.Ref] = h
			r.found(h.Ref, src.Name())
			keys = append(keys, h.Ref)
		}
		lists = append(lists, keys)
	}
	return lists
}

// hits fills in the best keys, and folds those together that say the same.
func (r *search) hits(ctx context.Context, keys []string) ([]recall.Hit, error) {
	var out []recall.Hit
	same := map[string]int{}
	for _, key := range keys {
		if len(out) == r.q.Limit {
			break
		}
		h, err := r.hit(ctx, key)
		if err != nil {
			return nil, err
		}
		h.By = r.by[key]
		if h.Kind == recall.Operation || h.Kind == recall.Fact {
			says := strings.Join([]string{h.Goal, h.Tool, h.Outcome, h.Action, h.Text}, "\x00")
			if i, yes := same[says]; yes {
				out[i].Alike++
				continue
			}
			same[says] = len(out)
		}
		out = append(out, h)
	}
	return out, nil
}

// hit fills in one hit.
func (r *search) hit(ctx context.Context, key string) (recall.Hit, error) {
	if h, ok := r.foreign[key]; ok {
		return h, nil
	}
	if p, ok := r.parts[key]; ok {
		lines, at := recall.Snippet(p.text, r.want, snippetLines)
		line := p.line + max(at, 1) - 1
		return recall.Hit{Kind: recall.File, Ref: fmt.Sprintf("%s:%d", p.path, line), Path: p.path, Line: line,
			Action: p.path, Text: strings.Join(lines, "\n")}, nil
	}
	return r.eventHit(ctx, r.groups[key])
}

// snippetLines is how many lines of a text a hit shows.
const snippetLines = 6
