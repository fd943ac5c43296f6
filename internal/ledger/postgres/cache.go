package postgres

import (
	"context"
	"fmt"

	"belay/internal/ledger"
)

// SaveCache implements ledger.Ledger. Which of two caches is the newer is
// rules.Newer, written as a condition so that no lock is held between a look
// and the write.
func (l *Ledger) SaveCache(ctx context.Context, goal string, c ledger.Cache) error {
	if !storable(goal) {
		return notFound(goal)
	}
	body := compress(c.Blob)
	return l.write(ctx, "save the cache of goal "+goal, fleeting, func(ctx context.Context, t *tx) error {
		return t.commit(ctx, step{sql: `INSERT INTO @caches AS old (goal, seq, schema, body) VALUES ($1, $2, $3, $4)
			ON CONFLICT (goal) DO UPDATE SET seq = excluded.seq, schema = excluded.schema, body = excluded.body
			WHERE excluded.schema <> old.schema OR excluded.seq >= old.seq`,
			args: []any{goal, int64(c.Seq), c.Schema, body}})
	})
}

// LoadCache implements ledger.Ledger.
func (l *Ledger) LoadCache(ctx context.Context, goal string) (ledger.Cache, error) {
	var c ledger.Cache
	var body []byte
	found, err := l.queryRow(ctx, "read the cache of goal "+goal, "SELECT seq, schema, body FROM @caches WHERE goal = $1", []any{goal}, &c.Seq, &c.Schema, &body)
	if err == nil && found {
		c.Blob, err = decompress(body)
		// A cache that cannot be read is one that is not there.
		found = err == nil
		err = nil
	}
	switch {
	case damaged(err) || err == nil && !found:
		return ledger.Cache{}, fmt.Errorf("cache of goal %s: %w", goal, ledger.ErrNotFound)
	case err != nil:
		return ledger.Cache{}, err
	}
	return c, nil
}
