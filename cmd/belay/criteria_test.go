package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/event"
)

// Each kind of criterion that belay looks at itself: a case that must pass, and
// cases that must not, with the reason that a person would give. The test runner
// of these worlds is a shell script that speaks like pytest.

const runner = `pass=0; fail=0
for t in tests/test_*; do
	if [ -e quick ] && [ $t = tests/test_lines ]; then continue; fi
	if sh "$t"; then pass=$((pass+1)); else fail=$((fail+1)); echo "FAILED $t::it - assertion"; fi
done
if [ $fail -gt 0 ]; then echo "$fail failed, $pass passed in 0.01s"; exit 1; fi
echo "$pass passed in 0.01s"
`

func suite() map[string]string {
	return map[string]string{"code.txt": "broken\n", "run.sh": runner, "tests/test_code": "grep -q . code.txt\n", "tests/test_lines": "test $(wc -l < code.txt) -eq 1\n"}
}

// judged runs a goal whose model plays the steps, claims, and gives up when it
// is refused. It returns what the verdict says of the criterion c.
func judged(t *testing.T, files map[string]string, criteria, steps string) (w *world, r result, c event.CriterionResult) {
	t.Helper()
	w = newWorld(t, files)
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, "goal: repair code.txt\nacceptance:\n"+criteria)
	r = w.belay("run", "--file", goal, "--model", w.script("steps:\n"+steps+stepDone+"then: I give up.\n"), "--plan", "never", "--approve", "auto")
	for _, v := range of[event.VerificationFinished](t, w.events()) {
		for _, x := range v.Verdict.Criteria {
			if x.ID == "c" && v.Refused == "" {
				c = x
			}
		}
	}
	if copies, err := os.ReadDir(filepath.Join(w.dir, "state.scratch")); err == nil {
		t.Errorf("private copies are left: %v", copies)
	}
	return w, r, c
}

// verdictIs checks a criterion's result, its reason, and what the run ends as.
func verdictIs(t *testing.T, r result, c event.CriterionResult, want, reason string) {
	t.Helper()
	if c.Result != want || !strings.Contains(c.Reason, reason) {
		t.Errorf("the verdict is %s (%s), want %s (%s)\n%v", c.Result, c.Reason, want, reason, r)
	}
	if done := strings.Contains(r.out, "completed: verified"); done != (want == event.Pass) || done != (r.code == 0) {
		t.Errorf("the run does not end as the verdict says: %v", r)
	}
}

func writeStep(path, content string) string {
	return stepCall("write_file", map[string]any{"path": path, "content": content})
}

func TestTestsIntact(t *testing.T) {
	t.Parallel()
	const fix = stepRead + stepFix
	skip := func(path, content string) string {
		return stepCall("read_file", map[string]any{"path": path}) + writeStep(path, content)
	}
	for _, k := range []struct{ name, steps, more, want, reason string }{
		{"the code alone changes", fix, "", event.Pass, ""},
		{"a test is added", fix + writeStep("tests/test_more", "grep -q fixed code.txt\n"), "", event.Pass, ""},
		{"a test is deleted", fix + stepCommand("rm tests/test_lines"), "", event.Fail, "deleted: tests/test_lines"},
		{"a test is emptied so that what it asserted does not hold any more", stepRead + writeStep("code.txt", "fixed\n\n") + skip("tests/test_lines", "true\n"), "", event.Fail,
			"tests that stood before do not pass any more over the present code (1 failed: tests/test_lines::it)"},
		{"the same, where the user allows it", stepRead + writeStep("code.txt", "fixed\n\n") + skip("tests/test_lines", "true\n"), ", allow: [tests/test_lines]", event.Pass, ""},
		{"the runner is redefined", fix + skip("run.sh", "echo '2 passed in 0.01s'\n"), "", event.Fail, "redefined: run.sh: the test command runs it"},
		{"the code keeps one of them from running", fix + writeStep("quick", "yes\n"), "", event.Fail, "of the tests that stood before only 1 ran; 2 ran on the code as the goal found it"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w, r, c := judged(t, suite(), "  - {id: c, kind: tests_intact, command: sh run.sh"+k.more+"}\n", k.steps)
			verdictIs(t, r, c, k.want, k.reason)
			if _, err := os.Stat(filepath.Join(w.repo, "tests")); err != nil {
				t.Error(err)
			}
		})
	}
}
