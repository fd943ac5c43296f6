package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"belay/internal/fault"
	"belay/internal/ledger"
)

// code is SQLite's primary result code of an error, 0 when it has none.
func code(err error) int {
	if e := (*driver.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func busy(err error) bool { return code(err) == codes.SQLITE_BUSY }

// damaged reports an error that stands for damage of the file, not of the
// call.
func damaged(err error) bool {
	c := code(err)
	return c == codes.SQLITE_CORRUPT || c == codes.SQLITE_NOTADB
}

// storageError says what failed on which file and what can be done; it carries
// a *fault.Fault and the cause.
type storageError struct {
	*fault.Fault
	err error
}

func (e *storageError) Error() string   { return e.Fault.Error() + ": " + e.err.Error() }
func (e *storageError) Unwrap() []error { return []error{e.Fault, e.err} }

// wrap names the file, the operation and the remedy of an error of SQLite or
// the file system. What a caller decides on, and contexts that ended, pass as
// they are.
func (l *Ledger) wrap(op string, err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case l.isClosed():
		// database/sql has its own words for a connection that is gone.
		return ledger.ErrClosed
	}
	return storage(l.path, op, err)
}

func storage(path, op string, err error) error {
	if e := (*storageError)(nil); errors.As(err, &e) {
		return err
	}
	f := fault.New(fault.Storage, fault.Environment, fmt.Sprintf("ledger %s: %s", path, op), remedy(path, err))
	f.Retryable = busy(err)
	return &storageError{Fault: f, err: err}
}

const (
	remedyFull   = "the disk or a quota is full: free space, then resume the goal"
	remedyAccess = "check that the file and its directory exist and that you may write to both"
)

func remedy(path string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return remedyFull
	case errors.Is(err, fs.ErrPermission):
		return remedyAccess
	}
	switch code(err) {
	case codes.SQLITE_FULL:
		return remedyFull
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return "another process has kept the ledger locked: find it with `fuser " + path + "`, end it, and try again"
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return "the file is damaged: keep a copy of it and of the files beside it, then restore a backup " + path +
			".v*.bak or save what is readable with `sqlite3 " + path + " .recover`"
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM:
		return remedyAccess
	case codes.SQLITE_IOERR:
		return "the disk failed to read or write: check it and the system log, then start belay again"
	}
	return "check the file and its directory"
}

// errBusy stands for a write lock that was not to be had in time.
func errBusy(path string, waited time.Duration, err error) error {
	return storage(path, fmt.Sprintf("the write lock was not free for %v", waited.Round(time.Second)), err)
}
