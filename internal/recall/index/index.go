// Package index is recall on SQLite's full-text search, in a file of its own
// beside the ledger.
//
// # A projection that nothing waits for
//
// The file is brought up to the ledger's head when somebody searches, and never
// when somebody appends: a step costs nothing for it. Each goal's stream is taken
// in by seq, in transactions that hold the events and how far they reach, so a
// kill at any instant leaves an index that goes on where it was. Several processes
// share the file; each takes in what the other has not, under SQLite's own lock.
//
// A file that is damaged, or of another version, is thrown away and made again. It
// is replaced only while no other process has it open, because SQLite tells two
// files of one name apart by nothing: an open handle holds a shared lock on a file
// beside it, and who replaces holds it alone.
//
// # Why the ranking is our own
//
// Full-text search here only names candidates: the newest few hundred documents
// of each word, which it can stop at. Its own ranking would visit every document
// that holds a word, and a word in each of 100,000 events is ordinary. The scores
// are computed from the candidates (rank.go); how common a word is follows from how
// far back its candidates reach.
//
// The filters (goal, file, tool, outcome, kind, time) are terms like others, so
// that a narrow filter is found in time however common the words are.
package index

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"golang.org/x/sys/unix"

	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/recall"
	"belay/internal/redact"
)

// FileName is the index's file in a state directory whose ledger is there too.
const FileName = "recall.db"

//go:embed schema.sql
var schema string

// version is that of the schema and of everything that decides what is stored:
// the terms, the documents, the chunks.
const version = 1

// Config is what an index is made of.
type Config struct {
	// Path is the index's file.
	Path   string
	Ledger ledger.Ledger
	// Secrets takes secrets out of the repository's content; the ledger's has
	// none.
	Secrets *redact.Redactor
	// Embedder is nil where none is configured.
	Embedder recall.Embedder
	// Wait is how long one search takes in what is new before it answers with
	// what it has; 0 means DefaultWait.
	Wait time.Duration
}

// DefaultWait bounds the taking in of one search.
const DefaultWait = 20 * time.Second

// Index is one process's handle. The file is opened by the first search.
type Index struct {
	Config

	mu    sync.Mutex // guards what follows, and one taking in at a time
	db    *store
	known map[string]uint64 // through, by goal, as last seen
}

var _ recall.Recall = (*Index)(nil)

// New returns an index; nothing is opened yet.
func New(c Config) *Index {
	if c.Wait == 0 {
		c.Wait = DefaultWait
	}
	return &Index{Config: c, known: map[string]uint64{}}
}

// store is an open file.
type store struct {
	write, read *sql.DB
	lock        *os.File

	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

// query reads, with a statement that is prepared once.
func (s *store) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.mu.Lock()
	st := s.stmts[query]
	if st == nil {
		var err error
		if st, err = s.read.PrepareContext(ctx, query); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		s.stmts[query] = st
	}
	s.mu.Unlock()
	return st.QueryContext(ctx, args...)
}

// Close closes the file.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shut()
}

func (x *Index) shut() error {
	if x.db == nil {
		return nil
	}
	s := x.db
	x.db = nil
	clear(x.known)
	return errors.Join(s.read.Close(), s.write.Close(), s.lock.Close())
}

// opened returns the open file. The caller holds mu.
func (x *Index) opened(ctx context.Context) (*store, error) {
	if x.db != nil {
		return x.db, nil
	}
	s, err := open(ctx, x.Path)
	if err != nil && replaceable(err) {
		s, err = x.replace(ctx)
	}
	if err != nil {
		return nil, x.fault("cannot be opened", err)
	}
	x.db = s
	return s, nil
}

// errVersion says that a file is of another version, or no index.
var errVersion = errors.New("it was made by another version of belay")

// replaceable reports whether an error means that the file is of no use.
func replaceable(err error) bool {
	var se *driver.Error
	if errors.As(err, &se) {
		switch se.Code() & 0xff {
		case 11, 26: // SQLITE_CORRUPT, SQLITE_NOTADB
			return true
		case 1: // SQLITE_ERROR
			return strings.Contains(se.Error(), "no such table") || strings.Contains(se.Error(), "no such column")
		}
	}
	return errors.Is(err, errVersion)
}

// locked opens the file beside the index and locks it, shared or alone.
func locked(path string, how int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// errInUse says that another process has the file open.
var errInUse = errors.New("another belay has it open: stop that one, or search again when it has ended")

// replace makes the file anew.
func (x *Index) replace(ctx context.Context) (*store, error) {
	alone, err := locked(x.Path, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errInUse
	}
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	for _, suffix := range []string{"-wal", "-shm", "-journal", ""} {
		if err := os.Remove(x.Path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := alone.Close(); err != nil {
		return nil, err
	}
	return open(ctx, x.Path)
}

// open opens the file, and fills in the tables of a new one.
func open(ctx context.Context, path string) (_ *store, err error) {
	// Blocking: who holds it alone only removes a few files.
	lock, err := locked(path, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	s := &store{lock: lock, stmts: map[string]*sql.Stmt{}}
	defer func() {
		if err != nil {
			for _, db := range []*sql.DB{s.read, s.write} {
				if db != nil {
					db.Close()
				}
			}
			lock.Close()
		}
	}()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would let everybody read it
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if s.write, err = connect(path, "mode=rw&_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_pragma=cache_size(-4000)&_pragma=temp_store(2)&_pragma=journal_size_limit(16777216)"); err != nil {
		return nil, err
	}
	s.write.SetMaxOpenConns(1)
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if s.read, err = connect(path, "mode=ro&_pragma=busy_timeout(20000)&_pragma=cache_size(-8000)&_pragma=temp_store(2)"); err != nil {
		return nil, err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	return s, nil
}

// readers bounds the searches that read side by side.
const readers = 4

func connect(path, query string) (*sql.DB, error) {
	c, err := driver.NewConnector((&url.URL{Scheme: "file", Path: path}).String() + "?" + query)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// prepare makes the tables of a new file and checks the version of an old one.
func (s *store) prepare(ctx context.Context) error {
	is, err := s.version(ctx)
	if err != nil || is == version {
		return err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// Another process may have been first.
	var tables int
	if err := errors.Join(tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&is),
		tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables)); err != nil {
		return err
	}
	switch {
	case is == version:
		return nil
	case tables > 0:
		return errVersion
	}
	if _, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA user_version = %d;", version)); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *store) version(ctx context.Context) (is int, err error) {
	return is, s.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&is)
}

// fault says that the index is of no use now, and what can be done.
func (x *Index) fault(what string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("search: %w", &storageFault{fault.New(fault.Storage, fault.Environment, fmt.Sprintf("the index %s %s: %v", x.Path, what, err),
		"it is only a projection: while no belay runs it may be deleted, and the next search makes it again"), err})
}

type storageFault struct {
	*fault.Fault
	err error
}

func (s *storageFault) Unwrap() []error { return []error{s.Fault, s.err} }

// with runs a search on the open file. Damage that shows only now throws the file
// away; the search is then made once more, on a new one.
func (x *Index) with(ctx context.Context, f func(*store) error) error {
	for again := true; ; again = false {
		x.mu.Lock()
		s, err := x.opened(ctx)
		x.mu.Unlock()
		if err != nil {
			return err
		}
		err = f(s)
		if err == nil || !replaceable(err) || !again {
			if err != nil && !errors.As(err, new(*fault.Fault)) {
				err = x.fault("cannot be read", err)
			}
			return err
		}
		if err := x.renew(ctx, s); err != nil {
			return x.fault("is damaged and cannot be made again", err)
		}
	}
}

// renew throws a damaged file away, unless that has been done.
func (x *Index) renew(ctx context.Context, damaged *store) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db != damaged {
		return nil
	}
	if err := x.shut(); err != nil {
		return err
	}
	s, err := x.replace(ctx)
	x.db = s
	return err
}
