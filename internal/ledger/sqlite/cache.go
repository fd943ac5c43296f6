package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"belay/internal/ledger"
	"belay/internal/ledger/rules"
)

// SaveCache implements ledger.Ledger.
func (l *Ledger) SaveCache(ctx context.Context, goal string, c ledger.Cache) error {
	body := compress(c.Blob)
	return l.writer.write(ctx, false, func(t *tx) error {
		var old ledger.Cache
		found, err := t.row("SELECT seq, schema FROM caches WHERE goal = ?", []any{goal}, &old.Seq, &old.Schema)
		if err != nil || found && !rules.Newer(&old, c) {
			return err
		}
		return t.exec("INSERT OR REPLACE INTO caches (goal, seq, schema, body) VALUES (?,?,?,?)", goal, int64(c.Seq), c.Schema, body)
	})
}

// LoadCache implements ledger.Ledger.
func (l *Ledger) LoadCache(ctx context.Context, goal string) (ledger.Cache, error) {
	var c ledger.Cache
	var body []byte
	found, err := l.queryRow(ctx, "SELECT seq, schema, body FROM caches WHERE goal = ?", []any{goal}, &c.Seq, &c.Schema, &body)
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
		return ledger.Cache{}, l.wrap("read the cache of goal "+goal, err)
	}
	return c, nil
}

func decompress(b []byte) ([]byte, error) {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	if err := d.Reset(bytes.NewReader(b)); err != nil {
		return nil, err
	}
	return io.ReadAll(d)
}
