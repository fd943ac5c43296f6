package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/core/plan"
	"belay/internal/event"
	"belay/internal/service"
)

// nextCommand answers "what next?" from the state alone.
func (a *app) nextCommand() *cobra.Command {
	return &cobra.Command{
		Use: "next G", Short: "what happens next, who has to act, and what is missing", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				snap, err := s.Snapshot(a.ctx, goal)
				if err != nil {
					return err
				}
				return a.printJSONOr(snap.Next, func(w io.Writer) { a.next(w, snap) })
			})
		},
	}
}

func (a *app) next(w io.Writer, s core.Snapshot) {
	n := s.Next
	fmt.Fprintf(w, "%s %s\n", a.paint(bold, n.Who+":"), oneLine(n.What))
	for _, h := range n.How {
		fmt.Fprintf(w, "  $ %s\n", oneLine(h))
	}
	if p := s.Progress; p.Todos > 0 {
		fmt.Fprintf(w, "todos: %d of %d completed\n", p.TodosCompleted, p.Todos)
	}
	if n.Todo != nil {
		fmt.Fprintf(w, "todo: %s %s (%s)\n", oneLine(n.Todo.ID), oneLine(n.Todo.Content), n.Todo.Status)
		if n.Todo.Acceptance != "" {
			fmt.Fprintf(w, "  done when: %s\n", oneLine(n.Todo.Acceptance))
		}
	}
	if len(n.Missing) > 0 {
		fmt.Fprintf(w, "missing criteria: %s\n", oneLine(strings.Join(n.Missing, ", ")))
	}
	for _, b := range n.Blocked {
		fmt.Fprintf(w, "blocked by: %s\n", oneLine(b))
	}
}

// todoNotes are what a todo waits for and when it counts as done.
func todoNotes(all []event.Todo, t event.Todo) string {
	notes := ""
	if open := plan.OpenBefore(all, t); len(open) > 0 {
		notes += "  waits for " + strings.Join(open, ", ")
	}
	if t.Acceptance != "" && t.Status != event.TodoCompleted {
		notes += "  done when: " + t.Acceptance
	}
	return notes
}
