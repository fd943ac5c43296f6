package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/terminal"
)

// view prints a goal as it goes on: one line for each timeline entry, or one
// JSON object for each event.
type view struct {
	app *app
	mu  sync.Mutex
}

func newView(a *app) *view { return &view{app: a} }

// event prints one event.
func (v *view) event(e event.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.app.json {
		_ = writeJSON(v.app.Stdout, struct {
			Kind  string      `json:"kind"`
			Event event.Event `json:"event"`
		}{"event", e})
		return
	}
	if t, ok := core.TimelineEntry(e); ok {
		v.app.entry(v.app.Stdout, t)
	}
}

// Delta and Output are shown by the live view of a later issue; plain lines
// show results.
func (v *view) Delta(string, model.Delta) {}

// Output implements effect.Live.
func (v *view) Output(string, []byte) {}

// end prints what the goal came to.
func (v *view) end(s core.Snapshot, code int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.app.json {
		_ = writeJSON(v.app.Stdout, struct {
			Kind     string        `json:"kind"`
			ExitCode int           `json:"exit_code"`
			Snapshot core.Snapshot `json:"snapshot"`
		}{"result", code, s})
		return
	}
	v.app.summary(v.app.Stdout, s)
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(terminal.JSON(b), '\n'))
	return err
}

// paint colours text when colours are wanted.
func (a *app) paint(code, s string) string {
	if !a.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

const (
	bold, dim, red, green, yellow, cyan = "1", "2", "31", "32", "33", "36"
)

func (a *app) entry(w io.Writer, t core.Entry) {
	name := a.paint(terminal.ColourOf(t.Name), oneLine(t.Name))
	op := ""
	if t.Op != "" {
		op = " " + t.Op
	}
	detail := ""
	if t.Detail != "" {
		detail = a.paint(dim, "  "+oneLine(t.Detail))
	}
	fmt.Fprintf(w, "%5d %s%s%s\n", t.Seq, name, a.paint(dim, op), detail)
}

// summary says in a few lines where the goal stands and what to do next.
func (a *app) summary(w io.Writer, s core.Snapshot) {
	status := string(s.Status)
	switch {
	case s.Status == lifecycle.Completed:
		status += ": " + string(s.How)
	case s.PauseReason != "":
		status += ": " + string(s.PauseReason)
	case s.WaitReason != "":
		status += ", waits for " + string(s.WaitReason)
	}
	fmt.Fprintf(w, "\n%s  %s\n", a.paint(bold, "goal "+s.Goal), status)
	for _, c := range s.Criteria {
		fmt.Fprintf(w, "  %-8s %s  %s\n", c.Result, oneLine(c.ID+criterionText(c.Criterion)), a.paint(dim, oneLine(criterionDetail(c))))
	}
	if s.HandOff != nil && s.Status == lifecycle.Paused {
		fmt.Fprintf(w, "  why: %s\n", oneLine(s.HandOff.Why))
		for _, m := range s.HandOff.Missing {
			fmt.Fprintf(w, "  missing: %s\n", oneLine(m))
		}
		fmt.Fprintf(w, "  next: %s\n", strings.ReplaceAll(s.HandOff.HowResume, " G", " "+s.Goal))
	}
	for _, p := range s.PendingApprovals {
		fmt.Fprintf(w, "  approve or deny: belay approve %s %s  (%s)\n", s.Goal, p.Op, p.Tool)
	}
	a.childrenAsk(w, s.Goal, s.Children)
	if s.WaitReason == event.WaitRetry && s.WaitDetail != "" {
		fmt.Fprintf(w, "  why: %s\n", oneLine(s.WaitDetail))
	}
	if s.WaitReason == event.WaitUserInput {
		fmt.Fprintf(w, "  asks: %s\n", block(s.WaitDetail))
	}
	if s.Status == lifecycle.Active && (s.WaitReason == event.WaitApproval || s.WaitReason == event.WaitUserInput) {
		fmt.Fprintf(w, "  then: belay resume %s\n", s.Goal)
	}
	u := s.Budget.Used
	fmt.Fprintf(w, "  used: %d steps, %d tokens%s, %d.%01d s of commands; %d files changed\n", u.Steps, u.Tokens, money(u.CostMicros),
		u.ToolMS/1000, u.ToolMS/100%10, len(s.DiffStat))
}

func money(micros int64) string {
	if micros == 0 {
		return ""
	}
	return fmt.Sprintf(", $%d.%04d", micros/1_000_000, micros/100%10_000)
}

func criterionText(c event.Criterion) string {
	from := ""
	switch {
	case c.Found:
		from = " (found)"
	case c.Proposed:
		from = " (from the plan)"
	}
	switch {
	case c.Found, c.Kind == event.CriterionCommand, c.Kind == event.CriterionTest, c.Kind == event.CriterionManual:
		return criterionWhat(c) + from
	}
	return strings.TrimPrefix(core.CriterionText(c), c.ID) + from
}

func criterionWhat(c event.Criterion) string {
	switch {
	case c.Command != "":
		return " `" + c.Command + "`"
	case c.Text != "":
		return " " + c.Text
	}
	return ""
}

func criterionDetail(c core.CriterionView) string {
	if c.Result == event.Pass {
		return "evidence " + strings.Join(c.Evidence, ", ")
	}
	return c.Reason
}
