// Package index keeps the symbols of workspaces in a file of the state
// directory: a projection, keyed by content, that can be deleted at any time.
// It must not know goals, models or the ledger, and walks no directory: which
// files there are, and which content they have, the workspace says.
//
// # What is kept
//
// Per content and language: symbols and uses. Per root: which path has which
// content. A file that did not change, one that moved, one that came back with
// another branch, and the same file in another worktree are never read again.
//
// # Failure handling
//
// A killed process leaves a transaction undone and the rest as it is; the next
// catching up goes on from there. A file that is damaged is thrown away and made
// anew. An index that cannot be kept at all (a full disk) fails what is asked of
// it and nothing else.
package index

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"time"

	"belay/internal/fault"
	"belay/internal/symbols"
	"belay/internal/workspace"
)

// Files is what the index asks of a workspace.
type Files interface {
	Root() string
	Present(ctx context.Context) (tree string, files []workspace.Entry, err error)
	Content(ctx context.Context, e workspace.Entry, limit int64) ([]byte, error)
}

const (
	// batch and batchTime bound what one transaction takes in, so that another
	// process, and whoever asks, never waits long.
	batch     = 64
	batchTime = 250 * time.Millisecond
	// sweepAfter is how many files are read between two cleanings.
	sweepAfter = 500
)

// maxStale is how many contents are kept that no path has any more: a branch
// that one comes back to costs nothing.
var maxStale = 5_000

// Index is one workspace's. It is safe for use by several goroutines.
type Index struct {
	*Finder
	files Files

	turn chan struct{} // one catching up at a time
	// What the last catching up saw, guarded by turn.
	tree  string
	at    map[string]content
	round int64
	whole bool
	// unswept is how many files were read since the store was last cleaned.
	unswept int

	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	poked  bool
	busy   bool
	closed bool
	done   sync.WaitGroup
}

type content struct {
	id      string
	read    bool // symbols are there, or known not to be
	missing bool // nothing reads its language here
}

var _ symbols.Index = (*Index)(nil)

// Of is the index of a workspace. Nothing is opened or started yet.
func (s *Store) Of(f Files) *Index {
	x := &Index{Finder: s.Finder(f.Root()), files: f, turn: make(chan struct{}, 1), unswept: sweepAfter}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// Poke implements symbols.Index. Pokes while the index is at work are one.
func (x *Index) Poke() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	x.poked = true
	if x.busy {
		return
	}
	x.busy = true
	x.done.Go(x.work)
}

func (x *Index) work() {
	for {
		x.mu.Lock()
		if !x.poked || x.closed {
			x.busy = false
			x.mu.Unlock()
			return
		}
		x.poked = false
		x.mu.Unlock()
		// What fails here fails again, and is said, when somebody asks.
		_ = x.Sync(x.ctx)
	}
}

// Close implements symbols.Index.
func (x *Index) Close() error {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.cancel()
	x.done.Wait()
	return nil
}

// Outline implements symbols.Index.
func (x *Index) Outline(ctx context.Context, path string, content []byte) (symbols.File, error) {
	language := symbols.LanguageOf(path, content)
	if language == "" {
		return symbols.File{}, &symbols.NoParser{}
	}
	return x.store.parser.Parse(ctx, language, content)
}

// Sync implements symbols.Index.
func (x *Index) Sync(ctx context.Context) error {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := x.sync(ctx)
	if err != nil {
		x.at, x.tree = nil, "" // look at the store again
		x.store.forget(err)
	}
	return err
}

func (x *Index) sync(ctx context.Context) error {
	tree, files, err := x.files.Present(ctx)
	if err != nil {
		return err
	}
	db, err := x.store.open(ctx)
	if err != nil {
		return err
	}
	root, round, err := x.root(ctx, db)
	if err != nil {
		return err
	}
	if x.at == nil || round != x.round {
		// For the first time, or another process was here.
		if x.at, err = x.load(ctx, db, root); err != nil {
			return err
		}
		x.round = round
	} else if tree == x.tree && x.whole {
		return nil
	}
	todo, err := x.place(ctx, db, root, files)
	if err != nil {
		return err
	}
	rest, err := x.take(ctx, db, root, todo)
	if err != nil {
		return err
	}
	x.tree, x.whole = tree, rest == 0
	if x.unswept += len(todo); x.unswept < sweepAfter {
		return nil
	}
	x.unswept = 0
	return x.sweep(ctx, db)
}

// root is the number of the workspace, and how often it was written.
func (x *Index) root(ctx context.Context, db *sql.DB) (id, round int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT id, turn FROM roots WHERE path = ?`, x.Finder.root).Scan(&id, &round)
	if errors.Is(err, sql.ErrNoRows) {
		err = db.QueryRowContext(ctx, `INSERT INTO roots(path, turn) VALUES(?, 0)
			ON CONFLICT(path) DO UPDATE SET path = path RETURNING id, turn`, x.Finder.root).Scan(&id, &round)
	}
	return id, round, err
}

func (x *Index) load(ctx context.Context, db *sql.DB, root int64) (map[string]content, error) {
	rows, err := db.QueryContext(ctx, `SELECT p.path, p.content, p.language, p.file IS NOT NULL, coalesce(f.parser, '')
		FROM paths p LEFT JOIN files f ON f.id = p.file WHERE p.root = ?`, root)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	now := x.versions(ctx)
	at := map[string]content{}
	for rows.Next() {
		var path, language, parser string
		var c content
		if err := rows.Scan(&path, &c.id, &language, &c.read, &parser); err != nil {
			return nil, err
		}
		// What another parser read is read again; with none here it holds all the
		// same, for it belongs to this content.
		v := now(language)
		c.read = c.read && (v == "" || v == parser)
		c.missing = v == ""
		at[path] = c
	}
	return at, rows.Err()
}

// versions asks the parser once for each language.
func (x *Index) versions(ctx context.Context) func(language string) string {
	known := map[string]string{}
	return func(language string) string {
		v, ok := known[language]
		if !ok {
			v = x.store.parser.Version(ctx, language)
			known[language] = v
		}
		return v
	}
}

// job is a file whose content is not read yet.
type job struct {
	entry            workspace.Entry
	language, parser string
}

// place records which path has which content now, and returns what has to be
// read.
func (x *Index) place(ctx context.Context, db *sql.DB, root int64, files []workspace.Entry) ([]job, error) {
	now := x.versions(ctx)
	var moved []job
	there := make(map[string]bool, len(files))
	for _, e := range files {
		language := symbols.Language(e.Path)
		if language == "" || e.Link {
			continue
		}
		there[e.Path] = true
		v := now(language)
		if was, ok := x.at[e.Path]; ok && was.id == e.ID && (was.read || was.missing && v == "") {
			continue
		}
		moved = append(moved, job{entry: e, language: language, parser: v})
	}
	var gone []string
	for path := range x.at {
		if !there[path] {
			gone = append(gone, path)
		}
	}
	if len(moved)+len(gone) == 0 {
		return nil, nil
	}
	return x.write(ctx, db, root, moved, gone)
}

func (x *Index) write(ctx context.Context, db *sql.DB, root int64, moved []job, gone []string) (todo []job, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback()
		}
	}()
	known, err := tx.PrepareContext(ctx, `SELECT id FROM files WHERE content = ? AND language = ? AND (parser = ? OR ? = '')`)
	if err != nil {
		return nil, err
	}
	set, err := tx.PrepareContext(ctx, `INSERT INTO paths(root, path, content, language, file) VALUES(?, ?, ?, ?, ?)
		ON CONFLICT(root, path) DO UPDATE SET content = excluded.content, language = excluded.language, file = excluded.file
		WHERE content <> excluded.content OR language <> excluded.language OR file IS NOT excluded.file`)
	if err != nil {
		return nil, err
	}
	for _, j := range moved {
		var file sql.NullInt64
		err := known.QueryRowContext(ctx, j.entry.ID, j.language, j.parser, j.parser).Scan(&file)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if _, err := set.ExecContext(ctx, root, j.entry.Path, j.entry.ID, j.language, file); err != nil {
			return nil, err
		}
		x.at[j.entry.Path] = content{id: j.entry.ID, read: file.Valid, missing: j.parser == ""}
		if !file.Valid && j.parser != "" {
			todo = append(todo, j)
		}
	}
	for _, path := range gone {
		if _, err := tx.ExecContext(ctx, `DELETE FROM paths WHERE root = ? AND path = ?`, root, path); err != nil {
			return nil, err
		}
		delete(x.at, path)
	}
	if err := tx.QueryRowContext(ctx, `UPDATE roots SET turn = turn + 1 WHERE id = ? RETURNING turn`, root).Scan(&x.round); err != nil {
		return nil, err
	}
	return todo, tx.Commit()
}

// take reads what is to be read, some files a transaction, and returns how many
// had to be left for the next time.
func (x *Index) take(ctx context.Context, db *sql.DB, root int64, todo []job) (rest int, err error) {
	for len(todo) > 0 {
		n, left, err := x.some(ctx, db, root, todo)
		if err != nil {
			return 0, err
		}
		todo, rest = todo[n:], rest+left
	}
	return rest, nil
}

// read is a file whose symbols are known, or known not to be.
type read struct {
	job
	file   symbols.File
	failed string
}

func (x *Index) some(ctx context.Context, db *sql.DB, root int64, todo []job) (n, left int, err error) {
	var done []read
	// Reading comes first, and the transaction after it: parsers take longer than
	// others should wait.
	for began := time.Now(); n < len(todo) && n < batch && time.Since(began) < batchTime; n++ {
		r, err := x.read(ctx, todo[n])
		switch {
		case ctx.Err() != nil:
			return 0, 0, ctx.Err()
		case err != nil:
			left++ // changed meanwhile, or nobody reads it for the moment
		default:
			done = append(done, r)
		}
	}
	if len(done) == 0 {
		return n, left, nil
	}
	w, err := begin(ctx, db)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range done {
		id, err := w.put(ctx, r.entry.ID, r.language, r.parser, r.file, r.failed)
		if err == nil {
			_, err = w.place.ExecContext(ctx, id, root, r.entry.Path, r.entry.ID)
		}
		if err != nil {
			return 0, 0, errors.Join(err, w.tx.Rollback())
		}
	}
	if err := w.tx.Commit(); err != nil {
		return 0, 0, err
	}
	for _, r := range done {
		x.at[r.entry.Path] = content{id: r.entry.ID, read: true}
	}
	return n, left, nil
}

func (x *Index) read(ctx context.Context, j job) (read, error) {
	r := read{job: j}
	b, err := x.files.Content(ctx, j.entry, symbols.MaxBytes)
	if err == nil {
		r.file, err = x.store.parser.Parse(ctx, symbols.LanguageOf(j.entry.Path, b), b)
	}
	if err == nil {
		return r, nil
	}
	if why, ok := symbols.IsUnreadable(err); ok {
		r.failed = why
		return r, nil
	}
	var f *fault.Fault
	if errors.As(err, &f) && f.Kind == fault.TooLarge {
		r.failed = "it is larger than 2 MiB"
		return r, nil
	}
	return r, err
}

// sweep removes contents that no path has any more, when they are many, and
// roots whose directory is gone.
func (x *Index) sweep(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT id, path FROM roots`)
	if err != nil {
		return err
	}
	var lost []int64
	for rows.Next() {
		var id int64
		var path string
		if err := rows.Scan(&id, &path); err != nil {
			return errors.Join(err, rows.Close())
		}
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			lost = append(lost, id)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, id := range lost {
		for _, q := range []string{`DELETE FROM paths WHERE root = ?`, `DELETE FROM roots WHERE id = ?`} {
			if _, err := db.ExecContext(ctx, q, id); err != nil {
				return err
			}
		}
	}
	var stale int
	const unused = ` FROM files WHERE NOT EXISTS (SELECT 1 FROM paths WHERE paths.file = files.id)`
	if err := db.QueryRowContext(ctx, `SELECT count(*)`+unused).Scan(&stale); err != nil || stale <= maxStale {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, q := range []string{`DELETE FROM symbols WHERE file IN (SELECT id` + unused + `)`, `DELETE FROM uses WHERE file IN (SELECT id` + unused + `)`, `DELETE` + unused} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}
