package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/service"
)

func (a *app) reportCommand() *cobra.Command {
	var html bool
	c := &cobra.Command{
		Use: "report G", Short: "what a goal came to, on what evidence and at what cost (Markdown, --html, --json)", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				format := service.ReportMarkdown
				switch {
				case a.json:
					format = service.ReportJSON
				case html:
					format = service.ReportHTML
				}
				text, err := s.Report(a.ctx, goal, format)
				if err != nil {
					return err
				}
				_, err = io.WriteString(a.Stdout, Safe(text))
				return err
			})
		},
	}
	c.Flags().BoolVar(&html, "html", false, "one page of HTML without outside references")
	return c
}

func (a *app) budgetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "budget G", Short: "what is reserved, used and left, by dimension (extend it with resume --max-…)", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				snap, err := s.Snapshot(a.ctx, goal)
				if err != nil {
					return err
				}
				return a.printJSONOr(snap.Budget, func(w io.Writer) { printBudget(w, snap.Budget) })
			})
		},
	}
}

func printBudget(w io.Writer, b core.BudgetView) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "dimension\tused\treserved\tlimit\tleft\t")
	row := func(name, key string, used, reserved, limit int64) {
		bound, left := "none", ""
		if limit > 0 {
			bound, left = fmt.Sprint(limit), fmt.Sprint(b.Left[key])
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t\n", name, used, reserved, bound, left)
	}
	row("turns", "turns", b.Used.Turns, b.Reserved.Turns, b.Limits.Turns)
	row("steps", "steps", b.Used.Steps, b.Reserved.Steps, b.Limits.Steps)
	row("tokens", "tokens", b.Used.Tokens, b.Reserved.Tokens, b.Limits.Tokens)
	row("cost (millionths of a US dollar)", "cost_micros", b.Used.CostMicros, b.Reserved.CostMicros, b.Limits.CostMicros)
	row("milliseconds of commands", "tool_ms", b.Used.ToolMS, b.Reserved.ToolMS, b.Limits.ToolMS)
	_ = t.Flush()
	if !b.Limits.Deadline.IsZero() {
		fmt.Fprintf(w, "deadline %s\n", b.Limits.Deadline)
	}
}
