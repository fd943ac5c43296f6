package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"belay/internal/core"
	"belay/internal/core/budget"
	"belay/internal/environment"
	"belay/internal/event"
)

// scale is how much the block shows: lines of one list, bytes of one line.
type scale struct{ lines, line int }

// scales are tried in order until the block fits.
var scales = []scale{{10, 160}, {8, 110}, {5, 80}, {3, 60}}

// StateBlock is where the goal stands, in at most MaxState bytes. It shows
// nothing that depends on the clock: the same state gives the same block.
func StateBlock(s core.State) string {
	v := core.View(s, nil)
	text := ""
	for _, k := range scales {
		text = render(s, v, k)
		if len(text) <= MaxState {
			return text
		}
	}
	const end = "\n…\n</state>"
	n := MaxState - len(end)
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + end
}

// block collects lines.
type block struct {
	strings.Builder
	k scale
}

func (b *block) add(format string, args ...any) {
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
}

// list adds a heading and its items, and says how many it left out.
func (b *block) list(heading string, items []string) {
	if len(items) == 0 {
		return
	}
	b.add("%s", heading)
	for i, it := range items {
		if i == b.k.lines && len(items) > i+1 {
			b.add("  … %d more", len(items)-i)
			break
		}
		b.add("  %s", b.line(it))
	}
}

// line is one short line: what it quotes may hold anything.
func (b *block) line(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if strings.Contains(s, "</state") {
		s = strings.ReplaceAll(s, "</state", "<\\/state") // a quote must not end the block
	}
	if len(s) <= b.k.line {
		return s
	}
	n := b.k.line
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// render writes the block, what matters most first: if it must be cut, the cut
// falls on the end.
func render(s core.State, v core.Snapshot, k scale) string {
	b := &block{k: k}
	b.add("<state>")
	if v.PermissionMode == event.ModePlan {
		b.add("permission mode: plan (the repository is read-only until a recorded plan is approved)")
	} else {
		b.add("permission mode: %s (changes are possible; some need approval)", v.PermissionMode)
	}
	b.criteria(v)
	b.doubt(v)
	b.repository(v)
	b.children(v)
	b.tests(s, v)
	b.plan(v)
	b.add("budget left: %s", budgetWords(s))
	if v.GoalVersion > 1 {
		b.add("goal version: %d", v.GoalVersion)
	}
	if have := environment.Toolchains(v.Environment); have != "" {
		b.add("installed: %s", b.line(have))
	}
	if v.Sandbox == "" || strings.HasPrefix(v.Sandbox, "none") {
		b.add("sandbox: none; commands run unconfined")
	} else {
		b.add("sandbox: %s", b.line(v.Sandbox))
	}
	b.WriteString("</state>")
	return b.String()
}

func (b *block) criteria(v core.Snapshot) {
	var items []string
	for _, c := range v.Criteria {
		it := fmt.Sprintf("[%s] %s", c.Result, c.ID)
		switch {
		case c.Reason != "":
			it += ": " + c.Reason
		case c.Command != "":
			it += ": `" + c.Command + "`"
		case c.Text != "":
			it += ": " + c.Text
		}
		if len(c.Evidence) > 0 {
			it += " (" + strings.Join(c.Evidence, ", ") + ")"
		}
		items = append(items, it)
	}
	if len(items) == 0 {
		b.add("criteria: none; the user judges your claim")
		return
	}
	b.list("criteria, on the repository as it is now:", items)
}

func (b *block) doubt(v core.Snapshot) {
	words := func(os []core.OpenOperation, how func(core.OpenOperation) string) []string {
		var items []string
		for _, o := range os {
			what := o.Command
			if what == "" {
				what = strings.Join(o.Paths, " ")
			}
			items = append(items, strings.TrimSpace(fmt.Sprintf("%s %s (%s) %s", o.Op, o.Tool, how(o), what)))
		}
		return items
	}
	b.list("in doubt (started, outcome unknown; the same action is refused, and no claim is accepted until it is settled):",
		words(v.InDoubt, func(core.OpenOperation) string { return "outcome unknown" }))
	b.list("open operations:", words(v.OpenOperations, func(o core.OpenOperation) string { return string(o.Phase) }))
}

func (b *block) children(v core.Snapshot) {
	var items []string
	for _, c := range v.Children {
		it := fmt.Sprintf("%s %s [%s] %s", c.Op, c.Goal, c.Status, c.Title)
		if c.Files > 0 && !c.Applied {
			it += fmt.Sprintf(" (%d files changed, not applied here)", c.Files)
		}
		items = append(items, it)
	}
	b.list("child goals:", items)
}

func (b *block) repository(v core.Snapshot) {
	if len(v.DiffStat) == 0 {
		b.add("repository: revision %d, as it was at the start", v.Revision.N)
		return
	}
	var added, deleted int64
	var items []string
	for _, c := range v.DiffStat {
		added, deleted = added+c.Added, deleted+c.Deleted
		it := c.Status + " " + c.Path
		if c.Binary {
			it += " (binary)"
		} else if c.Added+c.Deleted > 0 {
			it += fmt.Sprintf(" (+%d -%d)", c.Added, c.Deleted)
		}
		items = append(items, it)
	}
	b.list(fmt.Sprintf("repository: revision %d; changed since the start, %d paths (+%d -%d):", v.Revision.N, len(v.DiffStat), added, deleted), items)
}

func (b *block) tests(s core.State, v core.Snapshot) {
	if t := v.LatestSuccessfulTest; t != nil {
		b.add("tests: passed on the repository as it is now (%s, `%s`, %d passed)", t.Op, b.line(t.Command), t.Counts.Passed)
		return
	}
	n := len(v.RecentTestFailures)
	if n == 0 {
		if len(s.Evidence) == 0 {
			b.add("tests: not run yet")
		} else {
			b.add("tests: no successful run on the repository as it is now")
		}
		return
	}
	f := v.RecentTestFailures[n-1]
	when := "on the repository as it is now"
	if f.Tree != s.Revision.Tree {
		when = "on an older state; not run on the present one, or not successful"
	}
	words := fmt.Sprintf("tests: last failing run %s, `%s`, exit code %d, %s", f.Op, b.line(f.Command), f.ExitCode, when)
	if len(f.Failing) > 0 {
		b.list(words+"; failing:", f.Failing)
		return
	}
	b.add("%s", words)
}

func (b *block) plan(v core.Snapshot) {
	if v.Plan == nil {
		b.add("plan: none recorded")
	} else {
		var items []string
		for i, st := range v.Plan.Steps {
			items = append(items, fmt.Sprintf("%d. %s", i+1, st.Text))
		}
		heading := "plan:"
		if len(v.Plan.Scope) > 0 {
			heading = "plan, scope " + b.line(strings.Join(v.Plan.Scope, ", ")) + ":"
		}
		b.list(heading, items)
	}
	b.todos(v)
}

// budgetWords names what is left in each limited dimension.
func budgetWords(s core.State) string {
	left := s.Budget.Left()
	var out []string
	for _, d := range []struct {
		n     int64
		words func(int64) string
	}{
		{left.Steps, func(n int64) string { return fmt.Sprintf("%d steps", n) }},
		{left.Turns, func(n int64) string { return fmt.Sprintf("%d turns", n) }},
		{left.Tokens, func(n int64) string { return fmt.Sprintf("%d tokens", n) }},
		{left.CostMicros, func(n int64) string { return fmt.Sprintf("$%.2f", float64(n)/1_000_000) }},
		{left.ToolMS, func(n int64) string { return fmt.Sprintf("%d s of commands", n/1000) }},
	} {
		if d.n != budget.Unlimited {
			out = append(out, d.words(d.n))
		}
	}
	if dl := s.Budget.Limits.Deadline; !dl.IsZero() {
		out = append(out, "deadline "+dl.String())
	}
	if len(out) == 0 {
		return "no limit is set"
	}
	return strings.Join(out, ", ")
}
