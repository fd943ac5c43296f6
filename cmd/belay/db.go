package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"belay/internal/cli"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/postgres"
	"belay/internal/ledger/sqlite"
)

// envDB names the ledger's database where --db does not.
const envDB = "BELAY_DB"

// database is the address of the PostgreSQL ledger, "" for the file in the
// state directory. --db sqlite chooses that file whatever the environment says.
func database(o cli.OpenOptions) (string, error) {
	db := cmp.Or(o.DB, os.Getenv(envDB))
	switch {
	case db == "" || db == "sqlite":
		return "", nil
	case strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://"):
		return db, nil
	}
	// What it is instead may hold a password, so it is not repeated.
	return "", fault.New(fault.Storage, fault.User, "the ledger's database is neither an address of PostgreSQL nor \"sqlite\"",
		"write --db postgres://user@host:5432/database, or --db sqlite for the file in the state directory")
}

// openLedger opens the ledger that the options name. Spool and workspaces stay
// in the state directory either way.
func openLedger(ctx context.Context, state string, o cli.OpenOptions) (ledger.Ledger, error) {
	db, err := database(o)
	if err != nil {
		return nil, err
	}
	if db != "" {
		return postgres.Open(ctx, db, postgres.Options{})
	}
	return sqlite.Open(ctx, state, sqlite.Options{})
}

// withOptions hands the database, who is told, and the embedder, to a process of our own by
// its environment: its arguments could be read by everyone on the machine.
func withOptions(env []string, o cli.OpenOptions) []string {
	for _, v := range [][2]string{{envDB, o.DB}, {"BELAY_NOTIFY", o.Notify}, {"BELAY_NOTIFY_URL", o.NotifyURL}, {envEmbeddings, o.Embeddings}} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// doctorPostgres opens the ledger and looks at the server's settings.
func doctorPostgres(ctx context.Context, db string, o cli.OpenOptions) []cli.Finding {
	f := cli.Finding{Name: "ledger"}
	l, err := postgres.Open(ctx, db, postgres.Options{})
	if err != nil {
		f.Detail = err.Error()
		return []cli.Finding{f}
	}
	version, problems, err := l.Check(ctx)
	l.Close()
	if err != nil {
		f.Detail = err.Error()
		return []cli.Finding{f}
	}
	server := cli.Finding{Name: "database", OK: len(problems) == 0, Detail: fmt.Sprintf("%s, server %s", l.Name(), version)}
	if !server.OK {
		server.Detail, server.Remedy = server.Detail+": "+strings.Join(problems, "; "), "change these settings on the server, or take a server that has them"
	}
	s, done, err := open(ctx, o)
	if err != nil {
		f.Detail = err.Error()
		return []cli.Finding{server, f}
	}
	defer func() { _ = done() }()
	return []cli.Finding{server, doctorGoals(ctx, s)}
}
