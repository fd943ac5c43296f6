package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store {
		dir := t.TempDir()
		var skew atomic.Int64
		opts := Options{Clock: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }}
		return ledgertest.Store{
			Open: func(t testing.TB) ledger.Ledger { return open(t, dir, opts) },
			Skew: func(d time.Duration) { skew.Add(int64(d)) },
			DropRow: func(t testing.TB, goal string) {
				raw(t, dir, "DELETE FROM goals WHERE goal = ?", goal)
			},
			Damage: func(t testing.TB, goal string, seq uint64, d ledgertest.Damage) {
				set := map[ledgertest.Damage]string{
					ledgertest.FlipPayload:  "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), 'message ', 'massage ') AS BLOB)",
					ledgertest.BreakPayload: "UPDATE events SET payload = CAST('!' || substr(payload, 2) AS BLOB)",
					ledgertest.ChangeActor:  "UPDATE events SET actor = 'user:mallory'",
					ledgertest.ChangeHash:   "UPDATE events SET hash = CASE substr(hash, 1, 1) WHEN '0' THEN '1' ELSE '0' END || substr(hash, 2)",
					ledgertest.RemoveRecord: "DELETE FROM events",
				}[d]
				raw(t, dir, set+" WHERE goal = ? AND seq = ?", goal, seq)
			},
			AlterArtifact: func(t testing.TB, sha string) { spoilArtifact(t, dir, sha, true) },
			DropArtifact:  func(t testing.TB, sha string) { spoilArtifact(t, dir, sha, false) },
		}
	})
}

func open(t testing.TB, dir string, opts Options) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// raw changes one row behind the store's back.
func raw(t testing.TB, dir, query string, args ...any) {
	t.Helper()
	db := openDB(filepath.Join(dir, FileName), "mode=rw&_pragma=busy_timeout(10000)")
	defer db.Close()
	res, err := db.Exec(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%s changed %d rows: %v", query, n, err)
	}
}

func spoilArtifact(t testing.TB, dir, sha string, alter bool) {
	t.Helper()
	file := filepath.Join(dir, "artifacts", sha[:2], sha[2:])
	content, err := os.ReadFile(file)
	switch {
	case err != nil && alter:
		db := openDB(filepath.Join(dir, FileName), "mode=rw&_pragma=busy_timeout(10000)")
		defer db.Close()
		if err := db.QueryRow("SELECT body FROM artifacts WHERE sha256 = ?", sha).Scan(&content); err != nil {
			t.Fatal(err)
		}
		content[len(content)/2] ^= 1
		raw(t, dir, "UPDATE artifacts SET body = ? WHERE sha256 = ?", content, sha)
	case err != nil:
		raw(t, dir, "DELETE FROM artifacts WHERE sha256 = ?", sha)
	case alter:
		content[len(content)/2] ^= 1
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func pragma(t testing.TB, conn *sql.Conn, name string) (value string) {
	t.Helper()
	if err := conn.QueryRowContext(context.Background(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func mode(t testing.TB, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v", info.Mode())
}
