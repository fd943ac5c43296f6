package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/service"
)

func (a *app) readCommands() []*cobra.Command {
	return []*cobra.Command{a.goalsCommand(), a.showCommand(), a.timelineCommand(), a.eventsCommand(), a.diffCommand(), a.searchCommand(), a.auditCommand(), a.logCommand(), a.reportCommand(), a.budgetCommand(), a.nextCommand(), a.memoryCommand()}
}

func (a *app) goalsCommand() *cobra.Command {
	var f ledger.Filter
	c := &cobra.Command{
		Use: "goals", Short: "list goals, newest first, children below the goal that started them", Args: exactly(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return a.with(func(s service.Door) error {
				rows, err := s.Goals(a.ctx, f)
				if err != nil {
					return err
				}
				if rows == nil {
					rows = []ledger.Row{}
				}
				return a.printJSONOr(rows, func(w io.Writer) { a.goals(w, rows) })
			})
		},
	}
	c.Flags().StringSliceVar(&f.Status, "status", nil, "only these statuses (active, paused, verifying, completed, failed, cancelled)")
	c.Flags().StringVar(&f.Repo, "repo", "", "only goals of this repository (absolute path)")
	c.Flags().IntVar(&f.Limit, "limit", 50, "at most this many")
	return c
}

func (a *app) goals(w io.Writer, rows []ledger.Row) {
	if len(rows) == 0 {
		fmt.Fprintln(w, `no goals yet: belay run "TEXT"`)
		return
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "GOAL\tSTATUS\tSTEPS\tTOKENS\tUPDATED\tTITLE")
	rows, depth := family(rows)
	for i, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", r.Goal, rowStatus(r), r.Steps, r.Tokens,
			r.Updated.Std().Local().Format(time.DateTime), branch(depth[i])+oneLine(r.Title))
	}
	_ = t.Flush()
}

func rowStatus(r ledger.Row) string {
	for _, more := range []string{r.How, r.PauseReason, r.WaitReason} {
		if more != "" {
			return r.Status + " (" + more + ")"
		}
	}
	return r.Status
}

func (a *app) showCommand() *cobra.Command {
	var at uint64
	c := &cobra.Command{
		Use: "show G", Short: "where a goal stands, or stood (--at)", Args: exactly(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				look := s.Snapshot
				if c.Flags().Changed("at") {
					look = func(ctx context.Context, goal string) (core.Snapshot, error) { return s.SnapshotAt(ctx, goal, at) }
				}
				snap, err := look(a.ctx, goal)
				if err != nil {
					return err
				}
				return a.printJSONOr(snap, func(w io.Writer) { a.show(w, snap) })
			})
		},
	}
	c.Flags().Uint64Var(&at, "at", 0, "as it was after the event with this seq (belay timeline shows them); nothing runs again")
	return c
}

func (a *app) show(w io.Writer, s core.Snapshot) {
	fmt.Fprintf(w, "%s\n", a.paint(bold, block(s.Text)))
	fmt.Fprintf(w, "repository %s, revision %d (tree %.12s), goal version %d, model %s\n", oneLine(s.Repo), s.Revision.N, s.Revision.Tree, s.GoalVersion, oneLine(s.Model))
	if t := s.Worktree; t != nil {
		fmt.Fprintf(w, "worktree %s of %s\n", oneLine(t.Dir), oneLine(t.Of))
	}
	if s.Sandbox != "" {
		fmt.Fprintf(w, "commands: %s\n", oneLine(s.Sandbox))
	}
	if s.CurrentAction != "" {
		fmt.Fprintf(w, "now: %s\n", oneLine(s.CurrentAction))
	}
	fmt.Fprintf(w, "next: %s: %s\n", s.Next.Who, oneLine(s.Next.What))
	if s.Refuse != "" {
		fmt.Fprintf(w, "%s %s\n", a.paint(red, "cannot be advanced:"), oneLine(s.Refuse))
	}
	if s.Plan != nil {
		fmt.Fprintf(w, "\nplan (%s)\n  │ %s\n", permissionWord(s), block(core.PlanText(*s.Plan)))
	} else {
		fmt.Fprintf(w, "\nno plan yet (%s)\n", permissionWord(s))
	}
	if len(s.Todos) > 0 {
		fmt.Fprintln(w, "\ntodos")
		for _, t := range s.Todos {
			fmt.Fprintf(w, "  %-12s %s%s\n", t.Status, oneLine(t.Content), a.paint(dim, oneLine(todoNotes(s.Todos, t))))
		}
	}
	if len(s.Environment) > 0 {
		fmt.Fprintln(w, "\nenvironment")
		for _, k := range slices.Sorted(maps.Keys(s.Environment)) {
			fmt.Fprintf(w, "  %s: %s\n", oneLine(k), oneLine(s.Environment[k]))
		}
	}
	if len(s.DiffStat) > 0 {
		fmt.Fprintln(w, "\nchanged since the start")
		for _, c := range s.DiffStat {
			fmt.Fprintf(w, "  %-9s %s  +%d -%d\n", c.Status, oneLine(c.Path), c.Added, c.Deleted)
		}
	}
	if t := s.LatestSuccessfulTest; t != nil {
		fmt.Fprintf(w, "\nlatest successful test: %s (%s), %d passed, on revision %d\n", oneLine(t.Command), t.Op, t.Counts.Passed, t.Revision)
	}
	if s.Parent != "" {
		fmt.Fprintf(w, "\nchild of goal %s\n", s.Parent)
	}
	if len(s.Children) > 0 {
		fmt.Fprintln(w, "\nchild goals")
		a.children(w, s.Children, 0)
	}
	for _, o := range s.OpenOperations {
		fmt.Fprintf(w, "open: %s %s %s %s\n", o.Op, o.Tool, o.Phase, oneLine(strings.Join(append(o.Paths, o.Command), " ")))
	}
	for _, o := range s.InDoubt {
		fmt.Fprintf(w, "%s %s %s: settle it with belay reconcile %s %s --succeeded|--failed|--retry\n", a.paint(red, "unknown outcome:"), o.Op, o.Tool, s.Goal, o.Op)
	}
	a.summary(w, s)
}

func permissionWord(s core.Snapshot) string {
	if s.PermissionMode == event.ModePlan {
		return "plan mode: the repository is read-only"
	}
	return "changes are allowed within policy"
}

func (a *app) timelineCommand() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "timeline G", Short: "a goal as a person reads it back", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				return a.stream(s, goal, 0, follow, func(e event.Event) error {
					t, ok := core.TimelineEntry(e)
					switch {
					case !ok:
						return nil
					case a.json:
						return writeJSON(a.Stdout, t)
					}
					a.entry(a.Stdout, t)
					return nil
				})
			})
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	return c
}

func (a *app) eventsCommand() *cobra.Command {
	var follow bool
	var after uint64
	c := &cobra.Command{
		Use: "events G", Short: "the raw events, one JSON object a line", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				return a.stream(s, goal, after, follow, func(e event.Event) error { return writeJSON(a.Stdout, e) })
			})
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	c.Flags().Uint64Var(&after, "after", 0, "only events with a larger seq")
	return c
}

// stream prints events, and with follow those that come until the goal ends or
// the person leaves.
func (a *app) stream(s service.Door, goal string, after uint64, follow bool, f func(event.Event) error) error {
	if !follow {
		es, err := s.Events(a.ctx, goal, after)
		for _, e := range es {
			if err := f(e); err != nil {
				return err
			}
		}
		return err
	}
	var st core.State
	for it, err := range s.Follow(a.ctx, goal, 0) {
		if err != nil {
			return err
		}
		if !it.CaughtUp {
			st = core.Fold(st, []event.Event{it.Event})
			if it.Event.Seq > after {
				if err := f(it.Event); err != nil {
					return err
				}
			}
		}
		if st.Status.Final() && st.Turn == nil && !st.AnyStarted() {
			return nil
		}
	}
	return nil
}

func (a *app) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff G", Short: "what the goal's workspace differs in from its start", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				d, err := s.Diff(a.ctx, goal)
				if err != nil {
					return err
				}
				snap, err := s.Snapshot(a.ctx, goal)
				if err != nil {
					return err
				}
				v := map[string]any{"latest_diff": d, "diff_stat": snap.DiffStat, "revision": snap.Revision}
				return a.printJSONOr(v, func(w io.Writer) {
					if d == "" {
						fmt.Fprintln(w, "no difference to the start")
						return
					}
					if a.Terminal {
						fmt.Fprintln(w, a.diff(d))
						return
					}
					_, _ = io.WriteString(w, d) // a patch, byte for byte
				})
			})
		},
	}
}

func (a *app) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use: "audit G", Short: "re-compute the hash chain and name the first broken link", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				r, err := s.Audit(a.ctx, goal)
				if err != nil {
					return err
				}
				if r.Broken != nil {
					a.code = ExitInternal
				}
				return a.printJSONOr(r, func(w io.Writer) {
					if b := r.Broken; b != nil {
						fmt.Fprintf(w, "%s event %d (%s, id %s): %s\n", a.paint(red, "broken:"), b.Seq, b.Type, b.ID, oneLine(b.Reason))
						return
					}
					fmt.Fprintf(w, "%s %d events, head %s\n", a.paint(green, "the chain holds:"), r.Events, r.Head)
				})
			})
		},
	}
}

// logCommand prints the whole output of an operation.
func (a *app) logCommand() *cobra.Command {
	return &cobra.Command{
		Use: "log G OP", Short: "the whole output of an operation", Args: exactly(2, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				out, err := s.Output(a.ctx, goal, args[1])
				if errors.Is(err, service.ErrNoOperation) {
					return usageError{fmt.Errorf("%w (belay timeline %s)", err, goal)}
				}
				if err != nil {
					return err
				}
				text, err := s.Whole(a.ctx, out)
				if err != nil {
					return err
				}
				if a.json {
					return writeJSON(a.Stdout, map[string]string{"op_id": args[1], "output": text})
				}
				if a.Terminal {
					text = Safe(text)
				}
				_, err = io.WriteString(a.Stdout, text)
				return err
			})
		},
	}
}
