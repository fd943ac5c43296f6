package index

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"belay/internal/moment"
	"belay/internal/recall"
)

// row is a stored document.
type row struct {
	id                                         int64
	goal, op, event, cause, typ, tool, outcome string
	seq                                        uint64
	kind                                       recall.Kind
	time                                       moment.Time
	head, text, whole                          string
	act                                        int64
}

const columns = "id, goal, seq, op, event, cause, type, kind, tool, outcome, time, head, text, whole, act"

// rows reads documents.
func (s *store) rows(ctx context.Context, where string, args ...any) ([]row, error) {
	rs, err := s.query(ctx, "SELECT "+columns+" FROM docs WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	var out []row
	for rs.Next() {
		var r row
		var at int64
		if err := rs.Scan(&r.id, &r.goal, &r.seq, &r.op, &r.event, &r.cause, &r.typ, &r.kind, &r.tool, &r.outcome, &at, &r.head, &r.text, &r.whole, &r.act); err != nil {
			return nil, err
		}
		r.time = moment.Time(at)
		out = append(out, r)
	}
	return out, rs.Err()
}

// list writes ids for json_each.
func list[T any](of []T) string {
	b, _ := json.Marshal(of) // numbers and strings alone
	return string(b)
}

// group is what one hit stands for: an operation with all its documents that were
// found, or one other event.
type group struct {
	key   string
	rows  []row // as found, the best first
	score float64
	part  float64
}

// keyOf names what a document belongs to.
func keyOf(r row) string {
	if r.op != "" {
		return "op:" + r.goal + "/" + r.op
	}
	return recall.Reference(r.goal, r.seq)
}

// filters are the terms that a query's filters ask for.
func filters(q recall.Query, goals []stream) []string {
	var fs []string
	if q.Goal != "" {
		fs = append(fs, quote(mark('g', q.Goal)))
	} else if q.Repo != "" {
		// Of very many goals, the newest.
		var marks []string
		for _, g := range goals[:min(len(goals), 64)] {
			marks = append(marks, mark('g', g.goal))
		}
		fs = append(fs, oneOf(append(marks, mark('g', ""))...))
	}
	if q.File != "" {
		fs = append(fs, quote(mark('f', recall.CleanPath(q.File))))
	}
	if len(q.Kinds) > 0 {
		var marks []string
		for _, k := range q.Kinds {
			marks = append(marks, mark('k', string(k)))
		}
		fs = append(fs, oneOf(marks...))
	}
	if !q.Since.IsZero() || !q.Until.IsZero() {
		since, until := q.Since, q.Until
		if until.IsZero() {
			until = moment.Of(time.Now().Add(time.Hour)) // the store's clock may be ahead
		}
		if since.IsZero() {
			since = moment.Of(until.Std().AddDate(0, -59, 0))
		}
		if marks := between(since, until); marks != nil {
			fs = append(fs, oneOf(marks...))
		}
	}
	return fs
}

// events ranks what of the ledger fits a query.
func (s *store) events(ctx context.Context, q recall.Query, want []recall.Wanted, goals []stream) ([]group, error) {
	if !q.Wants(recall.Operation, recall.Said, recall.Fact) || len(goals) == 0 {
		return nil, nil
	}
	last, err := s.last(ctx, "docs")
	if err != nil || last == 0 {
		return nil, err
	}
	fs := filters(q, goals)
	if len(want) == 0 {
		return s.latest(ctx, q, fs)
	}
	found, weights, err := s.candidates(ctx, docTerms, want, s.opFilters(q, fs), last)
	if err != nil {
		return nil, err
	}
	rows, err := s.rows(ctx, "id IN (SELECT value FROM json_each(?))", list(best(found, weights, short)))
	if err != nil {
		return nil, err
	}
	gs := gather(rows, found, weights, want, last)
	return s.passing(ctx, q, gs)
}

// opFilters adds the filters by tool and outcome. They are about operations, and
// an operation's documents have them between them: its proposal says the tool,
// its end the outcome. So the proposal of a failed operation is a candidate too,
// and passing sorts out the others.
func (s *store) opFilters(q recall.Query, fs []string) []string {
	fs = slices.Clone(fs)
	if q.Tool != "" {
		fs = append(fs, oneOf(mark('t', q.Tool), mark('t', "")))
	}
	if q.Outcome != "" {
		fs = append(fs, oneOf(mark('o', q.Outcome), mark('o', "")))
	}
	return fs
}

// latest lists what passes the filters, newest first, for a query without words.
func (s *store) latest(ctx context.Context, q recall.Query, fs []string) ([]group, error) {
	if q.Tool != "" {
		fs = append(fs, quote(mark('t', q.Tool)))
	}
	if q.Outcome != "" {
		fs = append(fs, quote(mark('o', q.Outcome)))
	}
	if len(fs) == 0 {
		return nil, nil
	}
	ids, err := s.newest(ctx, docTerms, strings.Join(fs, " AND "), perWay)
	if err != nil {
		return nil, err
	}
	rows, err := s.rows(ctx, "id IN (SELECT value FROM json_each(?)) ORDER BY id DESC", list(ids))
	if err != nil {
		return nil, err
	}
	var out []group
	at := map[string]int{}
	for _, r := range rows {
		key := keyOf(r)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, group{key: key, score: float64(r.id), part: 1})
		}
		out[i].rows = append(out[i].rows, r)
	}
	return s.passing(ctx, q, out)
}

// gather makes groups of documents and scores them: an operation has a word when
// one of its documents has it.
func gather(rows []row, found map[int64]*candidate, weights []float64, want []recall.Wanted, last int64) []group {
	at := map[string]int{}
	var out []group
	words := map[string][]float64{}
	for _, r := range rows {
		key := keyOf(r)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, group{key: key})
			words[key] = make([]float64, len(want))
		}
		out[i].rows = append(out[i].rows, r)
		for n, w := range found[r.id].words {
			words[key][n] = max(words[key][n], w)
		}
	}
	phrase := strings.ToLower(phraseOf(want))
	for i := range out {
		g := &out[i]
		g.score, g.part = score(words[g.key], weights)
		slices.SortFunc(g.rows, func(a, b row) int {
			x, _ := score(found[a.id].words, weights)
			y, _ := score(found[b.id].words, weights)
			if x != y {
				return sign(y - x)
			}
			return int(b.id - a.id)
		})
		newest := int64(0)
		closer := 0.0
		for _, r := range g.rows {
			newest = max(newest, r.id)
			closer = max(closer, closeness(r.head, r.text, want, phrase))
		}
		g.score *= 1 + closer + 0.1*float64(newest)/float64(last)
	}
	slices.SortStableFunc(out, func(a, b group) int { return sign(b.score - a.score) })
	return out
}

// sign is the sign of a number.
func sign(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

func phraseOf(want []recall.Wanted) string {
	ws := make([]string, len(want))
	for i, w := range want {
		ws[i] = w.Word
	}
	return strings.Join(ws, " ")
}

// closeness is how much nearer a document is to the query than its terms tell:
// words in its head, and the query as it was written.
func closeness(head, text string, want []recall.Wanted, phrase string) float64 {
	head, text = strings.ToLower(head), strings.ToLower(text)
	c := 0.0
	for _, w := range want {
		switch word := strings.ToLower(w.Word); {
		case strings.Contains(head, word):
			c += 0.25 / float64(len(want))
		case strings.Contains(text, word):
			c += 0.1 / float64(len(want))
		}
	}
	if len(want) > 1 && (strings.Contains(head, phrase) || strings.Contains(text, phrase)) {
		c += 0.4
	}
	return c
}

// passing keeps the groups that pass the filters as a whole: an operation has the
// tool of its proposal and the outcome of its end.
func (s *store) passing(ctx context.Context, q recall.Query, gs []group) ([]group, error) {
	if q.Tool == "" && q.Outcome == "" && q.Since.IsZero() && q.Until.IsZero() {
		return gs, nil
	}
	ends := map[string][]row{}
	if q.Tool != "" || q.Outcome != "" {
		var err error
		if ends, err = s.ends(ctx, gs); err != nil {
			return nil, err
		}
	}
	var out []group
	for _, g := range gs {
		tool, outcome := g.rows[0].tool, g.rows[0].outcome
		if rows := ends[g.key]; rows != nil {
			tool, outcome = toolOf(rows), outcomeOf(rows)
		}
		in := false
		for _, r := range g.rows {
			in = in || (q.Since.IsZero() || r.time >= q.Since) && (q.Until.IsZero() || r.time <= q.Until)
		}
		if in && (q.Tool == "" || tool == q.Tool) && (q.Outcome == "" || outcome == q.Outcome) {
			out = append(out, g)
		}
	}
	return out, nil
}

// ends reads, for each group that is an operation, what its documents say of tool
// and outcome, in order.
func (s *store) ends(ctx context.Context, gs []group) (map[string][]row, error) {
	var ops [][2]string
	for _, g := range gs {
		if r := g.rows[0]; r.op != "" {
			ops = append(ops, [2]string{r.goal, r.op})
		}
	}
	rs, err := s.query(ctx, `SELECT d.goal, d.op, d.type, d.tool, d.outcome FROM json_each(?) j
		CROSS JOIN docs d ON d.goal = j.value ->> 0 AND d.op = j.value ->> 1 AND d.op <> '' ORDER BY d.seq`, list(ops))
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	out := map[string][]row{}
	for rs.Next() {
		var r row
		if err := rs.Scan(&r.goal, &r.op, &r.typ, &r.tool, &r.outcome); err != nil {
			return nil, err
		}
		out[keyOf(r)] = append(out[keyOf(r)], r)
	}
	return out, rs.Err()
}

// operation reads all documents of one operation, in order.
func (s *store) operation(ctx context.Context, goal, op string) ([]row, error) {
	return s.rows(ctx, "goal = ? AND op = ? AND op <> '' ORDER BY seq LIMIT 40", goal, op)
}

func toolOf(rows []row) string {
	for _, r := range rows {
		if r.tool != "" {
			return r.tool
		}
	}
	return ""
}

// outcomeOf is the latest outcome of an operation itself: a check that runs with
// it has one of its own.
func outcomeOf(rows []row) string {
	for _, r := range slices.Backward(rows) {
		switch r.typ {
		case "operation_finished", "operation_rejected", "approval_denied", "operation_reconciled":
			if r.outcome != "" {
				return r.outcome
			}
		}
	}
	return ""
}
