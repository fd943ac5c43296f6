package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/service"
)

func (a *app) checkpointCommand() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoint G NAME", Short: "name the state of the workspace, for a later belay rollback", Args: exactly(2, 2),
		Long: "checkpoint gives the present state of a goal's workspace a name that belay rollback knows. It\n" +
			"stays for good, whatever belay gc removes. Under a goal that is being worked on, the state is\n" +
			"the latest one on record. Checkpoints without a name are made all the time: before a response's\n" +
			"edits, before commands, before whatever can discard work, and when a todo is finished.",
		Example: "  belay checkpoint 73c3 tests-green",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				c, err := s.Checkpoint(a.ctx, goal, args[1])
				if err != nil {
					return err
				}
				return a.printJSONOr(c, func(w io.Writer) {
					fmt.Fprintf(w, "%s is %s, event %d, tree %.12s (%s)\n", oneLine(c.Name), oneLine(c.ID), c.Seq, c.Tree, diffSize(c.Size))
				})
			})
		},
	}
}

// diffSize is how much a checkpoint differs from the start.
func diffSize(d event.DiffSize) string {
	if d.Files == 0 {
		return "as at the start"
	}
	more := ""
	if d.AtLeast {
		more = " at least"
	}
	files := "files"
	if d.Files == 1 {
		files = "file"
	}
	return fmt.Sprintf("%d %s%s +%d -%d", d.Files, files, more, d.Added, d.Deleted)
}

func (a *app) checkpointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints G", Short: "the states of the workspace that belay rollback knows: what each was made for, and how much it differs from the start", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				snap, err := s.Snapshot(a.ctx, goal)
				if err != nil {
					return err
				}
				return a.printJSONOr(map[string]any{"checkpoints": snap.Checkpoints, "revision": snap.Revision}, func(w io.Writer) {
					for _, c := range snap.Checkpoints {
						now := ""
						if c.Tree == snap.Revision.Tree {
							now = "  (as it is now)"
						}
						why := oneLine(c.Why)
						if c.Name != "" {
							why = oneLine(c.Name) + ": " + why
						}
						fmt.Fprintf(w, "%-14s event %-6d tree %.12s  %-22s  %s%s\n", oneLine(c.ID), c.Seq, c.Tree, diffSize(c.Size), why, now)
					}
				})
			})
		},
	}
}

func (a *app) rollbackCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "rollback G CHECKPOINT|todo:ID|event:SEQ", Short: "make the workspace what it was: shows first what changes", Args: exactly(2, 2),
		Long: "rollback restores the contents, modes, links, untracked files and deletions of a goal's\n" +
			"workspace as they were at a checkpoint (belay checkpoints G), when a todo was done, or after\n" +
			"an event (belay timeline G), and what was staged of them. It never touches HEAD, refs, the\n" +
			"stash or git's objects, ignored files, or files that others have changed since: those it names\n" +
			"and leaves alone. The goal has to be paused or to have ended.\n\n" +
			"It is an operation of the goal: recorded before it begins, gone on with after a crash, and\n" +
			"undone by a rollback to the checkpoint that it leaves behind.",
		Example: "  belay rollback 73c3 cp0\n  belay rollback 73c3 event:120 --yes",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error { return a.rollback(s, goal, args[1], yes) })
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking; without a terminal and without --yes it only shows what would change")
	return c
}

func (a *app) rollback(s service.Door, goal, target string, yes bool) error {
	p, err := s.PlanRollback(a.ctx, goal, target)
	if err != nil {
		return err
	}
	if !a.json {
		a.plan(a.Stdout, p)
	}
	if p.Empty() {
		return a.printJSONOr(map[string]any{"plan": p, "done": false}, func(io.Writer) {})
	}
	if !yes && a.Terminal && !a.json {
		fmt.Fprint(a.Stdout, "do it? [y]es: ")
		said, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer is no
		yes = strings.HasPrefix(strings.ToLower(strings.TrimSpace(said)), "y")
	}
	if !yes {
		return a.printJSONOr(map[string]any{"plan": p, "done": false}, func(w io.Writer) { fmt.Fprintln(w, "nothing was changed (--yes does it)") })
	}
	snap, err := s.Rollback(a.ctx, goal, p)
	if err != nil {
		return err
	}
	done := rolledBack(snap)
	if !done {
		a.code = ExitInternal
	}
	return a.printJSONOr(map[string]any{"plan": p, "done": done, "latest_tool_result": snap.LatestToolResult}, func(w io.Writer) {
		if r := snap.LatestToolResult; r != nil {
			fmt.Fprintln(w, block(r.Output))
		}
		if done && len(snap.Checkpoints) > 0 {
			fmt.Fprintf(w, "undo it: belay rollback %s %s\n", goal, oneLine(snap.Checkpoints[len(snap.Checkpoints)-1].ID))
		}
	})
}

func rolledBack(s core.Snapshot) bool {
	r := s.LatestToolResult
	return r != nil && r.Tool == core.ToolRollback && r.Outcome == event.Succeeded
}

func (a *app) plan(w io.Writer, p service.RollbackPlan) {
	if p.Empty() {
		fmt.Fprintln(w, "nothing would change: the workspace is as it was, but for what others have changed")
	}
	for _, c := range p.Changes {
		fmt.Fprintf(w, "  %-9s %s  +%d -%d\n", c.Status, oneLine(c.Path), c.Added, c.Deleted)
	}
	for _, c := range p.Staged {
		fmt.Fprintf(w, "  %-9s %s  (what is staged: %s)\n", "staged", oneLine(c.Path), c.Status)
	}
	for _, k := range p.Kept {
		fmt.Fprintf(w, "  %-9s %s  (%s: left alone)\n", "kept", oneLine(k), p.Because[k])
	}
	for _, k := range p.KeptStaged {
		fmt.Fprintf(w, "  %-9s %s  (what is staged is left alone: %s)\n", "kept", oneLine(k), p.Because[k])
	}
	if p.Note != "" {
		fmt.Fprintln(w, "  "+oneLine(p.Note))
	}
	if a.Terminal {
		fmt.Fprintln(w, a.diff(p.Diff))
	}
}
