package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"belay/internal/fault"
	"belay/internal/ledger"
)

// ErrInDoubt says that the connection broke at a commit and that the server
// could not be asked in time whether the commit was made. Nothing was tried a
// second time without knowing.
var ErrInDoubt = errors.New("whether the commit was made is not known")

// dbError is an error of the driver or the server, as opposed to a refusal by
// the ledger's rules. lost says that the connection is gone.
type dbError struct {
	err  error
	lost bool
}

func (e *dbError) Error() string { return e.err.Error() }
func (e *dbError) Unwrap() error { return e.err }

// storageError says what failed on which ledger and what can be done; it
// carries a *fault.Fault and the cause.
type storageError struct {
	*fault.Fault
	err error
}

func (e *storageError) Error() string   { return e.Fault.Error() + ": " + e.err.Error() }
func (e *storageError) Unwrap() []error { return []error{e.Fault, e.err} }

// sqlState is the server's five-letter code of an error, "" when it has none.
func sqlState(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

const (
	stateReadOnly   = "25006"
	stateUnique     = "23505"
	stateNoSchema   = "3F000"
	stateNoTable    = "42P01"
	stateForbidden  = "42501"
	stateDiskFull   = "53100"
	stateTooMany    = "53300"
	stateStarting   = "57P03"
	stateCorrupt    = "XX001"
	stateIndexWrong = "XX002"
)

// damaged reports an error that stands for damage of the data, not of the call.
func damaged(err error) bool {
	s := sqlState(err)
	return s == stateCorrupt || s == stateIndexWrong
}

// transient reports an error after which the same call may succeed: the server
// restarts or fails over, a connection broke, or two transactions met.
func transient(err error) bool {
	if s := sqlState(err); s != "" {
		switch s {
		case "57P01", "57P02", stateStarting, "57P05", // shut down, crashed, starting, idle too long
			"40001", "40P01", "40003", "55P03", "25P03", // met another transaction, or were too slow in one
			stateTooMany, stateReadOnly:
			return true
		}
		return strings.HasPrefix(s, "08")
	}
	if e := (*net.DNSError)(nil); errors.As(err, &e) && e.IsNotFound {
		return false
	}
	if e := (*pgconn.ConnectError)(nil); errors.As(err, &e) {
		return true
	}
	e := (*dbError)(nil)
	return errors.As(err, &e) && e.lost
}

// clean reports an answer after which the transaction is known not to have
// been committed: the server refused a statement and lives on.
func clean(err error) bool {
	e := (*pgconn.PgError)(nil)
	return errors.As(err, &e) && (e.SeverityUnlocalized == "ERROR" || e.SeverityUnlocalized == "" && e.Severity == "ERROR")
}

// wrap names the ledger, the operation and the remedy of an error of the
// driver or the server. What a caller decides on, and contexts that ended, pass
// as they are.
func (l *Ledger) wrap(op string, err error) error {
	e := (*dbError)(nil)
	switch {
	case err == nil, !errors.As(err, &e):
		return err
	case errors.Is(err, ErrInDoubt):
		return storage(l.name, op, err)
	case l.isClosed():
		// The pool has its own words for being closed.
		return ledger.ErrClosed
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded) && !transient(err):
		return err
	}
	return storage(l.name, op, err)
}

func storage(name, op string, err error) error {
	if e := (*storageError)(nil); errors.As(err, &e) {
		return err
	}
	f := fault.New(fault.Storage, fault.Environment, fmt.Sprintf("ledger %s: %s", name, op), remedy(err))
	f.Retryable = transient(err)
	return &storageError{Fault: f, err: err}
}

func remedy(err error) string {
	s := sqlState(err)
	switch {
	case errors.Is(err, ErrInDoubt):
		return "when the server answers again, resume the goal: belay reads what the ledger holds and goes on from there"
	case s == stateReadOnly:
		return "the server takes no writes: it is a standby, or was made read-only for a failover. Promote it or name the primary; " +
			"an address with several hosts and target_session_attrs=read-write finds it by itself"
	case s == stateDiskFull:
		return "the server's disk is full: free space there, then resume the goal"
	case s == stateTooMany:
		return "the server has no connection left: raise max_connections, or lower pool_max_conns in the address"
	case s == stateForbidden:
		return "the database role may not do this: let an administrator run CREATE SCHEMA … AUTHORIZATION …, or use another role"
	case s == stateNoSchema, s == stateNoTable:
		return "the ledger's tables are gone or are those of another schema: check belay_schema in the address"
	case s == "3D000":
		return "create the database first (createdb), or name another one in the address"
	case strings.HasPrefix(s, "28"):
		return "check user and password in the address, or PGPASSWORD and ~/.pgpass"
	case s == stateCorrupt, s == stateIndexWrong:
		return "the server reports damaged data: keep a copy, look at its log, and restore a backup or REINDEX"
	case s == "22021" || s == "22P05":
		return "the ledger needs a database with encoding UTF8: createdb -E UTF8 -T template0"
	case transient(err):
		return "check that the server runs and that its address is right"
	}
	return "check the server's log"
}

// errGone is the end of trying again.
func errGone(waited time.Duration, err error) error {
	return fmt.Errorf("no success in %v of trying: %w", waited.Round(10*time.Millisecond), err)
}
