package eval

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// line is a result as the terminal shows it while the suite runs.
func line(r Result) string {
	name := r.Case
	if r.Repeat > 1 {
		name = fmt.Sprintf("%s #%d", name, r.Repeat)
	}
	s := fmt.Sprintf("%-8s  %-44s %-18s %7s", r.Outcome, clean(name), r.Class, wall(r.WallMS))
	if r.Tries > 1 {
		s += fmt.Sprintf("  (try %d)", r.Tries)
	}
	for _, w := range r.Why {
		s += "\n          " + clean(strings.Join(strings.Fields(w), " "))
	}
	return strings.TrimRight(s, " ")
}

func wall(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(10 * time.Millisecond).String()
}

// summary is the table by outcome and class, and what it cost.
func (r Results) summary(w io.Writer) {
	by := map[Class]map[Outcome]int{}
	for _, run := range r.Runs {
		if by[run.Class] == nil {
			by[run.Class] = map[Outcome]int{}
		}
		by[run.Class][run.Outcome]++
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "how the goals ended\t")
	for _, o := range Outcomes {
		fmt.Fprintf(t, "%s\t", o)
	}
	fmt.Fprintln(t)
	for _, c := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(t, "%s\t", c)
		for _, o := range Outcomes {
			fmt.Fprintf(t, "%s\t", orDash(by[c][o]))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprint(t, "all\t")
	for _, o := range Outcomes {
		fmt.Fprintf(t, "%d\t", r.Count(o))
	}
	fmt.Fprintln(t)
	_ = t.Flush()
	sum := r.total()
	fmt.Fprintf(w, "%d runs in %s: %d requests, %d tokens, $%d.%04d, %s of commands\n", len(r.Runs), wall(r.WallMS), sum.Steps, sum.Tokens,
		sum.CostMicros/1_000_000, sum.CostMicros/100%10_000, wall(sum.ToolMS))
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// total adds up what the runs used.
func (r Results) total() Result {
	var t Result
	for _, run := range r.Runs {
		t.Steps, t.Tokens, t.CostMicros, t.ToolMS = t.Steps+run.Steps, t.Tokens+run.Tokens, t.CostMicros+run.CostMicros, t.ToolMS+run.ToolMS
	}
	return t
}
