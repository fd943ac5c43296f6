package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/sqlite"
)

// part is what a child of the scripts below knows itself by.
const part = `"is a part of another one"`

// painted is a repository whose test wants two files.
func painted() map[string]string {
	return map[string]string{"check.sh": "grep -q A a.txt && grep -q B b.txt && echo '1 passed in 0.01s'\n", "base.txt": "base\n"}
}

// painters are two children that write a file each.
const painters = "steps:\n" +
	"  - {when: {contains: [" + part + ", \"write a.txt\"], not_contains: [\"[op1: succeeded]\"]}, calls: [{tool: write_file, args: {path: a.txt, content: \"A\\n\"}}]}\n" +
	"  - {when: {contains: [" + part + ", \"write b.txt\"], not_contains: [\"[op1: succeeded]\"]}, calls: [{tool: write_file, args: {path: b.txt, content: \"B\\n\"}}]}\n" +
	"  - {when: {contains: [" + part + ", \"[op1: succeeded]\"]}, calls: [{tool: finish, args: {summary: \"wrote my file\"}}]}\n"

func delegation(goals ...string) string {
	var calls []string
	for _, g := range goals {
		calls = append(calls, fmt.Sprintf("{tool: delegate, args: {goal: %q}}", g))
	}
	return "  - {calls: [" + strings.Join(calls, ", ") + "]}\n"
}

func paint(model string, more ...string) []string {
	return append([]string{"run", "two files", "--model", model, "--test", "sh check.sh", "--plan", "never", "--approve", "auto"}, more...)
}

// rows lists the goals of the world.
func (w *world) rows() []ledger.Row {
	w.t.Helper()
	var rows []ledger.Row
	if err := json.Unmarshal([]byte(w.must(0, "goals", "--json").out), &rows); err != nil {
		w.t.Fatal(err)
	}
	return rows
}

// TestFourChildrenUnderOneBudgetSurviveKills: four children of one goal work on
// one repository side by side, one of them fails, one is cancelled, and the
// process is killed twice. The budget is never exceeded, every child is
// accounted for once, and what they made is applied and verified.
func TestFourChildrenUnderOneBudgetSurviveKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, painted())
	began := filepath.Join(w.dir, "began")
	script := painters +
		"  - {when: {contains: [" + part + ", \"break it\"]}, fail: {kind: bad_request, message: no such thing, times: -1}}\n" +
		"  - {when: {contains: [" + part + ", \"hang on\"], not_contains: [\"[op1:\"]}, calls: [{tool: run_command, args: {command: \"echo begun >> " + began + "; sleep 600\"}}]}\n" +
		delegation("write a.txt", "write b.txt", "break it", "hang on") +
		"  - {expect: {contains: [\"no such thing\", \"wrote my file\"]}, calls: [{tool: apply_child, args: {child: op1}}, {tool: apply_child, args: {child: op2}}]}\n" +
		stepTest + stepDone

	p := w.start(paint(w.script(script), append(slices.Clone(limited), "--json")...)...)
	p.await(`"type":"child_reserved"`)
	goal := ""
	p.kill()
	p.wait()
	for _, r := range w.rows() {
		if r.Parent == "" {
			goal = r.Goal
		}
	}
	p = w.start("resume", goal)
	until(t, func() bool { return w.readAt("began") != "" })
	p.kill()
	p.wait()
	p = w.start("resume", goal)
	hanging := ""
	until(t, func() bool {
		ended := 0
		for _, r := range w.rows() {
			if r.Title == "hang on" {
				hanging = r.Goal
			}
			if r.Parent == goal && lifecycle.Status(r.Status).Final() {
				ended++
			}
		}
		return ended == 3 && hanging != ""
	})
	w.must(0, "cancel", hanging)
	if r := p.wait(); r.code != 0 {
		t.Fatalf("the goal is not reached: %v\n%s", r, strings.Join(w.timelineOf(goal), "\n"))
	}
	if a, b := w.read("a.txt"), w.read("b.txt"); a != "A\n" || b != "B\n" {
		t.Errorf("a.txt is %q, b.txt is %q", a, b)
	}
	if got := w.readAt("began"); got != "begun\n" {
		t.Errorf("the command of the fourth child began %q", got)
	}
	accounted(t, w, goal, map[string]int{"completed": 2, "failed": 1, "cancelled": 1})
}

// accounted checks the ledger of a goal and of its children: what is used and
// held never exceeds the limits, after any event; each child ended once, on both
// sides; and what the children used is what the goal was charged for them.
func accounted(t *testing.T, w *world, goal string, want map[string]int) {
	t.Helper()
	l, err := sqlite.Open(context.Background(), filepath.Join(w.dir, "state", "ledger.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	es, err := l.Read(context.Background(), goal, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var s core.State
	got, charged := map[string]int{}, map[string]event.Amount{}
	for _, e := range es {
		s = core.Apply(s, e)
		if b := s.Budget; s.Refuse != "" || b.Used.Tokens+b.Held().Tokens > b.Limits.Tokens || b.Used.Steps+b.Held().Steps > b.Limits.Steps ||
			b.Used.Turns+b.Held().Turns > b.Limits.Turns {
			t.Errorf("after event %d: %+v used and %+v held of %+v %s", e.Seq, b.Used, b.Held(), b.Limits, s.Refuse)
		}
		if p, ok := e.Payload.(event.ChildEnded); ok {
			if _, twice := charged[p.Child]; twice {
				t.Errorf("child %s ended twice", p.Child)
			}
			got[p.Status]++
			charged[p.Child] = p.Used
		}
	}
	if s.Status != lifecycle.Completed || s.How != event.Verified || fmt.Sprint(got) != fmt.Sprint(want) || len(s.Children.Open()) > 0 || len(s.Budget.Reserved) > 0 {
		t.Errorf("it is %s (%s), its children %v, held %+v", s.Status, s.How, got, s.Budget.Reserved)
	}
	for _, c := range s.Children {
		ces, err := l.Read(context.Background(), c.Goal, 0, 0)
		if err != nil || len(ces) == 0 {
			t.Fatalf("child %s: %d events, %v", c.Goal, len(ces), err)
		}
		cs := core.Fold(core.State{}, ces)
		if string(cs.Status) != c.Status || !cs.ParentTold || cs.Budget.Used != charged[c.Goal] || cs.Parent != goal || cs.ParentOp != c.Op || cs.Depth != 1 || cs.AnyStarted() {
			t.Errorf("child %s is %s (told %t, started %t) and used %+v; its parent has %s and %+v", c.Goal, cs.Status, cs.ParentTold, cs.AnyStarted(), cs.Budget.Used, c.Status, charged[c.Goal])
		}
		if a, err := l.Audit(context.Background(), c.Goal); err != nil || a.Broken != nil {
			t.Errorf("child %s: %+v %v", c.Goal, a.Broken, err)
		}
	}
}

// timelineOf is the timeline of one goal.
func (w *world) timelineOf(goal string) []string {
	return strings.Split(w.belay("timeline", goal).out, "\n")
}

// until waits for a state that another process brings about.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}
