package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"belay/internal/failpoint"
	"belay/internal/ledger/postgres/pgtest"
)

// The stores that the ledger is tortured on.
const (
	onSQLite   = "sqlite"
	onPostgres = "postgres"
)

// byRequest begin the names of failpoints that only a person's own command
// comes to; the tests of that command kill there.
var byRequest = []string{"workspace.index.", "gc."}

// names are the failpoints that a run on a store can come to.
func names(store string) []failpoint.Name {
	other := map[string]string{onSQLite: "postgres.", onPostgres: "sqlite."}[store]
	var list []failpoint.Name
	for _, n := range failpoint.Names() {
		if !strings.HasPrefix(string(n), other) && !slices.ContainsFunc(byRequest, func(p string) bool { return strings.HasPrefix(string(n), p) }) {
			list = append(list, n)
		}
	}
	return list
}

// address is the ledger of one run on the campaign's server: a schema of its
// own, and a name by which its connections can be found.
func address(server *pgtest.Server, run string) string {
	u, err := url.Parse(server.DSN())
	if err != nil {
		panic("torture: the server's address: " + err.Error())
	}
	q := u.Query()
	q.Set("belay_schema", run)
	q.Set("application_name", run)
	u.RawQuery = q.Encode()
	return u.String()
}

// drop ends every connection that a run has to the server, and reports how
// many. A server that is just down has none.
func drop(server *pgtest.Server, run string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return 0
	}
	defer conn.Close(ctx)
	var n int
	if err := conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", run).Scan(&n); err != nil {
		return 0
	}
	return n
}

// shake ends the server now and then, in each of the ways in which one ends,
// and starts it again, until the context ends. It reports how often.
func shake(ctx context.Context, server *pgtest.Server, rng *rand.Rand) (times int, err error) {
	for {
		select {
		case <-ctx.Done():
			return times, nil
		case <-time.After(shakeLeast + rand.N(shakeLeast)):
		}
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT, syscall.SIGINT}[rng.IntN(3)]
		if err := server.Stop(sig); err != nil {
			return times, fmt.Errorf("end the server by %s: %w", sig, err)
		}
		if err := server.Start(); err != nil {
			return times, fmt.Errorf("start the server after %s: %w", sig, err)
		}
		times++
	}
}

// shakeLeast is the least time between two ends of the server: enough for a run
// to get somewhere in between.
const shakeLeast = 4 * time.Second
