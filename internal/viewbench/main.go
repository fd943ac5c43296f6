// Command viewbench measures the working view on long runs over real
// repositories: how many bytes a goal sends, how much of them a provider can
// have cached, and whether what an action needs stands in the view at the
// moment it is taken. It compares with what other agents do: send the whole
// history, keep the last results, cut the beginning off.
//
//	make bench-context
//	go run ./internal/viewbench -belay bin/belay -rounds 40
//
// Each run is recorded anew by the built program: a scripted model looks,
// searches, reads, edits, breaks, checks and repairs a pinned version of an
// open-source module, in steps that follow from the sources alone. The measures
// are then taken off the ledger. The exit code is 1 when a target is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "viewbench:", err)
		os.Exit(1)
	}
}

func run() error {
	belay := flag.String("belay", "bin/belay", "the built program")
	rounds := flag.Int("rounds", 44, "rounds of work in each run; one is eight to twelve steps")
	window := flag.Int64("window", 128_000, "the model's window in tokens")
	dir := flag.String("dir", "", "where the runs live, and are not played again when they are there; default a temporary directory that is removed")
	verbose := flag.Bool("v", false, "name what the view did not show")
	flag.Parse()
	if *dir == "" {
		tmp, err := os.MkdirTemp("", "viewbench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		*dir = tmp
	}
	program, err := filepath.Abs(*belay)
	if err != nil {
		return err
	}
	ctx, missed := context.Background(), 0
	for _, m := range modules {
		r, err := record(ctx, program, filepath.Join(*dir, m.name), m, *rounds, *window)
		if err != nil {
			return fmt.Errorf("record %s: %w", m.path, err)
		}
		f, err := measure(r, *window)
		if err != nil {
			return fmt.Errorf("measure %s: %w", m.path, err)
		}
		missed += f.print(os.Stdout, m, *verbose)
	}
	if missed > 0 {
		return fmt.Errorf("%d targets are missed", missed)
	}
	fmt.Println("every target is met")
	return nil
}
