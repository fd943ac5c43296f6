package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"belay/internal/service"
)

func (a *app) forkCommand() *cobra.Command {
	var r service.ForkRequest
	var detach, queue bool
	c := &cobra.Command{
		Use: `fork G ["TEXT"]`, Short: "begin a new goal where another one stood, in a worktree", Args: exactly(1, 2),
		Long: "fork begins a new goal from the state and the tree of another one, as they were after an event\n" +
			"(--at, see belay timeline G), in a worktree of its own. What happened until then is its history:\n" +
			"nothing of it runs again (only setup commands prepare the new checkout), what was open is closed,\n" +
			"no approval in it counts, and the budget is a\n" +
			"new one with the same limits. TEXT is its first message: what is to be different.\n\n" + exitHelp,
		Example: `  belay fork 73c3 --at 120 "keep the old signature this time"`,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				if len(args) == 2 {
					r.Text = args[1]
				}
				started, err := s.Fork(a.ctx, goal, r)
				if err != nil {
					return err
				}
				for _, w := range started.Warnings {
					fmt.Fprintln(a.Stderr, "belay: "+oneLine(w))
				}
				return a.begun(s, started.Goal, runFlags{detach: detach, queue: queue})
			})
		},
	}
	c.Flags().Uint64Var(&r.At, "at", 0, "after the event with this seq (default: as it is now)")
	c.Flags().BoolVar(&detach, "detach", false, "work in the background; print the goal and return")
	c.Flags().BoolVar(&queue, "queue", false, "record the goal and return; a belay worker takes it up")
	c.MarkFlagsMutuallyExclusive("detach", "queue")
	return c
}

func (a *app) exportCommand() *cobra.Command {
	var lines, redact, giveUp bool
	c := &cobra.Command{
		Use: "export G FILE", Short: "a goal as one file: to go on elsewhere, to keep, or to analyse", Args: exactly(2, 2),
		Long: "export writes a goal's events, artifacts and the trees of its workspace into one file, which\n" +
			"belay import checks whole and opens on another machine or state directory. FILE - is standard\n" +
			"output. With --give-up the goal goes on there and no more here: run and resume refuse, and say so.\n" +
			"Without it the import is a copy, to look at and to fork.\n\n" +
			"With --jsonl it writes the events alone, one JSON object a line, with long texts in full; with\n" +
			"--redact the names of your paths, of you and of the machine are taken out. Secrets are never in it.",
		Example: "  belay export 73c3 goal.belay --give-up\n  belay export 73c3 - --jsonl --redact | jq .type",
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case redact && !lines:
				return usagef("--redact is for --jsonl: a file that is imported has to be what happened")
			case giveUp && lines:
				return usagef("a goal cannot go on from --jsonl; give it up to a file without it")
			case giveUp && args[1] == "-":
				return usagef("give a goal up to a FILE: what is lost on its way could not be told")
			}
			return a.withGoal(args[0], func(s service.Door, goal string) error { return a.export(s, goal, args[1], lines, redact, giveUp) })
		},
	}
	c.Flags().BoolVar(&lines, "jsonl", false, "the events alone, one JSON object a line")
	c.Flags().BoolVar(&redact, "redact", false, "with --jsonl: without the names of paths, user and machine")
	c.Flags().BoolVar(&giveUp, "give-up", false, "the goal goes on where the file is imported, and no more here")
	return c
}

func (a *app) export(s service.Door, goal, path string, lines, redact, giveUp bool) error {
	if giveUp {
		if err := s.GiveUp(a.ctx, goal, filepath.Base(path)); err != nil {
			return err
		}
	}
	write := func(w io.Writer) error { return s.Bundle(a.ctx, goal, w) }
	if lines {
		write = func(w io.Writer) error { return s.ExportLines(a.ctx, goal, redact, w) }
	}
	if path == "-" {
		return write(a.Stdout)
	}
	if err := writeWhole(path, write); err != nil {
		if giveUp {
			return fmt.Errorf("goal %s is given up, but the file was not written (export it again, with or without --give-up): %w", goal, err)
		}
		return err
	}
	snap, err := s.Audit(a.ctx, goal)
	if err != nil {
		return err
	}
	return a.printJSONOr(map[string]any{"file": path, "goal": goal, "head_hash": snap.Head, "given_up": giveUp}, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d events, head %s\n", oneLine(path), snap.Events, snap.Head)
		if giveUp {
			fmt.Fprintf(w, "goal %s goes on where this is imported: belay import %s\n", goal, oneLine(path))
		}
	})
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".belay-export-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (a *app) importCommand() *cobra.Command {
	var r service.ImportRequest
	var gib int64
	c := &cobra.Command{
		Use: "import FILE", Short: "take in a goal that was exported elsewhere", Args: exactly(1, 1),
		Long: "import checks the whole file first: the hash of every artifact and tree, and the chain over every\n" +
			"event; what is damaged or was changed is named, and nothing of it is kept. Then the goal's tree is\n" +
			"laid into --repo (a new or empty directory, or a clone at a state that the goal knows), over nothing\n" +
			"that is somebody else's. A goal that was given up goes on with belay resume, under your policy and\n" +
			"sandbox: no rule and no approval comes in with the file. One that was not is a copy, to look at and\n" +
			"to fork.",
		Example: "  belay import goal.belay --repo ~/src/project",
		RunE: func(_ *cobra.Command, args []string) error {
			r.Path, r.Max = args[0], gib<<30
			if r.Sandbox == "" {
				r.Sandbox = a.Getenv("BELAY_SANDBOX")
			}
			return a.here(func(s *service.Service) error { return a.takeIn(a.ctx, s, r) })
		},
	}
	c.Flags().StringVar(&r.Repo, "repo", "", "the directory that gets the tree (default: the goal's own path, if it is there)")
	c.Flags().StringVar(&r.Head, "head", "", "refuse the file unless its last event has this hash (export shows it)")
	c.Flags().StringVar(&r.Sandbox, "sandbox", "", "as for run: the sandbox of a goal that goes on here (default: $BELAY_SANDBOX, else auto)")
	c.Flags().Int64Var(&gib, "max-size", 16, "the most that the file may hold unpacked, in GiB")
	return c
}

func (a *app) takeIn(ctx context.Context, s *service.Service, r service.ImportRequest) error {
	in, err := s.Import(ctx, r)
	if err != nil {
		return err
	}
	for _, w := range in.Warnings {
		fmt.Fprintln(a.Stderr, "belay: "+oneLine(w))
	}
	return a.printJSONOr(in, func(w io.Writer) {
		fmt.Fprintf(w, "goal %s, head %s\n", in.Goal, in.Head)
		if in.Copy {
			fmt.Fprintf(w, "a copy: it goes on where it was exported (belay fork %s goes on from it as a goal of its own)\n", in.Goal)
			return
		}
		fmt.Fprintf(w, "its tree is in %s\n", oneLine(in.Repo))
		for _, c := range in.Commands {
			fmt.Fprintf(w, "it counts as its test, and is run without a question: %s\n", oneLine(c))
		}
		fmt.Fprintf(w, "go on with it: belay resume %s\n", in.Goal)
	})
}
