package core

import (
	"fmt"
	"strings"

	"belay/internal/event"
)

// compact replaces the conversation so far by a summary that is a projection
// of the state: no model wrote it, so it can claim nothing that the ledger does
// not show. It is only called when every call has its result.
func (w *step) compact(reason string, before int64) {
	text := w.s.Summary()
	w.emitBy(event.ActorRuntime, "", event.ContextCompacted{Through: w.s.Head, Reason: reason,
		Summary: event.Text{Head: text}, Before: before, After: int64(len(text))})
}

// Summary says where the goal stands, in words that the model can go on from.
func (s State) Summary() string {
	var b strings.Builder
	b.WriteString("The conversation up to here was compacted. What the ledger shows:\n")
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, it := range items {
			fmt.Fprintf(&b, "- %s\n", it)
		}
	}
	list("The user said, verbatim", s.heard())
	if s.Plan != nil {
		fmt.Fprintf(&b, "\nPlan:\n%s", PlanText(*s.Plan))
	}
	var todos, decisions, criteria, doubts, files, failures []string
	for _, t := range s.Todos {
		todos = append(todos, todoWords(t))
	}
	for _, d := range s.Decisions {
		why := ""
		if d.Reason != "" {
			why = " (" + d.Reason + ")"
		}
		decisions = append(decisions, d.Decision+why)
	}
	for _, c := range s.Judgement().Criteria {
		line := strings.TrimSpace(c.ID + ": " + c.Result + " " + c.Reason)
		if len(c.Evidence) > 0 {
			line += " (evidence: " + strings.Join(c.Evidence, ", ") + ")"
		}
		criteria = append(criteria, line)
	}
	for _, o := range s.InDoubt {
		doubts = append(doubts, fmt.Sprintf("%s %s: started, outcome unknown", o.ID, o.Tool))
	}
	for _, f := range s.RecentFiles {
		files = append(files, f.Path)
	}
	for _, f := range s.Failures {
		failures = append(failures, fmt.Sprintf("`%s` (%s) exit code %d:\n%s", f.Command, f.Op, f.ExitCode, tail(f.Tail, 600)))
	}
	list("Todos", todos)
	list("Decisions", decisions)
	list("Criteria on the repository as it is now", criteria)
	list("Operations in doubt", doubts)
	list("Files read or written last", files)
	list("Recent failing test runs", failures)
	if len(s.Diff.Changes) > 0 {
		var changes []string
		for _, c := range s.Diff.Changes {
			changes = append(changes, fmt.Sprintf("%s %s (+%d -%d)", c.Status, c.Path, c.Added, c.Deleted))
		}
		list("Changed since the start", changes)
	}
	return b.String()
}

// heard are the user's messages that a request has taken in.
func (s State) heard() []string {
	waiting := map[string]int{}
	for _, m := range s.Inbox {
		waiting[m.Text]++
	}
	var said []string
	for i := len(s.Said) - 1; i >= 0; i-- {
		if waiting[s.Said[i]] > 0 {
			waiting[s.Said[i]]--
			continue
		}
		said = append([]string{s.Said[i]}, said...)
	}
	return said
}
