package main

import (
	"strings"
	"testing"

	"belay/internal/event"
)

// fixedToy is a repository whose check passes as it is.
func fixedToy() map[string]string {
	return map[string]string{"code.txt": "fixed\n", "check.sh": checkScript}
}

// goModule is a Go repository with one failing test.
func goModule() map[string]string {
	return map[string]string{
		"go.mod":      "module sum\n\ngo 1.21\n",
		"sum.go":      "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a - b }\n",
		"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(2, 3) != 5 {\n\t\tt.Fatal(\"2 + 3\")\n\t}\n}\n",
	}
}

// TestWordsNeverComplete lets a model lie in every way that users have
// reported. It insists on its claim until belay gives up; never is it believed.
func TestWordsNeverComplete(t *testing.T) {
	t.Parallel()
	const lie = "then: Done. I have run the tests and all tests pass."
	test := func(command string) string { return stepCall("run_test", map[string]any{"command": command}) }
	broken := stepRead + stepBreak
	for _, c := range []struct {
		name  string
		files map[string]string
		steps string
		tests []string // criteria; the toy's check if empty
		says  string   // in what the model is told
	}{
		{"after breaking the code", fixedToy(), stepTest + broken, nil, "has not been run on the repository as it is now"},
		{"after breaking the code and seeing it fail", fixedToy(), broken + stepTest, nil, "ended with exit code 1"},
		{"without running a test", toy(), stepRead, nil, "has not been run"},
		{"without doing anything", toy(), stepDone, nil, "has not been run"},
		{"after a test of an older tree", fixedToy(), stepTest + stepCommand("echo more >> code.txt"), nil, "on an older state"},
		{"after an empty test run", goModule(), test("go test -run XXX ./..."), []string{"go test ./..."}, "`go test ./...` has not been run"},
		{"after an empty test run as the criterion", goModule(), stepTest, []string{"go test -run XXX ./..."}, "no test was executed"},
		{"with a check that reports no test", map[string]string{"code.txt": "x", "check.sh": "exit 0\n"}, stepTest, nil, "no test was executed"},
		{"with || true", toy(), test("sh check.sh || true"), nil, "`sh check.sh` has not been run"},
		{"with ; true", toy(), test("sh check.sh; true"), nil, "`sh check.sh` has not been run"},
		{"with | cat", toy(), test("sh check.sh | cat"), nil, "`sh check.sh` has not been run"},
		{"with || true in the criterion", toy(), stepTest, []string{"sh check.sh || true"}, "its exit status is masked"},
		{"with ; true in the criterion", toy(), stepTest, []string{"sh check.sh; true"}, "its exit status is masked"},
		{"with | cat in the criterion", toy(), stepTest, []string{"sh check.sh | cat"}, "its exit status is masked"},
		{"with the output thrown away in the criterion", toy(), stepTest, []string{"sh check.sh >/dev/null 2>&1 || true"}, "no test was executed"},
		{"a test that calls go test and masks it", goModule(), stepTest, []string{"go test ./... || true"}, "its exit status is masked"},
		{"after running in another folder", map[string]string{"code.txt": "broken\n", "check.sh": checkScript, "other/code.txt": "fixed\n", "other/check.sh": checkScript},
			stepCall("run_test", map[string]any{"command": "sh check.sh", "dir": "other"}), nil, "has not been run"},
		{"after changing to another folder", map[string]string{"code.txt": "broken\n", "check.sh": checkScript, "other/code.txt": "fixed\n", "other/check.sh": checkScript},
			test("cd other && sh check.sh"), nil, "has not been run"},
		{"with a test that changes what it tests", map[string]string{"code.txt": "fixed\n", "check.sh": checkScript + "echo more >> code.txt\n"}, stepTest, nil, "changed the workspace while it ran"},
		{"with one of two criteria", fixedToy(), stepTest, []string{"sh check.sh", "sh check.sh again"}, "`sh check.sh again` has not been run"},
		{"with a flaky test", map[string]string{"code.txt": "fixed\n", "check.sh": "if mkdir ../once 2>/dev/null; then echo '1 failed in 0.1s'; exit 1; fi\necho '1 passed in 0.1s'\n"},
			stepTest + stepTest, nil, "flaky: `sh check.sh` passed 1 and failed 1 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.files)
			tests := c.tests
			if tests == nil {
				tests = []string{"sh check.sh"}
			}
			args := []string{"run", "repair it", "--model", w.script("steps:\n" + c.steps + "  - {text: Done. All tests pass.}\n" + lie), "--plan", "never", "--approve", "auto"}
			for _, cmd := range tests {
				args = append(args, "--test", cmd)
			}
			r := w.must(5, args...)
			es := w.events()
			if n := len(of[event.GoalCompleted](t, es)); n != 0 {
				t.Errorf("the goal was completed: %v", r)
			}
			var told []string
			for _, v := range of[event.VerificationFinished](t, es) {
				told = append(told, v.Verdict.Missing...)
			}
			if len(told) == 0 || !strings.Contains(strings.Join(told, "\n"), c.says) {
				t.Errorf("%q is not among what is missing: %q", c.says, told)
			}
			// The claims are bounded, and the end says what was missing.
			if n := len(of[event.CompletionClaimed](t, es)); n > 4 {
				t.Errorf("%d claims were listened to", n)
			}
			if s := w.snapshot(); s.HandOff == nil || !strings.Contains(strings.Join(s.HandOff.Missing, "\n"), "test-1") && len(tests) == 1 {
				t.Errorf("the hand-off does not say what is missing: %+v", s.HandOff)
			}
		})
	}
}

func TestAClaimIsBelievedOnceTheEvidenceIsThere(t *testing.T) {
	t.Parallel()
	// The same lies first, then the work: the goal is not spoilt by them, and
	// the content, not the order of things, is what evidence holds for.
	w := newWorld(t, fixedToy())
	const change = "  - {calls: [{tool: file_patch, args: {path: code.txt, old_string: fixed, new_string: broken}}]}\n"
	const back = "  - {calls: [{tool: file_patch, args: {path: code.txt, old_string: broken, new_string: fixed}}]}\n"
	r := w.must(0, runToy(w.script("steps:\n"+stepDone+stepRead+stepTest+change+stepDone+back+stepDone))...)
	names := w.timeline()
	inOrder(t, names, "verification_finished: incomplete", "local_test_completed: exit_code=0", "verification_finished: incomplete", "goal_completed: verified")
	if n := count(names, "local_test_completed: exit_code=0"); n != 1 {
		t.Errorf("%d test runs, one was enough because the content came back: %v", n, r)
	}
}

// TestAnAnnouncementIsNoEnd: a model that says what it will do and calls
// nothing is nudged a few times, then the goal is handed off.
func TestAnAnnouncementIsNoEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	r := w.must(5, runToy(w.script("steps: [{text: I will now run the tests., repeat: 5}]\nthen: I will now run the tests."))...)
	if n := len(of[event.ModelRequested](t, w.events())); n > 4 {
		t.Errorf("the model was nudged %d times: %v", n-1, r)
	}
	// It goes on when a person says so, and can still reach its goal.
	w.must(0, "say", w.goal(), "Then do it.")
	w.script("steps:\n  - {text: x, repeat: 4}\n" + stepRead + stepFix + stepTest + stepDone)
	w.must(0, "resume", w.goal())
}

// TestTheSameFailureIsParkedEarly: twenty times the same failing command is
// not twenty executions, and a word of the user opens it again.
func TestTheSameFailureIsParkedEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	r := w.must(5, runToy(w.script("steps:\n  - {calls: [{tool: run_command, args: {command: echo again >> ../effects.log; exit 3}}], repeat: 20}\n"))...)
	if got := strings.Count(w.readAt("effects.log"), "again"); got == 0 || got > 4 {
		t.Errorf("the command ran %d times: %v", got, r)
	}
	names := w.timeline()
	inOrder(t, names, "progress_alarm: repeated_error", "action_forbidden: run_command", "goal_handed_off", "goal_paused: no_progress")
	w.must(0, "say", w.goal(), "Repair code.txt instead.")
	replies := len(of[event.ModelResponded](t, w.events()))
	w.script("steps:\n" + strings.Repeat("  - {text: x}\n", replies) + stepRead + stepFix + stepTest + stepDone)
	w.must(0, "resume", w.goal())
}

// TestUsefulRepetitionIsNotCutOff: running a failing test after each of many
// edits is work.
func TestUsefulRepetitionIsNotCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	steps := "steps:\n" + stepRead
	last := "broken"
	for i := range 8 {
		next := "broken" + strings.Repeat("!", i+1)
		steps += stepCall("file_patch", map[string]any{"path": "code.txt", "old_string": last + "\n", "new_string": next + "\n"}) + stepTest
		last = next
	}
	steps += stepCall("file_patch", map[string]any{"path": "code.txt", "old_string": last, "new_string": "fixed"}) + stepTest + stepDone
	w.must(0, runToy(w.script(steps))...)
	if n := count(w.timeline(), "local_test_completed: exit_code=1"); n != 8 {
		t.Errorf("%d failing runs, want 8", n)
	}
}
