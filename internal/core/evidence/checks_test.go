package evidence_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/evidence"
	"belay/internal/event"
)

// whole is a world in which a tests_intact and a reproduces criterion hold.
func whole() ([]event.Criterion, evidence.World) {
	cs := []event.Criterion{{ID: "intact", Kind: event.CriterionTestsIntact, Command: "go test"}, {ID: "bug", Kind: event.CriterionReproduces, Command: "go test"}}
	run := func(op, tree string, passed, failed int64) evidence.Record {
		r := evidence.Record{Op: op, Command: "go test", Test: true, Tree: tree, Scratch: true, Counts: event.TestCounts{Runner: "go", Passed: passed, Failed: failed}}
		if failed > 0 {
			r.ExitCode, r.Counts.Failing = 1, []string{"TestA"}
		}
		return r
	}
	w := evidence.World{Tree: "now", Baseline: "then", Test: "go test",
		Shelf: evidence.Shelf{run("r1", "now+old tests", 3, 0), run("r2", "then", 3, 0), run("r3", "then+new tests", 3, 1), run("r4", "now", 4, 0)},
		Checks: evidence.Checks{
			{Op: "c1", Criterion: "intact", CheckResult: event.CheckResult{Tree: "now", Tests: 2, Mixed: "now+old tests"}},
			{Op: "c2", Criterion: "bug", CheckResult: event.CheckResult{Tree: "now", Mixed: "then+new tests"}}}}
	return cs, w
}

// From a world in which both hold, each single thing that is missing or other
// than it has to be makes the criterion that rests on it not pass, and belay
// asks for exactly what is missing.
func TestEachPieceOfEvidenceIsNeeded(t *testing.T) {
	t.Parallel()
	cs, w := whole()
	if v := evidence.Conclude(cs, w); v.Verdict != event.Complete {
		t.Fatalf("the whole does not hold: %+v", v)
	}
	if n, ok := evidence.Next(cs, w); ok {
		t.Fatalf("something more is asked for: %+v", n)
	}
	for _, c := range []struct {
		name, of, reason, next string
		change                 func(*evidence.World)
	}{
		{"no comparison", "intact", "has not checked it", "inspect now", func(w *evidence.World) { w.Checks = w.Checks[1:] }},
		{"a comparison of another tree", "intact", "has not checked it", "inspect now", func(w *evidence.World) { w.Checks[0].Tree = "before" }},
		{"a finding", "intact", "were changed: skipped: a_test.go", "", func(w *evidence.World) { w.Checks[0].Findings = []string{"skipped: a_test.go"} }},
		{"the old tests were not run", "intact", "have not been run", "scratch now+old tests", func(w *evidence.World) { w.Shelf = w.Shelf[1:] }},
		{"they were run in the workspace, on another tree", "intact", "have not been run", "scratch now+old tests", func(w *evidence.World) { w.Shelf[0].Scratch = false }},
		{"fewer of them ran", "intact", "only 2 ran; 3 ran", "", func(w *evidence.World) { w.Shelf[0].Counts.Passed = 2 }},
		{"it is not known how many ran", "intact", "not known how many", "scratch then", func(w *evidence.World) { w.Shelf = append(w.Shelf[:1:1], w.Shelf[2:]...) }},
		{"they did not end", "intact", "did not end within", "", func(w *evidence.World) { w.Shelf[0].TimedOut = true }},
		{"one fails", "intact", "do not pass any more over the present code (1 failed: TestB)", "", func(w *evidence.World) {
			w.Shelf[0].ExitCode, w.Shelf[0].Counts = 1, event.TestCounts{Runner: "go", Passed: 2, Failed: 1, Failing: []string{"TestB"}}
		}},
		{"a pass and a failure", "intact", "flaky", "", func(w *evidence.World) {
			bad := w.Shelf[0]
			bad.ExitCode, bad.Counts.Failed = 1, 1
			w.Shelf = append(evidence.Shelf{bad}, w.Shelf...)
		}},
		{"the exit code is masked", "intact", "do not pass any more", "", func(w *evidence.World) { w.Shelf[0].Counts.Failed = 1 }},
		{"a look that cannot be had", "intact", "could not be checked: the disk is full", "", func(w *evidence.World) {
			w.Shelf = w.Shelf[1:]
			w.GivenUp = map[string]string{evidence.Need{What: evidence.Scratch, Criterion: "intact", Command: "go test", Tree: "now+old tests"}.Key(): "the disk is full"}
		}},
		{"it passes before too", "bug", "passes also on the code as the goal found it", "", func(w *evidence.World) { w.Shelf[2].ExitCode, w.Shelf[2].Counts.Failed = 0, 0 }},
		{"it does not build before", "bug", "does not get as far as a test", "", func(w *evidence.World) { w.Shelf[2].Broken = true }},
		{"no test runs before", "bug", "runs no test on the code as the goal found it", "", func(w *evidence.World) { w.Shelf[2].Counts = event.TestCounts{Runner: "go"} }},
		{"no runner spoke before", "bug", "does not get as far as a test", "", func(w *evidence.World) { w.Shelf[2].Counts = event.TestCounts{} }},
		{"it did not end before", "bug", "did not end within its time", "", func(w *evidence.World) { w.Shelf[2].TimedOut = true }},
		{"both before", "bug", "flaky: on the code as the goal found it", "", func(w *evidence.World) {
			good := w.Shelf[2]
			good.ExitCode, good.Counts.Failed = 0, 0
			w.Shelf = append(evidence.Shelf{good}, w.Shelf...)
		}},
		{"it was not run now", "bug", "has not been run on a copy of the present code", "scratch now", func(w *evidence.World) { w.Shelf = w.Shelf[:3] }},
		{"it fails now", "bug", "fails on a copy of the present code", "", func(w *evidence.World) { w.Shelf[3].ExitCode, w.Shelf[3].Counts.Failed = 1, 1 }},
		{"it fails in the workspace", "bug", "passes in a copy of the present code and failed in the workspace", "", func(w *evidence.World) {
			bad := w.Shelf[3]
			bad.Scratch, bad.ExitCode = false, 1
			w.Shelf = append(w.Shelf, bad)
		}},
		{"no code changed", "bug", "nothing but tests differs", "", func(w *evidence.World) { w.Checks[1].Mixed = "now" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cs, w := whole()
			c.change(&w)
			v := evidence.Conclude(cs, w)
			for i, k := range cs {
				r := v.Criteria[i]
				if hit := k.ID == c.of; hit && (r.Result == event.Pass || !strings.Contains(r.Reason, c.reason)) || v.Verdict == event.Complete {
					t.Errorf("%s is %s (%s), want not pass (%s)", k.ID, r.Result, r.Reason, c.reason)
				}
			}
			n, ok := evidence.Next(cs, w)
			if got := strings.TrimSpace(n.What + " " + n.Tree); ok != (c.next != "") || ok && got != c.next {
				t.Errorf("asks for %q, want %q", got, c.next)
			}
		})
	}
}

// Whatever a world holds, asking for what is needed comes to an end: each look
// is asked for once, brings something, and is not asked for again.
func TestLookingComesToAnEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cs, w := whole()
		cs = append(cs, event.Criterion{ID: "file", Kind: event.CriterionArtifact, Path: "p"}, event.Criterion{ID: "ok", Kind: event.CriterionReview, Text: "?"},
			event.Criterion{ID: "t", Kind: event.CriterionTest, Command: "go test", Verify: event.VerifyRun, Repeat: rapid.Int64Range(0, 4).Draw(t, "repeat")})
		w.Shelf, w.Checks, w.Verification = nil, nil, "v1"
		for i := 0; ; i++ {
			n, ok := evidence.Next(cs, w)
			if !ok {
				break
			}
			if i > 20 {
				t.Fatalf("still asks for %+v", n)
			}
			k := evidence.Check{Op: "c", Criterion: n.Criterion, Verification: "v1", CheckResult: event.CheckResult{Tree: w.Tree, Tests: 1,
				Mixed: rapid.SampledFrom([]string{"now", "mixed", "then"}).Draw(t, "mixed"), Opinion: rapid.SampledFrom([]string{event.Pass, event.Fail, event.ResultUnknown}).Draw(t, "opinion")}}
			if rapid.IntRange(0, 4).Draw(t, "finding") == 0 {
				k.Findings = []string{"something"}
			}
			r := evidence.Record{Op: "r", Command: n.Command, Test: true, Tree: n.Tree, Scratch: n.What == evidence.Scratch, ExitCode: rapid.IntRange(0, 1).Draw(t, "exit"),
				TimedOut: rapid.IntRange(0, 9).Draw(t, "time") == 0, Counts: event.TestCounts{Runner: rapid.SampledFrom([]string{"go", "go", ""}).Draw(t, "runner"),
					Passed: rapid.Int64Range(0, 3).Draw(t, "passed"), Failed: rapid.Int64Range(0, 1).Draw(t, "failed")}}
			switch n.What {
			case evidence.Scratch:
				w.Shelf = w.Shelf.Add(r)
			case evidence.Rerun:
				r.Tree = w.Tree
				w.Shelf = w.Shelf.Add(r)
				if r.TimedOut {
					w.GivenUp = map[string]string{n.Key(): "it does not end"}
				}
			default:
				w.Checks = w.Checks.Add(k)
			}
		}
		// A reviewer's word alone completes nothing.
		if v := evidence.Conclude(cs, w); v.Verdict == event.Complete {
			for i, c := range v.Criteria {
				if c.Result != event.Pass || len(c.Evidence) == 0 {
					t.Fatalf("complete with %s: %+v", cs[i].ID, c)
				}
			}
		}
	})
}
