package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"belay/internal/fault"
)

//go:embed migrations/*.sql
var files embed.FS

// migrations are the steps of the schema in order; step i leads to schema i+1.
// A step that was released is never changed, and there is no way back.
var migrations = steps(files)

// applicationID marks the file as belay's in its header ("BLAY").
const applicationID = 0x424c4159

func steps(from fs.FS) []string {
	names, err := fs.Glob(from, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic("sqlite: no migrations embedded")
	}
	out := make([]string, len(names))
	for i, name := range names {
		b, err := fs.ReadFile(from, name)
		if err != nil {
			panic("sqlite: " + err.Error())
		}
		out[i] = string(b)
	}
	return out
}

// ErrNewerSchema refuses a file that a newer belay has migrated.
var ErrNewerSchema = errors.New("the ledger has a newer schema than this belay knows")

// ErrForeign refuses a database that is not belay's.
var ErrForeign = errors.New("the file is a database of another program")

// migrate brings the file to the newest schema. Several processes may do so at
// once: the steps run under the write lock, by whoever gets it first.
func (l *Ledger) migrate(ctx context.Context, steps []string) error {
	version, err := l.schema(ctx)
	if err != nil {
		return err
	}
	if version < len(steps) {
		if err := l.enterWAL(ctx); err != nil {
			return err
		}
		if version > 0 {
			if err := l.backup(ctx, version); err != nil {
				return err
			}
		}
		if err := l.step(ctx, steps); err != nil {
			return err
		}
		version, err = l.schema(ctx)
		if err != nil {
			return err
		}
	}
	if version > len(steps) {
		f := fault.New(fault.Storage, fault.User, fmt.Sprintf("ledger %s has schema %d, this belay knows up to %d", l.path, version, len(steps)),
			"use the newer belay, or another state directory")
		return &storageError{Fault: f, err: ErrNewerSchema}
	}
	return nil
}

// schema reads the file's schema, 0 for an empty file. It reads it all at one
// instant: a file that another process makes a ledger of between two looks is
// not foreign.
func (l *Ledger) schema(ctx context.Context) (int, error) {
	var version, app, tables int
	err := retry(ctx, l.opts.BusyTimeout, func() error {
		tx, err := l.writer.conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return errors.Join(
			tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables),
			tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version),
			tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&app))
	})
	if err != nil {
		return 0, l.wrap("open", err)
	}
	if tables > 0 && app != applicationID {
		f := fault.New(fault.Storage, fault.User, fmt.Sprintf("%s is not a ledger of belay", l.path), "name another state directory")
		return 0, &storageError{Fault: f, err: ErrForeign}
	}
	return version, nil
}

// retry repeats a step that another process keeps out for a moment.
func retry(ctx context.Context, timeout time.Duration, do func() error) error {
	start := time.Now()
	for {
		err := do()
		if err == nil || !busy(err) || time.Since(start) > timeout {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enterWAL switches a new file to write-ahead logging, which then stays.
func (l *Ledger) enterWAL(ctx context.Context) error {
	var mode string
	err := retry(ctx, l.opts.BusyTimeout, func() error {
		return l.writer.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
	})
	if err == nil && mode != "wal" {
		err = fmt.Errorf("the file system allows no write-ahead log (journal mode %q); the state directory must be on a local disk", mode)
	}
	return l.wrap("open", err)
}

// backup copies the file as it is before a migration. The copy is complete and
// on disk before the first step runs.
func (l *Ledger) backup(ctx context.Context, version int) error {
	name := fmt.Sprintf("%s.v%d-%s.bak", l.path, version, l.opts.Clock().UTC().Format("20060102T150405.000000Z"))
	// VACUUM INTO takes an existing empty file, which so has our mode.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		_, err = l.writer.conn.ExecContext(ctx, "VACUUM INTO ?", name)
	}
	if err == nil {
		err = syncDir(filepath.Dir(name))
	}
	return l.wrap("back up before the migration to "+name, err)
}

// step runs the missing steps in one transaction.
func (l *Ledger) step(ctx context.Context, steps []string) error {
	w := &l.writer
	if err := w.begin(true); err != nil {
		return err
	}
	err := func() error {
		var version int
		if err := w.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		for i := version; i < len(steps); i++ {
			if err := w.exec(steps[i]); err != nil {
				return fmt.Errorf("migration %d: %w", i+1, err)
			}
			if err := w.exec(fmt.Sprintf("PRAGMA user_version = %d", i+1)); err != nil {
				return err
			}
		}
		if err := w.exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return err
		}
		return w.exec("COMMIT")
	}()
	if err != nil {
		w.exec("ROLLBACK")
	}
	return l.wrap("migrate", err)
}
