package index

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"belay/internal/symbols"
)

// Finder answers for one root from what is indexed, whoever indexes it.
type Finder struct {
	store *Store
	root  string
}

var _ symbols.Finder = (*Finder)(nil)

// Finder asks about a workspace without working on its index: for faces that
// only look.
func (s *Store) Finder(root string) *Finder { return &Finder{store: s, root: root} }

// where is the condition on name, container and place.
func where(q symbols.Query, container, name string) (text string, args []any) {
	folded := strings.ToLower(name)
	if q.Prefix {
		text, args = `n.folded >= ? AND n.folded < ?`, []any{folded, folded + "\U0010FFFF"}
	} else {
		text, args = `n.name = ?`, []any{name}
	}
	if container != "" {
		text += ` AND (s.container = ? OR substr(s.container, -?) = ?)`
		args = append(args, container, len([]rune(container))+1, "."+container)
	}
	if under := strings.Trim(q.Under, "/"); under != "" && under != "." {
		text += ` AND (p.path = ? OR p.path >= ? AND p.path < ?)`
		args = append(args, under, under+"/", under+"0") // 0 follows /
	}
	return text, args
}

// Find implements symbols.Finder.
func (f *Finder) Find(ctx context.Context, q symbols.Query) ([]symbols.Symbol, int, error) {
	db, root, err := f.open(ctx)
	if err != nil || root == 0 {
		return nil, 0, err
	}
	container, name := q.Split()
	if name == "" {
		return nil, 0, nil
	}
	cond, args := where(q, container, name)
	from := ` FROM names n JOIN symbols s ON s.name = n.id JOIN paths p ON p.file = s.file AND p.root = ? WHERE ` + cond
	all := append([]any{root}, args...)
	rows, err := db.QueryContext(ctx, `SELECT n.name, s.kind, p.path, s.line, s.last, s.container, s.signature`+from+
		` ORDER BY n.name <> ?, n.folded <> ?, length(n.name), p.path, s.line LIMIT ?`, append(slices.Clone(all), name, strings.ToLower(name), q.Max()+1)...)
	if err != nil {
		return nil, 0, f.failed(err)
	}
	defer rows.Close()
	var out []symbols.Symbol
	for rows.Next() {
		var s symbols.Symbol
		if err := rows.Scan(&s.Name, &s.Kind, &s.Path, &s.Line, &s.End, &s.Container, &s.Signature); err != nil {
			return nil, 0, f.failed(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, f.failed(err)
	}
	return f.counted(ctx, db, out, q.Max(), `SELECT count(*)`+from, all)
}

// counted cuts a list to its limit and counts the rest.
func (f *Finder) counted(ctx context.Context, db *sql.DB, out []symbols.Symbol, limit int, count string, args []any) ([]symbols.Symbol, int, error) {
	if len(out) <= limit {
		return out, 0, nil
	}
	var n int
	if err := db.QueryRowContext(ctx, count, args...).Scan(&n); err != nil {
		return nil, 0, f.failed(err)
	}
	return out[:limit], n - limit, nil
}

// Uses implements symbols.Finder.
func (f *Finder) Uses(ctx context.Context, q symbols.Query) ([]symbols.Place, int, error) {
	db, root, err := f.open(ctx)
	if err != nil || root == 0 {
		return nil, 0, err
	}
	_, name := q.Split() // what stands before a name at its uses is a variable, not its container
	if name == "" {
		return nil, 0, nil
	}
	cond, args := where(q, "", name)
	from := ` FROM names n JOIN uses u ON u.name = n.id JOIN paths p ON p.file = u.file AND p.root = ? WHERE ` + cond
	all := append([]any{root}, args...)
	rows, err := db.QueryContext(ctx, `SELECT p.path, u.lines`+from+` ORDER BY p.path LIMIT ?`, append(slices.Clone(all), q.Max()+1)...)
	if err != nil {
		return nil, 0, f.failed(err)
	}
	defer rows.Close()
	var out []symbols.Place
	for rows.Next() {
		var p symbols.Place
		var lines []byte
		if err := rows.Scan(&p.Path, &lines); err != nil {
			return nil, 0, f.failed(err)
		}
		p.Lines = unpacked(lines)
		if n := len(out); n > 0 && out[n-1].Path == p.Path { // several names fit a prefix
			out[n-1].Lines = append(out[n-1].Lines, p.Lines...)
			slices.Sort(out[n-1].Lines)
			out[n-1].Lines = slices.Compact(out[n-1].Lines)
			continue
		}
		out = append(out, p)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, f.failed(err)
	}
	if len(out) <= q.Max() {
		return out, 0, nil
	}
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(DISTINCT p.path)`+from, all...).Scan(&n); err != nil {
		return nil, 0, f.failed(err)
	}
	return out[:q.Max()], n - q.Max(), nil
}

// maxFailures is how many files that could not be read are named.
const maxFailures = 5

// Status implements symbols.Finder.
func (f *Finder) Status(ctx context.Context) (symbols.Status, error) {
	var st symbols.Status
	db, root, err := f.open(ctx)
	if err != nil || root == 0 {
		return st, err
	}
	st.Looked = true
	rows, err := db.QueryContext(ctx, `SELECT p.language, count(*), coalesce(sum(f.symbols), 0), count(f.id), coalesce(sum(f.failed <> ''), 0)
		FROM paths p LEFT JOIN files f ON f.id = p.file WHERE p.root = ? GROUP BY p.language ORDER BY p.language`, root)
	if err != nil {
		return st, f.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var c symbols.Coverage
		var read, bad int
		if err := rows.Scan(&c.Language, &c.Files, &c.Symbols, &read, &bad); err != nil {
			return st, f.failed(err)
		}
		st.Failed += bad
		if read < c.Files {
			if f.store.parser.Version(ctx, c.Language) == "" {
				c.Missing = true
				c.Files -= read
			} else {
				st.Pending += c.Files - read
			}
		}
		st.Languages = append(st.Languages, c)
	}
	if err := rows.Err(); err != nil {
		return st, f.failed(err)
	}
	if st.Failed > 0 {
		return st, f.failures(ctx, db, root, &st)
	}
	return st, nil
}

func (f *Finder) failures(ctx context.Context, db *sql.DB, root int64, st *symbols.Status) error {
	rows, err := db.QueryContext(ctx, `SELECT p.path, f.failed FROM paths p JOIN files f ON f.id = p.file
		WHERE p.root = ? AND f.failed <> '' ORDER BY p.path LIMIT ?`, root, maxFailures)
	if err != nil {
		return f.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var path, why string
		if err := rows.Scan(&path, &why); err != nil {
			return f.failed(err)
		}
		st.Failures = append(st.Failures, path+": "+why)
	}
	return f.failed(rows.Err())
}

// open returns the database and the root's number, 0 when nothing is indexed
// of it.
func (f *Finder) open(ctx context.Context) (*sql.DB, int64, error) {
	db, err := f.store.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	var id int64
	err = db.QueryRowContext(ctx, `SELECT id FROM roots WHERE path = ?`, f.root).Scan(&id)
	if err == sql.ErrNoRows {
		return db, 0, nil
	}
	return db, id, f.failed(err)
}

func (f *Finder) failed(err error) error {
	if err == nil {
		return nil
	}
	f.store.forget(err)
	return fmt.Errorf("ask the symbol index: %w", err)
}
