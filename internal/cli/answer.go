package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/service"
)

func (a *app) answerCommands() []*cobra.Command {
	return []*cobra.Command{a.approveCommand(), a.denyCommand(), a.sayCommand(), a.pauseCommand(), a.cancelCommand(), a.reviseCommand(), a.reconcileCommand()}
}

// told says that a command is recorded, and how the goal goes on when no
// worker is there to see it.
func (a *app) told(s service.Door, goal, what string) error {
	held := s.Serves()
	if !held {
		var err error
		if held, err = s.Held(a.ctx, goal); err != nil {
			return err
		}
	}
	snap, err := s.Snapshot(a.ctx, goal)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.Stdout, snap)
	}
	fmt.Fprintf(a.Stdout, "%s: %s\n", goal, what)
	if !held && snap.Status == lifecycle.Active {
		fmt.Fprintf(a.Stdout, "a belay run or worker that waits for it goes on; where there is none: belay resume %s\n", goal)
	}
	return nil
}

func (a *app) approveCommand() *cobra.Command {
	var ans service.Answer
	c := &cobra.Command{
		Use: "approve G [OP]", Short: "answer yes: to an operation, a plan, a manual criterion or a claim", Args: exactly(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				if len(args) == 2 {
					ans.Op = args[1]
				}
				if err := s.Approve(a.ctx, goal, ans); err != nil {
					return err
				}
				return a.told(s, goal, "approved")
			})
		},
	}
	c.Flags().StringVar(&ans.Criterion, "criterion", "", "the manual criterion that is answered")
	c.Flags().StringVar(&ans.Intent, "intent", "", "only if the question still has this intent hash")
	return c
}

func (a *app) denyCommand() *cobra.Command {
	var ans service.Answer
	c := &cobra.Command{
		Use: "deny G [OP]", Short: "answer no; the denial sticks to the exact intent", Args: exactly(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				if len(args) == 2 {
					ans.Op = args[1]
				}
				if err := s.Deny(a.ctx, goal, ans); err != nil {
					return err
				}
				return a.told(s, goal, "denied")
			})
		},
	}
	c.Flags().StringVar(&ans.Reason, "reason", "", "why; the model is told")
	c.Flags().StringVar(&ans.Criterion, "criterion", "", "the manual criterion that is answered")
	c.Flags().StringVar(&ans.Intent, "intent", "", "only if the question still has this intent hash")
	return c
}

func (a *app) sayCommand() *cobra.Command {
	var steer bool
	c := &cobra.Command{
		Use: `say G "TEXT"`, Short: "send a message: a turn of its own, or with --steer into the running turn", Args: exactly(2, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				mode := event.Message
				if steer {
					mode = event.Steer
				}
				if err := s.Say(a.ctx, goal, args[1], mode); err != nil {
					return err
				}
				return a.told(s, goal, "told")
			})
		},
	}
	c.Flags().BoolVar(&steer, "steer", false, "take it in at the next safe boundary of the running turn")
	return c
}

func (a *app) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause G", Short: "pause a goal until it is resumed; what runs is recorded", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				if err := s.Pause(a.ctx, goal, ""); err != nil {
					return err
				}
				return a.told(s, goal, "paused")
			})
		},
	}
}

func (a *app) cancelCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "cancel G", Short: "end a goal; what runs is stopped and recorded", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				if err := s.Cancel(a.ctx, goal, reason); err != nil {
					return err
				}
				held := s.Serves() // its worker stops what runs
				if !held {
					var err error
					if held, err = s.Held(a.ctx, goal); err != nil {
						return err
					}
				}
				if !held {
					// Nobody is there to stop what runs: do it here.
					if _, err := s.Attend(a.ctx, goal, service.AttendOptions{}); err != nil {
						return fmt.Errorf("cancel is recorded, but stopping what runs failed: %w", err)
					}
					return a.told(s, goal, "cancelled; nothing runs any more")
				}
				return a.told(s, goal, "cancel requested; the worker stops what runs")
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

func (a *app) reviseCommand() *cobra.Command {
	var file string
	var tests []string
	c := &cobra.Command{
		Use: `revise G ["TEXT"]`, Short: "replace what the goal asks for; the newest version is judged", Args: exactly(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				spec, err := s.Spec(a.ctx, goal)
				if err != nil {
					return err
				}
				if file != "" {
					if spec, _, _, err = readGoalFile(file, time.Now()); err != nil {
						return err
					}
				}
				if len(args) == 2 {
					spec.Text = args[1]
				}
				for i, t := range tests {
					if i == 0 {
						spec.Acceptance = nil
					}
					spec.Acceptance = append(spec.Acceptance, event.Criterion{ID: fmt.Sprintf("test-%d", i+1), Kind: event.CriterionTest, Command: t})
				}
				if len(args) == 1 && file == "" && len(tests) == 0 {
					return usagef("say what changes: a new TEXT, --file goal.yaml or --test CMD")
				}
				if err := s.Revise(a.ctx, goal, spec); err != nil {
					return err
				}
				return a.told(s, goal, "revised")
			})
		},
	}
	c.Flags().StringVar(&file, "file", "", "read the new version from this goal.yaml (its budget is ignored: see resume)")
	c.Flags().StringArrayVar(&tests, "test", nil, "test commands that replace the criteria (repeatable)")
	return c
}

func (a *app) reconcileCommand() *cobra.Command {
	var succeeded, failed, retry, look bool
	var reason string
	c := &cobra.Command{
		Use: "reconcile G OP", Short: "settle an operation whose outcome is unknown", Args: exactly(2, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				r := core.Reconcile{Op: args[1], Reason: reason, Retry: retry}
				switch {
				case look && !succeeded && !failed && !retry && reason == "":
					return a.look(s, goal, args[1])
				case look:
					return usagef("--look stands alone: it finds out by itself")
				case succeeded && !failed && !retry:
					r.Outcome = event.Succeeded
				case failed && !succeeded && !retry:
					r.Outcome = event.Failed
				case retry && !succeeded && !failed:
				default:
					return usagef("name one of --succeeded, --failed, --retry and --look")
				}
				if err := s.Reconcile(a.ctx, goal, r); err != nil {
					return err
				}
				return a.told(s, goal, "reconciled")
			})
		},
	}
	c.Flags().BoolVar(&succeeded, "succeeded", false, "it did what it should")
	c.Flags().BoolVar(&failed, "failed", false, "it did not")
	c.Flags().BoolVar(&retry, "retry", false, "run the same action again")
	c.Flags().BoolVar(&look, "look", false, "look at the world and settle it if that is certain; nothing is run")
	c.Flags().StringVar(&reason, "reason", "", "how you know")
	return c
}

// look reports what a look at an operation in doubt established.
func (a *app) look(s service.Door, goal, op string) error {
	sight, err := s.Look(a.ctx, goal, op)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.Stdout, sight)
	}
	if !sight.Settled {
		fmt.Fprintf(a.Stdout, "%s is still in doubt: %s\n", op, oneLine(sight.Words))
		return nil
	}
	return a.told(s, goal, fmt.Sprintf("%s is settled as %s (%s)", op, sight.Outcome, oneLine(sight.Words)))
}
