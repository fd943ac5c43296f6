package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"belay/internal/fault"
)

//go:embed migrations/*.sql
var files embed.FS

// migrations are the steps of the schema in order; step i leads to schema i+1.
// A step that was released is never changed, and there is no way back.
var migrations = steps(files)

func steps(from fs.FS) []string {
	names, err := fs.Glob(from, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic("postgres: no migrations embedded")
	}
	out := make([]string, len(names))
	for i, name := range names {
		b, err := fs.ReadFile(from, name)
		if err != nil {
			panic("postgres: " + err.Error())
		}
		out[i] = string(b)
	}
	return out
}

// ErrNewerSchema refuses a ledger that a newer belay has migrated.
var ErrNewerSchema = errors.New("the ledger has a newer schema than this belay knows")

// ErrForeign refuses a schema that is not belay's.
var ErrForeign = errors.New("the schema holds the tables of another program")

// migrate brings the schema to the newest version. Many processes may do so at
// once: the steps run in one transaction under an advisory lock, by whoever
// gets it first. Opening a ledger that is up to date writes nothing, so it
// needs no right to.
func (l *Ledger) migrate(ctx context.Context, steps []string) error {
	r := l.retrier()
	r.most = min(r.most, openPatience)
	for {
		err := l.onConn(ctx, func(c *pgx.Conn) error { return l.step(ctx, c, steps) })
		if err == nil {
			return nil
		}
		if err := r.again(ctx, err); err != nil {
			return l.wrap("open", err)
		}
	}
}

func (l *Ledger) step(ctx context.Context, c *pgx.Conn, steps []string) error {
	version, err := l.schema(ctx, c)
	if err == nil && version < len(steps) {
		err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return l.stepIn(ctx, tx, steps)
		})
		version = len(steps)
	}
	if err == nil && version > len(steps) {
		f := fault.New(fault.Storage, fault.User, fmt.Sprintf("ledger %s has schema version %d, this belay knows up to %d", l.name, version, len(steps)),
			"use the newer belay, or another schema")
		err = refuse(&storageError{Fault: f, err: ErrNewerSchema})
	}
	return err
}

func (l *Ledger) stepIn(ctx context.Context, tx pgx.Tx, steps []string) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('belay migration of ' || $1, 0))", l.opts.Schema); err != nil {
		return err
	}
	// Someone else may have taken the steps in the meantime.
	version, err := l.schema(ctx, tx)
	if err != nil || version >= len(steps) {
		return err
	}
	if version == 0 {
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", l.opts.Schema).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{l.opts.Schema}.Sanitize()); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, l.q("CREATE TABLE @belay_schema (version integer NOT NULL PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())")); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "SELECT set_config('search_path', $1, true)", l.opts.Schema); err != nil {
		return err
	}
	for i := version; i < len(steps); i++ {
		// Without arguments a text of many statements goes as it is.
		if _, err := tx.Exec(ctx, steps[i], pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migration %d: %w", i+1, err)
		}
		if _, err := tx.Exec(ctx, l.q("INSERT INTO @belay_schema (version) VALUES ($1)"), i+1); err != nil {
			return err
		}
	}
	return nil
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schema reads the version, 0 for a schema that is empty or not there. A table
// of belay_schema marks the schema as belay's.
func (l *Ledger) schema(ctx context.Context, c querier) (version int, err error) {
	var ours, others bool
	// Both are seen at one instant: a schema that another process makes belay's
	// between two looks is not foreign.
	err = c.QueryRow(ctx, `SELECT coalesce(bool_or(relname = 'belay_schema'), false),
		coalesce(bool_or(relname IN ('events', 'goals', 'uploads', 'chunks', 'artifacts', 'caches')), false)
		FROM pg_class WHERE relnamespace = to_regnamespace($1)`, l.opts.Schema).Scan(&ours, &others)
	switch {
	case err != nil:
		return 0, err
	case ours:
		err = c.QueryRow(ctx, l.q("SELECT coalesce(max(version), 0) FROM @belay_schema")).Scan(&version)
		return version, err
	case others:
		f := fault.New(fault.Storage, fault.User, fmt.Sprintf("%s is not a ledger of belay", l.name), "name another schema with belay_schema in the address")
		return 0, refuse(&storageError{Fault: f, err: ErrForeign})
	}
	return 0, nil
}
