package core_test

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
)

// The looks that belay takes itself, in the simulated world. What a tree's tests
// do follows from the tree; whether they can be run, and how they are reported,
// is as random as everything else.

// checked are the criteria of a world that belay looks at itself.
func checked(kind string) []event.Criterion {
	all := map[string]event.Criterion{
		"intact": {ID: "intact", Kind: event.CriterionTestsIntact, Command: testCommand},
		"bug":    {ID: "bug", Kind: event.CriterionReproduces, Command: testCommand},
		"file":   {ID: "file", Kind: event.CriterionArtifact, Path: "a"},
		"review": {ID: "review", Kind: event.CriterionReview, Text: "Is it right?"},
		"run":    {ID: "run", Kind: event.CriterionTest, Command: testCommand, Verify: event.VerifyRun, Repeat: 2},
	}
	if c, ok := all[kind]; ok {
		return []event.Criterion{c}
	}
	if kind == "all" {
		return []event.Criterion{all["intact"], all["bug"], all["file"], all["review"], all["run"]}
	}
	return nil
}

// chance is a number in [0, n) that belongs to a text.
func chance(text string, n int) int {
	sum := sha256.Sum256([]byte(text))
	return int(sum[0]) % n
}

// check executes a look that only reads, or asks a reviewer.
func (s *sim) check(o operation.Op, attempt int) core.Body {
	of, err := core.CheckArgs(o)
	if err != nil {
		panic(err)
	}
	r := event.CheckResult{Tree: of.Tree, Baseline: s.committed.BaselineTree(), Tests: 2, Mixed: of.Tree}
	out := event.Result{Output: event.Text{Head: "looked"}, Check: &r}
	ended := core.Ended{Op: o.ID, Attempt: attempt, Outcome: event.Succeeded}
	switch o.Tool {
	case core.ToolCheckTests:
		if of.Criterion == "bug" || chance(of.Tree, 3) > 0 {
			r.Mixed = "mix of " + of.Criterion + " " + of.Tree
		}
		if of.Criterion == "intact" && chance("finding "+of.Tree, 5) == 0 {
			r.Findings = []string{"deleted: a test"}
		}
	case core.ToolCheckArtifact:
		if s.r.IntN(3) == 0 { // a branch comes and goes without the tree
			r.Findings = []string{"it is not there"}
		}
	case core.ToolCheckReview:
		switch s.r.IntN(8) {
		case 0:
			out.Check, out.Fault = nil, fault.New(fault.Overloaded, fault.Provider, "overloaded", "")
			ended.Outcome = event.Failed
		case 1:
			out.Check, out.Fault = nil, fault.New(fault.StreamCut, fault.Provider, "cut", "")
			ended.Outcome = event.OutcomeUnknown
		default:
			r.Opinion, r.Reason = []string{event.Pass, event.Fail, event.ResultUnknown}[s.r.IntN(3)], "so it is"
			out.Used = &event.Amount{Steps: 1, Tokens: 300 + int64(s.r.IntN(int(o.MaxOutput)+1)), CostMicros: 300}
		}
	}
	if ended.Outcome == event.Succeeded && s.r.IntN(12) == 0 {
		out.Check, out.Fault, ended.Outcome = nil, fault.New(fault.Storage, fault.Environment, "the disk is full", ""), event.Failed
	}
	ended.Result = out
	return ended
}

// inCopy ends a run in a private copy.
func (s *sim) inCopy(sh *shim) {
	sh.counts = event.TestCounts{Runner: "go", Passed: 3}
	if chance("run "+sh.tree, 2) == 0 {
		sh.result.ExitCode = 1
		sh.counts = event.TestCounts{Runner: "go", Passed: 2, Failed: 1, Failing: []string{"TestA"}}
	}
	switch s.r.IntN(12) {
	case 0: // flaky
		sh.result.ExitCode, sh.counts = 0, event.TestCounts{Runner: "go", Passed: 3}
	case 1: // masked
		sh.result.ExitCode = 0
	case 2:
		sh.counts = event.TestCounts{Runner: "go"}
	case 3:
		sh.result.ExitCode, sh.counts = 1, event.TestCounts{Runner: "go", Failed: 1, Failing: []string{"pkg [build failed]"}}
	}
}

// lookedAt is what the events say of belay's own looks, told apart from how the
// core keeps it.
type lookedAt struct {
	proposed map[string]event.OperationProposed
	at       map[string]uint64 // op → seq of its proposal
	tree     map[string]string // op → tree that it ran on
}

func (s *sim) looks() lookedAt {
	l := lookedAt{map[string]event.OperationProposed{}, map[string]uint64{}, map[string]string{}}
	for _, e := range s.events {
		switch p := e.Payload.(type) {
		case event.OperationProposed:
			if p.Criterion != "" {
				l.proposed[e.Op], l.at[e.Op] = p, e.Seq
			}
		case event.OperationStarted:
			l.tree[e.Op] = p.Tree
		}
	}
	return l
}

// copyRuns counts how the command ended in private copies of a tree.
func (s *sim) copyRuns(l lookedAt, tree string) (passed, failed int) {
	for _, e := range s.events {
		p, ok := e.Payload.(event.OperationFinished)
		if !ok || p.Tool != core.ToolCheckRun || l.tree[e.Op] != tree || p.Result.Command == nil || p.Outcome == event.OutcomeUnknown || p.Outcome == event.Cancelled {
			continue
		}
		t := p.Result.Test
		switch {
		case p.Result.Command.TimedOut:
		case p.Result.Command.ExitCode == 0 && t != nil && t.Passed > 0 && t.Failed == 0:
			passed++
		default:
			failed++
		}
	}
	return passed, failed
}

// found is the latest finished look of a criterion on a tree.
func (s *sim) found(l lookedAt, criterion, tree string) (c event.CheckResult, seq uint64, ok bool) {
	for _, e := range s.events {
		p, fin := e.Payload.(event.OperationFinished)
		if fin && p.Result.Check != nil && p.Result.Check.Tree == tree && l.proposed[e.Op].Criterion == criterion {
			c, seq, ok = *p.Result.Check, l.at[e.Op], true
		}
	}
	return c, seq, ok
}

// checksHold re-derives from the events alone that each criterion that belay
// looks at itself was shown for the tree that completed.
func (s *sim) checksHold(tree string, passedHere, failedHere int) error {
	l := s.looks()
	var began uint64
	for _, e := range s.events {
		if e.Type == event.TypeVerificationStarted {
			began = e.Seq
		}
	}
	for _, c := range checked(s.criteria) {
		k, at, ok := s.found(l, c.ID, tree)
		if c.ID != "run" && !ok {
			return fmt.Errorf("completed although belay never looked at %s on %s", c.ID, tree)
		}
		switch c.ID {
		case "intact":
			passed, failed := s.copyRuns(l, k.Mixed)
			if k.Mixed == tree && passed == 0 {
				passed = passedHere
			}
			if len(k.Findings) > 0 || passed == 0 && failed == 0 {
				return fmt.Errorf("completed with %v and %d passing runs of the old tests", k.Findings, passed)
			}
		case "bug":
			before, shown := s.copyRuns(l, k.Mixed)
			now, not := s.copyRuns(l, tree)
			if before > 0 || shown == 0 || now == 0 || not > 0 {
				return fmt.Errorf("completed with %d passing and %d failing runs before, %d and %d now", before, shown, now, not)
			}
		case "file":
			if at < began || len(k.Findings) > 0 {
				return fmt.Errorf("completed on a look at the file before this verification, or in spite of %v", k.Findings)
			}
		case "review":
			if k.Opinion != event.Pass {
				return fmt.Errorf("completed on the opinion %q", k.Opinion)
			}
		case "run":
			if passedHere < 2 || failedHere > 0 {
				return fmt.Errorf("completed on %d passing and %d failing runs, two are asked for", passedHere, failedHere)
			}
		}
	}
	return nil
}

var errStaleLook = errors.New("completed although the workspace was not looked at after the last check")
