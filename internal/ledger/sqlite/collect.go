package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/moment"
)

var _ ledger.Collector = (*Ledger)(nil)

// Collect implements ledger.Collector. What no event names is found by reading;
// the rows go in one transaction that looks at what was appended meanwhile. Files
// go last, by their age and the absence of a row: a kill in between leaves files
// that the next collection finds.
func (l *Ledger) Collect(ctx context.Context, c ledger.Collect) (ledger.Collected, error) {
	var out ledger.Collected
	if l.isClosed() {
		return out, ledger.ErrClosed
	}
	loose, err := l.candidates(ctx, c.Before)
	if err != nil {
		return out, err
	}
	seen, err := l.unname(ctx, 0, loose)
	if err != nil {
		return out, err
	}
	for _, stored := range loose {
		out.Artifacts++
		out.Bytes += stored
	}
	if c.Dry {
		for _, goal := range c.Caches {
			var n int
			found, err := l.queryRow(ctx, "SELECT 1 FROM caches WHERE goal = ?", []any{goal}, &n)
			if err != nil {
				return out, l.wrap("look for the cache of goal "+goal, err)
			}
			if found {
				out.Caches++
			}
		}
		files, err := l.dropFiles(ctx, c.Before, true)
		out.Artifacts, out.Bytes = out.Artifacts+files.Artifacts, out.Bytes+files.Bytes
		return out, err
	}
	out = ledger.Collected{}
	if err := l.dropRows(ctx, c, seen, loose, &out); err != nil {
		return out, err
	}
	failpoint.Hit(failpoint.RowsDropped)
	_, err = l.dropFiles(ctx, c.Before, false)
	return out, err
}

// candidates are the artifacts that were last put before a time, with what they
// take.
func (l *Ledger) candidates(ctx context.Context, before moment.Time) (map[string]int64, error) {
	rows, err := l.query(ctx, "SELECT sha256, stored FROM artifacts WHERE seen < ?", int64(before))
	if err != nil {
		return nil, l.wrap("list artifacts", err)
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var sha string
		var stored int64
		if err := rows.Scan(&sha, &stored); err != nil {
			return nil, l.wrap("list artifacts", err)
		}
		out[sha] = stored
	}
	return out, l.wrap("list artifacts", rows.Err())
}

// unname takes from a set what events after a row name, and returns the last
// row. A record that cannot be read may name anything, so it is an error.
func (l *Ledger) unname(ctx context.Context, after int64, loose map[string]int64) (int64, error) {
	rows, err := l.query(ctx, "SELECT rowid, spilled, payload FROM events WHERE rowid > ? ORDER BY rowid", after)
	if err != nil {
		return 0, l.wrap("read the events", err)
	}
	defer rows.Close()
	for rows.Next() {
		var spilled bool
		var payload []byte
		if err := rows.Scan(&after, &spilled, &payload); err != nil {
			return 0, l.wrap("read the events", err)
		}
		names := event.NamesIn(payload)
		for _, n := range names {
			delete(loose, n)
		}
		if !spilled {
			continue
		}
		for _, n := range names {
			if err := l.unnameIn(ctx, n, loose); err != nil {
				return 0, err
			}
		}
	}
	return after, l.wrap("read the events", rows.Err())
}

// unnameIn takes from a set what a payload that was spilled names.
func (l *Ledger) unnameIn(ctx context.Context, sha string, loose map[string]int64) error {
	r, err := l.OpenArtifact(ctx, sha)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil // what looks like a name and is none
	}
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	for _, n := range event.NamesIn(b) {
		delete(loose, n)
	}
	return err
}

// dropRows removes what is still unnamed now, and caches.
func (l *Ledger) dropRows(ctx context.Context, c ledger.Collect, seen int64, loose map[string]int64, out *ledger.Collected) error {
	return l.writer.write(ctx, true, func(t *tx) error {
		*out = ledger.Collected{}
		var newest int64
		if _, err := t.row("SELECT coalesce(max(rowid), 0) FROM events", nil, &newest); err != nil {
			return err
		}
		for row := seen + 1; row <= newest; row++ {
			var payload []byte
			var spilled bool
			if _, err := t.row("SELECT payload, spilled FROM events WHERE rowid = ?", []any{row}, &payload, &spilled); err != nil {
				return err
			}
			if spilled {
				clear(loose) // what it names is not read here: next time
			}
			for _, n := range event.NamesIn(payload) {
				delete(loose, n)
			}
		}
		for sha, stored := range loose {
			var n int
			found, err := t.row("SELECT 1 FROM artifacts WHERE sha256 = ? AND seen < ?", []any{sha, int64(c.Before)}, &n)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			if err := t.exec("DELETE FROM artifacts WHERE sha256 = ?", sha); err != nil {
				return err
			}
			out.Artifacts++
			out.Bytes += stored
		}
		for _, goal := range c.Caches {
			var n int
			found, err := t.row("SELECT 1 FROM caches WHERE goal = ?", []any{goal}, &n)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			if err := t.exec("DELETE FROM caches WHERE goal = ?", goal); err != nil {
				return err
			}
			out.Caches++
		}
		return nil
	})
}

// dropFiles removes files of artifacts that have no row. Their age is looked at
// under the lock that whoever names such a file holds: one that is just put anew
// is young, whatever was there before.
func (l *Ledger) dropFiles(ctx context.Context, before moment.Time, dry bool) (ledger.Collected, error) {
	var out ledger.Collected
	err := filepath.WalkDir(l.artifacts, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(l.artifacts, path)
		sha := strings.ReplaceAll(rel, string(filepath.Separator), "")
		if d.IsDir() || len(sha) != 64 {
			return nil
		}
		var n int
		found, err := l.queryRow(ctx, "SELECT 1 FROM artifacts WHERE sha256 = ?", []any{sha}, &n)
		if err != nil || found {
			return err
		}
		return l.dropFile(path, before, dry, &out)
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, l.wrap("remove files of artifacts", err)
}

func (l *Ledger) dropFile(path string, before moment.Time, dry bool, out *ledger.Collected) error {
	unlock, err := lockNames(filepath.Join(l.artifacts, "tmp"), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if moment.Of(info.ModTime().Add(time.Second)) >= before {
		return nil
	}
	out.Artifacts++
	out.Bytes += info.Size()
	if dry {
		return nil
	}
	return os.Remove(path)
}

// namesLock is the file, in the folder of artifacts that are being made.
const namesLock = ".names"

// lockNames locks the names of artifact files: shared to give one, alone to take
// one away.
func lockNames(dir string, how int) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, namesLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the names of artifacts: %w", err)
	}
	return func() { f.Close() }, nil
}
