package core

import (
	"fmt"

	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

func (s *State) addEvidence(e event.Event, p event.TestCompleted) {
	s.observed()
	r := evidence.Record{Op: e.Op, Seq: e.Seq, Command: p.Command, Dir: p.Dir, Test: p.Test, ExitCode: p.ExitCode,
		TimedOut: p.TimedOut, Counts: p.Counts, Tree: p.TreeBefore, Moved: p.TreeBefore != p.TreeAfter,
		Broken: evidence.Broken(p.Counts), Tools: toolsOf(p.Environment)}
	if p.Criterion == "" {
		s.Way.Tested(r.Command, fmt.Sprint(r.ExitCode, r.TimedOut, r.Counts, p.Signature), r.Tree, r.TestPass() || !r.Test && r.Clean())
	}
	if r.Moved || r.TimedOut {
		s.giveUp(evidence.Need{What: evidence.Rerun, Criterion: p.Criterion, Command: p.Command}, "it does not end, or changes the workspace")
	}
	if r.Tree != s.BaselineTree() {
		r.Counts.Failing = nil // only the names that failed at the start are asked for later
	}
	s.Evidence = s.Evidence.Add(r)
	if p.Test && !r.TestPass() {
		s.Failures = appendCapped(s.Failures, TestFailure{Op: e.Op, Seq: e.Seq, Command: p.Command, ExitCode: p.ExitCode,
			Failing: p.Counts.Failing, Signature: p.Signature, Tail: p.Tail, Tree: p.TreeAfter}, maxFailures)
	}
}

func (s *State) applyVerification(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.CompletionClaimed:
		if p.ByText && len(s.Inbox) > 0 {
			break // the user has said something meanwhile: it goes first
		}
		s.Claim = &Claim{Op: e.Op, Event: e.ID, Summary: p.Summary}
		if s.ParentOp != "" {
			s.Report = p.Summary
		}
	case event.VerificationStarted:
		s.Verifications++
		s.Verification = &Verification{ID: p.Verification, Event: e.ID, Version: p.Version, Fence: e.Fence}
		s.Fresh = false
	case event.VerificationFinished:
		s.applyVerdict(e, p)
	case event.LateFact:
		s.Stale = nil // it is on record
	case event.CriterionAnswered:
		s.Answers[p.Criterion] = evidence.Answer{Accepted: p.Accepted, Tree: p.Tree, Reason: p.Reason, By: string(e.Actor)}
	default:
		return false
	}
	return true
}

func (s *State) applyVerdict(e event.Event, p event.VerificationFinished) {
	v := s.Verification
	if p.Refused != "" {
		s.refused(p)
		return
	}
	if v == nil || v.ID != p.Verification || v.Version != p.Version || s.Status != lifecycle.Verifying {
		s.refuse(e, "is the verdict of no running verification")
		return
	}
	verdict := p.Verdict
	s.Verdict, s.Verification = &verdict, nil
	if verdict.Verdict == event.Complete {
		return // goal_completed follows in the same commit
	}
	s.Status = lifecycle.Active
	if p.NeedsPerson {
		return
	}
	s.Strikes++
	if s.Claim != nil && s.Claim.Op == "" {
		s.Claim = nil // a claim by finish ends with its operation
	}
}
