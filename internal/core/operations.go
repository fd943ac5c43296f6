package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/core/plan"
	"belay/internal/core/progress"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/policy"
	"belay/internal/tool/control"
)

const (
	forbid = progress.Forbid
	giveUp = progress.HandOff
)

func judgeProgress(n, threshold int64) progress.Verdict { return progress.Judge(n, threshold) }

// propose records one tool call and closes it at once when a guard refuses it.
func (w *step) propose(p Proposal, response event.Event, index int) {
	op := fmt.Sprintf("op%d", w.s.Ops+1)
	request := response.Payload.(event.ModelResponded).Request
	args := p.Args
	if !json.Valid(args) {
		args = json.RawMessage("{}") // the text as written stands in the response
	}
	w.emitBy(event.ActorModel, op, event.OperationProposed{Tool: p.Tool, Effect: p.Effect, CallID: p.CallID,
		Request: request, Arguments: args, Access: p.Access})
	o, _ := w.s.Find(op)
	if f := w.guard(o, p.Fault, index); f != nil {
		w.reject(o, f)
	}
}

// guard says why an operation may not even be considered, or nil. The order is
// schema, doubt, repetition, plan gate, policy.
func (w *step) guard(o operation.Op, invalid *fault.Fault, index int) *fault.Fault {
	switch {
	case invalid != nil:
		return invalid
	case index >= MaxCallsPerResponse:
		return fault.New(fault.TooLarge, fault.Model, fmt.Sprintf("only %d tool calls are taken from one response", MaxCallsPerResponse), "propose the rest again")
	}
	if o.Effect == event.Control {
		return nil
	}
	if sig, no := w.s.Progress.Forbidden[o.ArgsHash]; no && !o.Own() {
		f := fault.New(fault.Forbidden, fault.Model, "this action has failed in the same way too often and is refused until the repository changes", "change the strategy")
		f.Signature = sig
		return f
	}
	if o.Effect.SideEffect() {
		for _, d := range w.s.InDoubt {
			if sameAction(d, o) {
				return fault.New(fault.InDoubt, fault.Runtime,
					fmt.Sprintf("the same action (%s) started before and its outcome is unknown; it is not run again until that is settled", d.ID),
					"look at its effects with check_operation and read tools; a person settles it with belay reconcile")
			}
		}
		for _, x := range w.s.Open {
			if x.ID != o.ID && x.ArgsHash == o.ArgsHash && x.Effect.SideEffect() {
				f := fault.New(fault.AlreadyExists, fault.Model, fmt.Sprintf("the same action is open as %s; its result answers this call too", x.ID), "")
				f.Signature = "" // that it was asked for twice is no failure of the action
				return f
			}
		}
	}
	v := w.judge(o)
	if w.s.Mode == event.ModePlan && o.Effect.SideEffect() && o.Setup == 0 && !readerOnly(w.s, o, v) {
		if w.s.Settings.ReadOnly {
			return fault.New(fault.PlanGate, fault.Model, "this goal only looks: it may change nothing", "report what you found with finish")
		}
		return fault.New(fault.PlanGate, fault.Model, "the repository is read-only until a plan is recorded and approved", "record a plan with update_plan; until it is approved, only look")
	}
	if v.Decision == policy.Deny {
		return fault.New(fault.PolicyDenied, fault.Model, v.Reason, "do it in another way, or ask the user")
	}
	return nil
}

// sameAction reports whether two operations would do the same: equal arguments
// of one tool, or one command in one directory whatever tool runs it.
func sameAction(a, b operation.Op) bool {
	return a.ArgsHash == b.ArgsHash ||
		a.Access.Command != "" && evidence.Same(a.Access.Command, b.Access.Command) && a.Access.Dir == b.Access.Dir
}

// readerOnly reports whether a command may run while the plan gate is closed:
// policy knows every part of it as a reader.
func readerOnly(s State, o operation.Op, v policy.Verdict) bool {
	if o.Effect != event.Supervised || o.Access.Test || v.Decision != policy.Allow || len(v.Writes) > 0 {
		return false
	}
	for _, c := range s.TestCommands() {
		if strings.TrimSpace(c) == strings.TrimSpace(o.Access.Command) {
			return false
		}
	}
	return !v.Network
}

func (w *step) judge(o operation.Op) policy.Verdict { return w.s.judge(o) }

func (s State) judge(o operation.Op) policy.Verdict {
	c := s.Policy()
	if o.Setup > 0 {
		// The user gave this very text: it is judged as a test command of the goal
		// is. The model may not run it for that.
		c.TestCommands = []string{o.Access.Command}
	}
	return policy.Judge(c, o.Tool, o.Effect, o.Access)
}

func (w *step) reject(o operation.Op, f *fault.Fault) {
	w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: event.Rejected, Fault: *f})
	if !o.Own() {
		w.judgeCount(o.Tool, o.ArgsHash, f, w.s.Progress.Count(o.ArgsHash, f.Signature))
	}
}

// prepared decides on an operation with side effects, now that what it would
// do is known.
func (w *step) prepared(b Prepared) {
	line := w.s.line()
	if !w.holder() || w.s.Turn == nil || w.s.Status != lifecycle.Active && w.s.Status != lifecycle.Verifying || len(line) == 0 || line[0].ID != b.Op {
		return
	}
	o := line[0]
	if !o.Effect.SideEffect() || o.Phase != operation.Proposed && o.Phase != operation.Approved {
		return
	}
	if b.Observation.Tree != "" {
		w.noteObservation(b.Observation, "external")
	}
	if w.s.Moved != nil {
		return // a person is asked first
	}
	if w.s.outdated() {
		return // the workspace was edited: what is verified is another tree
	}
	if o.Tool == ToolCheckReview {
		w.startReview(o, b)
		return
	}
	if b.Fault != nil {
		w.reject(o, b.Fault)
		return
	}
	if o.Tool == ToolApplyChild {
		for _, f := range b.Files { // only now is known what it is going to write
			o.Access.Writes = append(o.Access.Writes, f.Path)
		}
	}
	if f := w.guard(o, nil, 0); f != nil {
		w.reject(o, f)
		return
	}
	v := w.judge(o)
	intent := event.Intent{Files: b.Files, Preview: b.Preview, Key: b.Key, Destructive: b.Destructive || v.Destructive, Network: v.Scope}
	b.Action.Network = v.Scope
	intent.Hash = intentHash(o, b)
	if why, denied := w.s.Approvals.WasDenied(intent.Hash); denied {
		w.reject(o, fault.New(fault.UserDenied, fault.User, "this exact action was denied before: "+why, "do something else, or ask the user"))
		return
	}
	if v.Decision == policy.Allow && !b.Destructive || o.Phase == operation.Approved && o.Intent.Hash == intent.Hash {
		w.startOp(o, intent, v, b)
		return
	}
	w.ask(o, intent, v, b)
}

func intentHash(o operation.Op, b Prepared) string {
	return hashJSON(struct {
		Tool   string            `json:"tool"`
		Args   json.RawMessage   `json:"args"`
		Action Action            `json:"action"`
		Files  []event.FilePrint `json:"files"`
	}{o.Tool, semantic(o.Args), b.Action, b.Files})
}

// ask puts the question that policy wants answered, or answers it at once when
// the user did so beforehand for this goal.
func (w *step) ask(o operation.Op, intent event.Intent, v policy.Verdict, b Prepared) {
	var why []string
	for _, p := range v.Parts {
		if p.Decision != policy.Allow {
			why = append(why, p.Reason)
		}
	}
	if len(why) == 0 && v.Reason != "" {
		why = []string{v.Reason}
	}
	w.emitBy(event.ActorPolicy, o.ID, event.ApprovalRequested{Tool: o.Tool, Intent: intent, Access: o.Access, Why: why,
		Renewed: o.Phase == operation.Approved})
	switch w.s.Settings.Approve {
	case event.ApproveAuto:
		w.emitBy(event.ActorPolicy, o.ID, event.ApprovalGranted{Tool: o.Tool, Intent: intent.Hash, By: event.ActorPolicy})
		granted, _ := w.s.Find(o.ID)
		w.startOp(granted, intent, v, b)
	case event.ApproveNever:
		w.emitBy(event.ActorPolicy, o.ID, event.ApprovalDenied{Tool: o.Tool, Intent: intent.Hash, By: event.ActorPolicy,
			Reason: "nobody is there to approve it (--approve never)"})
	default:
		w.commit() // a person will be told
	}
}

// startOp makes the intent durable; the effect begins after the commit.
func (w *step) startOp(o operation.Op, intent event.Intent, v policy.Verdict, b Prepared) {
	deadline := b.TimeoutMS
	if deadline > 0 {
		left := w.s.Budget.Left().ToolMS
		if left == 0 {
			w.exhausted("tool seconds")
			return
		}
		deadline = min(deadline, left)
	}
	w.checkpointBefore(o, intent.Destructive, v)
	w.emitOp(o.ID, event.OperationStarted{Attempt: o.Attempt + 1, Intent: intent, Tree: w.s.Revision.Tree, DeadlineMS: deadline,
		Place: w.s.Holder.Place})
	w.commit()
}

// noteObservation records that the tree or what is staged changed, and the new
// diff.
func (w *step) noteObservation(o Observation, by string) {
	w.noteStanding(o.Git, by)
	if o.Index != "" && o.Index != w.s.Index {
		w.emitBy(event.ActorRuntime, opOf(by), event.IndexChanged{From: w.s.Index, Index: o.Index, By: by})
	}
	if o.Tree == w.s.Revision.Tree {
		return
	}
	rev := event.Revision{N: w.s.Revision.N + 1, Tree: o.Tree}
	w.emitBy(event.ActorRuntime, opOf(by), event.RepoStateMutated{From: w.s.Revision.Tree, Revision: rev, Changes: o.Changes, More: o.More, By: by})
	w.emitBy(event.ActorRuntime, opOf(by), event.DiffUpdated{Revision: rev, Diff: o.Diff, Changes: o.DiffChanges, More: o.DiffMore})
	w.noteInstructions(o.Instructions, by)
	w.captured(event.DepthLight, o.Environment)
}

func opOf(by string) string {
	if by == "external" {
		return ""
	}
	return by
}

// observed takes in the present tree: what changed it, what it is evidence
// for, and, during a verification, the verdict.
func (w *step) observed(b Observed) {
	if !w.holder() || w.s.Workspace == nil {
		w.lateVerdict(b.Observation.Tree)
		return
	}
	by, run := "external", w.s.UnseenRun
	if w.s.Unseen != "" {
		by = w.s.Unseen
	}
	needed := w.s.looking()
	w.noteObservation(b.Observation, by)
	if w.s.wantsDeep() {
		w.captured(event.DepthDeep, b.Symbols)
	}
	switch {
	case run != nil && w.worthKeeping(*run):
		w.emitBy(event.ActorRuntime, run.Op, testCompleted(*run, b.Observation.Tree))
	case needed && w.s.looking():
		w.emitBy(event.ActorRuntime, opOf(by), event.WorkspaceObserved{Tree: b.Observation.Tree, After: opOf(by)})
	}
}

// worthKeeping reports whether a command's result is evidence: it is a test,
// or one of the goal's criteria asks for it.
func (w *step) worthKeeping(r PendingRun) bool {
	if r.Access.Test || r.Counts.Runner != "" {
		return true
	}
	for _, c := range w.s.Criteria() {
		if c.Command != "" && strings.TrimSpace(c.Command) == strings.TrimSpace(r.Access.Command) {
			return true
		}
	}
	return false
}

func testCompleted(r PendingRun, after string) event.TestCompleted {
	return event.TestCompleted{Command: r.Access.Command, Dir: r.Access.Dir, ExitCode: exitOf(r.Command),
		TimedOut: r.Command.TimedOut, Counts: r.Counts, Test: r.Access.Test || r.Counts.Runner != "",
		TreeBefore: r.Tree, TreeAfter: after, Log: r.Command.Output, Signature: r.Fault, Tail: r.Tail,
		Criterion: r.Criterion, Environment: r.Environment}
}

// looking reports whether the workspace has to be observed before the goal can
// go on: an effect has not been seen, the turn has just begun, or a
// verification needs the tree of now.
func (s State) looking() bool {
	return s.Workspace != nil && !s.AnyStarted() && (s.Unseen != "" || !s.Fresh)
}

// control answers a control tool at the head of the line.
func (w *step) control(o operation.Op) bool {
	switch o.Tool {
	case ToolUpdatePlan:
		return w.updatePlan(o)
	case ToolUpdateTodos:
		w.updateTodos(o)
	case ToolRecordDecision:
		w.recordDecision(o)
	case ToolAskUser:
		q, err := control.DecodeQuestion(o.Args)
		if err != nil {
			w.reject(o, argumentFault(err))
			return true
		}
		if len(w.s.Inbox) > 0 {
			return w.userFirst(o)
		}
		w.emitBy(event.ActorRuntime, o.ID, event.GoalWaiting{Reason: event.WaitUserInput, Detail: clip(q.Question, headText)})
		w.endTurn(event.StopNeedsUser, o.ID)
		return false
	case ToolFinish:
		return w.finishClaim(o)
	case ToolDelegate:
		return w.delegate(o)
	default:
		w.reject(o, fault.New(fault.UnknownTool, fault.Model, "no such tool: "+o.Tool, ""))
	}
	return true
}

// argumentFault is what the model is told of arguments that do not fit.
func argumentFault(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return fault.New(fault.InvalidArguments, fault.Model, err.Error(), "mend the named field")
}

// knownOp reports whether an op_id was ever given out in this goal.
func (w *step) knownOp(id string) bool {
	var n int
	if _, err := fmt.Sscanf(id, "op%d", &n); err != nil || fmt.Sprintf("op%d", n) != id {
		return false
	}
	return n >= 1 && n <= w.s.Ops
}

func (w *step) answer(o operation.Op, text string) {
	w.emitBy(event.ActorRuntime, o.ID, event.OperationFinished{Tool: o.Tool, Outcome: event.Succeeded,
		Result: event.Result{Output: event.Text{Head: text}}})
}

// updatePlan records a plan and, while the gate is closed, has it approved.
func (w *step) updatePlan(o operation.Op) bool {
	if o.Phase == operation.Approved {
		w.openGate(o, event.ActorUser)
		return true
	}
	p, err := control.DecodePlan(o.Args)
	if err == nil {
		err = plan.CheckPlan(p)
	}
	if err == nil {
		err = w.checkProposed(p)
	}
	if err != nil {
		w.reject(o, argumentFault(err))
		return true
	}
	h := hashJSON(p)
	if why, denied := w.s.Approvals.WasDenied(h); denied {
		w.reject(o, fault.New(fault.UserDenied, fault.User, "this plan was denied before: "+why, "make another plan"))
		return true
	}
	w.emitBy(event.ActorModel, o.ID, event.PlanUpdated{Plan: p, Hash: h})
	if w.s.Settings.ReadOnly {
		w.answer(o, "The plan is recorded. This goal only looks: the repository stays read-only.")
		return true
	}
	if w.s.Mode != event.ModePlan && len(w.unconfirmed()) == 0 {
		w.answer(o, "The plan is updated.")
		return true
	}
	p.Criteria = w.unconfirmed()
	switch plan.Approver(w.s.Settings.Plan, w.s.Settings.Approve, p) {
	case plan.ByPolicy:
		w.openGate(o, event.ActorPolicy)
	case plan.Denied:
		w.reject(o, fault.New(fault.UserDenied, fault.User, "nobody is there to approve the plan (--approve never)", "declare a small scope, or end with what you found"))
	default:
		w.emitBy(event.ActorPolicy, o.ID, event.ApprovalRequested{Tool: o.Tool, Intent: event.Intent{Hash: h,
			Preview: event.Text{Head: PlanText(p)}}, Why: w.whyPlan(p)})
		w.commit()
	}
	return true
}

// openGate carries out an approved plan: its criteria are confirmed, the
// repository is open.
func (w *step) openGate(o operation.Op, by event.Actor) {
	words := "The plan is approved."
	if w.s.Mode == event.ModePlan {
		w.emitBy(by, o.ID, event.PlanModeExited{By: by, Plan: w.s.PlanHash})
		words += " The repository may be changed within policy."
	}
	if cs := w.unconfirmed(); len(cs) > 0 {
		w.emitBy(by, o.ID, event.CriteriaConfirmed{By: by, Plan: w.s.PlanHash, Criteria: cs})
		words += " Its criteria count from now on."
	}
	w.answer(o, words)
}

// unconfirmed are the criteria of the recorded plan that do not count yet.
func (w *step) unconfirmed() []event.Criterion {
	if w.s.Plan == nil {
		return nil
	}
	known := map[string]bool{}
	for _, c := range w.s.Confirmed {
		known[hashJSON(c)] = true
	}
	var cs []event.Criterion
	for _, c := range w.s.Plan.Criteria {
		if !known[hashJSON(c)] {
			cs = append(cs, c)
		}
	}
	return cs
}

// checkProposed says what is wrong with the criteria that a plan proposes. They
// add to what counts already and replace nothing of it.
func (w *step) checkProposed(p event.Plan) error {
	if err := w.checkCriteria(ToolUpdatePlan, p.Criteria); err != nil {
		return err
	}
	same := map[string]string{}
	for _, c := range w.s.Criteria() {
		same[c.ID] = hashJSON(c)
	}
	for _, c := range p.Criteria {
		if h, taken := same[c.ID]; taken && h != hashJSON(c) {
			return fmt.Errorf("update_plan: argument \"criteria\": there is a criterion %q already, and it stands; give another one another id", c.ID)
		}
	}
	return nil
}

// checkCriteria says what is wrong with criteria that a call of the model gives.
func (w *step) checkCriteria(tool string, cs []event.Criterion) error {
	if err := CheckCriteria(cs); err != nil {
		return fmt.Errorf("%s: argument \"criteria\": %s", tool, strings.TrimPrefix(err.Error(), "acceptance"))
	}
	return nil
}

func (w *step) whyPlan(p event.Plan) []string {
	var why []string
	if w.s.Mode == event.ModePlan {
		why = append(why, "the plan opens the repository for changes")
	}
	if len(p.Criteria) > 0 {
		why = append(why, "the plan proposes criteria of done, whose commands run unasked from then on")
	}
	return why
}

// PlanText is a plan as a person reads it.
func PlanText(p event.Plan) string {
	var b strings.Builder
	if p.Summary != "" {
		b.WriteString(p.Summary + "\n")
	}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s.Text)
	}
	if len(p.Scope) > 0 {
		fmt.Fprintf(&b, "scope: %s\n", strings.Join(p.Scope, ", "))
	}
	for _, q := range p.OpenQuestions {
		fmt.Fprintf(&b, "open question: %s\n", q)
	}
	for _, c := range p.Criteria {
		fmt.Fprintf(&b, "done when: %s\n", CriterionText(c))
	}
	return b.String()
}
