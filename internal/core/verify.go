package core

import (
	"fmt"
	"strings"

	"belay/internal/core/evidence"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool/control"
)

// finishClaim turns the operation finish into a claim. It stays open until the
// verdict answers it.
func (w *step) finishClaim(o operation.Op) bool {
	if len(w.s.Inbox) > 0 {
		return w.userFirst(o)
	}
	a, err := control.DecodeFinish(o.Args)
	if err != nil {
		w.reject(o, argumentFault(err))
		return true
	}
	w.emitBy(event.ActorModel, o.ID, event.CompletionClaimed{Summary: clip(a.Summary, w.s.reportCap())})
	return true
}

// userFirst withdraws an operation that would make the goal wait for the user,
// who has said something that the model has not seen yet.
func (w *step) userFirst(o operation.Op) bool {
	w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: event.Cancelled,
		Fault: *fault.New(fault.Cancelled, fault.User, "the user has sent a message that you have not seen yet", "read it and go on")})
	return w.nextTurn("a user message waits")
}

// advanceClaim sends an open claim to verification, or lets it wait for the
// person it needs.
func (w *step) advanceClaim() bool {
	s := &w.s
	if s.Claim.Asked && w.needsPerson() {
		w.waitForPerson()
		return false
	}
	var ids []string
	for _, c := range s.Criteria() {
		ids = append(ids, c.ID)
	}
	w.emitBy(event.ActorRuntime, s.Claim.Op, event.VerificationStarted{
		Verification: fmt.Sprintf("v%d", s.Verifications+1), Version: s.Version, Criteria: ids})
	return true
}

// needsPerson reports whether the claim still lacks an answer for the tree it
// would be judged on.
func (w *step) needsPerson() bool {
	if len(w.s.Criteria()) == 0 {
		a, ok := w.s.Answers[""]
		return !ok || a.Tree != w.s.Revision.Tree
	}
	for _, c := range w.s.Criteria() {
		if a, ok := w.s.Answers[c.ID]; ok && c.Kind == event.CriterionManual && !a.Accepted && a.Tree == w.s.Revision.Tree {
			return false // one refusal answers the claim
		}
	}
	return len(w.s.unanswered()) > 0
}

func (w *step) waitForPerson() {
	detail := "nothing can check this claim: accept it with belay approve, or say what is missing"
	if open := w.s.unanswered(); len(open) > 0 {
		var qs []string
		for _, c := range w.s.Criteria() {
			if contains(open, c.ID) {
				qs = append(qs, c.ID+": "+c.Text)
			}
		}
		detail = strings.Join(qs, "; ")
	}
	w.emitBy(event.ActorRuntime, "", event.GoalWaiting{Reason: event.WaitUserInput, Detail: detail})
	w.endTurn(event.StopNeedsUser, detail)
}

// Judgement is how the criteria stand on the tree that was last observed. It
// is shown at all times; it completes nothing.
func (s State) Judgement() event.Verdict {
	cs := s.Criteria()
	v := evidence.Conclude(cs, s.world())
	if len(cs) == 0 {
		s.judgeBare(&v)
	}
	for _, o := range s.InDoubt {
		v.Missing = append(v.Missing, fmt.Sprintf("%s (%s) started and its outcome is unknown; settle it first", o.ID, o.Tool))
		v.Verdict = event.Incomplete
	}
	return v
}

// judgeBare judges a claim that no criterion can check: only a person's word,
// given for this tree or beforehand, accepts it.
func (s State) judgeBare(v *event.Verdict) {
	a, ok := s.Answers[""]
	switch {
	case ok && a.Tree == s.Revision.Tree && a.Accepted:
	case ok && a.Tree == s.Revision.Tree:
		v.Verdict, v.Missing = event.Incomplete, []string{"the user did not accept the claim: " + a.Reason}
	case s.Settings.AcceptUnverified:
	default:
		v.Verdict, v.Missing = event.VerdictUnknown, []string{"nothing can check this claim; it waits for the user"}
	}
}

func (s State) how() event.CompletedHow {
	if len(s.Criteria()) > 0 {
		return evidence.How(s.Criteria())
	}
	if a, ok := s.Answers[""]; ok && a.Accepted && a.Tree == s.Revision.Tree {
		return event.Attested
	}
	return event.AcceptedUnverified
}

// world is what criteria are judged by.
func (s State) world() evidence.World {
	w := evidence.World{Tree: s.Revision.Tree, Shelf: s.Evidence, Changes: s.Diff.Changes, More: s.Diff.More, Answers: s.Answers,
		Baseline: s.BaselineTree(), Test: s.testCommand(), Checks: s.Checks}
	if v := s.Verification; v != nil {
		w.Verification, w.GivenUp = v.ID, v.GivenUp
	}
	return w
}

// verdict judges the claim on the tree that was just observed and acts on it.
func (w *step) verdict() {
	s := &w.s
	claim, v := *s.Claim, s.Judgement()
	person := v.Verdict == event.VerdictUnknown && w.needsPerson() && onlyManual(s.Criteria(), v)
	w.emitBy(event.ActorRuntime, claim.Op, event.VerificationFinished{Verification: s.Verification.ID, Version: s.Version,
		Verdict: v, NeedsPerson: person})
	switch {
	case v.Verdict == event.Complete:
		w.complete(claim, v)
	case person:
		w.waitForPerson()
	default:
		w.refuseClaim(claim, v)
	}
}

// onlyManual reports whether nothing but a person's word is missing.
func onlyManual(cs []event.Criterion, v event.Verdict) bool {
	for i, c := range cs {
		if c.Kind != event.CriterionManual && v.Criteria[i].Result != event.Pass {
			return false
		}
	}
	return true
}

func (w *step) complete(claim Claim, v event.Verdict) {
	how := w.s.how()
	if claim.Op != "" {
		if o, ok := w.s.Find(claim.Op); ok {
			w.answer(o, "The claim is accepted: "+string(how)+".")
		}
	}
	w.closeUnstarted(event.Cancelled, fault.New(fault.Cancelled, fault.Runtime, "the goal was completed before this began", ""))
	w.emitBy(event.ActorRuntime, "", event.GoalCompleted{How: how, Verdict: v, Version: w.s.Version})
	if !w.s.owesParent() {
		w.endTurn(event.StopFinished, string(how))
	}
}

// refuseClaim tells the model what is missing. Several refused claims with no
// work between them hand the goal off.
func (w *step) refuseClaim(claim Claim, v event.Verdict) {
	if claim.Op != "" {
		if o, ok := w.s.Find(claim.Op); ok {
			w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: event.Rejected, Fault: *ClaimFault(v)})
		}
	}
	if len(w.s.InDoubt) > 0 && allPass(v) {
		w.waitForSettling()
		return
	}
	if w.s.Strikes >= refusedClaims(w.s.Settings) {
		f := ClaimFault(v)
		w.emitBy(event.ActorRuntime, "", event.ProgressAlarm{Signal: "refused_claims", Count: w.s.Strikes, Detail: f.Message})
		w.handOff(fmt.Sprintf("the model claimed to be done %d times without evidence: %s", w.s.Strikes, f.Message), f, event.PausedNoProg, event.StopNoProgress)
	}
}

func allPass(v event.Verdict) bool {
	for _, c := range v.Criteria {
		if c.Result != event.Pass {
			return false
		}
	}
	return true
}

// waitForSettling waits for the person who can say what became of operations
// in doubt, when nothing else stands against the claim: the model can do no
// more about it, and would claim and test in turns for as long as its budget
// lasts.
func (w *step) waitForSettling() {
	var ids []string
	for _, o := range w.s.InDoubt {
		ids = append(ids, o.ID+" ("+o.Tool+")")
	}
	detail := "the outcome of " + strings.Join(ids, ", ") + " is unknown: look at its effects and settle it with belay reconcile"
	w.emitBy(event.ActorRuntime, "", event.GoalWaiting{Reason: event.WaitUserInput, Detail: detail})
	w.endTurn(event.StopNeedsUser, detail)
}

// ClaimFault says in words why a claim was not accepted.
func ClaimFault(v event.Verdict) *fault.Fault {
	return fault.New(fault.Unverified, fault.Model, "the claim is not accepted: "+strings.Join(v.Missing, "; "),
		"produce what is missing on the repository as it is now (run_test), then claim again")
}
