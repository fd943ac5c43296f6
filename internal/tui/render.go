package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/core/plan"
	"belay/internal/event"
	"belay/internal/terminal"
)

// The colours, as SGR codes.
const (
	bold, dim, red, green, yellow, cyan, reverse = "1", "2", "31", "32", "33", "36", "7"
)

// Render draws the screen: exactly Height lines of at most Width columns.
func (s Screen) Render() string {
	w, h := max(s.Width, 1), max(s.Height, 1)
	head := s.header()
	foot := s.footer()
	if h < len(head)+len(foot)+3 { // too low for anything but what matters most
		head, foot = head[:1], foot[len(foot)-1:]
	}
	room := max(0, h-len(head)-len(foot))
	var body []string
	if len(s.Snap.PendingApprovals) > 0 {
		// What is asked is shown whole if that leaves two lines for the rest.
		ask, whole := s.approval(max(room-2, 0))
		if !whole {
			ask, _ = s.approval(max(room*2/3, min(room, 6)))
		}
		side := s.standing((room - len(ask)) / 3)
		body = append(append(append([]string(nil), side...), s.happenings(room-len(ask)-len(side))...), ask...)
	} else {
		side := s.standing(room / 3)
		body = append(append([]string(nil), side...), s.happenings(room-len(side))...)
	}
	for len(body) < room {
		body = append(body, "")
	}
	lines := append(append(head, body[:room]...), foot...)
	lines = lines[:min(len(lines), h)]
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, w, "…")
	}
	return strings.Join(lines, "\n")
}

func (s Screen) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// line makes foreign text one harmless line.
func line(text string) string {
	return strings.Join(strings.Fields(terminal.Safe(text)), " ")
}

// header is the status, and what the goal is about.
func (s Screen) header() []string {
	v := s.Snap
	status, colour := string(v.Status), bold
	switch {
	case v.Status == lifecycle.Completed:
		status, colour = "completed: "+string(v.How), green
	case v.Status.Final():
		colour = red
	case v.PauseReason != "":
		status, colour = "paused: "+string(v.PauseReason), yellow
	case v.WaitReason != "":
		status, colour = "waits for "+string(v.WaitReason), yellow
	}
	parts := []string{s.paint(reverse, " belay "+v.Goal[:min(8, len(v.Goal))]+" "), s.paint(colour, status)}
	parts = append(parts, s.paint(dim, s.spent()))
	if a := s.doing(); a != "" {
		parts = append(parts, a)
	}
	title := s.paint(bold, line(v.Text))
	if n := v.Next; n.Who == core.NextUser && v.WaitReason == "" { // a question has a place of its own
		title += "  " + s.paint(yellow, "you: "+line(n.What))
	}
	return []string{strings.Join(parts, "  "), title}
}

// doing is the current action with how long it has lasted.
func (s Screen) doing() string {
	if s.action == "" || s.over() {
		return ""
	}
	if d := s.Now.Sub(s.since); d >= time.Second {
		return fmt.Sprintf("%s %s", d.Truncate(time.Second), line(s.action))
	}
	return line(s.action)
}

// spent is what of the budget is used, and left where there is a limit.
func (s Screen) spent() string {
	b := s.Snap.Budget
	part := func(name string, used, limit int64) string {
		if limit > 0 {
			return fmt.Sprintf("%s %d/%d", name, used, limit)
		}
		return fmt.Sprintf("%s %d", name, used)
	}
	out := []string{part("steps", b.Used.Steps, b.Limits.Steps), part("tokens", b.Used.Tokens, b.Limits.Tokens)}
	if b.Used.CostMicros > 0 || b.Limits.CostMicros > 0 {
		cost := fmt.Sprintf("$%.2f", float64(b.Used.CostMicros)/1e6)
		if b.Limits.CostMicros > 0 {
			cost += fmt.Sprintf("/$%.2f", float64(b.Limits.CostMicros)/1e6)
		}
		out = append(out, cost)
	}
	if !b.Limits.Deadline.IsZero() {
		out = append(out, "until "+b.Limits.Deadline.Std().Local().Format("Jan 2 15:04"))
	}
	return strings.Join(out, " · ")
}

// standing is the plan, the todos and the criteria, in at most n lines.
func (s Screen) standing(n int) []string {
	var out []string
	for _, c := range s.Snap.Criteria {
		mark, colour := "?", dim
		switch c.Result {
		case event.Pass:
			mark, colour = "pass", green
		case event.Fail:
			mark, colour = "FAIL", red
		}
		text := c.Command
		if text == "" {
			text = c.Text
		}
		detail := ""
		if c.Result != event.Pass && c.Reason != "" {
			detail = "  " + line(c.Reason)
		}
		out = append(out, s.paint(colour, fmt.Sprintf("%-4s", mark))+" "+line(c.ID)+" "+line(text)+s.paint(dim, detail))
	}
	for _, t := range s.todos(n - len(out)) {
		mark := map[event.TodoStatus]string{event.TodoCompleted: s.paint(green, "[x]"), event.TodoInProgress: s.paint(yellow, "[>]")}[t.Status]
		if mark == "" {
			mark = "[ ]"
		}
		after := ""
		if open := plan.OpenBefore(s.Snap.Todos, t); len(open) > 0 && t.Status == event.TodoPending {
			after = s.paint(dim, "  after "+line(strings.Join(open, ", ")))
		}
		out = append(out, mark+" "+line(t.Content)+after)
	}
	if len(s.Snap.Todos) == 0 && s.Snap.Plan != nil {
		for i, p := range s.Snap.Plan.Steps {
			out = append(out, s.paint(dim, fmt.Sprintf("%2d.", i+1))+" "+line(p.Text))
		}
	}
	for _, o := range s.Snap.InDoubt {
		out = append(out, s.paint(red, "unknown")+" "+o.Op+" "+line(o.Tool+" "+o.Command)+s.paint(dim, "  settle it: belay reconcile"))
	}
	if len(out) > n {
		out = out[:max(n, 0)]
	}
	if len(out) > 0 && len(out) < n {
		out = append(out, s.paint(dim, strings.Repeat("─", max(s.Width, 1))))
	}
	return out
}

// todos are those around the one in progress, when not all of them fit.
func (s Screen) todos(n int) []event.Todo {
	ts := s.Snap.Todos
	if n <= 0 {
		return nil
	}
	from := 0
	for i, t := range ts {
		if t.Status == event.TodoInProgress {
			from = max(0, i-n/2)
		}
	}
	from = max(0, min(from, len(ts)-n))
	return ts[from:min(len(ts), from+n)]
}

// happenings are the latest n lines: the timeline, and below it what streams.
func (s Screen) happenings(n int) []string {
	if n <= 0 {
		return nil
	}
	var stream []string
	if s.scroll == 0 && len(s.live) > 0 {
		live := s.live
		if live[len(live)-1] == "" {
			live = live[:len(live)-1]
		}
		for _, l := range live[max(0, len(live)-max(2, n/2)):] {
			stream = append(stream, s.paint(dim, "  │ ")+terminal.Safe(strings.ReplaceAll(l, "\t", "    ")))
		}
	}
	left := max(0, n-len(stream))
	end := max(0, len(s.Entries)-s.scroll)
	var out []string
	for _, e := range s.Entries[max(0, end-left):end] {
		text := fmt.Sprintf("%s %s", s.paint(dim, e.Time.Std().Local().Format("15:04:05")), s.paint(terminal.ColourOf(e.Name), line(e.Name)))
		if e.Op != "" {
			text += " " + s.paint(dim, e.Op)
		}
		if e.Detail != "" {
			text += "  " + s.paint(dim, line(e.Detail))
		}
		out = append(out, text)
	}
	out = append(out, stream...)
	for len(out) < n {
		out = append(out, "")
	}
	return out[len(out)-n:]
}

// approval is the question with what it is about, in at most n lines, and
// whether that is all of it.
func (s Screen) approval(n int) (lines []string, whole bool) {
	q := s.Snap.PendingApprovals[0]
	title := fmt.Sprintf("─ approve %s (%s)", line(q.Tool), q.Op)
	if more := len(s.Snap.PendingApprovals) - 1; more > 0 {
		title += fmt.Sprintf(", and %d more", more)
	}
	if q.Renewed {
		title += ": asked again, what it is about has changed"
	}
	title += " "
	out := []string{s.paint(yellow, title+strings.Repeat("─", max(0, s.Width-ansi.StringWidth(title))))}
	for _, why := range q.Why {
		out = append(out, s.paint(dim, "why: "+line(why)))
	}
	if q.Intent.Network != "" {
		out = append(out, s.paint(yellow, "with network: "+line(q.Intent.Network)))
	}
	if q.Intent.Destructive {
		out = append(out, s.paint(red, "it can discard work; a checkpoint comes before it"))
	}
	out = out[:min(len(out), max(1, n-2))]
	if len(s.rules) > 0 {
		where := "for this goal only"
		if s.save {
			where = "in your policy.yaml, and for this goal"
		}
		out = append(out, s.paint(bold, where+", this is allowed without a question:"))
		for _, r := range s.rules {
			out = append(out, "  "+line(strings.TrimSpace(r.Tool+" "+r.Command+" "+r.Path+" "+r.Network)))
		}
		return out[:min(len(out), n)], len(out) <= n
	}
	text := s.Preview
	if text == "" {
		text = q.Intent.Preview.Head
	}
	var wrapped []string
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		// Nothing of what is approved is hidden at the edge of the screen.
		for _, part := range strings.Split(ansi.Hardwrap(terminal.Safe(strings.ReplaceAll(l, "\t", "    ")), max(s.Width, 1), true), "\n") {
			wrapped = append(wrapped, s.diffLine(l, part))
		}
	}
	room := max(0, n-len(out))
	from := min(s.down, max(0, len(wrapped)-room))
	shown := wrapped[from:min(len(wrapped), from+room)]
	if below := len(wrapped) - from - len(shown); below > 0 && len(shown) > 0 {
		shown = append(append([]string(nil), shown[:len(shown)-1]...), s.paint(dim, fmt.Sprintf("… %d more lines (down)", below+1)))
	}
	return append(out, shown...), len(wrapped) <= room
}

// diffLine colours a part of a line of a unified diff.
func (s Screen) diffLine(whole, part string) string {
	switch {
	case strings.HasPrefix(whole, "+++"), strings.HasPrefix(whole, "---"), strings.HasPrefix(whole, "diff "):
		return s.paint(bold, part)
	case strings.HasPrefix(whole, "+"):
		return s.paint(green, part)
	case strings.HasPrefix(whole, "-"):
		return s.paint(red, part)
	case strings.HasPrefix(whole, "@@"):
		return s.paint(cyan, part)
	}
	return part
}

// footer is a notice or the line that is typed, and the keys.
func (s Screen) footer() []string {
	first := ""
	switch {
	case s.typing != NotTyping:
		shown := string(s.typing) + "> " + s.input + "█"
		if over := ansi.StringWidth(shown) - max(s.Width, 1); over > 0 {
			shown = ansi.TruncateLeft(shown, over+1, "…")
		}
		first = shown
	case s.asking != "":
		first = s.paint(yellow, "cancel this goal for good? [y]es, any other key: no")
	case s.Notice != "" && s.problem:
		first = s.paint(red, line(s.Notice))
	case s.Notice != "":
		first = s.paint(green, line(s.Notice))
	case s.Snap.HandOff != nil && s.Snap.Status == lifecycle.Paused:
		first = s.paint(yellow, "why: "+line(s.Snap.HandOff.Why))
	case s.Snap.WaitDetail != "" && len(s.Snap.PendingApprovals) == 0:
		first = s.paint(yellow, line(s.Snap.WaitDetail))
	case s.Attached && !s.Held && !s.over() && s.Snap.WaitReason == "":
		first = s.paint(yellow, "nobody works on it: belay resume "+s.Snap.Goal)
	case s.scroll > 0:
		first = s.paint(dim, fmt.Sprintf("%d lines back; [end] to follow", s.scroll))
	}
	return []string{first, s.paint(dim, s.keys())}
}

func (s Screen) keys() string {
	quit := "[q]uit"
	if s.Attached {
		quit = "[q] leave"
	}
	switch {
	case s.typing != NotTyping:
		return "[enter] send  [esc] not"
	case s.asking != "":
		return ""
	case len(s.rules) > 0:
		return "[y] save and approve  any other key: not"
	case len(s.Snap.PendingApprovals) > 0:
		return "[y]es [n]o [A]lways [g]oal  [s]teer [m]essage  [p]ause [c]ancel  [up down] read  " + quit
	case s.Snap.Status.Final():
		return "[up down] scroll  " + quit
	case s.Snap.Status == lifecycle.Paused:
		return "[r]esume [m]essage [c]ancel  [up down] scroll  " + quit
	case s.Snap.ClaimWaits():
		return "[y] accept the claim [n]o, say why  [m]essage  [p]ause [c]ancel  " + quit
	case s.Snap.WaitReason == event.WaitUserInput:
		return "[enter] answer  [p]ause [c]ancel  [up down] scroll  " + quit
	}
	return "[s]teer [m]essage  [p]ause [c]ancel  [up down] scroll  " + quit
}
