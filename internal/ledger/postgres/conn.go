package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"belay/internal/failpoint"
	"belay/internal/ledger"
)

const (
	// attempt bounds one try of a write, so that a server that hangs is found
	// out within the patience.
	attemptTimeout = 15 * time.Second
	// grace is how long a write whose caller has gone away still tries to find
	// out whether it was committed.
	grace = 5 * time.Second

	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// level says what a commit must survive, in the words of synchronous_commit.
type level string

const (
	// durable is on disk when it returns, also where the database's default
	// says otherwise; stronger settings, such as waiting for a standby, stay.
	durable level = "on"
	// soft survives the death of every process of the server, and does not
	// wait for a standby. The weaker "off" would not do: the server would forget
	// what a worker that lives on has been told and has shown to others.
	soft level = "local"
	// fleeting may be forgotten by a server that is killed.
	fleeting level = "off"
)

// settings of a transaction. A client that froze in mid-transaction must not
// keep a goal locked.
const settings = `SELECT set_config('idle_in_transaction_session_timeout', '30s', true), set_config('synchronous_commit',
	CASE WHEN $1::text = 'on' AND current_setting('synchronous_commit') NOT IN ('off', 'local') THEN current_setting('synchronous_commit') ELSE $1::text END, true)`

// errRaced asks for another try at once: the goal was created by someone else
// between the look and the write.
var errRaced = errors.New("postgres: raced")

// retrier repeats what fails for the moment, within the patience of a ledger.
type retrier struct {
	l     *Ledger
	start time.Time
	pause time.Duration
	most  time.Duration
}

func (l *Ledger) retrier() *retrier {
	return &retrier{l: l, start: time.Now(), pause: leastPause, most: l.opts.Patience}
}

// again waits before the next try, or returns why there is none.
func (r *retrier) again(ctx context.Context, err error) error {
	if errors.Is(err, errRaced) {
		return ctx.Err()
	}
	if !transient(err) {
		return err
	}
	waited := time.Since(r.start)
	if waited+r.pause > r.most {
		return errGone(waited, err)
	}
	if e := (*dbError)(nil); errors.As(err, &e) && e.lost || sqlState(err) == stateReadOnly {
		// The other connections are as dead, or lead to the same server that
		// is not the primary any more.
		r.l.pool.Reset()
	}
	select {
	case <-time.After(r.pause/2 + rand.N(r.pause)):
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case <-r.l.closed:
		return fmt.Errorf("%w: %w", ledger.ErrClosed, err)
	}
	r.pause = min(2*r.pause, mostPause)
	return nil
}

// read runs do on a connection until it is not kept from succeeding by the
// server's absence. do may be called again and must then begin anew, or where
// it was.
func (l *Ledger) read(ctx context.Context, op string, do func(context.Context, *pgx.Conn) error) error {
	for r := l.retrier(); ; {
		err := l.onConn(ctx, func(c *pgx.Conn) error { return do(ctx, c) })
		if err == nil {
			return nil
		}
		if err := r.again(ctx, err); err != nil {
			return l.wrap(op, err)
		}
	}
}

// onConn runs do on a connection of the pool. Errors of do that come from the
// driver are marked.
func (l *Ledger) onConn(ctx context.Context, do func(*pgx.Conn) error) error {
	if l.isClosed() {
		return ledger.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		if l.isClosed() {
			return ledger.ErrClosed
		}
		return &dbError{err: err}
	}
	defer conn.Release()
	return mark(conn.Conn(), do(conn.Conn()))
}

// mark tells an error of the driver from a refusal: refusals are what this
// package and the rules make, and they wrap nothing of the driver's.
func mark(c *pgx.Conn, err error) error {
	var e *dbError
	var refused *refusal
	if err == nil || errors.As(err, &e) || errors.As(err, &refused) || errors.Is(err, errRaced) {
		return err
	}
	return &dbError{err: err, lost: c.IsClosed()}
}

// refusal is an answer of the ledger's rules, whatever the storage does.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

func refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

// step is one statement of a transaction, sent together with others. With dest
// it reads one row, and found, if given, says whether there was one.
type step struct {
	sql   string
	args  []any
	dest  []any
	found *bool
	count *int64
}

// tx is one try of a write.
type tx struct {
	l     *Ledger
	conn  *pgx.Conn
	level level
	// doubt says that an earlier try of the same write may have been
	// committed. do must look before it writes.
	doubt bool

	begun, sent, committed bool
}

// run sends statements in one round trip and reads their answers; the first
// one of a transaction opens it.
func (t *tx) run(ctx context.Context, steps ...step) error { return t.send(ctx, steps, false) }

// commit is run with a COMMIT after the statements, in the same round trip.
// From here on the outcome does not depend on the caller's context.
func (t *tx) commit(ctx context.Context, steps ...step) error {
	if err := failpoint.Err(failpoint.PgCommitBefore); err != nil {
		return refuse(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	t.sent = true
	err := t.send(ctx, steps, true)
	t.committed = err == nil
	failpoint.Hit(failpoint.PgCommitAfter)
	return err
}

func (t *tx) send(ctx context.Context, steps []step, last bool) error {
	b := &pgx.Batch{}
	if !t.begun {
		b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
		b.Queue(settings, string(t.level))
	}
	for _, s := range steps {
		b.Queue(t.l.q(s.sql), s.args...)
	}
	if last {
		b.Queue("COMMIT")
	}
	br := t.conn.SendBatch(ctx, b)
	err := func() error {
		if !t.begun {
			for range 2 {
				if _, err := br.Exec(); err != nil {
					return err
				}
			}
			t.begun = true
		}
		for _, s := range steps {
			if err := s.receive(br); err != nil {
				return err
			}
		}
		if !last {
			return nil
		}
		tag, err := br.Exec()
		if err == nil && tag.String() != "COMMIT" {
			err = fmt.Errorf("the server answered COMMIT with %s", tag)
		}
		return err
	}()
	// The first error says what went wrong; closing repeats it.
	if closing := br.Close(); err == nil {
		err = closing
	}
	return mark(t.conn, err)
}

func (s step) receive(br pgx.BatchResults) error {
	if s.dest == nil {
		tag, err := br.Exec()
		if s.count != nil {
			*s.count = tag.RowsAffected()
		}
		return err
	}
	err := br.QueryRow().Scan(s.dest...)
	if s.found != nil {
		*s.found = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
	}
	return err
}

// write runs do in a transaction until it is committed, refused, or not to be
// had. do ends with t.commit, or writes nothing. It may be called again after
// a failure, so it must keep nothing from a call that failed; when t.doubt is
// set it must first look whether an earlier call was committed after all,
// under a lock that the earlier one must have had.
func (l *Ledger) write(ctx context.Context, op string, keep level, do func(context.Context, *tx) error) error {
	doubt := false
	for r := l.retrier(); ; {
		t := &tx{l: l, level: keep, doubt: doubt}
		err := l.try(ctx, t, do)
		if err == nil {
			return nil
		}
		if refused := (*refusal)(nil); errors.As(err, &refused) {
			return refused.error
		}
		if t.sent && !t.committed && !clean(err) && !doubt {
			doubt = true
			var end func()
			ctx, end = outlive(ctx)
			defer end()
		}
		if err := r.again(ctx, err); err != nil {
			if doubt {
				err = fmt.Errorf("%w: %w", ErrInDoubt, &dbError{err: err})
			}
			return l.wrap(op, err)
		}
	}
}

// outlive returns a context that ends grace after its caller's: finding out
// what became of a commit goes on for so long, whenever the caller goes away,
// be it in the middle of a pause between two tries.
func outlive(ctx context.Context) (context.Context, func()) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { cancel(errGrace) }) })
	return late, func() { stop(); cancel(nil) }
}

// errGrace marks the context of a write whose caller has gone away.
var errGrace = errors.New("postgres: gave up finding out about a commit")

func (l *Ledger) try(ctx context.Context, t *tx, do func(context.Context, *tx) error) error {
	inner, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	err := l.onConn(inner, func(c *pgx.Conn) error {
		t.conn = c
		err := mark(c, do(inner, t))
		if !t.committed && !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
			// A connection that cannot even do this is thrown away.
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = c.Exec(end, "ROLLBACK")
		}
		return err
	})
	if err != nil && ctx.Err() == nil && inner.Err() != nil {
		// The server did not answer in the time of one try.
		return &dbError{err: err, lost: true}
	}
	return err
}
