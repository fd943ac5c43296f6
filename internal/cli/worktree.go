package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/service"
)

func (a *app) applyCommand() *cobra.Command {
	var r service.ApplyRequest
	var yes, dry bool
	c := &cobra.Command{
		Use: "apply G", Short: "bring what a goal did in its worktree to your directory, or to a branch", Args: exactly(1, 1),
		Long: "apply merges what a goal did in its own checkout into your directory as that is now: what\n" +
			"you have changed since stays. It shows first what would change; where both sides changed\n" +
			"the same place nothing is applied, and the places are shown. .git is not touched.\n\n" +
			"With --branch it makes a commit on a new branch instead, on the commit that the goal started\n" +
			"from and by your git's identity; with --commits the commits that the goal made come along.\n" +
			"No file of yours changes then, nothing is checked out, and no hook runs.\n\n" +
			"It is an operation of the goal: recorded before it begins and gone on with after a crash.\n" +
			"The goal has to be paused or to have ended.",
		Example: "  belay apply 73c3\n  belay apply 73c3 --branch fix/slug --yes",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error { return a.apply(s, goal, r, yes, dry) })
		},
	}
	c.Flags().StringVar(&r.Branch, "branch", "", "make a commit on this new branch, and leave the files as they are")
	c.Flags().BoolVar(&r.Commits, "commits", false, "bring the goal's own commits, and one of what it did not commit, as a branch (default: belay/G)")
	c.Flags().StringVar(&r.Message, "message", "", "the commit's message (default: the goal's text)")
	c.Flags().BoolVar(&r.Conflicts, "conflicts", false, "apply also with conflicts: the files get git's conflict marks")
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking; without a terminal and without --yes it only shows what would change")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would change")
	c.MarkFlagsMutuallyExclusive("yes", "dry-run")
	return c
}

func (a *app) apply(s service.Door, goal string, r service.ApplyRequest, yes, dry bool) error {
	p, err := s.PlanApply(a.ctx, goal, r)
	if err != nil {
		return err
	}
	if !a.json {
		a.applyPlan(a.Stdout, p)
	}
	idle := func(said string) error {
		return a.printJSONOr(map[string]any{"plan": p, "done": false}, func(w io.Writer) { fmt.Fprintln(w, said) })
	}
	switch {
	case len(p.Conflicts) > 0 && !p.Possible():
		a.code = ExitWaiting
		if p.How == core.ApplyBranch {
			return idle("nothing was changed: these files cannot be in a commit of the goal alone (without --branch it is applied to your files)")
		}
		return idle("nothing was changed: settle the conflicts, or apply with --conflicts to have them marked in the files")
	case !p.Possible():
		return idle("there is nothing to apply: " + p.Into + " has it already")
	}
	if !yes && !dry && a.Terminal && !a.json {
		fmt.Fprint(a.Stdout, "do it? [y]es: ")
		said, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer is no
		yes = strings.HasPrefix(strings.ToLower(strings.TrimSpace(said)), "y")
	}
	if !yes {
		return idle("nothing was changed (--yes does it)")
	}
	snap, err := s.Apply(a.ctx, goal, p)
	if err != nil {
		return err
	}
	done := service.Applied(snap)
	if !done {
		a.code = ExitInternal
	}
	return a.printJSONOr(map[string]any{"plan": p, "done": done, "latest_tool_result": snap.LatestToolResult}, func(w io.Writer) {
		if r := snap.LatestToolResult; r != nil {
			fmt.Fprintln(w, block(r.Output))
		}
		if done && len(p.Marked) > 0 {
			fmt.Fprintf(w, "settle the conflicts in: %s\n", oneLine(strings.Join(p.Marked, ", ")))
		}
	})
}

func (a *app) applyPlan(w io.Writer, p service.ApplyPlan) {
	where := "into " + p.Into
	if p.How == core.ApplyBranch {
		where = fmt.Sprintf("as %d commits on the new branch %s in %s", p.NewCommits, p.Branch, p.Into)
	}
	fmt.Fprintf(w, "%s:\n", oneLine(where))
	for _, c := range p.Changes {
		fmt.Fprintf(w, "  %-9s %s  +%d -%d\n", c.Status, oneLine(c.Path), c.Added, c.Deleted)
	}
	for _, c := range p.Conflicts {
		fmt.Fprintf(w, "  %s %s: %s\n", a.paint(red, "conflict "), oneLine(c.Path), oneLine(c.Why))
		if c.Text != "" {
			fmt.Fprintf(w, "  │ %s\n", block(strings.TrimRight(c.Text, "\n")))
		}
	}
	if a.Terminal {
		fmt.Fprintln(w, a.diff(p.Diff))
	}
}

func (a *app) worktreesCommand() *cobra.Command {
	var remove, discard bool
	c := &cobra.Command{
		Use: "worktrees [G]", Short: "the checkouts that goals have of their own; --remove one", Args: exactly(0, 1),
		Long: "worktrees lists the checkouts that goals have of their own (run --worktree). With --remove\n" +
			"the one of a goal that has ended is removed; what was not applied is removed only with\n" +
			"--discard. The goal's history stays.",
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case discard && !remove:
				return usagef("--discard is for --remove")
			case remove && len(args) == 0:
				return usagef("name the goal whose worktree is to be removed")
			case remove:
				return a.withGoal(args[0], func(s service.Door, goal string) error {
					if err := s.RemoveWorktree(a.ctx, goal, discard); err != nil {
						return err
					}
					return a.printJSONOr(map[string]string{"removed": goal}, func(w io.Writer) { fmt.Fprintln(w, "removed") })
				})
			}
			return a.with(func(s service.Door) error {
				only := ""
				if len(args) == 1 {
					var err error
					if only, err = s.Resolve(a.ctx, args[0]); err != nil {
						return err
					}
				}
				return a.worktrees(s, only)
			})
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "remove the goal's worktree")
	c.Flags().BoolVar(&discard, "discard", false, "also when its result was applied nowhere")
	return c
}

func (a *app) worktrees(s service.Door, only string) error {
	all, err := s.Worktrees(a.ctx)
	if err != nil {
		return err
	}
	list := []service.WorktreeOf{}
	for _, t := range all {
		if only == "" || t.Goal == only {
			list = append(list, t)
		}
	}
	return a.printJSONOr(list, func(w io.Writer) {
		for _, t := range list {
			what := "nothing to apply"
			if t.Unapplied {
				what = "not applied"
			}
			fmt.Fprintf(w, "%s  %-10s %-16s %s of %s\n", t.Goal, t.Status, what, oneLine(t.Dir), oneLine(t.Of))
		}
		if len(list) == 0 {
			fmt.Fprintln(w, "no goal has a worktree of its own (belay run --worktree)")
		}
	})
}
