package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
	"belay/internal/ledger/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store { return harness(t, "") })
}

// TestOneConnectionIsEnough: no call holds a connection while it waits for
// another one, so the smallest pool cannot lock itself up.
func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store { return harness(t, "&pool_max_conns=1") })
}

func harness(t *testing.T, more string) ledgertest.Store {
	server := pgtest.Shared(t)
	dsn, opts := server.DSN()+more, Options{Schema: pgtest.Schema()}
	var mu sync.Mutex
	var skew time.Duration
	return ledgertest.Store{
		Open: func(t testing.TB) ledger.Ledger { return open(t, dsn, opts) },
		Skew: func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			skew += d
			setClock(t, dsn, opts.Schema, skew)
		},
		DropRow: func(t testing.TB, goal string) {
			raw(t, dsn, opts.Schema, "DELETE FROM @goals WHERE goal = $1", goal)
		},
		Damage: func(t testing.TB, goal string, seq uint64, d ledgertest.Damage) {
			set := map[ledgertest.Damage]string{
				ledgertest.FlipPayload:  "UPDATE @events SET payload = convert_to(replace(convert_from(payload, 'UTF8'), 'message ', 'massage '), 'UTF8')",
				ledgertest.BreakPayload: "UPDATE @events SET payload = '!'::bytea || substr(payload, 2)",
				ledgertest.ChangeActor:  "UPDATE @events SET actor = 'user:mallory'",
				ledgertest.ChangeHash:   "UPDATE @events SET hash = CASE substr(hash, 1, 1) WHEN '0' THEN '1' ELSE '0' END || substr(hash, 2)",
				ledgertest.RemoveRecord: "DELETE FROM @events",
			}[d]
			raw(t, dsn, opts.Schema, set+" WHERE goal = $1 AND seq = $2", goal, seq)
		},
		AlterArtifact: func(t testing.TB, sha string) {
			const flip = "set_byte(body, length(body) / 2, get_byte(body, length(body) / 2) # 1)"
			raw(t, dsn, opts.Schema, `WITH inline AS (UPDATE @artifacts SET body = `+flip+` WHERE sha256 = $1 AND body IS NOT NULL RETURNING 1),
				cut AS (UPDATE @chunks SET body = `+flip+` WHERE n = 1 AND upload = (SELECT upload FROM @artifacts WHERE sha256 = $1) RETURNING 1)
				SELECT 1 FROM inline UNION ALL SELECT 1 FROM cut`, sha)
		},
		DropArtifact: func(t testing.TB, sha string) {
			raw(t, dsn, opts.Schema, "DELETE FROM @artifacts WHERE sha256 = $1", sha)
		},
	}
}

// setClock replaces the function that is the store's one clock by one that is
// off, which is what a server with another clock looks like.
func setClock(t testing.TB, dsn, schema string, skew time.Duration) {
	t.Helper()
	conn := connect(t, dsn)
	_, err := conn.Exec(context.Background(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s.store_clock() RETURNS bigint LANGUAGE sql VOLATILE
		AS $$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint + %d $$`, schema, skew.Microseconds()))
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	dsn, _, _ = strings.Cut(dsn, "&pool_")
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func open(t testing.TB, dsn string, opts Options) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), dsn, opts)
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
func raw(t testing.TB, dsn, schema, query string, args ...any) {
	t.Helper()
	conn := connect(t, dsn)
	defer conn.Close(context.Background())
	tag, err := conn.Exec(context.Background(), strings.ReplaceAll(query, "@", schema+"."), args...)
	if err != nil {
		t.Fatal(err)
	}
	if n := tag.RowsAffected(); n != 1 {
		t.Fatalf("%s changed %d rows", query, n)
	}
}
