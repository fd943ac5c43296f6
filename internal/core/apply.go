package core

import (
	"fmt"

	"belay/internal/core/approval"
	"belay/internal/core/budget"
	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/core/plan"
	"belay/internal/core/progress"
	"belay/internal/event"
	"belay/internal/fault"
)

// Apply folds one event into a state. It never fails: an event that cannot be
// understood, or that is not legal here, sets Refuse, and the goal is shown
// but no longer advanced.
func Apply(s State, e event.Event) State {
	s = s.Clone()
	s.apply(e)
	return s
}

// Fold folds many events; it is Apply for each, with one copy.
func Fold(s State, es []event.Event) State {
	s = s.Clone()
	for _, e := range es {
		s.apply(e)
	}
	return s
}

func (s *State) refuse(e event.Event, why string) {
	if s.Refuse == "" {
		s.Refuse = fmt.Sprintf("event %d (%s): %s", e.Seq, e.Type, why)
	}
}

// apply is the one place where an event changes a state. Everything that every
// event has in common stands here; the payloads are grouped below.
func (s *State) apply(e event.Event) {
	if e.Seq != s.Head+1 {
		s.refuse(e, fmt.Sprintf("does not follow %d", s.Head))
		return
	}
	s.Head, s.HeadID, s.Updated = e.Seq, e.ID, e.Time
	if !quiet(e.Type) {
		s.Mark = e.Seq
	}
	switch p := e.Payload.(type) {
	case event.Unknown:
		s.refuse(e, fmt.Sprintf("this version of belay does not know it (version %d); use a newer belay", p.Version))
		return
	case event.Damaged:
		s.refuse(e, "it is damaged: "+p.Reason+"; run belay audit")
		return
	}
	if e.Fence < s.Fence {
		s.refuse(e, fmt.Sprintf("has fence %d, older than %d", e.Fence, s.Fence))
		return
	}
	if lifecycle.RaisesFence(e.Type) && e.Fence <= s.Fence {
		s.refuse(e, "must raise the fence")
		return
	}
	s.Fence = e.Fence
	if e.Seq > 1 {
		to, _, err := lifecycle.Next(s.Status, e.Type)
		if err != nil {
			s.refuse(e, err.Error())
			return
		}
		s.Status = to
	}
	s.commandChildren(e)
	if s.applyGoal(e) || s.applyTurn(e) || s.applyPlan(e) || s.applyMemory(e) || s.applyInstructions(e) || s.applyOperation(e) || s.applyWorkspace(e) || s.applyTravel(e) || s.applyResult(e) || s.applyVerification(e) || s.applyFamily(e) {
		return
	}
	// Facts that are kept for people and change no state.
	switch p := e.Payload.(type) {
	case event.ProgressAlarm:
		s.Way.Warn(progress.Signal(p.Signal))
	default:
		s.refuse(e, "no part of the core folds it")
	}
}

func (s *State) applyGoal(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.GoalReceived:
		if e.Seq != 1 {
			s.refuse(e, "a goal is received once")
			return true
		}
		s.Goal, s.Created = e.Goal, e.Time
		s.Version, s.Spec, s.Settings, s.Repo, s.Parent, s.Worktree = p.Version, p.Spec, p.Settings, p.Repo, p.Parent, p.Worktree
		s.ParentOp, s.Depth, s.Share = p.ParentOp, p.Depth, p.Spec.Limits
		s.Status, s.Mode = lifecycle.Active, event.ModeDefault
		s.Budget.Limits = p.Spec.Limits
	case event.GoalRevised:
		s.Version, s.Spec = p.Version, p.Spec
		s.Talk.Revised = e.Seq
		if s.Status == lifecycle.Verifying {
			s.Status = lifecycle.Active
		}
		s.Verification, s.Verdict, s.Claim = nil, nil, nil
		s.Confirmed = nil                        // the user has said anew what "done" is
		s.Checks = nil                           // a criterion of the same name may ask for something else now
		s.Answers = map[string]evidence.Answer{} // they were given to the older version's questions
		s.afresh()
	case event.GoalPaused:
		s.Pause, s.Wait, s.Verification = &p, nil, nil
	case event.GoalResumed:
		s.Pause, s.HandOff, s.Strikes = nil, nil, 0
		s.SetupFailed = nil            // whoever resumes it wants it tried again
		s.Moved, s.Trusted = nil, true // whoever resumes it knows the ground
		s.Takeovers, s.Blocked = 0, 0
		s.Retry = nil
		s.Talk.afresh()
		s.afresh()
	case event.GoalCancelled:
		s.Wait, s.Pause, s.Claim, s.Verification = nil, nil, nil, nil
	case event.GoalFailed:
		s.Wait, s.Pause, s.Claim, s.Verification = nil, nil, nil, nil
		s.Fault = &Fault{Kind: string(p.Fault.Kind), Message: p.Fault.Message}
	case event.GoalCompleted:
		s.Wait, s.Claim, s.Verification = nil, nil, nil
		s.How = p.How
	case event.GoalWaiting:
		s.Wait = &p
		if p.Blocked {
			s.Blocked++
		}
		if p.Reason == event.WaitUserInput {
			s.asked(e.Op)
		}
	case event.GoalWoken:
		s.Wait = nil
	case event.GoalHandedOff:
		s.HandOff = &p
	case event.BudgetExtended:
		s.Budget.Limits = p.Limits
	case event.ModelChanged:
		s.Settings.Model = p.Model
		s.Talk.afresh() // its window is another, and so may be its provider
	case event.PolicyChanged:
		s.Settings.Rules, s.Settings.Approve = p.Rules, p.Approve
		s.afresh() // what policy refused is no failure any more
	default:
		return false
	}
	return true
}

// asked notes what the user is waited for: the answer to a question, or a word
// on the claim.
func (s *State) asked(op string) {
	if op != "" {
		s.Asked = op
	} else if s.Claim != nil {
		s.Claim.Asked = true
	}
}

func (s *State) applyTurn(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.TurnStarted:
		s.Turns++
		s.Turn = &Turn{ID: e.Turn, Worker: p.Worker, Fence: e.Fence}
		s.Holder = Holder{Worker: p.Worker, Place: p.Place}
		s.Fresh = false
		if asked := s.Retry != nil && e.Time < s.Retry.At; !asked {
			s.Wait = nil // a provider's wish to wait outlives the worker
		}
		if p.Takeover {
			s.Takeovers++
		}
		if s.away() {
			break // it is a turn once the workspace is there, and blocked until then
		}
		s.Blocked = 0
		if s.Status != lifecycle.Paused && !s.Status.Final() && s.Retry == nil {
			s.Budget.Used.Turns++ // settling what was left open, or waiting for the provider, is free
		}
	case event.TurnEnded:
		s.Turn = nil
	case event.UserMessage:
		if e.Op == "" { // an answer is the result of its question's call
			s.Inbox = append(s.Inbox, Mail{Seq: e.Seq, Mode: p.Mode, Text: p.Text})
			s.Claim = nil // the user goes first
			if s.Status == lifecycle.Verifying {
				s.Status, s.Verification = lifecycle.Active, nil
			}
		}
		s.Said = appendCapped(s.Said, Mail{Seq: e.Seq, Mode: p.Mode, Text: p.Text}, maxSaid)
		s.Strikes = 0
		s.Way.Afresh()
	case event.ModelRequested:
		s.Requests++
		s.Request = &Request{ID: p.Request, Turn: e.Turn, Event: e.ID, Attempt: p.Attempt,
			MaxOutput: p.MaxOutput, Through: p.Through, Taken: p.Taken, Compaction: p.Compaction}
		s.Talk.requested(e.Seq, p)
		s.Budget.Reserve(p.Request, p.Reserved)
		if s.Turn != nil {
			s.Turn.Steps++
		}
		if s.Wait != nil && s.Wait.Reason == event.WaitRetry {
			s.Wait = nil
		}
	case event.ModelResponded:
		if s.Request == nil || s.Request.ID != p.Request {
			s.refuse(e, "answers no open request")
			return true
		}
		s.settle(p.Request, event.Amount{Steps: 1, Tokens: p.Usage.Total(), CostMicros: p.CostMicros})
		if s.Request.Compaction != nil {
			s.Takeovers, s.Request = 0, nil
			break // words that go with a compaction are no turn of the model's
		}
		s.takeMail(s.Request.Taken)
		s.Takeovers = 0
		s.Request, s.Retry = nil, nil
		s.Talk.answered()
		s.Way.Replied(p.Usage.Total())
		if s.Turn != nil {
			s.Turn.Replies++
			s.Turn.Calls = calls(p.Parts)
		}
	case event.ModelFailed:
		if s.Request == nil || s.Request.ID != p.Request {
			s.refuse(e, "answers no open request")
			return true
		}
		s.requestFailed(e, p)
	case event.ContextCompacted:
		s.Compacted = p.Through
		s.settleInstructions(p.Through)
		s.Talk.compacted(p, s.grounds())
		s.Way.Afresh() // the model has lost sight of what it saw
	default:
		return false
	}
	return true
}

func calls(parts []event.Part) int {
	n := 0
	for _, p := range parts {
		if p.Kind == event.PartCall {
			n++
		}
	}
	return n
}

func (s *State) settle(name string, used event.Amount) { s.Budget.Settle(name, used) }

func (s *State) takeMail(taken []uint64) {
	var kept []Mail
	for _, m := range s.Inbox {
		if !containsSeq(taken, m.Seq) {
			kept = append(kept, m)
		}
	}
	s.Inbox = kept
}

func (s *State) applyPlan(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.PlanModeEntered:
		s.Mode = event.ModePlan
	case event.PlanModeExited:
		s.Mode = event.ModeDefault
		s.afresh() // what the gate refused is no failure any more
	case event.CriteriaConfirmed:
		s.Confirmed = append(s.Confirmed[:len(s.Confirmed):len(s.Confirmed)], p.Criteria...)
		s.afresh() // commands of theirs are known as tests now
	case event.PlanUpdated:
		pl := p.Plan
		s.Way.Planned(p.Hash != s.PlanHash)
		s.Plan, s.PlanHash = &pl, p.Hash
	case event.TodosUpdated:
		if err := plan.CheckTodos(p.Todos, func(string) bool { return true }); err != nil {
			s.refuse(e, err.Error())
			return true
		}
		s.Way.Planned(!plan.Same(p.Todos, s.Todos), doneTodos(p.Todos)...)
		s.Todos = p.Todos
	default:
		return false
	}
	return true
}

func (s *State) applyOperation(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.OperationProposed:
		if e.Op == "" {
			s.refuse(e, "has no op_id")
			return true
		}
		if _, dup := s.Find(e.Op); dup {
			s.refuse(e, "the operation exists")
			return true
		}
		s.Ops++
		s.Open = append(s.Open, operation.Op{ID: e.Op, Tool: p.Tool, Effect: p.Effect, CallID: p.CallID,
			Request: p.Request, Args: p.Arguments, ArgsHash: argsHash(p.Tool, p.Arguments), Access: p.Access,
			Criterion: p.Criterion, Setup: p.Setup, Proposal: e.ID, Seq: e.Seq, Phase: operation.Proposed})
	case event.OperationRejected:
		o := s.move(e, func(o operation.Op) (operation.Op, error) { return o.Reject(p.Outcome) })
		s.Approvals.Withdraw(e.Op)
		s.setUp(o, p.Outcome, p.Fault.Message)
		if p.Outcome == event.Rejected {
			s.tried(o, p.Fault.Message, MaxCheckTries)
		}
		if p.Outcome == event.Rejected && o.Tool != ToolFinish && !o.Own() && p.Fault.Signature != "" {
			s.Progress.Note(o.ArgsHash, p.Fault.Signature, o.Request)
			s.Way.Refused(p.Fault.Signature, o.Effect.SideEffect())
		}
	case event.ApprovalRequested:
		s.move(e, func(o operation.Op) (operation.Op, error) { return o.RequestApproval(p.Intent) })
		s.Approvals.Ask(approval.Pending{Op: e.Op, Tool: p.Tool, Intent: p.Intent, Access: p.Access,
			Why: p.Why, Renewed: p.Renewed, Seq: e.Seq, Asked: e.Time})
	case event.ApprovalGranted:
		s.move(e, func(o operation.Op) (operation.Op, error) { return o.Grant(p.Intent) })
		if !s.Approvals.Grant(e.Op, p.Intent) {
			s.refuse(e, "answers no pending question")
		}
	case event.ApprovalDenied:
		o := s.move(e, func(o operation.Op) (operation.Op, error) { return o.Reject(event.Rejected) })
		s.setUp(o, event.Rejected, "it was denied: "+p.Reason)
		s.Approvals.Deny(e.Op, p.Intent, p.Reason)
	case event.OperationStarted:
		s.move(e, func(o operation.Op) (operation.Op, error) {
			if o.Phase == operation.Approved && !s.Approvals.Use(o.ID, p.Intent.Hash) {
				return o, fmt.Errorf("the approval was used or is for another intent")
			}
			n, err := o.Start(p.Attempt, e.Actor, p.Intent, p.Tree, p.DeadlineMS)
			n.Place, n.MaxOutput = p.Place, p.MaxOutput
			return n, err
		})
		if held := budget.Add(p.Reserved, event.Amount{ToolMS: p.DeadlineMS}); held != (event.Amount{}) {
			s.Budget.Reserve(e.Op, held)
		}
	case event.OperationFinished:
		s.finish(e, p)
	case event.OperationReconciled:
		s.reconcile(e, p)
	case event.ActionForbidden:
		s.Progress.Forbid(p.Action, p.Signature)
	default:
		return false
	}
	return true
}

// move applies a transition to an open operation and drops it from Open when
// that closed it.
func (s *State) move(e event.Event, f func(operation.Op) (operation.Op, error)) operation.Op {
	for i, o := range s.Open {
		if o.ID != e.Op {
			continue
		}
		n, err := f(o)
		if err != nil {
			s.refuse(e, err.Error())
			return o
		}
		if n.Open() {
			s.Open[i] = n
			return n
		}
		s.Open = append(s.Open[:i:i], s.Open[i+1:]...)
		if s.Claim != nil && s.Claim.Op == n.ID {
			s.Claim = nil
		}
		return n
	}
	s.refuse(e, "no open operation "+e.Op)
	return operation.Op{}
}

func (s *State) finish(e event.Event, p event.OperationFinished) {
	o := s.move(e, func(o operation.Op) (operation.Op, error) {
		if o.Effect == event.Control {
			return o.Answer(p.Outcome)
		}
		return o.Finish(p.Attempt, p.Outcome)
	})
	if s.Refuse != "" {
		return
	}
	s.Approvals.Withdraw(e.Op)
	if _, held := s.Budget.Reserved[e.Op]; held {
		var used event.Amount
		if p.Result.Used != nil {
			used = *p.Result.Used
		}
		if p.Result.Command != nil {
			used.ToolMS = p.Result.Command.DurationMS
		} else if p.Outcome == event.OutcomeUnknown {
			used = s.Budget.Reserved[e.Op]
		}
		s.settle(e.Op, used)
	}
	if s.finishCheck(e, o, p) {
		return
	}
	s.setUp(o, p.Outcome, errorLine(p.Result))
	if p.Outcome == event.Succeeded {
		s.applied(o)
	}
	if p.Outcome == event.OutcomeUnknown {
		s.InDoubt = append(s.InDoubt, o)
	}
	s.LastOp = &LastResult{Op: e.Op, Tool: p.Tool, Status: statusWord(p.Outcome), Outcome: p.Outcome,
		Output: clip(p.Result.Output.Head, headText), Seq: e.Seq}
	for _, f := range p.Result.Seen {
		s.see(f.Path, f.Hash, e)
	}
	if o.Effect != event.Control && o.Criterion == "" {
		s.did(o, p)
		s.Strikes = 0
	}
	if !o.Own() { // what belay does itself is no step of the model's
		s.countFailure(o, p)
		if o.Tool == ToolRollback {
			s.afresh() // the ground is another
		} else if !forPerson(o.Tool) {
			s.Way.Finished(wayOf(o, p), s.Revision.Tree)
		}
	}
	if o.Effect.SideEffect() && o.Tool != ToolApply {
		s.Unseen, s.UnseenEffect = e.Op, o.Effect
		s.UnseenRun = nil
		if p.Result.Command != nil && p.Outcome != event.OutcomeUnknown && !neverRan(p) {
			s.UnseenRun = pendingRun(o, p)
		}
	}
}

// neverRan reports whether a command could not be started: that shows nothing
// of the repository, for or against.
func neverRan(p event.OperationFinished) bool {
	return p.Result.Fault != nil && p.Result.Fault.Kind == fault.SpawnFailed
}

func pendingRun(o operation.Op, p event.OperationFinished) *PendingRun {
	r := &PendingRun{Op: o.ID, Access: o.Access, Tree: o.Tree, Command: *p.Result.Command,
		Criterion: o.Criterion, Environment: p.Result.Environment}
	if p.Result.Test != nil {
		r.Counts = *p.Result.Test
	}
	if p.Result.Fault != nil {
		r.Fault = p.Result.Fault.Signature
		r.Tail = tail(p.Result.Output.Head, headText)
	}
	return r
}

func (s *State) countFailure(o operation.Op, p event.OperationFinished) {
	if p.Outcome != event.Failed || p.Result.Fault == nil {
		return
	}
	s.Progress.Note(o.ArgsHash, p.Result.Fault.Signature, o.Request)
}

// know notes the content of a file, "" for none. The map is shared with other
// states until something new is to be noted.
func (s *State) know(path, hash string) {
	if known := s.Files[path]; known == hash || known == "" && len(s.Files) >= maxFiles {
		return
	}
	if !s.ownsFiles {
		s.Files, s.ownsFiles = cloneMap(s.Files), true
	}
	if hash == "" {
		delete(s.Files, path)
		return
	}
	s.Files[path] = hash
}

func (s *State) see(path, hash string, e event.Event) {
	s.know(path, hash)
	kept := s.RecentFiles[:0]
	for _, f := range s.RecentFiles {
		if f.Path != path {
			kept = append(kept, f)
		}
	}
	s.RecentFiles = append(kept, FileContext{Path: path, Hash: hash, Op: e.Op, Seq: e.Seq})
	if len(s.RecentFiles) > maxRecentFiles {
		s.RecentFiles = s.RecentFiles[len(s.RecentFiles)-maxRecentFiles:]
	}
}

func (s *State) reconcile(e event.Event, p event.OperationReconciled) {
	for i, o := range s.InDoubt {
		if o.ID != e.Op {
			continue
		}
		n, err := o.Reconcile(p.Outcome, p.Retry)
		if err != nil {
			s.refuse(e, err.Error())
			return
		}
		s.InDoubt = append(s.InDoubt[:i:i], s.InDoubt[i+1:]...)
		s.setUp(o, p.Outcome, p.Reason)
		if p.Outcome == event.Succeeded {
			s.applied(o)
		}
		s.Talk.Settled = append(s.Talk.Settled[:len(s.Talk.Settled):len(s.Talk.Settled)], Settled{Proposal: o.Seq, By: e.Seq})
		s.afresh() // what the doubt refused is no failure any more
		if n.Open() {
			n.Again = e.Seq
			s.Open = append(s.Open, n)
		}
		return
	}
	s.refuse(e, "no operation in doubt "+e.Op)
}

func (s *State) applyWorkspace(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.WorkspaceAttached:
		s.Workspace, s.Place, s.Index = &p, p.Place, p.Index
		s.Git = &event.Standing{Head: p.Head, Branch: p.Branch, Doing: p.Doing}
		s.Talk.Attached = e.Seq
		s.Revision = event.Revision{N: 0, Tree: p.Tree}
		s.Progress.Moved(p.Tree)
		s.Way.Moved(p.Tree, nil, false)
		s.Fresh = true
	case event.WorkspaceObserved:
		if p.Tree != s.Revision.Tree {
			s.refuse(e, "observes another tree than the present revision")
			return true
		}
		s.observed()
	case event.RepoStateMutated:
		if p.Revision.N != s.Revision.N+1 || p.From != s.Revision.Tree {
			s.refuse(e, "does not follow the present revision")
			return true
		}
		s.Revision = p.Revision
		if v := s.Verification; v != nil && p.By != "external" {
			v.Tree = "" // its own check changed it: that is for the verdict to say
		}
		s.Progress.Moved(p.Revision.Tree)
		s.Way.Moved(p.Revision.Tree, pathsOf(p.Changes), p.By != "external")
		s.observed()
	case event.DiffUpdated:
		s.Diff = p
	case event.CheckpointCreated:
		s.addCheckpoint(e, p)
	case event.IndexChanged:
		s.Index = p.Index
	case event.EnvironmentCaptured:
		if p.Depth == event.DepthDeep {
			s.Captured.Deep, s.Captured.Tree = p.Facts, s.Revision.Tree
		} else {
			s.Captured.Light = p.Facts
		}
	case event.WorkspaceRestored:
	case event.TestCompleted:
		s.addEvidence(e, p)
	default:
		return false
	}
	return true
}

// observed notes that the present tree is known.
func (s *State) observed() {
	s.Fresh, s.Unseen, s.UnseenRun, s.Trusted = true, "", nil, false
	if v := s.Verification; v != nil && v.Tree == "" {
		v.Tree = s.Revision.Tree
	}
}
