package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belay/client"
	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/ledger"
)

// limited are budgets that a child gets a share of.
var limited = []string{"--max-steps", "90", "--max-turns", "60", "--max-tokens", "3000000"}

// asking is paint for goals that ask before they change anything.
func asking(model string, more ...string) []string {
	return append(append([]string{"run", "two files", "--model", model, "--test", "sh check.sh", "--plan", "never"}, limited...), more...)
}

// parent is the goal of the list that no other one has started.
func (w *world) parent() string {
	w.t.Helper()
	for _, r := range w.rows() {
		if r.Parent == "" {
			return r.Goal
		}
	}
	w.t.Fatal("there is no goal")
	return ""
}

// child is the goal of the list with a title.
func (w *world) child(title string) ledger.Row {
	w.t.Helper()
	for _, r := range w.rows() {
		if r.Title == title {
			return r
		}
	}
	w.t.Fatalf("there is no goal %q", title)
	return ledger.Row{}
}

// TestAChildIsAnsweredAtItsParent: what a child asks is shown at its parent and
// answered there, and an answer that does not say whom it is for is refused.
func TestAChildIsAnsweredAtItsParent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, painted())
	script := strings.Replace(painters, "steps:\n", "steps:\n"+
		"  - {when: {contains: ["+part+", \"not like this\"]}, calls: [{tool: finish, args: {summary: \"gave it up\"}}]}\n", 1) +
		delegation("write a.txt", "write b.txt") +
		"  - {expect: {contains: [\"gave it up\", \"wrote my file\"]}, calls: [{tool: apply_child, args: {child: op1}}]}\n" +
		stepCall("write_file", map[string]any{"path": "b.txt", "content": "B\n"}) + stepTest + stepDone
	r := w.must(3, asking(w.script(script))...)
	goal, a, b := w.parent(), w.child("write a.txt").Goal, w.child("write b.txt").Goal
	for _, c := range []string{a, b} {
		if want := fmt.Sprintf("belay approve %s %s/op1", goal, c); !strings.Contains(r.out, want) {
			t.Errorf("it does not say %q: %v", want, r)
		}
	}
	for _, to := range []string{"", "/op1", "f00d/op1", a + "/", a + "/op7"} {
		args := []string{"approve", goal}
		if to != "" {
			args = append(args, to)
		}
		w.must(2, args...)
	}
	w.must(0, "approve", goal, a[:12]+"/op1")
	w.must(2, "approve", goal, a+"/op1")
	w.must(0, "deny", goal, "--reason", "not like this") // only one waits now
	if r := w.must(3, "resume", goal); !strings.Contains(r.out, "apply_child") {
		t.Errorf("the parent does not ask before it takes the changes over: %v", r)
	}
	if w.has("a.txt") {
		t.Error("the child's file is in the parent's workspace before anybody approved it")
	}
	w.must(0, "approve", goal)
	w.must(3, "resume", goal)
	if w.read("a.txt") != "A\n" || w.has("b.txt") {
		t.Error("apply_child did not take over exactly what the child changed")
	}
	w.must(0, "approve", goal)
	w.must(0, "resume", goal)
	accounted(t, w, goal, map[string]int{"completed": 2})
}

// TestRulesForAChildsQuestionStandAtTheChild: whoever answers "always" at the
// parent widens nothing there.
func TestRulesForAChildsQuestionStandAtTheChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, painted())
	w.must(3, asking(w.script(painters+delegation("write a.txt")))...)
	goal, child := w.parent(), w.child("write a.txt").Goal
	s := w.serveAPI()
	suggested, err := s.c.Suggest(t.Context(), child, "op1")
	if err != nil || len(suggested.Rules) == 0 {
		t.Fatalf("%+v %v", suggested, err)
	}
	if _, err := s.c.Always(t.Context(), goal, client.Always{Op: child[:12] + "/op1", Rules: suggested.Rules}); err != nil {
		t.Fatal(err)
	}
	s.until(t, child, event.TypePolicyChanged)
	events, err := s.c.Events(t.Context(), goal, 0, 1000)
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == event.TypePolicyChanged {
			t.Errorf("the parent's policy was changed: %s", e.Payload)
		}
	}
}

// has reports whether the repository has a file.
func (w *world) has(name string) bool {
	_, err := os.Lstat(filepath.Join(w.repo, name))
	return err == nil
}

// TestAPersonStartsAChild: with run --parent, for a goal that nobody works on.
// The parent shows the child, its pauses, resumptions and its cancellation reach
// it, and its model is told how it ended.
func TestAPersonStartsAChild(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"cancelled", "completed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, painted())
			script := painters +
				stepCall("write_file", map[string]any{"path": "b.txt", "content": "B\n"}) +
				"  - {expect: {contains: [\"wrote my file\"]}, calls: [{tool: apply_child, args: {child: op2}}]}\n" +
				stepTest + stepDone
			w.must(3, asking(w.script(script))...)
			goal := w.parent()
			w.must(2, "run", "write a.txt", "--parent", goal, "--share", "91")
			w.must(2, "run", "write a.txt", "--parent", goal, "--max-steps", "91")
			w.must(2, "run", "write a.txt", "--parent", "f00d")
			w.must(3, "run", "write a.txt", "--parent", goal, "--share", "30")
			child := w.child("write a.txt")
			view := func() core.ChildView {
				t.Helper()
				s := w.snapshotOf(goal)
				if len(s.Children) != 1 || s.Children[0].Goal != child.Goal {
					t.Fatalf("the parent shows %+v", s.Children)
				}
				return s.Children[0]
			}
			if v := view(); child.Parent != goal || v.Op != "op2" || !v.ByUser || v.Status != "active" || v.WaitReason != event.WaitApproval || len(v.PendingApprovals) != 1 {
				t.Errorf("the parent shows %+v", v)
			}
			for _, c := range []struct {
				command string
				status  lifecycle.Status
			}{{"pause", lifecycle.Paused}, {"cancel", lifecycle.Cancelled}} {
				if c.command == "cancel" && end != "cancelled" {
					continue
				}
				w.must(0, c.command, goal)
				if s := w.snapshotOf(child.Goal); s.Status != c.status {
					t.Fatalf("after %s of the parent the child is %s", c.command, s.Status)
				}
			}
			if end == "cancelled" {
				w.told(goal, "the end of the family", func(s core.Snapshot) bool { return s.Children[0].Status == "cancelled" })
				if s := w.snapshotOf(goal); s.Status != lifecycle.Cancelled || s.Budget.Reserved != (event.Amount{}) {
					t.Errorf("the parent is %s and holds %+v", s.Status, s.Budget.Reserved)
				}
				return
			}
			w.must(3, "resume", goal)
			if v := view(); v.Status != "active" || v.WaitReason != event.WaitApproval {
				t.Fatalf("after the parent was resumed it shows %+v", v)
			}
			w.must(0, "approve", goal, child.Goal+"/op1")
			w.must(0, "resume", child.Goal)
			if v := view(); v.Status != "completed" || v.Files != 1 || v.Applied {
				t.Errorf("the parent shows %+v", v)
			}
			w.must(0, "approve", goal, "op1")
			w.must(3, "resume", goal)
			w.must(0, "approve", goal)
			w.must(0, "resume", goal)
			if !view().Applied || w.read("a.txt") != "A\n" {
				t.Error("what the child changed was not taken over")
			}
			accounted(t, w, goal, map[string]int{"completed": 1})
		})
	}
}

// TestNothingOfAChildIsAppliedWhereItConflicts: where both changed the same
// place nothing is taken over, and the model is told the places.
func TestNothingOfAChildIsAppliedWhereItConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, painted())
	script := "steps:\n" +
		"  - {when: {contains: [" + part + "], not_contains: [\"[op1: succeeded]\"]}, calls: [{tool: run_command, args: {command: \"echo A > a.txt; echo child > base.txt\"}}]}\n" +
		"  - {when: {contains: [" + part + ", \"[op1: succeeded]\"]}, calls: [{tool: finish, args: {summary: \"both changed\"}}]}\n" +
		delegation("change both") +
		stepCommand("echo parent > base.txt; echo B > b.txt") +
		"  - {calls: [{tool: apply_child, args: {child: op1}}]}\n" +
		"  - {expect: {contains: [\"nothing was applied\", \"base.txt\"]}, calls: [{tool: run_command, args: {command: \"test ! -e a.txt && echo A > a.txt\"}}]}\n" +
		stepTest + stepDone
	w.must(0, paint(w.script(script))...)
	if got := w.read("base.txt"); got != "parent\n" {
		t.Errorf("base.txt is %q", got)
	}
	if s := w.snapshotOf(w.parent()); s.Children[0].Applied || s.Children[0].Files != 2 {
		t.Errorf("the parent shows %+v", s.Children[0])
	}
}

// killedAt runs belay until it is killed at an instant.
func (w *world) killedAt(program, at string, args ...string) {
	w.t.Helper()
	points, point, n := filepath.Join(w.dir, "points"), "", ""
	if err := os.Mkdir(points, 0o700); err != nil {
		w.t.Fatal(err)
	}
	point, n, _ = strings.Cut(at, "@")
	c := exec.Command(program, args...)
	c.Dir, c.Env = w.repo, append(slices.Clone(w.env), "BELAY_FAILPOINTS="+point+"=kill@"+n, "BELAY_FAILPOINT_DIR="+points)
	out, err := c.CombinedOutput()
	if _, taken := os.Stat(filepath.Join(points, at+".taken")); err == nil || taken != nil {
		w.t.Fatalf("%s was not come to: %v\n%s", at, err, out)
	}
}

// TestAFamilySurvivesAKillAtEachOfItsInstants: apply_child, killed in its middle,
// is brought to its end by the next one who comes, once; and a child whose maker
// was killed before its parent knew that it exists is seen and reached.
func TestAFamilySurvivesAKillAtEachOfItsInstants(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "belay")
	if out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	script := "steps:\n" +
		"  - {when: {contains: [" + part + "], not_contains: [\"[op1: succeeded]\"]}, calls: [{tool: run_command, args: {command: \"rm base.txt; echo A > a.txt; echo B > b.txt; mkdir d; echo D > d/d.txt\"}}]}\n" +
		"  - {when: {contains: [" + part + ", \"[op1: succeeded]\"]}, calls: [{tool: finish, args: {summary: \"all changed\"}}]}\n" +
		delegation("change all") +
		"  - {calls: [{tool: apply_child, args: {child: op1}}]}\n" +
		stepTest + stepDone
	for _, at := range []string{"workspace.move.removed@1", "workspace.move.staged@1", "workspace.move.staged@2", "workspace.move.named@1", "workspace.move.named@3"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, painted())
			w.killedAt(program, at, paint(w.script(script), limited...)...)
			goal := w.parent()
			w.must(0, "resume", goal)
			if w.has("base.txt") || w.read("a.txt") != "A\n" || w.read("b.txt") != "B\n" || w.read("d/d.txt") != "D\n" {
				t.Errorf("the workspace is not as the child's: %v", files(t, w.repo))
			}
			if left, err := filepath.Glob(filepath.Join(w.repo, ".belay*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
			if s := w.snapshotOf(goal); !s.Children[0].Applied || len(s.InDoubt) > 0 {
				t.Errorf("the parent shows %+v, in doubt %+v", s.Children[0], s.InDoubt)
			}
			accounted(t, w, goal, map[string]int{"completed": 1})
		})
	}
	t.Run("made, not noted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, painted())
		w.must(3, asking(w.script(painters+stepCall("write_file", map[string]any{"path": "b.txt", "content": "B\n"})))...)
		goal := w.parent()
		w.killedAt(program, "service.start.after@1", "run", "write a.txt", "--parent", goal)
		child := w.child("write a.txt").Goal
		if s := w.snapshotOf(goal); len(s.Children) != 1 || s.Children[0].Status != "active" {
			t.Errorf("the parent shows %+v", s.Children)
		}
		w.must(0, "pause", goal)
		if s := w.snapshotOf(child); s.Status != lifecycle.Paused {
			t.Errorf("after the pause of its parent the child is %s", s.Status)
		}
		w.must(0, "cancel", goal)
		if s := w.snapshotOf(child); s.Status != lifecycle.Cancelled {
			t.Errorf("after the end of its parent the child is %s", s.Status)
		}
		w.told(goal, "the end of the family", func(s core.Snapshot) bool {
			return s.Children[0].Status == "cancelled" && s.Budget.Reserved == (event.Amount{})
		})
	})
}
