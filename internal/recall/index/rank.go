package index

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"

	"belay/internal/recall"
)

const (
	// perWay is how many of the newest documents are candidates for one way of
	// reading one word.
	perWay = 300
	// short is how many of the best candidates are looked at in full.
	short = 120
	// farWeight is what a word counts whose parts are there, but not as one.
	farWeight = 0.7
)

// table is one of the two full-text tables.
type table string

const (
	docTerms   table = "doc_terms"
	chunkTerms table = "chunk_terms"
)

// newest returns the newest ids that match, newest first.
func (s *store) newest(ctx context.Context, t table, match string, limit int) ([]int64, error) {
	rows, err := s.query(ctx, "SELECT rowid FROM "+string(t)+" WHERE "+string(t)+" MATCH ? ORDER BY rowid DESC LIMIT ?", match, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := make([]int64, 0, min(limit, 64))
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// allOf writes an expression that wants every term.
func allOf(terms ...string) string {
	q := make([]string, len(terms))
	for i, t := range terms {
		q[i] = quote(t)
	}
	return strings.Join(q, " AND ")
}

// oneOf writes an expression that wants one of the terms.
func oneOf(terms ...string) string {
	q := make([]string, len(terms))
	for i, t := range terms {
		q[i] = quote(t)
	}
	return "(" + strings.Join(q, " OR ") + ")"
}

func quote(term string) string { return `"` + strings.ReplaceAll(term, `"`, "") + `"` }

// candidate is one document with the words of the query that it has.
type candidate struct {
	id    int64
	words []float64 // by word: 0, farWeight or 1
}

// candidates names the documents that hold words of a query, under filters, and
// how much each of the words weighs.
func (s *store) candidates(ctx context.Context, t table, want []recall.Wanted, filters []string, last int64) (map[int64]*candidate, []float64, error) {
	found := map[int64]*candidate{}
	weights := make([]float64, len(want))
	for i, w := range want {
		var ids []int64
		for n, way := range w.Ways {
			e := allOf(way...)
			if w.Prefix {
				e = quote(way[0]) + " *"
			}
			hits, err := s.newest(ctx, t, strings.Join(append([]string{e}, filters...), " AND "), perWay)
			if err != nil {
				return nil, nil, err
			}
			weight := 1.0
			if n > 0 {
				weight = farWeight
			}
			for _, id := range hits {
				c := found[id]
				if c == nil {
					c = &candidate{id: id, words: make([]float64, len(want))}
					found[id] = c
				}
				if c.words[i] == 0 {
					ids = append(ids, id)
				}
				c.words[i] = max(c.words[i], weight)
			}
			if len(hits) == perWay {
				break // there is more of the closest way than can be looked at
			}
		}
		weights[i] = weight(common(ids, perWay, last), last)
	}
	// A word whose newest candidates are all that was seen of it may be in others
	// too: two words together find those.
	if len(want) > 1 {
		if err := s.together(ctx, t, want, filters, found); err != nil {
			return nil, nil, err
		}
	}
	return found, weights, nil
}

// together adds the documents that have all words.
func (s *store) together(ctx context.Context, t table, want []recall.Wanted, filters []string, found map[int64]*candidate) error {
	var parts []string
	for _, w := range want {
		if w.Prefix {
			parts = append(parts, quote(w.Ways[0][0])+" *")
			continue
		}
		var ways []string
		for _, way := range w.Ways {
			ways = append(ways, "("+allOf(way...)+")")
		}
		parts = append(parts, "("+strings.Join(ways, " OR ")+")")
	}
	ids, err := s.newest(ctx, t, strings.Join(append(parts, filters...), " AND "), perWay)
	for _, id := range ids {
		c := found[id]
		if c == nil {
			c = &candidate{id: id, words: make([]float64, len(want))}
			found[id] = c
		}
		for i := range c.words {
			c.words[i] = max(c.words[i], farWeight)
		}
	}
	return err
}

// common estimates how many documents a word is in. When fewer than asked for
// came back, those are all; else their density so far back is taken for the rest.
func common(ids []int64, limit int, last int64) float64 {
	if len(ids) < limit {
		return float64(len(ids))
	}
	span := last - slices.Min(ids) + 1
	return float64(len(ids)) * float64(last) / float64(max(span, 1))
}

// weight is what a word counts: the rarer, the more.
func weight(n float64, of int64) float64 {
	return math.Log(1 + (float64(of)-min(n, float64(of))+0.5)/(n+0.5))
}

// score is what a document's words come to, and which part of the query's weight
// that is.
func score(words, weights []float64) (sum, part float64) {
	whole := 0.0
	for i, w := range weights {
		sum += words[i] * w
		whole += w
	}
	if whole == 0 {
		return 0, 0
	}
	part = sum / whole
	// Having more of the words counts for more than the sum of them.
	return sum * (0.5 + 0.5*part), part
}

// best returns the ids of the best candidates, best first, newer ones first among
// equals.
func best(found map[int64]*candidate, weights []float64, most int) []int64 {
	ids := make([]int64, 0, len(found))
	scores := make(map[int64]float64, len(found))
	for id, c := range found {
		ids = append(ids, id)
		scores[id], _ = score(c.words, weights)
	}
	slices.SortFunc(ids, func(a, b int64) int {
		switch {
		case scores[a] != scores[b]:
			if scores[a] > scores[b] {
				return -1
			}
			return 1
		case a > b:
			return -1
		}
		return 1
	})
	return ids[:min(len(ids), most)]
}

func (s *store) last(ctx context.Context, table string) (id int64, err error) {
	var n sql.NullInt64
	err = s.read.QueryRowContext(ctx, "SELECT max(id) FROM "+table).Scan(&n)
	return n.Int64, err
}
