package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	codes "modernc.org/sqlite/lib"

	"belay/internal/failpoint"
	"belay/internal/ledger"
)

// maxBatch bounds how many waiting jobs share one commit, and so how long the
// write lock is kept from other processes.
const maxBatch = 128

// job is one write: all of it is done or none. do may be called again after a
// rollback, so it must not keep anything from a call that failed.
type job struct {
	ctx     context.Context
	durable bool
	do      func(*tx) error
	// taken is set once the outcome no longer depends on ctx.
	taken atomic.Bool
	err   error
	done  chan struct{}
}

// writer owns the one connection of this process that writes. Its goroutine
// takes the jobs that wait and commits them together.
type writer struct {
	l    *Ledger
	conn *sql.Conn
	tx   tx
	// full says that synchronous is FULL on the connection now.
	full bool
	// dead is why no more writes are taken: after a failed sync nobody knows
	// what the kernel has dropped, so success would be a guess.
	dead error

	mu     sync.Mutex
	queue  []*job
	closed bool
	signal chan struct{}
	ended  chan struct{}
}

func (w *writer) start() {
	w.signal, w.ended = make(chan struct{}, 1), make(chan struct{})
	go w.run()
}

// write runs do in a transaction and returns when it is committed; with
// durable, when it is on disk too. An error means that nothing was written,
// except where it says that the commit failed: then it is not known.
func (w *writer) write(ctx context.Context, durable bool, do func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{ctx: ctx, durable: durable, do: do, done: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ledger.ErrClosed
	}
	w.queue = append(w.queue, j)
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		if j.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		<-j.done
		return j.err
	}
}

// close ends the goroutine after what it has begun; what still waits is
// refused.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
	<-w.ended
}

func (w *writer) run() {
	defer close(w.ended)
	for range w.signal {
		for {
			batch, closed := w.drain(nil, true)
			if closed {
				for len(batch) > 0 {
					w.answer(batch, ledger.ErrClosed)
					batch, _ = w.drain(nil, true)
				}
				return
			}
			if len(batch) == 0 {
				break
			}
			w.commit(batch)
		}
	}
}

// drain moves waiting jobs to the batch. With soft only, durable ones stay
// where they are, and keep their order among themselves.
func (w *writer) drain(batch []*job, durable bool) (_ []*job, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.queue[:0:0]
	for _, j := range w.queue {
		switch {
		case j.taken.Load():
			close(j.done)
		case len(batch) < maxBatch && (durable || !j.durable):
			batch = append(batch, j)
		default:
			rest = append(rest, j)
		}
	}
	w.queue = rest
	return batch, w.closed
}

func (w *writer) answer(jobs []*job, err error) {
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
		close(j.done)
	}
}

func (w *writer) commit(batch []*job) {
	if w.dead != nil {
		w.answer(batch, w.dead)
		return
	}
	durable := false
	for _, j := range batch {
		durable = durable || j.durable
	}
	if err := w.begin(durable); err != nil {
		w.answer(batch, err)
		return
	}
	// Who has queued up while this process waited for the lock comes along.
	batch, _ = w.drain(batch, durable)
	live := batch[:0]
	for _, j := range batch {
		if j.taken.CompareAndSwap(false, true) {
			live = append(live, j)
		} else {
			close(j.done)
		}
	}
	if err := w.do(live); err != nil {
		w.exec("ROLLBACK")
		if len(live) == 1 {
			w.answer(live, w.l.wrap("write", err))
			return
		}
		// One job met an error of the storage itself. Each gets its own
		// transaction now, so that it fails alone.
		for _, j := range live {
			j.err = nil
			w.alone(j)
		}
		return
	}
	w.finish(live)
}

// alone commits one job that is already taken.
func (w *writer) alone(j *job) {
	one := []*job{j}
	if w.dead != nil {
		w.answer(one, w.dead)
		return
	}
	if err := w.begin(j.durable); err != nil {
		w.answer(one, err)
		return
	}
	if err := w.do(one); err != nil {
		w.exec("ROLLBACK")
		w.answer(one, w.l.wrap("write", err))
		return
	}
	w.finish(one)
}

// do runs the jobs in the open transaction, each under a savepoint of its own.
// A refusal is the job's answer and undoes that job alone; an error of the
// storage is returned and ends the transaction.
func (w *writer) do(jobs []*job) error {
	written := false
	for _, j := range jobs {
		if len(jobs) > 1 {
			if err := w.tx.exec("SAVEPOINT job"); err != nil {
				return err
			}
		}
		if err := j.do(&w.tx); err != nil {
			if code(err) != 0 {
				return err
			}
			j.err = err
			if len(jobs) == 1 {
				continue
			}
			if err := w.tx.exec("ROLLBACK TO job"); err != nil {
				return err
			}
		} else {
			written = true
		}
		if len(jobs) > 1 {
			if err := w.tx.exec("RELEASE job"); err != nil {
				return err
			}
		}
	}
	if !written {
		return w.tx.exec("ROLLBACK")
	}
	return nil
}

// finish commits and answers.
func (w *writer) finish(jobs []*job) {
	ok := false
	for _, j := range jobs {
		ok = ok || j.err == nil
	}
	if !ok {
		w.answer(jobs, nil)
		return
	}
	err := failpoint.Err(failpoint.CommitBefore)
	if err == nil {
		err = w.retryBusy("COMMIT")
	}
	failpoint.Hit(failpoint.CommitAfter)
	if err != nil {
		w.exec("ROLLBACK")
		if code(err) == codes.SQLITE_IOERR {
			w.dead = w.l.wrap("an earlier commit failed; start belay again", err)
		}
		err = w.l.wrap("commit", err)
	}
	w.answer(jobs, err)
}

// begin opens a transaction that has the write lock, and sets before it how
// its commit syncs: FULL syncs the log, NORMAL leaves that to a later FULL
// commit or a checkpoint.
func (w *writer) begin(durable bool) error {
	if durable != w.full {
		// This pragma takes effect while it compiles, so it cannot be prepared.
		level := "NORMAL"
		if durable {
			level = "FULL"
		}
		if err := w.exec("PRAGMA synchronous = " + level); err != nil {
			return w.l.wrap("set synchronous", err)
		}
		w.full = durable
	}
	if err := w.retryBusy("BEGIN IMMEDIATE"); err != nil {
		return w.l.wrap("begin", err)
	}
	failpoint.Hit(failpoint.TxBegun)
	return nil
}

// retryBusy runs a statement until it is not refused for another process's
// lock. The pauses are short and random: SQLite's own busy handler pauses by a
// fixed, growing scale, and one process that appends without pause keeps such
// waiters out for a second and more.
func (w *writer) retryBusy(stmt string) error {
	start := time.Now()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 4*time.Millisecond) {
		err := w.tx.exec(stmt)
		if err == nil || !busy(err) {
			return err
		}
		if waited := time.Since(start); waited > w.l.opts.BusyTimeout {
			return errBusy(w.l.path, waited, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-w.l.closed:
			return ledger.ErrClosed
		}
	}
}

func (w *writer) exec(stmt string) error {
	_, err := w.conn.ExecContext(context.Background(), stmt)
	return err
}

// tx is what a job may use: the prepared statements of the writing connection,
// inside its open transaction. Statements run without the caller's context:
// once begun, a job runs to its end, which is near.
type tx struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (t *tx) stmt(query string) (*sql.Stmt, error) {
	if s := t.stmts[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("prepare %.40q: %w", query, err)
	}
	t.stmts[query] = s
	return s, nil
}

// close finalizes the statements. database/sql leaves those of a single
// connection to their owner, and SQLite closes no file while there is one.
func (t *tx) close() error {
	var errs []error
	for _, s := range t.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (t *tx) exec(query string, args ...any) error {
	s, err := t.stmt(query)
	if err != nil {
		return err
	}
	_, err = s.Exec(args...)
	return err
}

// row scans the one row of a query; found is false when there is none.
func (t *tx) row(query string, args []any, dest ...any) (found bool, err error) {
	s, err := t.stmt(query)
	if err != nil {
		return false, err
	}
	err = s.QueryRow(args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
