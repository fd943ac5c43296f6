// Command torture kills belay, at every failpoint in turn and at random
// instants, restarts it, and holds what comes out against a run that nobody
// disturbed. It drives the built program from outside and must not reach into
// it: what it knows it has from exit codes, output, files and processes.
//
//	make torture                       5,000 kills
//	make torture TORTURE_KILLS=200     fewer
//	make torture TORTURE_SEED=7        other instants
//	go run ./internal/torture -seed 7 -run 12 -v    one run of that seed again
//
// The exit code is 0 when nothing was violated, else 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
)

func main() {
	os.Exit(run())
}

func run() int {
	kills := flag.Int("kills", number("TORTURE_KILLS", 5000), "go on until belay was killed this often ($TORTURE_KILLS)")
	seed := flag.Uint64("seed", uint64(number("TORTURE_SEED", 1)), "what the instants are drawn from ($TORTURE_SEED)")
	only := flag.Int("run", -1, "play only this run of the seed again, and keep its directory")
	jobs := flag.Int("jobs", runtime.GOMAXPROCS(0), "runs side by side")
	dir := flag.String("dir", os.Getenv("TORTURE_DIR"), "where the runs live; default a temporary directory ($TORTURE_DIR)")
	verbose := flag.Bool("v", false, "say what each run does")
	flag.Parse()
	c, err := newCampaign(options{kills: *kills, seed: *seed, only: *only, jobs: *jobs, dir: *dir, verbose: *verbose, log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	defer c.close()
	r, err := c.play()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	r.print(os.Stdout)
	if len(r.violations) > 0 {
		return 1
	}
	return 0
}

func number(env string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(env))
	if err != nil {
		return otherwise
	}
	return n
}
