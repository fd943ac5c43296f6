// Command torture kills belay, at every failpoint in turn and at random
// instants, restarts it, and holds what comes out against a run that nobody
// disturbed. Now and then it lets the whole machine die and another one take
// the goal over; on PostgreSQL it also ends the server and cuts connections. It
// drives the built program from outside and must not reach into it: what it
// knows it has from exit codes, output, files and processes.
//
//	make torture                       5,000 kills on SQLite, 1,000 on PostgreSQL
//	make torture TORTURE_DB=sqlite     one store: sqlite or postgres
//	make torture TORTURE_KILLS=200     so many on each
//	make torture TORTURE_SEED=7        other instants
//	go run ./internal/torture -db sqlite -seed 7 -run 12 -v    one run of that seed again
//
// Interrupted, it lets the runs that have begun end, and prints what it found.
// The exit code is 0 when nothing was violated, else 1.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
)

func main() {
	os.Exit(run())
}

// kills is how often belay is killed on a store unless somebody says otherwise.
var kills = map[string]int{onSQLite: 5000, onPostgres: 1000}

func run() int {
	db := flag.String("db", cmp.Or(os.Getenv("TORTURE_DB"), "both"), "where the ledger is: sqlite, postgres (a private server of the installed programs) or both ($TORTURE_DB)")
	most := flag.Int("kills", number("TORTURE_KILLS", 0), "go on until belay was killed this often on each store; 0 is 5,000 on SQLite and 1,000 on PostgreSQL ($TORTURE_KILLS)")
	seed := flag.Uint64("seed", uint64(number("TORTURE_SEED", 1)), "what the instants are drawn from ($TORTURE_SEED)")
	only := flag.Int("run", -1, "play only this run of the seed again, and keep its directory")
	jobs := flag.Int("jobs", runtime.GOMAXPROCS(0), "runs side by side")
	dir := flag.String("dir", os.Getenv("TORTURE_DIR"), "where the runs live; default a temporary directory ($TORTURE_DIR)")
	verbose := flag.Bool("v", false, "say what each run does")
	flag.Parse()
	stores := []string{*db}
	if *db == "both" {
		stores = []string{onSQLite, onPostgres}
	}
	code := 0
	enough, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, store := range stores {
		if kills[store] == 0 {
			fmt.Fprintf(os.Stderr, "torture: there is no store %q; name sqlite, postgres or both\n", store)
			return 2
		}
		o := options{store: store, kills: cmp.Or(*most, kills[store]), seed: *seed, only: *only, jobs: *jobs, dir: *dir, verbose: *verbose, log: os.Stderr}
		if !torture(enough, o) {
			code = 1
		}
	}
	return code
}

// torture runs one campaign and reports whether nothing was violated.
func torture(enough context.Context, o options) bool {
	c, err := newCampaign(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return false
	}
	defer c.close()
	r, err := c.play(enough)
	r.print(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
	}
	return err == nil && len(r.violations) == 0
}

func number(env string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(env))
	if err != nil {
		return otherwise
	}
	return n
}
