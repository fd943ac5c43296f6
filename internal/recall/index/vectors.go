package index

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"belay/internal/recall"
)

const (
	// perAsk is how many texts an embedder is sent at once, newVectors how many
	// one search has embedded at the most.
	perAsk     = 64
	newVectors = 512
	// embedTime bounds what one search waits for an embedder.
	embedTime = 5 * time.Second
	// maxNear is how many of the newest documents are compared.
	maxNear = 20_000
	// near is the cosine below which two texts are not alike.
	near = 0.25
)

// alike ranks by likeness. An embedder that fails leaves the other rankings as
// they are, and that is said.
func (r *search) alike(ctx context.Context, goals []stream) ([][]string, error) {
	e := r.x.Embedder
	if e == nil || len(r.want) == 0 || r.q.File != "" || r.q.Tool != "" || r.q.Outcome != "" {
		return nil, nil
	}
	in, stop := context.WithTimeout(ctx, embedTime)
	defer stop()
	vs, err := e.Embed(in, []string{r.q.Text})
	if err == nil && (len(vs) != 1 || len(vs[0]) == 0) {
		err = errors.New("it answered without a vector")
	}
	var events, parts []string
	if err == nil {
		q := pack(vs[0])
		if err = r.vectors(in, e, goals); err == nil {
			if events, err = r.nearEvents(ctx, q, goals); err != nil {
				return nil, err
			}
			parts, err = r.nearParts(ctx, q)
			return [][]string{events, parts}, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.note("the embedder did not answer, so this was searched by text alone: %v", err)
	return nil, nil
}

// scopes are the queries for what is compared: documents of the goals, and chunks
// of the repository.
func (r *search) scopes(goals []stream) (docs, chunks string, docArgs, chunkArgs []any) {
	var ids []string
	for _, g := range goals {
		ids = append(ids, g.goal)
	}
	docs = "FROM docs d LEFT JOIN vectors v ON v.model = ? AND v.hash = d.hash WHERE d.goal IN (SELECT value FROM json_each(?)) AND d.kind IN ('said', 'operation')"
	docArgs = []any{r.x.Embedder.Name(), list(ids)}
	if !r.q.Since.IsZero() {
		docs, docArgs = docs+" AND d.time >= ?", append(docArgs, int64(r.q.Since))
	}
	if !r.q.Until.IsZero() {
		docs, docArgs = docs+" AND d.time <= ?", append(docArgs, int64(r.q.Until))
	}
	if r.files != nil && r.q.Wants(recall.File) {
		chunks = "FROM chunks d LEFT JOIN vectors v ON v.model = ? AND v.hash = d.hash WHERE d.root = ?"
		chunkArgs = []any{r.x.Embedder.Name(), r.files.Root()}
	}
	return docs, chunks, docArgs, chunkArgs
}

// vectors has the newest texts embedded that are not, as far as one search goes.
func (r *search) vectors(ctx context.Context, e recall.Embedder, goals []stream) error {
	docs, chunks, docArgs, chunkArgs := r.scopes(goals)
	type text struct {
		hash []byte
		text string
	}
	var todo []text
	known := map[string]bool{}
	read := func(query string, args []any) error {
		rows, err := r.s.query(ctx, query+" AND v.hash IS NULL ORDER BY d.id DESC LIMIT ?", append(args, newVectors/2+1)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for n := 0; rows.Next(); n++ {
			if n == newVectors/2 {
				r.note("not everything has a vector yet; search again to have more of it compared")
				break
			}
			var t text
			var head string
			if err := rows.Scan(&t.hash, &head, &t.text); err != nil {
				return err
			}
			if t.text = embedded(head, t.text); !known[string(t.hash)] {
				known[string(t.hash)] = true
				todo = append(todo, t)
			}
		}
		return rows.Err()
	}
	if err := read("SELECT d.hash, d.head, d.text "+docs, docArgs); err != nil {
		return err
	}
	if chunks != "" {
		if err := read("SELECT d.hash, d.path, d.text "+chunks, chunkArgs); err != nil {
			return err
		}
	}
	for group := range slices.Chunk(todo, perAsk) {
		texts := make([]string, len(group))
		for i, t := range group {
			texts[i] = t.text
		}
		vs, err := e.Embed(ctx, texts)
		if err != nil {
			return err
		}
		if len(vs) != len(texts) {
			return errors.New("it answered with another number of vectors")
		}
		err = r.s.transaction(ctx, func(tx *sql.Tx) error {
			for i, v := range vs {
				if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", e.Name(), group[i].hash, pack(v)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *store) transaction(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// neighbour is a document with its likeness.
type neighbour struct {
	id  int64
	cos float64
}

// nearest compares a vector with those of a scope, one after the other.
func (r *search) nearest(ctx context.Context, q []byte, scope string, args []any) ([]int64, error) {
	rows, err := r.s.query(ctx, "SELECT d.id, v.vector "+scope+" AND v.hash IS NOT NULL ORDER BY d.id DESC LIMIT ?", append(args, maxNear)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []neighbour
	var v sql.RawBytes
	for rows.Next() {
		n := neighbour{}
		if err := rows.Scan(&n.id, &v); err != nil {
			return nil, err
		}
		if n.cos = cosine(q, v); n.cos >= near {
			found = append(found, n)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b neighbour) int {
		if a.cos != b.cos {
			return sign(b.cos - a.cos)
		}
		return int(b.id - a.id)
	})
	var ids []int64
	for _, n := range found[:min(len(found), short)] {
		ids = append(ids, n.id)
	}
	return ids, nil
}

func (r *search) nearEvents(ctx context.Context, q []byte, goals []stream) ([]string, error) {
	if !r.q.Wants(recall.Operation, recall.Said) || len(goals) == 0 {
		return nil, nil
	}
	docs, _, args, _ := r.scopes(goals)
	ids, err := r.nearest(ctx, q, docs, args)
	if err != nil {
		return nil, err
	}
	rows, err := r.s.rows(ctx, "id IN (SELECT value FROM json_each(?))", list(ids))
	if err != nil {
		return nil, err
	}
	at := map[int64]row{}
	for _, d := range rows {
		at[d.id] = d
	}
	var keys []string
	for _, id := range ids {
		d := at[id]
		if !r.q.Wants(d.kind) {
			continue
		}
		key := keyOf(d)
		if _, known := r.groups[key]; !known {
			r.groups[key] = group{key: key, rows: []row{d}}
		}
		r.found(key, "vectors")
		keys = append(keys, key)
	}
	return keys, nil
}

func (r *search) nearParts(ctx context.Context, q []byte) ([]string, error) {
	_, scope, _, args := r.scopes(nil)
	if scope == "" {
		return nil, nil
	}
	ids, err := r.nearest(ctx, q, scope, args)
	if err != nil {
		return nil, err
	}
	ps, err := r.s.parts(ctx, ids)
	if err != nil {
		return nil, err
	}
	at := map[int64]part{}
	for _, p := range ps {
		at[p.id] = p
	}
	var keys []string
	for _, id := range ids {
		p := at[id]
		r.parts[p.key()] = p
		r.found(p.key(), "vectors")
		keys = append(keys, p.key())
	}
	return keys, nil
}

// pack stores a vector as one byte for each dimension. It keeps the direction,
// which is all that is compared: to about one part in two hundred.
func pack(v []float32) []byte {
	top := 0.0
	for _, f := range v {
		top = max(top, math.Abs(float64(f)))
	}
	out := make([]byte, len(v))
	if top == 0 || math.IsNaN(top) || math.IsInf(top, 0) {
		return out
	}
	for i, f := range v {
		out[i] = byte(int8(math.Round(float64(f) / top * 127)))
	}
	return out
}

// cosine compares two packed vectors; those of different lengths are not alike.
func cosine(a, b []byte) float64 {
	if len(a) != len(b) {
		return 0
	}
	var dot, aa, bb int64
	for i := range a {
		x, y := int64(int8(a[i])), int64(int8(b[i]))
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return float64(dot) / math.Sqrt(float64(aa)*float64(bb))
}
