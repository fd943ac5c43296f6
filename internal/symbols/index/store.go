package index

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver

	"belay/internal/symbols"
)

// FileName is the store's file in a state directory. The number is the
// schema's: another schema is another file, and none is ever migrated.
const FileName = "symbols-1.db"

const schema = `
CREATE TABLE IF NOT EXISTS files(
  id INTEGER PRIMARY KEY, content TEXT NOT NULL, language TEXT NOT NULL, parser TEXT NOT NULL,
  symbols INTEGER NOT NULL, failed TEXT NOT NULL, UNIQUE(content, language)) STRICT;
CREATE TABLE IF NOT EXISTS names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, folded TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS names_folded ON names(folded);
CREATE TABLE IF NOT EXISTS symbols(
  name INTEGER NOT NULL, file INTEGER NOT NULL, n INTEGER NOT NULL, kind TEXT NOT NULL, line INTEGER NOT NULL, last INTEGER NOT NULL,
  container TEXT NOT NULL, signature TEXT NOT NULL, PRIMARY KEY(name, file, n)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS symbols_file ON symbols(file);
CREATE TABLE IF NOT EXISTS uses(name INTEGER NOT NULL, file INTEGER NOT NULL, lines BLOB NOT NULL, PRIMARY KEY(name, file)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS uses_file ON uses(file);
CREATE TABLE IF NOT EXISTS roots(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, turn INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS paths(
  root INTEGER NOT NULL, path TEXT NOT NULL, content TEXT NOT NULL, language TEXT NOT NULL, file INTEGER,
  PRIMARY KEY(root, path)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS paths_file ON paths(file);
`

// Store is the file of all indexes of one state directory. It is opened when it
// is first needed.
type Store struct {
	dir    string
	parser symbols.Parser

	mu  sync.Mutex
	db  *sql.DB
	err error
}

// New is the store of a state directory, filled by a parser.
func New(dir string, p symbols.Parser) *Store { return &Store{dir: dir, parser: p} }

// open opens the file, and makes it anew when it is no index: it is a cache.
func (s *Store) open(ctx context.Context) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil || s.err != nil {
		return s.db, s.err
	}
	db, err := s.connect(ctx)
	if damaged(err) {
		s.remove()
		db, err = s.connect(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err() // another time
		}
		s.err = fmt.Errorf("open the symbol index %s (it can be deleted at any time): %w", filepath.Join(s.dir, FileName), err)
		return nil, s.err
	}
	s.db = db
	return db, nil
}

func (s *Store) connect(ctx context.Context) (*sql.DB, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, FileName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-4000)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(3)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (s *Store) remove() {
	for _, end := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(filepath.Join(s.dir, FileName+end)) // what stays is met again when it is opened
	}
}

// damaged reports whether the file is no database, or one that is not whole.
func damaged(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "malformed") || strings.Contains(err.Error(), "not a database") ||
		strings.Contains(err.Error(), "no such column"))
}

// forget drops the file after an error that says that it is damaged. Others who
// have it open go on with what they have.
func (s *Store) forget(err error) {
	if !damaged(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		_ = s.db.Close()
		s.db = nil
	}
	s.remove()
}

// Close closes the file. Indexes of workspaces must be closed before.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db, s.err = nil, errors.New("symbols: the index is closed")
	return db.Close()
}

// packed are rising line numbers as differences.
func packed(lines []int) []byte {
	out := make([]byte, 0, len(lines)+8)
	before := 0
	for _, l := range lines {
		out = binary.AppendUvarint(out, uint64(max(l-before, 0)))
		before = max(l, before)
	}
	return out
}

func unpacked(b []byte) []int {
	var out []int
	at := 0
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			break
		}
		at += int(d)
		out, b = append(out, at), b[n:]
	}
	return out
}

// names gives names their numbers, those it has seen without asking.
type names struct {
	seen   map[string]int64
	insert *sql.Stmt
	find   *sql.Stmt
}

func (n *names) id(ctx context.Context, name string) (int64, error) {
	if id, ok := n.seen[name]; ok {
		return id, nil
	}
	var id int64
	err := n.find.QueryRowContext(ctx, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = n.insert.QueryRowContext(ctx, name, strings.ToLower(name)).Scan(&id)
	}
	if err == nil {
		n.seen[name] = id
	}
	return id, err
}

// write is one transaction that takes in files.
type write struct {
	tx                 *sql.Tx
	names              names
	file, symbol, uses *sql.Stmt
	place              *sql.Stmt
}

func begin(ctx context.Context, db *sql.DB) (*write, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	w := &write{tx: tx, names: names{seen: map[string]int64{}}}
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&w.names.find, `SELECT id FROM names WHERE name = ?`},
		{&w.names.insert, `INSERT INTO names(name, folded) VALUES(?, ?) RETURNING id`},
		{&w.file, `INSERT INTO files(content, language, parser, symbols, failed) VALUES(?, ?, ?, ?, ?) RETURNING id`},
		{&w.symbol, `INSERT INTO symbols(name, file, n, kind, line, last, container, signature) VALUES(?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.uses, `INSERT INTO uses(name, file, lines) VALUES(?, ?, ?)`},
		{&w.place, `UPDATE paths SET file = ? WHERE root = ? AND path = ? AND content = ?`},
	} {
		if *p.to, err = tx.PrepareContext(ctx, p.text); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
	}
	return w, nil
}

// put replaces what is known of a content. Another path of the same batch, or
// another process, may have brought it already.
func (w *write) put(ctx context.Context, content, language, parser string, f symbols.File, failed string) (int64, error) {
	id, same, err := w.known(ctx, content, language, parser)
	if err != nil || same {
		return id, err
	}
	if id == 0 {
		err = w.file.QueryRowContext(ctx, content, language, parser, len(f.Symbols), failed).Scan(&id)
	} else {
		err = w.clear(ctx, id, parser, len(f.Symbols), failed)
	}
	if err != nil {
		return 0, err
	}
	for i, s := range f.Symbols {
		name, err := w.names.id(ctx, s.Name)
		if err != nil {
			return 0, err
		}
		if _, err := w.symbol.ExecContext(ctx, name, id, i, string(s.Kind), s.Line, s.End, s.Container, s.Signature); err != nil {
			return 0, err
		}
	}
	for _, u := range f.Uses {
		name, err := w.names.id(ctx, u.Name)
		if err != nil {
			return 0, err
		}
		if _, err := w.uses.ExecContext(ctx, name, id, packed(u.Lines)); err != nil {
			return 0, err
		}
	}
	return id, nil
}

// known finds the row of a content, and whether this parser made it.
func (w *write) known(ctx context.Context, content, language, parser string) (id int64, same bool, err error) {
	var by string
	err = w.tx.QueryRowContext(ctx, `SELECT id, parser FROM files WHERE content = ? AND language = ?`, content, language).Scan(&id, &by)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return id, by == parser, err
}

// clear empties a row for what another parser reads.
func (w *write) clear(ctx context.Context, id int64, parser string, symbols int, failed string) error {
	for _, q := range []string{`DELETE FROM symbols WHERE file = ?`, `DELETE FROM uses WHERE file = ?`} {
		if _, err := w.tx.ExecContext(ctx, q, id); err != nil {
			return err
		}
	}
	_, err := w.tx.ExecContext(ctx, `UPDATE files SET parser = ?, symbols = ?, failed = ? WHERE id = ?`, parser, symbols, failed, id)
	return err
}
