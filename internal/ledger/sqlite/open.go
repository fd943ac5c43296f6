package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/moment"
)

// FileName is the ledger's file in a state directory.
const FileName = "ledger.db"

// Options adjust a store; the zero value is right for belay itself.
type Options struct {
	// Clock is the store's clock; nil means time.Now.
	Clock func() time.Time
	// BusyTimeout is how long a write waits for other processes; 0 means 30 s.
	BusyTimeout time.Duration
}

// Ledger is one process's handle on a ledger file.
type Ledger struct {
	path      string
	artifacts string
	opts      Options

	writer  writer
	writeDB *sql.DB
	readDB  *sql.DB
	hub     hub

	stmtMu sync.Mutex
	stmts  map[string]*sql.Stmt

	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
}

var _ ledger.Ledger = (*Ledger)(nil)

// creating keeps two handles of this process from making one file at a time:
// closing the new file must not meet another handle's lock on it, since POSIX
// locks of a process end when it closes any descriptor of the file.
var creating sync.Mutex

// syncOnce switches SQLite to fdatasync: as durable, without a journal write
// for the file's timestamps. Where there is none, fsync stays.
var syncOnce = sync.OnceFunc(func() { _, _ = driver.Fdatasync(true) })

// Open opens the ledger at path: a state directory, in which the file is
// FileName, or the file itself (a name that ends in ".db"). What does not
// exist is created, readable by the owner alone. An older schema is migrated,
// with a backup beside it; a newer one is refused.
func Open(ctx context.Context, path string, opts Options) (*Ledger, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.BusyTimeout == 0 {
		opts.BusyTimeout = 30 * time.Second
	}
	file, err := locate(path)
	if err != nil {
		return nil, storage(path, "open", err)
	}
	syncOnce()
	l := &Ledger{path: file, artifacts: filepath.Join(filepath.Dir(file), "artifacts"), opts: opts,
		stmts: map[string]*sql.Stmt{}, closed: make(chan struct{})}
	l.writer.l, l.hub.l = l, l
	if err := l.open(ctx); err != nil {
		if l.writeDB != nil {
			l.writeDB.Close()
		}
		return nil, err
	}
	l.writer.start()
	l.sweep()
	return l, nil
}

func locate(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return path, nil
	case err == nil || filepath.Ext(path) != ".db":
		return filepath.Join(path, FileName), nil
	default:
		return path, nil
	}
}

func (l *Ledger) open(ctx context.Context) error {
	creating.Lock()
	defer creating.Unlock()
	if err := create(l.path); err != nil {
		return storage(l.path, "create", err)
	}
	timeout := fmt.Sprintf("_busy_timeout=%d", l.opts.BusyTimeout.Milliseconds())
	l.writeDB = openDB(l.path, "mode=rw&"+timeout+"&_pragma=cache_size(-2000)&_pragma=journal_size_limit(67108864)&_pragma=temp_store(2)&_synchronous=FULL")
	// SQLite refuses some steps at once, whatever the time-out, while another
	// process switches the new file to its log or recovers it.
	err := retry(ctx, l.opts.BusyTimeout, func() (err error) {
		l.writer.conn, err = l.writeDB.Conn(ctx)
		return err
	})
	if err != nil {
		return l.wrap("open", err)
	}
	l.writer.tx, l.writer.full = tx{conn: l.writer.conn, stmts: map[string]*sql.Stmt{}}, true
	if err := l.saveTornLog(ctx); err != nil {
		return l.wrap("open", err)
	}
	if err := l.migrate(ctx, migrations); err != nil {
		return err
	}
	// From here on the writer waits for locks by itself, see retryBusy.
	if err := l.writer.exec("PRAGMA busy_timeout = 0"); err != nil {
		return l.wrap("open", err)
	}
	l.readDB = openDB(l.path, "mode=ro&"+timeout+"&_pragma=cache_size(-1000)&_pragma=temp_store(2)")
	l.readDB.SetMaxOpenConns(readers)
	l.readDB.SetMaxIdleConns(readers)
	return nil
}

// readers bounds the reading connections; one of them may be the watcher's.
const readers = 5

func openDB(path, query string) *sql.DB {
	dsn := (&url.URL{Scheme: "file", Path: path}).String() + "?" + query
	c, err := driver.NewConnector(dsn)
	if err != nil {
		// The query is a constant of this package and the path is escaped.
		panic("sqlite: " + err.Error())
	}
	return sql.OpenDB(c)
}

// create makes the directory and an empty file when they are missing. SQLite
// would create the file readable by everyone; its log takes over its mode.
func create(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		return errors.Join(f.Close(), syncDir(dir))
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(path, 0o600)
	}
	return nil
}

// syncDir makes new names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close ends the handle: what has been handed to Append is finished or
// refused, followers end, and the log is checkpointed by the last process.
func (l *Ledger) Close() error {
	l.closeOnce.Do(func() {
		failpoint.Hit(failpoint.CheckpointWAL)
		close(l.closed)
		l.writer.close()
		l.hub.wait()
		// The readers go first: only a connection that may write can bring the
		// log back into the file when it is the last to close.
		err := errors.Join(l.readDB.Close(), l.writer.tx.close(), l.writer.conn.Close(), l.writeDB.Close())
		if err != nil {
			l.closeErr = storage(l.path, "close", err)
		}
	})
	return l.closeErr
}

func (l *Ledger) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Path is the ledger's file.
func (l *Ledger) Path() string { return l.path }

// Now implements ledger.Ledger: the clock of this machine, which all processes
// on one file share.
func (l *Ledger) Now(ctx context.Context) (moment.Time, error) {
	if l.isClosed() {
		return 0, ledger.ErrClosed
	}
	return l.now(), ctx.Err()
}

func (l *Ledger) now() moment.Time { return moment.Of(l.opts.Clock()) }

// Check reads the whole file and returns what is wrong with it, in SQLite's
// words; nothing when it is sound. It takes as long as reading the file.
func (l *Ledger) Check(ctx context.Context) ([]string, error) {
	rows, err := l.query(ctx, "PRAGMA quick_check")
	if err != nil {
		if damaged(err) {
			return []string{err.Error()}, nil
		}
		return nil, l.wrap("check", err)
	}
	defer rows.Close()
	var problems []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return problems, l.wrap("check", err)
		}
		if s != "ok" {
			problems = append(problems, s)
		}
	}
	if err := rows.Err(); err != nil {
		if damaged(err) {
			return append(problems, err.Error()), nil
		}
		return problems, l.wrap("check", err)
	}
	return append(problems, l.losses()...), nil
}

// prepared returns a statement of the reading pool, prepared once for each of
// its connections.
func (l *Ledger) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if l.isClosed() {
		return nil, ledger.ErrClosed
	}
	l.stmtMu.Lock()
	defer l.stmtMu.Unlock()
	if s := l.stmts[query]; s != nil {
		return s, nil
	}
	s, err := l.readDB.PrepareContext(ctx, query)
	if err == nil {
		l.stmts[query] = s
	}
	return s, err
}

func (l *Ledger) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := l.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// queryRow scans the one row of a query; found is false when there is none.
func (l *Ledger) queryRow(ctx context.Context, query string, args []any, dest ...any) (found bool, err error) {
	s, err := l.prepared(ctx, query)
	if err != nil {
		return false, err
	}
	err = s.QueryRowContext(ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
