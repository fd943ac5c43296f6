package index

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/recall"
)

const (
	// page is how many events are taken in by one transaction.
	page = 1000
	// maxStored is how much of a text is kept to show lines of, maxIndexed how
	// much of it, and maxWhole how much of what is kept apart, is searched.
	maxStored  = 6 << 10
	maxIndexed = 64 << 10
	maxWhole   = 256 << 10
)

// doc is a document on its way into the index.
type doc struct {
	event event.Event
	recall.Document
	terms string
	hash  []byte
}

// stream is one goal and how far its events reach.
type stream struct {
	goal string
	head uint64
}

// streams are the goals that a query is about. What the list of goals lacks is
// not found before it has been rebuilt.
func (x *Index) streams(ctx context.Context, q recall.Query) ([]stream, error) {
	if q.Goal != "" {
		row, err := x.Ledger.Goal(ctx, q.Goal)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, nil
		}
		return []stream{{q.Goal, row.Head}}, err
	}
	rows, err := x.Ledger.Goals(ctx, ledger.Filter{Repo: q.Repo})
	out := make([]stream, len(rows))
	for i, r := range rows {
		out[i] = stream{r.Goal, r.Head}
	}
	return out, err
}

// feed takes in what is new of some goals, until the deadline. It returns how many
// events it did not get to.
func (x *Index) feed(ctx context.Context, s *store, goals []stream, until time.Time) (left uint64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, g := range goals {
		for x.known[g.goal] != g.head || g.head == 0 {
			if time.Now().After(until) {
				left += g.head - min(x.known[g.goal], g.head)
				break
			}
			more, err := x.take(ctx, s, g.goal)
			if err != nil {
				return left, err
			}
			if !more {
				break
			}
		}
	}
	return left, nil
}

// take takes in the next page of one goal and reports whether there may be more.
func (x *Index) take(ctx context.Context, s *store, goal string) (more bool, err error) {
	var through uint64
	var hash string
	err = s.write.QueryRowContext(ctx, "SELECT through, hash FROM streams WHERE goal = ?", goal).Scan(&through, &hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	// The last one that is there comes along, to see that it is still the same.
	es, err := x.Ledger.Read(ctx, goal, max(through, 1)-1, page)
	if err != nil {
		return false, err
	}
	forget := false
	if through > 0 {
		if len(es) == 0 || es[0].Seq != through || es[0].Hash != hash {
			forget, es = true, nil // the ledger is another one, or an older copy of it
		} else {
			es = es[1:]
		}
	}
	if len(es) == 0 && !forget {
		x.known[goal] = through
		return false, nil
	}
	docs := make([]doc, 0, len(es))
	for _, e := range es {
		if d, ok := x.document(ctx, e); ok {
			docs = append(docs, d)
		}
	}
	reached, err := s.put(ctx, goal, through, forget, es, docs)
	x.known[goal] = reached
	return err == nil, err
}

// put stores a page: documents and how far they reach, together. When another
// process has been at it since through was read, it stores nothing.
func (s *store) put(ctx context.Context, goal string, through uint64, forget bool, es []event.Event, docs []doc) (reached uint64, err error) {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return through, err
	}
	defer tx.Rollback()
	var now uint64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT through FROM streams WHERE goal = ?), 0)", goal).Scan(&now); err != nil {
		return through, err
	}
	if now != through {
		return now, nil
	}
	if forget {
		for _, do := range []string{"DELETE FROM doc_terms WHERE rowid IN (SELECT id FROM docs WHERE goal = ?)", "DELETE FROM docs WHERE goal = ?", "DELETE FROM streams WHERE goal = ?"} {
			if _, err := tx.ExecContext(ctx, do, goal); err != nil {
				return through, err
			}
		}
		return 0, tx.Commit()
	}
	if err := insert(ctx, tx, docs); err != nil {
		return through, err
	}
	last := es[len(es)-1]
	if _, err := tx.ExecContext(ctx, "INSERT INTO streams VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET through = excluded.through, hash = excluded.hash", goal, last.Seq, last.Hash); err != nil {
		return through, err
	}
	return last.Seq, tx.Commit()
}

func insert(ctx context.Context, tx *sql.Tx, docs []doc) error {
	row, err := tx.PrepareContext(ctx, "INSERT INTO docs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer row.Close()
	terms, err := tx.PrepareContext(ctx, "INSERT INTO doc_terms (rowid, terms) VALUES (last_insert_rowid(), ?)")
	if err != nil {
		return err
	}
	defer terms.Close()
	for _, d := range docs {
		e := d.event
		if _, err := row.ExecContext(ctx, e.Goal, e.Seq, e.Op, e.ID, e.Cause, string(e.Type), string(d.Kind), d.Tool, d.Outcome, int64(e.Time),
			d.Head, clip(d.Text, maxStored), d.Whole, act(d.Act), d.hash); err != nil {
			return err
		}
		if _, err := terms.ExecContext(ctx, d.terms); err != nil {
			return err
		}
	}
	return nil
}

// document makes the document of an event with the terms it is found by.
func (x *Index) document(ctx context.Context, e event.Event) (doc, bool) {
	d, ok := recall.DocumentOf(e)
	if !ok {
		return doc{}, false
	}
	text := clip(d.Head+"\n"+strings.Join(d.Files, "\n")+"\n"+d.Text, maxIndexed)
	if d.Whole != "" {
		// What cannot be read is found by its head alone.
		if whole, err := x.whole(ctx, d.Whole, maxWhole); err == nil {
			text += "\n" + whole
		}
	}
	marks := []string{mark('g', e.Goal), mark('k', string(d.Kind)), mark('t', d.Tool), mark('o', d.Outcome), mark('e', string(e.Type))}
	marks = append(marks, timeMarks(e.Time)...)
	for _, f := range d.Files {
		for _, p := range recall.Places(f) {
			marks = append(marks, mark('f', p))
		}
	}
	return doc{event: e, Document: d, terms: strings.Join(append(marks, recall.Terms(text)...), " "), hash: hashOf(embedded(d.Head, d.Text))}, true
}

// whole reads the beginning of an artifact.
func (x *Index) whole(ctx context.Context, sha string, limit int64) (string, error) {
	r, err := x.Ledger.OpenArtifact(ctx, sha)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit))
	return strings.ToValidUTF8(string(b), "\uFFFD"), err
}

// embedded is what of a document an embedder is sent.
func embedded(head, text string) string { return clip(head+"\n"+text, 2000) }

func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// act identifies what an operation does, 0 for nothing.
func act(s string) int64 {
	if s == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(s))
	return int64(binary.BigEndian.Uint64(sum[:]) | 1)
}

// mark is the term of a filter. It begins with a character of private use, so
// that no text has it.
func mark(kind byte, value string) string {
	h := fnv.New64a()
	h.Write([]byte(value))
	return "\uE000" + string(kind) + hex.EncodeToString(h.Sum(nil))
}

// timeMarks are the hour, the day and the month of an instant.
func timeMarks(t moment.Time) []string {
	s := t.Std()
	return []string{mark('H', s.Format("2006010215")), mark('D', s.Format("20060102")), mark('M', s.Format("200601"))}
}

// between names the terms of which a document of a span of time has one: hours
// for a short span, else days, else months. None means that the span is too long
// to be narrowed so.
func between(since, until moment.Time) []string {
	from, to := since.Std(), until.Std()
	step := func(kind byte, layout string, most int, next func(time.Time) time.Time, at time.Time) []string {
		var out []string
		for ; !at.After(to); at = next(at) {
			if len(out) == most {
				return nil
			}
			out = append(out, mark(kind, at.Format(layout)))
		}
		return out
	}
	if out := step('H', "2006010215", 48, func(t time.Time) time.Time { return t.Add(time.Hour) }, from.Truncate(time.Hour)); out != nil {
		return out
	}
	day := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, time.UTC)
	if out := step('D', "20060102", 62, func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }, day); out != nil {
		return out
	}
	return step('M', "200601", 60, func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }, time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC))
}

// clip cuts a text to at most n bytes, at a character's end.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// unread says what of the ledger the answer lacks.
func unread(left uint64) string {
	return fmt.Sprintf("%d events are not indexed yet; search again to take in more", left)
}
