package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
	"belay/internal/ledger/postgres/pgtest"
)

func TestManyProcessesMayCreateOneLedger(t *testing.T) {
	t.Parallel()
	server, opts := pgtest.Shared(t), Options{Schema: pgtest.Schema()}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l, err := Open(context.Background(), server.DSN(), opts)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			goal := fmt.Sprint("g", i)
			if _, err := l.Append(context.Background(), ledger.Append{Goal: goal, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf(goal)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := open(t, server.DSN(), opts).Streams(context.Background()); err != nil || len(got) != 8 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestANewerOrForeignSchemaIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	conn := connect(t, server.DSN())
	for want, setup := range map[error]func(schema string) string{
		ErrNewerSchema: func(schema string) string {
			open(t, server.DSN(), Options{Schema: schema})
			return fmt.Sprintf("INSERT INTO %s.belay_schema (version) VALUES (%d)", schema, len(migrations)+1)
		},
		ErrForeign: func(schema string) string {
			return fmt.Sprintf("CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.events (id int)", schema)
		},
	} {
		schema := pgtest.Schema()
		if _, err := conn.Exec(context.Background(), setup(schema)); err != nil {
			t.Fatal(err)
		}
		tables := func() (n int) {
			if err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace($1)", schema).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := tables()
		_, err := Open(context.Background(), server.DSN(), Options{Schema: schema})
		f := (*fault.Fault)(nil)
		if !errors.Is(err, want) || !errors.As(err, &f) || f.Kind != fault.Storage || f.SuggestedAction == "" {
			t.Errorf("got %v, want %v", err, want)
		}
		if after := tables(); after != before {
			t.Errorf("%v: %d relations became %d", want, before, after)
		}
	}
}

// TestMigrationsGoForwardOnly takes a ledger of the first version through a
// further step, by many at once, and a step that fails leaves no trace.
func TestMigrationsGoForwardOnly(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	schema := pgtest.Schema()
	l := open(t, server.DSN(), Options{Schema: schema})
	ledgertest.Create(t, l, "g", 3)
	ctx := context.Background()
	if err := l.migrate(ctx, append(migrations[:len(migrations):len(migrations)], "CREATE TABLE extra (x int); INSERT INTO extra VALUES (1); SELECT 1/0")); err == nil {
		t.Fatal("a failing step succeeded")
	}
	next := append(migrations[:len(migrations):len(migrations)], "CREATE TABLE extra (x int); INSERT INTO extra VALUES (1)")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := l.migrate(ctx, next); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := connect(t, server.DSN()).QueryRow(ctx, "SELECT count(*) FROM "+schema+".extra").Scan(&n); err != nil || n != 1 {
		t.Errorf("the step ran %d times, %v", n, err)
	}
	ledgertest.CheckChain(t, l, "g", 3)
	if _, err := Open(ctx, server.DSN(), Options{Schema: schema}); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("the older belay opens it: %v", err)
	}
}

func TestTheSchemaComesFromTheOptionsOrTheAddress(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	one, two := pgtest.Schema(), pgtest.Schema()
	ledgertest.Create(t, open(t, server.DSN()+"&belay_schema="+one, Options{}), "g", 1)
	for want, l := range map[int]*Ledger{1: open(t, server.DSN(), Options{Schema: one}), 0: open(t, server.DSN()+"&belay_schema="+one, Options{Schema: two})} {
		if got, err := l.Streams(context.Background()); err != nil || len(got) != want {
			t.Errorf("%s holds %q, %v", l.Name(), got, err)
		}
	}
	for _, bad := range []string{"Belay", "pg_belay", "a b", `x"; DROP SCHEMA belay`, strings.Repeat("x", 64), "1a"} {
		if _, err := Open(context.Background(), server.DSN(), Options{Schema: bad}); err == nil {
			t.Errorf("schema %q is accepted", bad)
		}
	}
}

// TestWhatCannotBeOpenedSaysWhyAndNeverThePassword also bounds the time: an
// address with a slip in it is found out within seconds.
func TestWhatCannotBeOpenedSaysWhyAndNeverThePassword(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	const password = "s3cret-word"
	for name, c := range map[string]struct{ dsn, says string }{
		"not an address":   {"postgres://u:" + password + "@[::1:5432/x", "postgres://user@host"},
		"nobody listens":   {"postgres://u:" + password + "@127.0.0.1:1/x?sslmode=disable", "check that the server runs"},
		"no socket":        {"host=/nonexistent password=" + password, "check that the server runs"},
		"no such database": {strings.Replace(server.DSN(), "/postgres?", "/nothing?password="+password+"&", 1), "createdb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := Open(context.Background(), c.dsn, Options{})
			f := (*fault.Fault)(nil)
			if !errors.As(err, &f) || f.Kind != fault.Storage || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			} else if strings.Contains(err.Error(), password) {
				t.Errorf("the password is in the message: %v", err)
			}
			if d := time.Since(start); d > 4*openPatience {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// TestARoleWithoutRightsIsTold: it may use a ledger that is there, not make one.
func TestARoleWithoutRightsIsTold(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	made, role := pgtest.Schema(), pgtest.Schema()
	ledgertest.Create(t, open(t, server.DSN(), Options{Schema: made}), "g", 1)
	conn := connect(t, server.DSN())
	if _, err := conn.Exec(context.Background(), fmt.Sprintf("CREATE ROLE %[2]s LOGIN; GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO %[2]s", made, role)); err != nil {
		t.Fatal(err)
	}
	dsn := strings.Replace(server.DSN(), "user=belay", "user="+role, 1)
	l := open(t, dsn, Options{Schema: made})
	if _, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g")}); err != nil {
		t.Error(err)
	}
	if _, err := Open(context.Background(), dsn, Options{Schema: pgtest.Schema()}); err == nil || !strings.Contains(err.Error(), "CREATE SCHEMA") {
		t.Errorf("creating a schema without the right: %v", err)
	}
}

// TestAnyTextOfThePersonIsKept: PostgreSQL's text takes neither NUL nor bytes
// that are not UTF-8; a goal must not fail for that.
func TestAnyTextOfThePersonIsKept(t *testing.T) {
	t.Parallel()
	l := open(t, pgtest.Shared(t).DSN(), Options{Schema: pgtest.Schema()})
	row := ledgertest.RowOf("g")
	row.Title, row.Repo = "fix \x00 and \xff\xfe", "/src/\xe9t\xe9"
	if _, err := l.Append(context.Background(), ledger.Append{Goal: "g", Events: []event.Event{ledgertest.Message("a \x00 b")}, Row: row}); err != nil {
		t.Fatal(err)
	}
	got, err := l.Goals(context.Background(), ledger.Filter{Repo: row.Repo})
	if err != nil || len(got) != 1 || got[0].Title != "fix \uFFFD and \uFFFD\uFFFD" || got[0].Repo != "/src/\uFFFDt\uFFFD" {
		t.Errorf("%+v, %v", got, err)
	}
	events, err := l.Read(context.Background(), "g", 0, 0)
	if err != nil || events[0].Payload.(event.UserMessage).Text != "a \x00 b" {
		t.Errorf("%+v, %v", events, err)
	}
	for _, bad := range []string{"\xff", "a\x00b"} {
		if _, err := l.Goal(context.Background(), bad); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("goal %q: %v", bad, err)
		}
		if _, err := l.Append(context.Background(), ledger.Append{Goal: bad, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf(bad)}); err == nil {
			t.Errorf("goal %q was created", bad)
		}
		if got, err := l.Goals(context.Background(), ledger.Filter{Prefix: bad}); err != nil || len(got) != 0 {
			t.Errorf("prefix %q: %v, %v", bad, got, err)
		}
	}
}

// TestDurabilityHoldsWhateverTheDefaultIs looks at the setting within the
// transactions of appends, by a trigger.
func TestDurabilityHoldsWhateverTheDefaultIs(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	for def, want := range map[string][2]string{"off": {"on", "local"}, "local": {"on", "local"}, "on": {"on", "local"}, "remote_apply": {"remote_apply", "local"}} {
		schema := pgtest.Schema()
		l := open(t, server.DSN()+"&options=-c%20synchronous_commit%3D"+def, Options{Schema: schema})
		conn := connect(t, server.DSN())
		if _, err := conn.Exec(context.Background(), strings.ReplaceAll(`CREATE TABLE @seen (n bigserial, v text);
			CREATE FUNCTION @look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO @seen (v) VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
			CREATE TRIGGER look BEFORE INSERT ON @events FOR EACH ROW EXECUTE FUNCTION @look()`, "@", schema+".")); err != nil {
			t.Fatal(err)
		}
		for i, durable := range []bool{true, false} {
			if _, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: uint64(i), Fence: uint64(i), Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g"), Durable: durable}); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := conn.QueryRow(context.Background(), "SELECT v FROM "+schema+".seen ORDER BY n DESC LIMIT 1").Scan(&got); err != nil || got != want[i] {
				t.Errorf("default %s, durable %v: %s, %v", def, durable, got, err)
			}
		}
	}
}
