package core_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/moment"
	"belay/internal/transcript"
)

// The eight invariants of DESIGN section 2, each written down once, from the
// events and not from the state wherever that can be. TestSimulation holds all
// of them at once; each test below drives the core into the corner where its
// own one is most likely to break.

// invariant begins to watch a run.
type invariant struct{ begin func(*sim) checker }

// checker is one run's memory of one invariant; each function may be nil.
type checker struct {
	step  func(before core.State, in core.Input, r core.Ready) error
	event func(prev, st core.State, e event.Event, in core.Input) error
	end   func(st core.State) error
}

var invariants = []invariant{{oneIdentity}, {everyCallCloses}, {historyExplains}, {permissionNarrows},
	{completionCarriesEvidence}, {cancellationConverges}, {staleHolderChangesNothing}, {moneyReserved}, {childrenAccountedFor}}

// holds drives one invariant through drawn runs and says what they have to
// reach, so that it cannot become empty unnoticed.
func holds(t *testing.T, i invariant, draw func(*rapid.T) knobs, reach ...string) {
	t.Helper()
	t.Parallel()
	type drawn struct {
		knobs
		Seed uint64
	}
	gen := rapid.Custom(func(t *rapid.T) drawn {
		d := drawn{draw(t), rapid.Uint64().Draw(t, "seed")}
		d.ticks = rapid.IntRange(1, 160).Draw(t, "ticks")
		return d
	})
	play := func(d drawn) (*sim, error) {
		s := newSim(d.Seed, false, d.knobs, i)
		s.thorough = true
		return s, s.run()
	}
	rapid.Check(t, func(t *rapid.T) {
		if _, err := play(gen.Draw(t, "run")); err != nil {
			t.Fatal(err)
		}
	})
	// The same runs every time: what they reach must not be a matter of luck.
	missing := map[string]bool{}
	for _, what := range reach {
		missing[what] = true
	}
	for n := 0; n < 500 && len(missing) > 0; n++ {
		s, err := play(gen.Example(n))
		if err != nil {
			t.Fatal(err)
		}
		for what := range s.saw {
			delete(missing, what)
		}
	}
	for what := range missing {
		t.Errorf("no run reaches %q: the property says nothing about it", what)
	}
}

func drawKill(t *rapid.T) float64 { return float64(rapid.IntRange(1, 15).Draw(t, "kill")) / 100 }

func TestInvariant1OneIdentity(t *testing.T) {
	holds(t, invariants[0], func(t *rapid.T) knobs {
		return knobs{kill: drawKill(t), approve: event.ApproveAuto, plan: event.PlanNever, doubts: rapid.Bool().Draw(t, "doubts")}
	}, "operation_started", "outcome unknown", "operation_reconciled")
}

func TestInvariant2EveryCallCloses(t *testing.T) {
	holds(t, invariants[1], func(t *rapid.T) knobs { return knobs{kill: drawKill(t)} },
		"operation_rejected", "operation_finished", "approval_denied", "goal_cancelled", "context_compacted", "model_failed")
}

func TestInvariant3HistoryExplainsAndNeverReruns(t *testing.T) {
	holds(t, invariants[2], func(t *rapid.T) knobs { return knobs{kill: drawKill(t)} }, "operation_finished", "goal_completed", "workspace_restored")
}

func TestInvariant4PermissionOnlyNarrows(t *testing.T) {
	holds(t, invariants[3], func(t *rapid.T) knobs {
		return knobs{approve: rapid.SampledFrom([]event.ApproveMode{event.ApproveAsk, event.ApproveAuto, event.ApproveNever}).Draw(t, "approve"),
			plan: rapid.SampledFrom([]event.PlanMode{event.PlanAlways, event.PlanAuto, event.PlanNever}).Draw(t, "plan")}
	}, "approval_requested", "approval_granted", "approval_denied", "plan_mode_exited", "operation_started")
}

func TestInvariant5CompletionCarriesEvidence(t *testing.T) {
	holds(t, invariants[4], func(t *rapid.T) knobs {
		return knobs{kill: drawKill(t), claims: true, plan: event.PlanNever,
			approve:  rapid.SampledFrom([]event.ApproveMode{event.ApproveAsk, event.ApproveAuto}).Draw(t, "approve"),
			criteria: rapid.SampledFrom([]string{"test", "manual", "both", "none", "accept", "intact", "bug", "file", "review", "run", "all"}).Draw(t, "criteria")}
	}, "goal_completed", "completion_claimed", "criterion_answered", "test_completed", "completed intact", "completed bug", "completed file",
		"completed review", "completed run", "verification given up")
}

func TestInvariant6CancellationConverges(t *testing.T) {
	holds(t, invariants[5], func(t *rapid.T) knobs {
		return knobs{kill: drawKill(t), approve: rapid.SampledFrom([]event.ApproveMode{event.ApproveAuto, event.ApproveAsk}).Draw(t, "approve"),
			plan: event.PlanNever, cancelAt: rapid.IntRange(1, 120).Draw(t, "cancel at")}
	}, "goal_cancelled", "outcome cancelled", "outcome unknown")
}

func TestInvariant7StaleHolderChangesNothing(t *testing.T) {
	holds(t, invariants[6], func(t *rapid.T) knobs {
		return knobs{kill: drawKill(t), zombies: rapid.IntRange(10, 50).Draw(t, "zombies"), plan: event.PlanNever}
	}, "step of a stale holder", "late fact")
}

func TestInvariant8MoneyReserved(t *testing.T) {
	holds(t, invariants[7], func(t *rapid.T) knobs {
		l := event.Limits{Amount: event.Amount{Turns: rapid.Int64Range(1, 12).Draw(t, "turns"), Steps: rapid.Int64Range(1, 30).Draw(t, "steps"),
			Tokens: rapid.Int64Range(700, 40_000).Draw(t, "tokens"), CostMicros: rapid.Int64Range(1_000, 80_000).Draw(t, "cost"),
			ToolMS: rapid.Int64Range(5, 5_000).Draw(t, "tool ms")}}
		if rapid.Bool().Draw(t, "a deadline") {
			l.Deadline = moment.Time(1_000_000_000).AddMS(rapid.Int64Range(1, 60_000).Draw(t, "deadline"))
		}
		return knobs{kill: drawKill(t), approve: event.ApproveAuto, plan: event.PlanNever, limits: &l}
	}, "goal_paused", "budget_extended", "model_requested", "operation_started")
}

// action is what an operation would do, however it is worded.
func action(o operation.Op) string {
	var m map[string]any
	if json.Unmarshal(o.Args, &m) == nil {
		for _, k := range []string{"description", "timeout_s", "reason"} {
			delete(m, k)
		}
	}
	return o.Tool + " " + js(m)
}

// 1: an op_id is given once; attempts count up by one; an action with a side
// effect never begins while the same one runs or is in doubt; and it happens in
// the world once, and once more for each time a person had it run again.
func oneIdentity(s *sim) checker {
	proposed, attempts := map[string]bool{}, map[string]int{}
	return checker{
		event: func(prev, _ core.State, e event.Event, _ core.Input) error {
			switch p := e.Payload.(type) {
			case event.OperationProposed:
				if proposed[e.Op] {
					return fmt.Errorf("%s is proposed twice", e.Op)
				}
				proposed[e.Op] = true
			case event.OperationStarted:
				if attempts[e.Op]++; p.Attempt != attempts[e.Op] {
					return fmt.Errorf("%s starts attempt %d after %d", e.Op, p.Attempt, attempts[e.Op]-1)
				}
				o, _ := prev.Find(e.Op)
				if !o.Effect.SideEffect() {
					return nil
				}
				for _, x := range append(append([]operation.Op(nil), prev.Open...), prev.InDoubt...) {
					if running := x.Phase == operation.Started || x.Outcome == event.OutcomeUnknown; running && x.ID != o.ID && action(x) == action(o) {
						return fmt.Errorf("%s starts what %s has started and not ended: %s", o.ID, x.ID, action(o))
					}
				}
			}
			return nil
		},
		end: func(core.State) error {
			for op, n := range s.world.ran {
				if n > 1+s.retries[op] {
					return fmt.Errorf("%s had its effect %d times, a person had it run again %d times", op, n, s.retries[op])
				}
			}
			return nil
		},
	}
}

// 2: one outcome for each operation, and in every request one result for each
// call; what a request has sent is never worded anew.
func everyCallCloses(s *sim) checker {
	outcomes := map[string]int{}
	var order []string
	var sent []model.Message
	return checker{
		event: func(_, _ core.State, e event.Event, _ core.Input) error {
			switch p := e.Payload.(type) {
			case event.OperationProposed:
				order = append(order, e.Op)
			case event.OperationRejected, event.ApprovalDenied, event.OperationFinished:
				if outcomes[e.Op]++; outcomes[e.Op] > 1 {
					return fmt.Errorf("%s has %d outcomes", e.Op, outcomes[e.Op])
				}
			case event.OperationReconciled:
				if p.Retry {
					outcomes[e.Op]--
				}
			case event.ContextCompacted:
				sent = nil
			case event.ModelRequested:
				// The builder has not seen this event: these are the messages
				// that were composed.
				ms := s.talk.Messages(p.Taken)
				if err := transcript.Check(ms); err != nil {
					return fmt.Errorf("the request %s: %w", p.Request, err)
				}
				if p.Compaction != nil {
					return nil // it is no part of the conversation
				}
				if len(ms) < len(sent) || len(sent) > 0 && !reflect.DeepEqual(ms[:len(sent)], sent) {
					return fmt.Errorf("the request %s words anew what an earlier one has sent", p.Request)
				}
				sent = ms
			}
			return nil
		},
		end: func(st core.State) error {
			for _, op := range order {
				o, open := st.Find(op)
				if owes := open && o.Open(); owes == (outcomes[op] == 1) || owes && st.Status.Final() {
					return fmt.Errorf("%s has %d outcomes on a goal that is %s, open=%t", op, outcomes[op], st.Status, owes)
				}
			}
			return transcript.Check(s.talk.Messages(nil))
		},
	}
}

// 3: looking changes nothing, the same events give the same state by whatever
// way, and the same input gives the same decision.
func historyExplains(s *sim) checker {
	return checker{
		step: func(before core.State, in core.Input, r core.Ready) error {
			if !s.thorough {
				return nil
			}
			was := js(before)
			again, err := core.Step(before, in)
			if err != nil || !reflect.DeepEqual(again, r) {
				return fmt.Errorf("the same state and input give another decision (%v)", err)
			}
			if js(before) != was {
				return errors.New("it changed the state it was given")
			}
			if got := core.Fold(before, r.Events); len(r.Events) > 0 && js(got) != js(r.State) {
				return fmt.Errorf("its state is not the fold of its events:\n%s\n%s", js(r.State), js(got))
			}
			if in.Fence > 0 && !reflect.DeepEqual(core.Wanted(r.State, wantFence(in, r), in.By), r.Effects) {
				return errors.New("what it wants does not follow from its state")
			}
			return nil
		},
		event: func(_, st core.State, e event.Event, _ core.Input) error {
			if !s.thorough {
				return nil
			}
			was := js(st)
			core.View(st, core.Timeline([]event.Event{e}))
			_, _, _ = st.Summary(), core.Row(st), st.Judgement()
			core.Wanted(st, st.Fence, "worker:looks")
			core.Apply(st, event.Event{Seq: st.Head + 1, Fence: st.Fence + 1, Payload: event.GoalCancelled{}, Type: event.TypeGoalCancelled})
			if js(st) != was {
				return errors.New("looking at the state changed it")
			}
			return nil
		},
		end: func(st core.State) error {
			want := js(core.Fold(st, nil))
			if js(core.Fold(core.State{}, s.events)) != want {
				return errors.New("folding the ledger afresh gives another state")
			}
			half := core.Fold(core.State{}, s.events[:len(s.events)/2])
			var cached core.State
			if err := json.Unmarshal([]byte(js(half)), &cached); err != nil {
				return err
			}
			if js(core.Fold(cached, s.events[len(s.events)/2:])) != want {
				return errors.New("folding on from a cached state gives another state")
			}
			ids := map[string]bool{}
			for _, e := range s.events {
				if e.ID == "" || ids[e.ID] || e.Cause != "" && !ids[e.Cause] {
					return fmt.Errorf("event %d: its id %q is none of its own, or its cause %q does not stand before it", e.Seq, e.ID, e.Cause)
				}
				ids[e.ID] = true
			}
			return nil
		},
	}
}

// wantFence is the fence that a worker's ticket has after its own events.
func wantFence(in core.Input, r core.Ready) uint64 {
	f := in.Fence
	for _, e := range r.Events {
		if e.Fence == f+1 && lifecycle.RaisesFence(e.Type) {
			f = e.Fence
		}
	}
	return f
}

// modelMay are the facts that come about by the model's word alone.
var modelMay = map[event.Type]bool{event.TypeModelResponded: true, event.TypeOperationProposed: true, event.TypePlanUpdated: true,
	event.TypeTodosUpdated: true, event.TypeDecisionRecorded: true, event.TypeDecisionRevoked: true, event.TypeCompletionClaimed: true}

// 4: what policy asks about starts only on an answer to exactly that, once;
// under the gate only readers run; a denial stays; and only the user changes
// what is allowed.
func permissionNarrows(s *sim) checker {
	granted, used := map[string]string{}, map[string]bool{}
	denied := map[string]bool{}
	asks := func(o operation.Op) bool {
		return o.Tool == "write_file" || o.Tool == "mystery" || o.Tool == "git_push" || strings.HasPrefix(o.Access.Command, "touch")
	}
	return checker{event: func(prev, st core.State, e event.Event, _ core.Input) error {
		if e.Actor == event.ActorModel && !modelMay[e.Type] {
			return fmt.Errorf("the model brought it about")
		}
		if e.Seq > 1 && (!reflect.DeepEqual(prev.Settings, st.Settings) ||
			e.Type != event.TypeGoalRevised && !reflect.DeepEqual(prev.Spec, st.Spec) ||
			e.Type != event.TypeBudgetExtended && prev.Budget.Limits != st.Budget.Limits) {
			return errors.New("it changes what the user set")
		}
		o, _ := prev.Find(e.Op)
		switch p := e.Payload.(type) {
		case event.GoalRevised, event.BudgetExtended, event.GoalResumed, event.CriterionAnswered:
			if e.Actor != event.ActorUser {
				return fmt.Errorf("%s brought it about", e.Actor)
			}
		case event.PlanModeExited:
			if byPolicy := st.Settings.Approve == event.ApproveAuto || st.Settings.Plan == event.PlanAuto; p.By != event.ActorUser && !byPolicy {
				return fmt.Errorf("the gate is opened by %s", p.By)
			}
			if p.By == event.ActorUser && granted[e.Op] != p.Plan {
				return errors.New("the gate is opened for a plan that the user did not approve")
			}
		case event.ApprovalGranted:
			if p.By != e.Actor || p.By != event.ActorUser && st.Settings.Approve != event.ApproveAuto {
				return fmt.Errorf("granted by %s with approve=%s", p.By, st.Settings.Approve)
			}
			if o.Intent.Hash != p.Intent {
				return errors.New("granted something that was not asked")
			}
			granted[e.Op], used[e.Op] = p.Intent, false
		case event.ApprovalDenied:
			denied[p.Intent] = true
		case event.OperationStarted:
			return s.mayStart(prev, o, p, asks(o), granted, used, denied)
		}
		return nil
	}}
}

func (s *sim) mayStart(prev core.State, o operation.Op, p event.OperationStarted, asks bool, granted map[string]string, used, denied map[string]bool) error {
	again := o.Phase == operation.Started // the attempt before never happened
	if o.Tool == core.ToolRollback {
		if prev.Status != lifecycle.Paused && !prev.Status.Final() && prev.Status != lifecycle.Active {
			return fmt.Errorf("a rollback starts on a goal that is %s", prev.Status)
		}
		return nil // a person asked for exactly this
	}
	switch {
	case !o.Effect.SideEffect():
		return nil
	case core.Private(o):
		if prev.Status != lifecycle.Verifying {
			return fmt.Errorf("%s starts on a goal that is %s", o.Tool, prev.Status)
		}
		return nil // it touches nothing
	case prev.Mode == event.ModePlan && o.Access.Command != "ls":
		return fmt.Errorf("%s starts in plan mode", o.Tool)
	case prev.Status != lifecycle.Active && !(o.Criterion != "" && prev.Status == lifecycle.Verifying):
		return fmt.Errorf("%s starts on a goal that is %s", o.Tool, prev.Status)
	case denied[p.Intent.Hash]:
		return fmt.Errorf("%s starts, which was denied", o.Tool)
	case again && o.Intent.Hash != p.Intent.Hash:
		return fmt.Errorf("%s starts again as something else", o.Tool)
	case asks && !again && (granted[o.ID] != p.Intent.Hash || used[o.ID]):
		return fmt.Errorf("%s starts without an answer of its own", o.Tool)
	}
	used[o.ID] = true
	return nil
}

// 5: re-derived from the raw events: the completion stands on the tree that was
// looked at after the claim, with what each criterion needs on exactly it.
func completionCarriesEvidence(s *sim) checker {
	seen, claimed, looked := "", false, true
	return checker{event: func(prev, st core.State, e event.Event, _ core.Input) error {
		switch p := e.Payload.(type) {
		case event.VerificationStarted:
			seen, claimed, looked = "", true, false
		case event.WorkspaceObserved:
			seen, looked = p.Tree, true
		case event.RepoStateMutated:
			seen, looked = p.Revision.Tree, true
		case event.TestCompleted:
			looked = true
		case event.OperationFinished:
			if o, ok := prev.Find(e.Op); ok && o.Effect.SideEffect() {
				looked = false // it took its time: what is there now has to be seen
			}
		case event.VerificationFinished:
			if p.GivenUp {
				s.saw["verification given up"]++
				if st.Status == lifecycle.Verifying || st.Verification != nil {
					return errors.New("the verification goes on")
				}
			}
		case event.GoalCompleted:
			switch {
			case !claimed || prev.Status != lifecycle.Verifying:
				return errors.New("completed without a verification")
			case p.Verdict.Tree != prev.Revision.Tree || seen != "" && seen != p.Verdict.Tree:
				return fmt.Errorf("completed on tree %s, the repository is at %s (looked at: %s)", p.Verdict.Tree, prev.Revision.Tree, seen)
			case !looked:
				return errStaleLook
			case p.Version != prev.Version:
				return fmt.Errorf("completed version %d of version %d", p.Version, prev.Version)
			case len(prev.InDoubt) > 0:
				return fmt.Errorf("completed with %s in doubt", prev.InDoubt[0].ID)
			}
			return s.evidenceFor(st, p)
		default:
			if prev.Status != lifecycle.Completed && st.Status == lifecycle.Completed {
				return errors.New("it completes the goal")
			}
		}
		return nil
	}}
}

func (s *sim) evidenceFor(st core.State, p event.GoalCompleted) error {
	passed, failed, word, answered := 0, 0, false, false
	for _, e := range s.events {
		switch x := e.Payload.(type) {
		case event.TestCompleted:
			if x.Command != testCommand || x.TreeBefore != p.Verdict.Tree || x.TreeAfter != p.Verdict.Tree || x.TimedOut {
				continue
			}
			if x.ExitCode == 0 && x.Counts.Passed > 0 && x.Counts.Failed == 0 {
				passed++
			} else {
				failed++
			}
		case event.CriterionAnswered:
			if e.Actor == event.ActorUser && x.Tree == p.Verdict.Tree {
				word, answered = x.Accepted, true
			}
		case event.GoalRevised:
			word, answered = false, false
		}
	}
	s.saw["completed "+s.criteria]++
	if err := s.checksHold(p.Verdict.Tree, passed, failed); err != nil {
		return err
	}
	needsTest, needsWord := s.criteria == "test" || s.criteria == "both", s.criteria == "manual" || s.criteria == "both" || s.criteria == "none"
	how := map[string]event.CompletedHow{"test": event.Verified, "manual": event.Attested, "both": event.Attested, "none": event.Attested, "accept": event.AcceptedUnverified,
		"review": event.Judged, "all": event.Judged, "intact": event.Verified, "bug": event.Verified, "file": event.Verified, "run": event.Verified}[s.criteria]
	switch {
	case needsTest && (passed == 0 || failed > 0):
		return fmt.Errorf("completed on %d passing and %d failing test runs of its tree", passed, failed)
	case needsWord && !(answered && word):
		return errors.New("completed without a person's word for its tree")
	case p.How != how && !(s.criteria == "accept" && word && p.How == event.Attested):
		return fmt.Errorf("completed as %s, it rests on %s", p.How, how)
	}
	return nil
}

// 6: after a cancellation nothing begins, whatever runs is asked to stop, and
// in the end nothing is left open.
func cancellationConverges(*sim) checker {
	return checker{
		step: func(before core.State, in core.Input, r core.Ready) error {
			if before.Status != lifecycle.Cancelled {
				return nil
			}
			stops, runs := map[string]bool{}, []string{}
			for _, e := range r.Effects {
				switch e := e.(type) {
				case core.Stop:
					stops[key(e.Op.ID, e.Attempt)] = true
				case core.Run:
					if e.Op.Tool != core.ToolRollback { // what the person wants of it now
						runs = append(runs, key(e.Op.ID, e.Attempt))
					}
				case core.Probe:
					if e.Op.Tool != core.ToolRollback {
						runs = append(runs, key(e.Op.ID, e.Attempt))
					}
				case core.Spawn: // what was reserved is made, to be cancelled as what it is
				case core.Command:
					if e.Order != event.OrderCancel {
						return fmt.Errorf("a child is told to %s after the goal was cancelled", e.Order)
					}
				default:
					return fmt.Errorf("wants %s after the goal was cancelled", e.Key())
				}
			}
			for _, k := range runs {
				if !stops[k] {
					return fmt.Errorf("%s is not asked to stop", k)
				}
			}
			return nil
		},
		event: func(prev, _ core.State, e event.Event, _ core.Input) error {
			if o, open := prev.Find(e.Op); prev.Status != lifecycle.Cancelled || open && o.Tool == core.ToolRollback {
				return nil
			}
			if p, ok := e.Payload.(event.OperationProposed); ok && p.Tool == core.ToolRollback && e.Actor == event.ActorUser {
				return nil // what a person does to a goal at rest
			}
			switch e.Payload.(type) {
			case event.ModelRequested, event.OperationStarted, event.OperationProposed, event.ApprovalRequested, event.ApprovalGranted,
				event.VerificationStarted, event.GoalWaiting, event.ContextCompacted, event.PlanUpdated, event.UserMessage:
				return errors.New("it begins something after the goal was cancelled")
			}
			return nil
		},
		end: func(st core.State) error {
			switch {
			case st.AnyStarted():
				return fmt.Errorf("an attempt is open: %s", js(st.Open))
			case st.Turn != nil, st.Request != nil:
				return errors.New("a turn or a request is open")
			case st.Status.Final() && len(st.Open) > 0:
				return fmt.Errorf("operations are open: %s", js(st.Open))
			case st.Status.Final() && (st.Wait != nil || st.Claim != nil || st.Verification != nil || len(st.Approvals.Pending) > 0):
				return errors.New("a final goal waits for something")
			}
			return nil
		},
	}
}

// advancing is what only the holder of the ticket may change.
func advancing(s core.State) string {
	request := ""
	if s.Request != nil {
		request = s.Request.ID
	}
	// A run in a private copy is a fact about that copy, whoever brings it; what
	// follows from it is for the holder to say.
	var here evidence.Shelf
	for _, r := range s.Evidence {
		if !r.Scratch {
			here = append(here, r)
		}
	}
	return js([]any{s.Status, s.Version, s.Mode, s.PlanHash, s.Todos, s.Revision, s.Budget.Limits, s.Claim, s.Verification, s.Verdict,
		s.How, s.Wait, s.Pause, s.Answers, s.Approvals.Granted, s.Compacted, request, here})
}

// 7: under an older fence only facts are recorded: how an attempt of its own
// ended, that its request brought nothing, that its own turn is over. The fence
// never falls, and nothing leaves a final status.
func staleHolderChangesNothing(s *sim) checker {
	return checker{
		step: func(before core.State, in core.Input, r core.Ready) error {
			if in.Fence == 0 || in.Fence >= max(before.Fence, in.StoreFence) {
				return nil
			}
			s.saw["step of a stale holder"]++
			for _, e := range r.Events {
				s.saw["late fact"]++
				o, _ := before.Find(e.Op)
				switch e.Payload.(type) {
				case event.OperationFinished, event.OperationReconciled:
					if e.Op == "" || o.AttemptBy != "" && o.AttemptBy != in.By && o.Effect != event.Read {
						return fmt.Errorf("it ends the attempt of %s", o.AttemptBy)
					}
				case event.OperationStarted:
					if o.Effect != event.Read {
						return fmt.Errorf("it starts %s", o.Tool)
					}
				case event.LateFact:
					if before.Stale == nil || before.Stale.Fence != in.Fence {
						return errors.New("it records a late fact about no verification of its own")
					}
				case event.ModelFailed, event.TurnEnded:
					if before.Turn != nil && event.Worker(before.Turn.Worker) != in.By {
						return fmt.Errorf("it records %s of another worker", e.Type)
					}
				default:
					return fmt.Errorf("it records %s", e.Type)
				}
			}
			after := core.Fold(before, r.Events)
			after.Request, before.Request = nil, nil // that it failed is a fact
			if advancing(after) != advancing(before) {
				return fmt.Errorf("it moves the goal:\n%s\n%s", advancing(before), advancing(after))
			}
			for _, e := range r.Effects {
				switch e := e.(type) {
				case core.Run:
					if e.Op.AttemptBy != in.By {
						return fmt.Errorf("it wants to run the attempt of %s", e.Op.AttemptBy)
					}
				case core.Stop:
				default:
					return fmt.Errorf("it wants %s", e.Key())
				}
			}
			return nil
		},
		event: func(prev, st core.State, e event.Event, in core.Input) error {
			if e.Fence < prev.Fence || st.Fence != e.Fence {
				return fmt.Errorf("the fence goes from %d to %d", prev.Fence, e.Fence)
			}
			if prev.Status.Final() && st.Status != prev.Status {
				return fmt.Errorf("it leaves the final status %s", prev.Status)
			}
			if in.Fence == 0 && e.Actor != event.ActorUser && e.Actor != event.ActorRuntime {
				return fmt.Errorf("a person's input is recorded as %s", e.Actor)
			}
			return nil
		},
	}
}

// 8: in every dimension, after every event, what is used and what is reserved
// stay within the limit; every request was reserved at the most it can cost
// before it is sent, and settles to no more; no request is sent past the
// deadline or before the provider's wish; at rest nothing is held.
func moneyReserved(*sim) checker {
	var retryAt moment.Time
	return checker{
		event: func(prev, st core.State, e event.Event, in core.Input) error {
			gone, l := st.Budget.Held(), st.Budget.Limits
			for _, d := range []struct {
				name              string
				used, held, limit int64
			}{{"turns", st.Budget.Used.Turns, gone.Turns, l.Turns}, {"steps", st.Budget.Used.Steps, gone.Steps, l.Steps},
				{"tokens", st.Budget.Used.Tokens, gone.Tokens, l.Tokens}, {"cost", st.Budget.Used.CostMicros, gone.CostMicros, l.CostMicros},
				{"tool ms", st.Budget.Used.ToolMS, gone.ToolMS, l.ToolMS}} {
				if d.limit > 0 && d.used+d.held > d.limit {
					return fmt.Errorf("%s: %d used and %d reserved of %d", d.name, d.used, d.held, d.limit)
				}
			}
			switch p := e.Payload.(type) {
			case event.ModelRequested:
				switch {
				case p.Reserved.Tokens < p.MaxOutput+500 || p.Reserved.CostMicros < 500+4*p.MaxOutput || p.Reserved.Steps != 1:
					return fmt.Errorf("reserves %+v for %d tokens of output", p.Reserved, p.MaxOutput)
				case !l.Deadline.IsZero() && in.Now >= l.Deadline:
					return errors.New("sent after the deadline")
				case in.Now < retryAt:
					return fmt.Errorf("sent %d ms before the provider wants it", retryAt.SinceMS(in.Now))
				}
			case event.ModelResponded:
				retryAt = 0
				if r := prev.Budget.Reserved[p.Request]; p.Usage.Total() > r.Tokens || p.CostMicros > r.CostMicros {
					return fmt.Errorf("used %+v of %+v", p.Usage, r)
				}
			case event.ModelFailed:
				retryAt = p.RetryAt
				if r := prev.Budget.Reserved[p.Request]; p.Charged.Tokens > r.Tokens || p.Charged.CostMicros > r.CostMicros || p.Charged.Steps > r.Steps {
					return fmt.Errorf("charged %+v of %+v", p.Charged, r)
				}
			case event.GoalResumed:
				retryAt = 0 // the user wants it now
			case event.BudgetExtended:
				if e.Actor != event.ActorUser {
					return fmt.Errorf("extended by %s", e.Actor)
				}
			}
			return nil
		},
		end: func(st core.State) error {
			var names []string
			for n := range st.Budget.Reserved {
				child, isChild := strings.CutPrefix(n, "child:")
				if c, ok := st.Children.Find(child); !isChild || !ok || !c.Open() {
					names = append(names, n)
				}
			}
			if len(names) > 0 {
				sort.Strings(names)
				return fmt.Errorf("reservations are open: %v", names)
			}
			return nil
		},
	}
}
