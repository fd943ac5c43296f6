package core

import (
	"errors"
	"fmt"
	"strings"

	"belay/internal/core/approval"
	"belay/internal/core/budget"
	"belay/internal/core/children"
	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/core/plan"
	"belay/internal/event"
	"belay/internal/fault"
)

// fromPeople handles what people say. It reports whether the input was one of
// theirs.
func (w *step) fromPeople() (bool, error) {
	switch b := w.in.Body.(type) {
	case Start:
		return true, w.start(b)
	case Say:
		return true, w.say(b)
	case Approve:
		return true, w.approve(b)
	case Deny:
		return true, w.deny(b)
	case Pause:
		return true, w.pause(b)
	case Resume:
		return true, w.resume()
	case Cancel:
		return true, w.cancel(b)
	case Revise:
		return true, w.revise(b)
	case ExtendBudget:
		return true, w.extend(b)
	case ChangePolicy:
		return true, w.changePolicy(b)
	case ChangeModel:
		return true, w.changeModel(b)
	case Reconcile:
		return true, w.reconcileByUser(b)
	case Adopt:
		return true, w.adopt(b)
	case Sighted:
		return true, w.sighted(b)
	case MarkCheckpoint:
		return true, w.markCheckpoint(b)
	case Rollback:
		return true, w.rollBack(b)
	case ApplyResult:
		return true, w.applyResult(b)
	case GiveUp:
		return true, w.giveUp(b)
	case Import:
		return true, w.importGoal(b)
	case Fork:
		return true, w.fork(b)
	case RemoveWorktree:
		return true, w.removeWorktree(b)
	case Forget:
		return true, w.forget(b)
	case Delegate:
		return true, w.adoptChild(b)
	}
	return false, nil
}

func (w *step) alive() error {
	if w.s.Status.Final() {
		return fmt.Errorf("%w: it is %s", ErrFinal, w.s.Status)
	}
	return nil
}

func (w *step) start(b Start) error {
	if strings.TrimSpace(b.Spec.Text) == "" {
		return fmt.Errorf("%w: the goal has no text", ErrInput)
	}
	if err := CheckCriteria(b.Spec.Acceptance); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if err := errors.Join(CheckSettings(b.Settings), CheckLimits(b.Spec.Limits)); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if b.Worktree != nil {
		if err := CheckSetup(b.Worktree.Setup); err != nil {
			return fmt.Errorf("%w: %w", ErrInput, err)
		}
	}
	w.emit(event.GoalReceived{Version: 1, Spec: b.Spec, Settings: b.Settings, Repo: b.Repo, Parent: b.Parent,
		ParentOp: b.ParentOp, Worktree: b.Worktree, Depth: b.Depth, Share: b.Share})
	if b.Failed != nil {
		w.emitBy(event.ActorRuntime, "", event.GoalFailed{Fault: *b.Failed})
		return nil
	}
	if plan.Gate(b.Settings.Plan) == event.ModePlan || b.Settings.ReadOnly {
		w.emitBy(event.ActorRuntime, "", event.PlanModeEntered{})
	}
	return nil
}

// CheckCriteria says what is wrong with criteria, or nil. A kind that this
// version cannot judge is refused at the start: a goal must not run for hours
// towards a criterion that can only end as unknown.
func CheckCriteria(cs []event.Criterion) error {
	seen := map[string]bool{}
	for i, c := range cs {
		if c.ID == "" || seen[c.ID] {
			return fmt.Errorf("acceptance[%d].id: %q is empty or used twice", i, c.ID)
		}
		seen[c.ID] = true
		switch {
		case c.Network == "":
		case c.Network != "loopback" && c.Network != "full":
			return fmt.Errorf("acceptance[%d] (%s).network: %q is none of loopback and full", i, c.ID, c.Network)
		case c.Command == "":
			return fmt.Errorf("acceptance[%d] (%s).network: a %s criterion has no command that could reach it", i, c.ID, c.Kind)
		}
		switch c.Kind {
		case event.CriterionCommand, event.CriterionTest:
			if strings.TrimSpace(c.Command) == "" {
				return fmt.Errorf("acceptance[%d] (%s): a %s criterion needs a command", i, c.ID, c.Kind)
			}
		case event.CriterionScope:
			if len(c.Allow) == 0 && len(c.Forbid) == 0 {
				return fmt.Errorf("acceptance[%d] (%s): a scope criterion needs allow or forbid", i, c.ID)
			}
			for _, pattern := range append(append([]string(nil), c.Allow...), c.Forbid...) {
				if err := evidence.CheckPattern(pattern); err != nil {
					return fmt.Errorf("acceptance[%d] (%s): %w", i, c.ID, err)
				}
			}
		case event.CriterionManual:
			if strings.TrimSpace(c.Text) == "" {
				return fmt.Errorf("acceptance[%d] (%s): a manual criterion needs its question in text", i, c.ID)
			}
		default:
			if err := checkJudged(c); err != nil {
				return fmt.Errorf("acceptance[%d] (%s): %w", i, c.ID, err)
			}
		}
		if err := checkOptions(c); err != nil {
			return fmt.Errorf("acceptance[%d] (%s): %w", i, c.ID, err)
		}
	}
	return nil
}

// say records a message. It goes before every wait but the user's own pause:
// pending questions are answered or withdrawn by it, because the model can only
// be told once each of its calls has a result.
func (w *step) say(b Say) error {
	if err := w.alive(); err != nil {
		return err
	}
	if strings.TrimSpace(b.Text) == "" {
		return fmt.Errorf("%w: the message is empty", ErrInput)
	}
	if goOn, plain := plainAnswer(b.Text); w.answerMoved(goOn) {
		if plain {
			return nil
		}
		if b.Mode == event.Answer {
			b.Mode = event.Message // the answer is to go on with these words
		}
	}
	question, asked := w.openQuestion()
	if b.Mode == event.Answer && !asked {
		return fmt.Errorf("%w: no question is open", ErrNoQuestion)
	}
	if asked {
		// The answer travels as the call's result; no request has to take it in.
		w.emitOp(question.ID, event.UserMessage{Mode: event.Answer, Text: b.Text})
		w.emitBy(event.ActorUser, question.ID, event.OperationFinished{Tool: question.Tool, Outcome: event.Succeeded,
			Result: event.Result{Output: event.Text{Head: "The user answers: " + b.Text}}})
		w.wake()
		return nil
	}
	w.giveUpVerification("the user sent a message before it ended")
	w.dropClaim("the user sent a message instead of accepting the claim")
	w.emit(event.UserMessage{Mode: b.Mode, Text: b.Text})
	w.withdrawQuestions("the user sent a message instead of an answer")
	if p := w.s.Pause; p != nil && (p.Reason == event.PausedNoProg || p.Reason == event.PausedByHandoff) {
		w.emit(event.GoalResumed{})
	}
	w.wake()
	return nil
}

// openQuestion is the question that the user was asked. One that the model has
// put but that was not reached yet is none: what the user says meanwhile is no
// answer to it.
func (w *step) openQuestion() (operation.Op, bool) {
	if line := w.s.inLine(); len(line) > 0 && line[0].ID == w.s.Asked {
		return line[0], true
	}
	return operation.Op{}, false
}

func (w *step) withdrawQuestions(why string) {
	for _, p := range append([]approval.Pending(nil), w.s.Approvals.Pending...) {
		w.emitBy(event.ActorRuntime, p.Op, event.OperationRejected{Outcome: event.Cancelled,
			Fault: *fault.New(fault.Cancelled, fault.User, why, "propose it again if it is still right")})
	}
}

// wake ends a wait that the input has made obsolete.
func (w *step) wake() {
	if wt := w.s.Wait; wt != nil && wt.Reason != event.WaitRetry {
		w.emit(event.GoalWoken{Reason: wt.Reason})
	}
}

func (w *step) approve(b Approve) error {
	if err := w.alive(); err != nil {
		return err
	}
	if b.Op == "" && b.Criterion == "" && b.Intent == "" && w.answerMoved(true) {
		return nil
	}
	if b.Criterion != "" || b.Intent == "" && len(w.s.Approvals.Pending) == 0 {
		return w.answerCriterion(b.Op, b.Criterion, true, "")
	}
	p, err := w.pending(b.Op, b.Intent)
	if err != nil {
		return err
	}
	w.grant(p, w.in.By)
	w.wakeIfAnswered()
	return nil
}

func (w *step) grant(p approval.Pending, by event.Actor) {
	w.emitBy(by, p.Op, event.ApprovalGranted{Tool: p.Tool, Intent: p.Intent.Hash, By: by})
}

func (w *step) wakeIfAnswered() {
	if len(w.s.Approvals.Pending) == 0 {
		w.wake()
	}
}

func (w *step) pending(op, intent string) (approval.Pending, error) {
	ps := w.s.Approvals.Pending
	if len(ps) == 0 {
		return approval.Pending{}, w.answered(op)
	}
	if op == "" {
		if len(ps) > 1 {
			return approval.Pending{}, fmt.Errorf("%w: name the operation (%s)", ErrAmbiguous, opList(ps))
		}
		op = ps[0].Op
	}
	p, ok := w.s.Approvals.Find(op)
	if !ok {
		return p, fmt.Errorf("%w: %s waits for no approval (pending: %s)", ErrNoQuestion, op, opList(ps))
	}
	if intent != "" && intent != p.Intent.Hash {
		return p, fmt.Errorf("%w: look at %s again", ErrChanged, op)
	}
	return p, nil
}

func opList(ps []approval.Pending) string {
	var ids []string
	for _, p := range ps {
		ids = append(ids, p.Op)
	}
	return strings.Join(ids, ", ")
}

func (w *step) deny(b Deny) error {
	if err := w.alive(); err != nil {
		return err
	}
	if b.Op == "" && b.Criterion == "" && b.Intent == "" && w.answerMoved(false) {
		return nil
	}
	if b.Criterion != "" || b.Intent == "" && len(w.s.Approvals.Pending) == 0 {
		return w.answerCriterion(b.Op, b.Criterion, false, b.Reason)
	}
	p, err := w.pending(b.Op, b.Intent)
	if err != nil {
		return err
	}
	w.emitBy(w.in.By, p.Op, event.ApprovalDenied{Tool: p.Tool, Intent: p.Intent.Hash, By: w.in.By, Reason: b.Reason})
	w.wakeIfAnswered()
	return nil
}

// answerCriterion records a person's word on a manual criterion, or on a claim
// that nothing can check (criterion "").
func (w *step) answerCriterion(op, id string, yes bool, reason string) error {
	if op != "" {
		return w.answered(op)
	}
	if len(w.s.Approvals.Pending) > 0 {
		return fmt.Errorf("%w: no criterion waits for an answer (pending: %s)", ErrNoQuestion, opList(w.s.Approvals.Pending))
	}
	if w.s.Claim == nil || !w.s.Claim.Asked {
		return fmt.Errorf("%w: no approval and no claim waits for an answer; what was asked has been answered or withdrawn", ErrNoQuestion)
	}
	id, err := w.criterion(id)
	if err != nil {
		return err
	}
	w.emit(event.CriterionAnswered{Criterion: id, Accepted: yes, Tree: w.s.Revision.Tree, Reason: reason})
	if len(w.s.unanswered()) == 0 || !yes {
		w.wake()
	}
	return nil
}

// criterion is the one that an answer is for. Until the claim is judged, an
// answer may be taken back: the last word counts.
func (w *step) criterion(id string) (string, error) {
	if len(w.s.Criteria()) == 0 && id == "" {
		return "", nil
	}
	ids := w.s.unanswered()
	if len(ids) == 0 || id != "" {
		ids = nil
		for _, c := range w.s.Criteria() {
			if c.Kind == event.CriterionManual && (id == "" || c.ID == id) {
				ids = append(ids, c.ID)
			}
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("%w: criterion %q waits for no answer", ErrNoQuestion, id)
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%w: name the criterion (%s)", ErrAmbiguous, strings.Join(ids, ", "))
}

// answered is what a person is told who answers an operation that asks
// nothing (any more): the first answer counts.
func (w *step) answered(op string) error {
	if o, ok := w.s.Find(op); ok && o.Phase == operation.Approved {
		return fmt.Errorf("%w: %s has been answered already: it is approved", ErrNoQuestion, op)
	}
	return fmt.Errorf("%w: %s waits for no approval; if it asked, it has been answered or withdrawn", ErrNoQuestion, op)
}

// unanswered are the manual criteria without an answer for the present tree.
func (s State) unanswered() []string {
	var ids []string
	for _, c := range s.Criteria() {
		if c.Kind != event.CriterionManual {
			continue
		}
		if a, ok := s.Answers[c.ID]; !ok || a.Tree != s.Revision.Tree {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func contains(s []string, v string) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

func (w *step) pause(b Pause) error {
	if err := w.alive(); err != nil {
		return err
	}
	if w.s.Status == lifecycle.Paused {
		return fmt.Errorf("%w: the goal is paused already (%s)", ErrState, w.s.Pause.Reason)
	}
	w.giveUpVerification("the user paused the goal before it ended")
	w.emit(event.GoalPaused{Reason: event.PausedByUser, Detail: b.Detail})
	return nil
}

func (w *step) resume() error {
	if err := w.alive(); err != nil {
		return err
	}
	if w.s.Status != lifecycle.Paused {
		return fmt.Errorf("%w: the goal is %s, not paused", ErrState, w.s.Status)
	}
	if w.s.Pause.Reason == event.PausedBudget {
		if d := w.s.Budget.Short(event.Amount{Steps: 1}, w.in.Now); d != "" {
			return fmt.Errorf("%w: the budget of %s is exhausted; extend it first", ErrState, d)
		}
	}
	w.emit(event.GoalResumed{})
	return nil
}

// cancel closes everything that has not started in the same commit. What runs
// is stopped by the holder, or by the next worker, and recorded after it.
func (w *step) cancel(b Cancel) error {
	if err := w.alive(); err != nil {
		return err
	}
	w.giveUpVerification("the user cancelled the goal before it ended")
	w.emit(event.GoalCancelled{Reason: b.Reason})
	w.closeUnstarted(event.Cancelled, fault.New(fault.Cancelled, fault.User, "the goal was cancelled", ""))
	return nil
}

func (w *step) closeUnstarted(outcome event.Outcome, f *fault.Fault) {
	for _, o := range append([]operation.Op(nil), w.s.Open...) {
		if o.Phase != operation.Started && !w.s.delegated(o) {
			w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: outcome, Fault: *f})
		}
	}
}

func (w *step) revise(b Revise) error {
	if err := w.alive(); err != nil {
		return err
	}
	if strings.TrimSpace(b.Spec.Text) == "" {
		return fmt.Errorf("%w: the goal has no text", ErrInput)
	}
	if err := CheckCriteria(b.Spec.Acceptance); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	b.Spec.Limits = w.s.Budget.Limits // money is a question of its own: ExtendBudget
	w.giveUpVerification("the goal was revised before it ended")
	w.dropClaim("the goal was revised; the new version counts")
	w.emit(event.GoalRevised{Version: w.s.Version + 1, Spec: b.Spec})
	w.withdrawQuestions("the goal was revised")
	w.wake()
	return nil
}

// dropClaim closes the operation of an open claim without a verdict. A claim
// made by a text has no operation; the event that follows drops it.
func (w *step) dropClaim(why string) {
	if c := w.s.Claim; c != nil && c.Op != "" {
		w.emitBy(event.ActorRuntime, c.Op, event.OperationRejected{Outcome: event.Cancelled,
			Fault: *fault.New(fault.Cancelled, fault.User, why, "go on with the goal")})
	}
}

func (w *step) extend(b ExtendBudget) error {
	if err := w.alive(); err != nil {
		return err
	}
	if err := CheckLimits(b.Limits); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if d := w.s.Children.Unbounded(b.Limits); d != "" {
		return fmt.Errorf("%w: a child goal is open that has no limit of %s; wait for its end, or cancel it", ErrInput, d)
	}
	if d := children.Within(b.Limits, w.s.Share); d != "" && w.s.ParentOp != "" {
		return fmt.Errorf("%w: the budget of %s is the share that goal %s gave; it cannot be more", ErrInput, d, w.s.Parent)
	}
	after := w.s.Budget.Clone()
	after.Limits = b.Limits
	if d := after.Short(event.Amount{}, w.in.Now); d != "" || over(after) {
		return fmt.Errorf("%w: more than that is used or reserved already", ErrInput)
	}
	w.emit(event.BudgetExtended{Limits: b.Limits})
	if p := w.s.Pause; p != nil && p.Reason == event.PausedBudget && w.s.Budget.Short(event.Amount{Steps: 1}, w.in.Now) == "" {
		w.emit(event.GoalResumed{})
	}
	return nil
}

// over reports whether what is used and reserved exceeds a limit.
func over(b budget.Ledger) bool {
	gone, l := budget.Add(b.Used, b.Held()), b.Limits
	above := func(n, limit int64) bool { return limit > 0 && n > limit }
	return above(gone.Turns, l.Turns) || above(gone.Steps, l.Steps) || above(gone.Tokens, l.Tokens) ||
		above(gone.CostMicros, l.CostMicros) || above(gone.ToolMS, l.ToolMS)
}

func (w *step) reconcileByUser(b Reconcile) error {
	o, ok := w.s.Find(b.Op)
	if !ok || o.Outcome != event.OutcomeUnknown {
		return fmt.Errorf("%w: %s is not in doubt", ErrNoQuestion, b.Op)
	}
	if b.Retry && w.s.Status.Final() {
		return w.alive()
	}
	if !b.Retry && b.Outcome != event.Succeeded && b.Outcome != event.Failed {
		return fmt.Errorf("%w: settle %s as succeeded or failed, or have it run again", ErrInput, b.Op)
	}
	w.emitOp(b.Op, event.OperationReconciled{Outcome: b.Outcome, Retry: b.Retry, By: w.in.By, Reason: b.Reason})
	w.wake()
	return nil
}

func (w *step) sighted(b Sighted) error {
	if !w.reconcileBySight(b.Found) {
		return fmt.Errorf("%w: %s is not in doubt", ErrNoQuestion, b.Found.Op)
	}
	w.wake()
	return nil
}

// reconcileBySight settles an unknown outcome by what was seen. It opens and
// runs nothing: what never happened is settled as failed, and is then allowed
// to be proposed anew. It reports whether there was a doubt to settle.
func (w *step) reconcileBySight(r event.Reconciliation) bool {
	if _, ok := w.s.Doubt(r.Op); !ok || r.Outcome != event.Succeeded && r.Outcome != event.Failed {
		return false
	}
	w.emitBy(event.ActorRuntime, r.Op, event.OperationReconciled{Outcome: r.Outcome, By: event.ActorRuntime, Reason: r.Reason, Result: r.Result()})
	return true
}
