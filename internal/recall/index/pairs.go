package index

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"belay/internal/event"
	"belay/internal/recall"
)

// A hit in the ledger is shown as what it is part of: the action and its
// feedback, what the model said when it asked for it, and, when it failed, how
// that was got over.

func (r *search) eventHit(ctx context.Context, g group) (recall.Hit, error) {
	found := g.rows[0]
	h := recall.Hit{Kind: found.kind, Ref: recall.Reference(found.goal, found.seq), Goal: found.goal, Seq: found.seq, Op: found.op,
		Time: found.time, Action: recall.Shorten(found.head, maxAction), Tool: found.tool, Outcome: found.outcome}
	rows := g.rows
	if found.op != "" && found.kind != recall.Said {
		h.Kind = recall.Operation
		var err error
		if rows, err = r.s.operation(ctx, found.goal, found.op); err != nil {
			return h, err
		}
		h.Tool, h.Outcome = toolOf(rows), outcomeOf(rows)
		for _, d := range rows {
			if d.typ == string(event.TypeOperationProposed) {
				h.Action = recall.Shorten(d.head, maxAction)
				if h.Because, err = r.s.because(ctx, d.cause); err != nil {
					return h, err
				}
			}
		}
		if h.Then, err = r.s.then(ctx, rows, h.Outcome); err != nil {
			return h, err
		}
	}
	r.show(ctx, &h, g.rows, rows)
	return h, nil
}

// maxAction and maxBecause bound what a hit says of an action and of its reason.
const (
	maxAction  = 200
	maxBecause = 240
)

// show picks the feedback's lines that fit best: of the documents that were found
// first, then of the operation's others, then of the output that is kept apart.
func (r *search) show(ctx context.Context, h *recall.Hit, found, rows []row) {
	for _, d := range append(found[:len(found):len(found)], rows...) {
		if d.whole != "" {
			h.Whole = d.whole
		}
		text := d.text
		if d.typ == string(event.TypeOperationProposed) && len(rows) > 1 && h.Text != "" {
			continue
		}
		lines, best := recall.Snippet(text, r.want, snippetLines)
		if best > 0 {
			h.Text, h.Ref, h.Seq = strings.Join(lines, "\n"), recall.Reference(d.goal, d.seq), d.seq
			break
		}
	}
	if h.Text == "" && h.Whole != "" && len(r.want) > 0 {
		if text, err := r.x.whole(ctx, h.Whole, maxWhole); err == nil {
			if lines, best := recall.Snippet(text, r.want, snippetLines); best > 0 {
				h.Text = strings.Join(lines, "\n")
			}
		}
	}
	if h.Text != "" {
		return
	}
	// No line has a word of its own: the feedback's beginning.
	for _, d := range rows {
		if d.typ != string(event.TypeOperationProposed) && d.text != "" {
			lines, _ := recall.Snippet(d.text, nil, 3)
			h.Text = strings.Join(lines, "\n")
			return
		}
	}
}

// because is what the model said in the response that an operation came from.
func (s *store) because(ctx context.Context, cause string) (string, error) {
	if cause == "" {
		return "", nil
	}
	var text string
	err := s.read.QueryRowContext(ctx, "SELECT text FROM docs WHERE event = ? AND kind = 'said' AND type = ?", cause, string(event.TypeModelResponded)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return recall.Shorten(strings.Join(strings.Fields(text), " "), maxBecause), err
}

const (
	// maxThen is how many steps of the way out of a failure are shown.
	maxThen = 4
	// maxAgain is how many later tries of the same action are looked at.
	maxAgain = 30
)

// then follows a failure to where the same action succeeded: the changes that
// were made just before, and that success.
func (s *store) then(ctx context.Context, rows []row, outcome string) ([]recall.Link, error) {
	if outcome == "" || outcome == string(event.Succeeded) || len(rows) == 0 || rows[0].act == 0 {
		return nil, nil
	}
	first := rows[0]
	again, err := s.rows(ctx, "goal = ? AND act = ? AND seq > ? AND act <> 0 ORDER BY seq LIMIT ?", first.goal, first.act, first.seq, maxAgain)
	if err != nil {
		return nil, err
	}
	before := first.seq
	for _, a := range again {
		all, err := s.operation(ctx, a.goal, a.op)
		if err != nil {
			return nil, err
		}
		if outcomeOf(all) != string(event.Succeeded) {
			before = a.seq
			continue
		}
		links, err := s.changes(ctx, first.goal, before, a.seq)
		if err != nil {
			return nil, err
		}
		return append(links, link(all)), nil
	}
	return nil, nil
}

// changes are the last successful edits between two events.
func (s *store) changes(ctx context.Context, goal string, after, before uint64) ([]recall.Link, error) {
	const far = 400
	after = max(after, before-min(before, far))
	edits, err := s.rows(ctx, "goal = ? AND seq > ? AND seq < ? AND type = ? AND outcome = ? AND tool IN ('file_patch', 'write_file') ORDER BY seq DESC LIMIT ?",
		goal, after, before, string(event.TypeOperationFinished), string(event.Succeeded), maxThen-1)
	if err != nil {
		return nil, err
	}
	var out []recall.Link
	for i := len(edits) - 1; i >= 0; i-- {
		all, err := s.operation(ctx, goal, edits[i].op)
		if err != nil {
			return nil, err
		}
		out = append(out, link(all))
	}
	return out, nil
}

// link names an operation by its action and its end.
func link(rows []row) recall.Link {
	l := recall.Link{Outcome: outcomeOf(rows)}
	for _, d := range rows {
		if l.Op == "" || d.typ == string(event.TypeOperationProposed) {
			l.Op, l.Action = d.op, recall.Shorten(d.head, maxAction)
		}
		if d.outcome != "" || l.Ref == "" {
			l.Ref = recall.Reference(d.goal, d.seq)
		}
	}
	return l
}
