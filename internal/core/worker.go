package core

import (
	"fmt"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
)

// fromWorker records what a worker reports. A result whose identity is no
// longer current is dropped; one from an older fence is recorded as a fact.
func (w *step) fromWorker() {
	switch b := w.in.Body.(type) {
	case Claimed:
		w.claimed(b)
	case Poke:
	case Blocked:
		w.blocked(b)
	case Released:
		w.released(b)
	case Attached:
		w.attached(b)
	case AttachFailed:
		if w.holder() {
			w.handOff("the workspace cannot be used: "+b.Fault.Message, &b.Fault, event.PausedByHandoff, event.StopHandedOff)
		}
	case Composed:
		w.composed(b)
	case Replied:
		w.replied(b)
	case ReplyFailed:
		w.replyFailed(b)
	case Prepared:
		w.prepared(b)
	case Ended:
		w.ended(b)
	case NeverHappened:
		w.neverHappened(b)
	case Observed:
		w.observed(b)
	case Packed:
		w.packed(b)
	case Moved:
		w.moved(b)
	case Spawned:
		w.spawned(b)
	case Commanded:
		w.commanded(b)
	case Told:
		w.told()
	case Unmoved:
		w.stranded(b.Fault)
	default:
		w.fail(fmt.Errorf("%w: %T", ErrInput, b))
	}
}

// claimed opens a turn under the ticket. What an earlier holder left open is
// settled here as far as no looking is needed; the rest is wanted as probes.
func (w *step) claimed(b Claimed) {
	if w.in.Fence < w.s.Fence {
		return // an older ticket; the driver steps down
	}
	if w.s.Turn != nil {
		w.emit(event.TurnEnded{Reason: event.StopSuperseded, Detail: "the worker " + w.s.Turn.Worker + " is gone"})
	}
	if r := w.s.Request; r != nil {
		w.emit(event.ModelFailed{Request: r.ID, Charged: w.s.Budget.Reserved[r.ID],
			Fault: *fault.New(fault.Interrupted, fault.Runtime, "the worker ended while the model answered; the whole reservation is charged", "").Retry()})
	}
	w.settleOpaque(b.Place)
	if !w.s.Runnable(w.in.Now) && !w.raised {
		return // nothing to do, and no raised fence to carry into the fold
	}
	// A goal that goes no further is settled whatever is left of its budget.
	if going := w.s.Status == lifecycle.Active || w.s.Status == lifecycle.Verifying; going && w.s.Retry == nil {
		if d := w.s.Budget.Short(event.Amount{Turns: 1}, w.in.Now); d != "" {
			w.exhausted(d)
			return
		}
	}
	w.emit(event.TurnStarted{Worker: b.Worker, Takeover: b.Takeover, Place: b.Place})
	if w.s.Takeovers > MaxTakeovers && w.s.Status == lifecycle.Active {
		f := fault.New(fault.Internal, fault.Runtime, fmt.Sprintf("%d workers died over this goal without one response of the model between them", w.s.Takeovers), "look at the machine (belay doctor) before you resume it")
		w.handOff(f.Told(), f, event.PausedByHandoff, event.StopHandedOff)
	}
}

// blocked lets a goal that no worker can work on wait longer and longer, and
// hands it off in the end, so that it never spins.
func (w *step) blocked(b Blocked) {
	if !w.holder() {
		return
	}
	idle := w.s.Status.Final() || w.s.Status == lifecycle.Paused
	if idle && b.Fault.Retryable {
		return // there is time to look at what it left open
	}
	if w.s.Turn != nil {
		w.emit(event.TurnEnded{Reason: event.StopSuperseded, Detail: "the worker " + w.s.Turn.Worker + " is gone"})
	}
	if idle {
		w.giveUpOpen(b.Fault)
		return
	}
	w.waitBlocked(b.Fault)
}

// giveUpOpen closes what an earlier holder left open on a goal that goes no
// further, where nobody can look any more: every call has its outcome.
func (w *step) giveUpOpen(f fault.Fault) {
	if r := w.s.Request; r != nil {
		w.emit(event.ModelFailed{Request: r.ID, Charged: w.s.Budget.Reserved[r.ID],
			Fault: *fault.New(fault.Interrupted, fault.Runtime, "the worker ended while the model answered; the whole reservation is charged", "").Retry()})
	}
	for _, o := range append([]operation.Op(nil), w.s.Open...) {
		if o.Phase == operation.Started {
			w.emitOp(o.ID, event.OperationFinished{Tool: o.Tool, Attempt: o.Attempt, Outcome: event.OutcomeUnknown, Recovered: "probe",
				Result: event.Result{Fault: fault.New(fault.InDoubt, fault.Runtime, "the worker ended while the operation ran, and nobody can look any more: "+f.Message, "")}})
		}
	}
	if o, open := w.s.rollback(); open {
		w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: event.Rejected, Fault: f})
	}
	w.commit()
}

func (w *step) waitBlocked(f fault.Fault) {
	if !f.Retryable || w.s.Blocked >= MaxBlocked {
		w.handOff("no worker can work on the goal: "+f.Told(), &f, event.PausedByHandoff, event.StopHandedOff)
		return
	}
	d := int64(BlockedBaseMS)
	for i := 0; i < w.s.Blocked && d < BlockedCapMS; i++ {
		d *= 2
	}
	d = min(d, BlockedCapMS)
	until := later(w.in.Now, d+w.jitter(d/4))
	if r := w.s.Retry; r != nil {
		until = max(until, r.At) // a provider's wish to wait outlives the worker
	}
	w.emit(event.GoalWaiting{Reason: event.WaitRetry, Until: until, Detail: f.Told(), Blocked: true})
	w.commit()
}

// settleOpaque closes attempts of an earlier holder that nothing can look at:
// they started and may have had effects. Those of another place are left to a
// probe, which comes after the workspace: what they did there is not here.
func (w *step) settleOpaque(place string) {
	for _, o := range append([]operation.Op(nil), w.s.Open...) {
		if o.Phase == operation.Started && operation.Recover(o.Effect) == operation.TakeUnknown && !Elsewhere(o.Place, place) {
			w.emitOp(o.ID, event.OperationFinished{Tool: o.Tool, Attempt: o.Attempt, Outcome: event.OutcomeUnknown, Recovered: "probe",
				Result: event.Result{Fault: fault.New(fault.InDoubt, fault.Runtime, "the worker ended while the operation ran, and nothing can tell what it did", "")}})
		}
	}
}

// released ends the worker's own turn, also under a stale fence: that it ended
// is a fact. The turn of another worker is none of its business.
func (w *step) released(b Released) {
	if w.s.Turn == nil || event.Worker(w.s.Turn.Worker) != w.in.By {
		return
	}
	if r := w.s.Request; r != nil {
		w.emit(event.ModelFailed{Request: r.ID, Charged: w.s.Budget.Reserved[r.ID],
			Fault: *fault.New(fault.Interrupted, fault.Runtime, "the worker let go while the model answered", "").Retry()})
	}
	w.emit(event.TurnEnded{Reason: w.stopReason(), Detail: b.Detail})
	w.commit()
}

func (w *step) stopReason() event.StopReason {
	switch w.s.Status {
	case lifecycle.Paused:
		return event.StopPaused
	case lifecycle.Cancelled:
		return event.StopCancelled
	case lifecycle.Failed:
		return event.StopFailed
	case lifecycle.Completed:
		return event.StopFinished
	}
	if !w.holder() {
		return event.StopSuperseded
	}
	return event.StopYielded
}

func (w *step) attached(b Attached) {
	if !w.holder() || w.s.Workspace != nil {
		return
	}
	b.Workspace.Place = w.s.Holder.Place
	w.emit(b.Workspace)
	w.emit(event.CheckpointCreated{Checkpoint: "cp0", Name: "start", Tree: b.Workspace.Tree, Index: b.Workspace.Index, Why: "the state the goal found", Trigger: event.CheckpointStart})
	if len(b.Memory.Items) > 0 {
		w.emitBy(event.ActorRuntime, "", b.Memory)
	}
	w.captured(event.DepthLight, b.Environment)
}

func (w *step) composed(b Composed) {
	if !w.holder() || b.Head != w.s.Mark || !w.modelsTurn() {
		return
	}
	if w.tooLarge(b) {
		return
	}
	ask := askOf(w.s.Settings, b)
	reserved, out, short := w.s.Budget.Fit(ask, w.in.Now)
	if short != "" {
		w.exhausted(short)
		return
	}
	attempt := 1
	if w.s.Retry != nil {
		attempt = w.s.Retry.Attempt + 1
	}
	w.emit(event.ModelRequested{Request: fmt.Sprintf("r%d", w.s.Requests+1), Model: w.s.Settings.Model, Attempt: attempt,
		MaxOutput: out, Reserved: reserved, Through: b.Head, Taken: b.Taken, Digest: b.Digest, Bytes: b.Bytes, StableBytes: b.StableBytes})
	w.commit() // it costs money
}

// mine reports whether a request is open and this worker's: only it can know
// what came of it.
func (w *step) mine(request string) bool {
	r, t := w.s.Request, w.s.Turn
	return r != nil && r.ID == request && (t == nil || event.Worker(t.Worker) == w.in.By)
}

// replied settles the usage and records the response with the operations that
// it proposes, in one commit.
func (w *step) replied(b Replied) {
	if !w.mine(b.Request) {
		return
	}
	if !w.holder() {
		w.emit(event.ModelFailed{Request: b.Request,
			Fault:   *fault.New(fault.Superseded, fault.Runtime, "the goal changed while the model answered", ""),
			Charged: event.Amount{Steps: 1, Tokens: b.Response.Usage.Total(), CostMicros: b.Response.CostMicros}})
		return
	}
	if c := w.s.Request.Compaction; c != nil {
		w.prosed(b, *c)
		return
	}
	b.Response.Request = b.Request
	cause := w.emitBy(event.ActorModel, "", b.Response)
	if len(b.Proposals) == 0 {
		w.emitBy(event.ActorModel, "", event.CompletionClaimed{Summary: clip(finalText(b.Response.Parts), w.s.reportCap()), ByText: true})
		return
	}
	for i, p := range b.Proposals {
		w.propose(p, cause, i)
	}
}

func finalText(parts []event.Part) string {
	text := ""
	for _, p := range parts {
		if p.Kind == event.PartText {
			text += p.Text
		}
	}
	return text
}

// replyFailed charges the request and decides what follows by the kind of the
// fault.
func (w *step) replyFailed(b ReplyFailed) {
	if !w.mine(b.Request) {
		return
	}
	r := w.s.Request
	charged := w.chargeFor(b)
	if !w.holder() {
		w.emit(event.ModelFailed{Request: b.Request, Fault: b.Fault, Charged: charged})
		return
	}
	if r.Compaction != nil {
		w.unprosed(b, *r.Compaction, charged)
		return
	}
	retryAt, giveUp := w.retryAt(b.Fault, r.Attempt)
	w.emit(event.ModelFailed{Request: b.Request, Fault: b.Fault, Charged: charged, RetryAt: retryAt})
	switch {
	case !retryAt.IsZero():
		w.park(b.Fault, r.Attempt, retryAt)
	case b.Fault.Kind == fault.ContextOverflow && w.s.Talk.Level < MaxLevel:
		// The next request is compacted before it is sent.
	case b.Fault.Kind == fault.Superseded || b.Fault.Kind == fault.Interrupted:
	default:
		why := b.Fault.Error()
		if b.Fault.Kind == fault.ContextOverflow {
			giveUp = fmt.Sprintf("the request was made smaller %d times and is still refused as too large; a model with a larger window is needed", MaxLevel)
		}
		if giveUp != "" {
			why = giveUp + ": " + why
		}
		w.handOff(why, &b.Fault, event.PausedByHandoff, event.StopHandedOff)
	}
}

// chargeFor is what a failed request costs. A request that the provider turned
// away before it worked on it costs nothing; one that may have been answered
// costs all that was reserved unless the provider told its usage.
func (w *step) chargeFor(b ReplyFailed) event.Amount {
	if b.Used != nil {
		u := *b.Used
		u.Steps = 1
		return u
	}
	switch b.Fault.Kind {
	case fault.RateLimited, fault.Overloaded, fault.BadCredentials, fault.BadRequest, fault.UnknownModel, fault.ContextOverflow:
		return event.Amount{}
	}
	return w.s.Budget.Reserved[b.Request]
}

// ended records the outcome of an attempt. A read's start rides with its
// finish. A result under a stale fence is recorded and advances nothing.
func (w *step) ended(b Ended) {
	o, ok := w.s.Find(b.Op)
	if !ok || !o.Open() {
		w.lateTruth(o, b)
		return
	}
	if o.Effect == event.Read && o.Phase == operation.Proposed && b.Attempt == o.Attempt+1 {
		w.emitOp(b.Op, event.OperationStarted{Attempt: b.Attempt, Intent: event.Intent{Hash: o.ArgsHash}})
		o, _ = w.s.Find(b.Op)
	}
	if o.Phase != operation.Started || o.Attempt != b.Attempt {
		return
	}
	if !w.holder() && (o.AttemptBy != w.in.By || forPerson(o.Tool)) {
		return // what others started is only the holder's to look at, and so is what the workspace is now
	}
	outcome := b.Outcome
	if w.s.Status == lifecycle.Cancelled && outcome == event.Failed && b.Result.Command != nil && b.Result.Command.Signal != "" {
		outcome = event.Cancelled
	}
	w.emitOp(b.Op, event.OperationFinished{Tool: o.Tool, Attempt: b.Attempt, Outcome: outcome, Result: b.Result,
		Recovered: b.Recovered, Late: w.in.Fence < w.s.Fence})
	w.rolledBack(o, b)
	w.applied(o, b)
	if w.holder() {
		w.noteInstructions(b.Instructions, b.Op)
	}
	w.judgeRepetition(o, outcome, b.Result.Fault)
	if r := b.Result.Reconciles; r != nil && o.Effect == event.Read && w.holder() {
		w.reconcileBySight(*r)
	}
}

// lateTruth settles an unknown outcome by what the worker that started the
// attempt brings back after it was given up. It advances nothing by itself.
func (w *step) lateTruth(o operation.Op, b Ended) {
	if o.Outcome != event.OutcomeUnknown || o.Attempt != b.Attempt || o.AttemptBy != w.in.By ||
		b.Outcome != event.Succeeded && b.Outcome != event.Failed {
		return
	}
	w.emitOp(b.Op, event.OperationReconciled{Outcome: b.Outcome, By: w.in.By, Result: &b.Result,
		Reason: "the worker that ran it came back with its result"})
}

// judgeRepetition forbids an action that keeps failing in the same way, and
// hands the goal off when the model insists.
func (w *step) judgeRepetition(o operation.Op, outcome event.Outcome, f *fault.Fault) {
	if outcome != event.Failed || f == nil || !w.holder() || o.Own() {
		return
	}
	w.judgeCount(o.Tool, o.ArgsHash, f, w.s.Progress.Count(o.ArgsHash, f.Signature))
}

func (w *step) neverHappened(b NeverHappened) {
	o, ok := w.s.Find(b.Op)
	if !ok || o.Phase != operation.Started || o.Attempt != b.Attempt {
		return
	}
	if !w.holder() {
		return // the holder looks for itself
	}
	if w.s.Status.Final() || w.s.Status == lifecycle.Paused || o.Criterion != "" && w.s.Status != lifecycle.Verifying {
		w.emitOp(b.Op, event.OperationFinished{Tool: o.Tool, Attempt: b.Attempt, Outcome: event.Cancelled, Recovered: "probe",
			Result: event.Result{Output: event.Text{Head: "It did not happen: the world is as it was before."}}})
		return
	}
	w.emitOp(b.Op, event.OperationStarted{Attempt: o.Attempt + 1, Intent: o.Intent, Tree: o.Tree, DeadlineMS: o.DeadlineMS,
		Place: w.s.Holder.Place})
	w.commit()
}
