package core

import (
	"fmt"
	"strings"

	"belay/internal/core/plan"
	"belay/internal/event"
)

// tooLarge compacts the conversation instead of sending a request that does not
// fit, or that a provider has refused as too large. Each try makes it smaller;
// after the last one the request is sent as it is.
func (w *step) tooLarge(b Composed) bool {
	v, window := w.s.Talk, or(b.Window, DefaultWindow)
	tokens, bytes := v.limits(window)
	reason := ""
	switch {
	case v.Level >= MaxLevel:
	case v.Refused:
		reason = "the provider refused the request as too large"
	case b.Tokens > tokens:
		reason = fmt.Sprintf("the request would take %d of %d tokens", b.Tokens, window)
		if tokens == MaxView {
			reason = fmt.Sprintf("the request would take %d tokens, more than the %d that are sent again each time", b.Tokens, tokens)
		}
	case bytes > 0 && b.Bytes > bytes:
		reason = fmt.Sprintf("the request would take %d bytes, and the provider has refused %d", b.Bytes, v.MostBytes)
	}
	if reason == "" {
		return false
	}
	w.compact(reason, b)
	return true
}

// compact replaces the conversation, but for its tail, by a summary that is a
// projection of the state: no model wrote it, so it can claim nothing that the
// ledger does not show. It is only called when every call has its result.
func (w *step) compact(reason string, b Composed) {
	v := w.s.Talk
	level, through := v.Level+1, min(b.Cut, v.Answered)
	if level > 1 || through == 0 {
		through = v.Answered
	}
	if through == 0 {
		through = w.s.Head // nothing was answered yet: there is nothing to leave out but words
	}
	c := event.Compaction{Through: through, Reason: reason, Before: b.Bytes}
	if level == 1 && !v.Refused && w.askProse(c, b) {
		return
	}
	w.compacted(c, level, "")
}

func (w *step) compacted(c event.Compaction, level int, prose string) {
	text := w.s.summary(level)
	w.emitBy(event.ActorRuntime, "", event.ContextCompacted{Through: c.Through, Reason: c.Reason, Level: level, Prose: prose,
		Summary: event.Text{Head: text}, Before: c.Before, After: int64(len(text) + len(prose))})
}

// extent is how much a summary shows: bytes of what the user said, of one
// message and of what was done; items of any other list, bytes of one of them
// and of a test's output.
type extent struct{ said, message, deeds, items, item, output int }

// extents are by level. The first one shortens nothing that people and models
// write in practice.
var extents = [MaxLevel]extent{
	{said: 40 << 10, message: 16 << 10, deeds: 16 << 10, items: maxDeeds, item: 4 << 10, output: 600},
	{said: 12 << 10, message: 4 << 10, deeds: 3 << 10, items: 40, item: 500, output: 300},
	{said: 3 << 10, message: 1 << 10, deeds: 600, items: 12, item: 160, output: 120},
}

// Summary says where the goal stands, in words that the model can go on from.
func (s State) Summary() string { return s.summary(1) }

// digest collects the parts of a summary.
type digest struct {
	strings.Builder
	extent
}

// list adds a heading and its items; of too many the latest stay.
func (d *digest) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(d, "\n%s:\n", title)
	if n := len(items) - d.items; n > 0 {
		fmt.Fprintf(d, "- … %d older ones\n", n)
		items = items[n:]
	}
	for _, it := range items {
		fmt.Fprintf(d, "- %s\n", clip(it, d.item))
	}
}

func (s State) summary(level int) string {
	d := &digest{extent: extents[min(max(level, 1), MaxLevel)-1]}
	d.WriteString("The conversation up to here was compacted. What the ledger shows:\n")
	d.heard(s.heard())
	if s.Plan != nil {
		fmt.Fprintf(d, "\nPlan:\n%s", clip(PlanText(*s.Plan), d.said))
	}
	d.todos(s.Todos)
	var decisions, criteria, doubts, failures, files, changes []string
	for _, x := range s.Decisions {
		decisions = append(decisions, x.words())
	}
	for _, c := range s.Judgement().Criteria {
		line := strings.TrimSpace(c.ID + ": " + c.Result + " " + c.Reason)
		if len(c.Evidence) > 0 {
			line += " (evidence: " + strings.Join(c.Evidence, ", ") + ")"
		}
		criteria = append(criteria, line)
	}
	for _, o := range s.InDoubt {
		doubts = append(doubts, strings.TrimSpace(fmt.Sprintf("%s %s: started, outcome unknown; %s", o.ID, o.Tool, what(o.Access))))
	}
	for _, f := range s.Failures {
		failures = append(failures, failure(f, d.output))
	}
	for _, f := range s.RecentFiles {
		files = append(files, fmt.Sprintf("%s (%s)", f.Path, f.Op))
	}
	for _, c := range s.Diff.Changes {
		changes = append(changes, fmt.Sprintf("%s %s (+%d -%d)", c.Status, c.Path, c.Added, c.Deleted))
	}
	d.list("Decisions", decisions)
	d.list("Criteria on the repository as it is now", criteria)
	d.list("Operations in doubt", doubts)
	d.list("Files read or written last", files)
	d.list("Recent failing test runs", failures)
	d.list("Changed since the start", changes)
	d.deeds(s.Deeds)
	return d.String()
}

// what names the thing that an operation is about.
func what(a event.Access) string {
	if a.Command != "" {
		return "`" + a.Command + "`"
	}
	return strings.Join(append(append([]string(nil), a.Writes...), a.Reads...), " ")
}

func failure(f TestFailure, output int) string {
	line := fmt.Sprintf("`%s` (%s) exit code %d", f.Command, f.Op, f.ExitCode)
	if len(f.Failing) > 0 {
		line += "; failing: " + strings.Join(f.Failing, ", ")
	}
	if f.Signature != "" {
		line += "; signature: " + f.Signature
	}
	return line + ":\n" + tail(f.Tail, output)
}

// todos adds the todos with their evidence, and the one to go on with.
func (d *digest) todos(todos []event.Todo) {
	var items []string
	for _, t := range todos {
		line := todoWords(t)
		if t.Evidence != "" {
			line += " (evidence: " + t.Evidence + ")"
		}
		items = append(items, line)
	}
	d.list("Todos", items)
	if t, ok := plan.Current(todos); ok {
		fmt.Fprintf(d, "\nNext: %s: %s\n", t.ID, clip(t.Content, d.item))
	}
}

// heard are the user's messages that a request has taken in.
func (s State) heard() []Mail {
	var said []Mail
	for _, m := range s.Said {
		if !waits(s.Inbox, m.Seq) {
			said = append(said, m)
		}
	}
	return said
}

func waits(inbox []Mail, seq uint64) bool {
	for _, m := range inbox {
		if m.Seq == seq {
			return true
		}
	}
	return false
}

// heard adds what the user said, verbatim: the latest messages first in what
// there is room for. What is left out is named by the event that holds it.
func (d *digest) heard(said []Mail) {
	first, room := len(said), d.said
	for first > 0 {
		n := min(len(said[first-1].Text), d.message)
		if room -= n; room < 0 && first < len(said) {
			break
		}
		first--
	}
	if len(said) == 0 {
		return
	}
	d.WriteString("\nThe user said, verbatim:\n")
	if first > 0 {
		fmt.Fprintf(d, "- … %d older messages, the first of them event %d of this goal\n", first, said[0].Seq)
	}
	for _, m := range said[first:] {
		text := m.Text
		if len(text) > d.message {
			text = clip(text, d.message) + fmt.Sprintf(" [event %d of this goal holds the whole]", m.Seq)
		}
		fmt.Fprintf(d, "- %s\n", text)
	}
}
