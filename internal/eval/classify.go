package eval

import (
	"fmt"

	"belay/internal/core"
	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/fault"
)

// Class says in what way a goal did not get where it should.
type Class string

// The classes, each with what it means in Classes.
const (
	None            Class = "none"
	FalseClaim      Class = "false_claim"
	BadPatch        Class = "bad_patch"
	EditMismatch    Class = "edit_mismatch"
	EditWithoutRead Class = "edit_without_read"
	NoTestRun       Class = "no_test_run"
	StaleTest       Class = "stale_test"
	EmptyTest       Class = "empty_test"
	MaskedExit      Class = "masked_exit"
	Flaky           Class = "flaky"
	TestWeakened    Class = "test_weakened"
	NotReproduced   Class = "not_reproduced"
	WrongScope      Class = "wrong_scope"
	Unproven        Class = "unproven"
	GaveUp          Class = "gave_up"
	Loop            Class = "loop"
	Budget          Class = "budget"
	PolicyDenied    Class = "policy_denied"
	BadCall         Class = "bad_call"
	UnknownEffect   Class = "unknown_effect"
	NeedsApproval   Class = "needs_approval"
	NeedsUser       Class = "needs_user"
	Stopped         Class = "stopped"
	ProviderFault   Class = "provider"
	Environment     Class = "environment"
	Fixture         Class = "fixture"
	Unfinished      Class = "unfinished"
	NotBegun        Class = "not_begun"
	BrokenPromise   Class = "broken_promise"
	Unmet           Class = "unmet"
)

// Classes documents each class in one sentence.
var Classes = map[Class]string{
	None:            "The goal is completed, and nothing that was looked at says otherwise.",
	FalseClaim:      "The goal counts as completed, but a check of the case, which the model could not see, fails.",
	BadPatch:        "The change was made, and the tests fail on it.",
	EditMismatch:    "Edits did not apply: the text to replace is not there, is there more than once, or the file has changed since it was read.",
	EditWithoutRead: "Edits of a file that was not read before.",
	NoTestRun:       "A claim for which the tests were never run.",
	StaleTest:       "A claim that rests on a run of an older state.",
	EmptyTest:       "The test command succeeds, but executes no test.",
	MaskedExit:      "The test command succeeds although it reports failed tests.",
	Flaky:           "The tests both pass and fail on one tree.",
	TestWeakened:    "Tests were deleted, skipped or weakened, or their command was redefined.",
	NotReproduced:   "The test that should show the fault does not fail before the change, or does not pass after it.",
	WrongScope:      "Paths were changed that the goal forbids or does not allow.",
	Unproven:        "A criterion of another kind (artifact, review, command) could not be shown.",
	GaveUp:          "The model stopped without a change: it announced, asked to be believed, or said that it cannot.",
	Loop:            "The same was tried again and again without anything new.",
	Budget:          "A limit of the budget was reached.",
	PolicyDenied:    "What the model insists on is denied, by policy, by the plan gate or by a person.",
	BadCall:         "Calls that no tool can understand: unknown tools, arguments that do not fit.",
	UnknownEffect:   "Nobody knows what an operation did; it waits for somebody to settle it.",
	NeedsApproval:   "An operation or a plan waits for a person's approval.",
	NeedsUser:       "A question, a manual criterion or a claim that nothing can check waits for a person.",
	Stopped:         "A person paused or cancelled the goal.",
	ProviderFault:   "The model's provider did not answer, refused, or answered nothing that can be read.",
	Environment:     "The machine: no sandbox, no directory, no space, no ledger.",
	Fixture:         "The case itself: it cannot be read, a program that it needs is missing, its repository cannot be made, or a preflight does not hold.",
	Unfinished:      "The run ended while the goal could still go on.",
	NotBegun:        "belay refused to begin: the request itself was wrong.",
	BrokenPromise:   "belay itself broke one of its invariants.",
	Unmet:           "The goal came to a good end by its own evidence, but not to the end that the case expects.",
}

// facts are what a classification looks at, in one pass over the events.
type facts struct {
	state    core.State
	criteria map[string]event.Criterion
	tests    []event.TestCompleted
	verdict  *event.Verdict
	changes  int // of the tree, by operations of the goal
	signal   string
	// fault is that of the last operation that did not succeed for a reason of
	// its own: that it was refused for failing too often is none.
	fault fault.Kind
	model fault.Kind // of the last request, "" once one succeeded
}

func read(es []event.Event) facts {
	f := facts{criteria: map[string]event.Criterion{}}
	f.state = core.Fold(core.State{}, es)
	for _, c := range f.state.Criteria() {
		f.criteria[c.ID] = c
	}
	for _, e := range es {
		switch p := e.Payload.(type) {
		case event.TestCompleted:
			f.tests = append(f.tests, p)
		case event.VerificationFinished:
			if p.Refused == "" {
				f.verdict = &p.Verdict
			}
		case event.RepoStateMutated:
			if p.By != "external" {
				f.changes++
			}
		case event.ProgressAlarm:
			f.signal = p.Signal
		case event.OperationRejected:
			if p.Fault.Kind != fault.Forbidden {
				f.fault = p.Fault.Kind
			}
		case event.ApprovalDenied:
			f.fault = fault.UserDenied
		case event.OperationFinished:
			if p.Result.Fault != nil {
				f.fault = p.Result.Fault.Kind
			}
		case event.ModelFailed:
			f.model = p.Fault.Kind
		case event.ModelResponded:
			f.model = ""
		}
	}
	return f
}

// Classify says in what way a goal went wrong, from its ledger alone, with the
// reason in words. checks are the case's own checks that failed at the end.
func Classify(es []event.Event, checks []string) (Class, string) {
	f := read(es)
	s := f.state
	switch {
	case len(es) == 0:
		return NotBegun, "nothing was recorded"
	case s.Refuse != "":
		return Environment, s.Refuse
	case s.Status == lifecycle.Completed && len(checks) > 0:
		return FalseClaim, "completed, but " + checks[0]
	case s.Status == lifecycle.Completed:
		return None, string(s.How)
	case s.Status == lifecycle.Cancelled:
		return Stopped, "cancelled by a person"
	case s.Status == lifecycle.Failed && s.Fault != nil:
		return byFault(f, fault.Kind(s.Fault.Kind)), s.Fault.Message
	case s.Status == lifecycle.Paused && s.Pause != nil:
		return f.paused()
	case s.Wait != nil:
		return f.waiting()
	case f.model != "":
		return ProviderFault, "the last request failed: " + string(f.model)
	}
	return Unfinished, fmt.Sprintf("the goal is %s and nobody works on it", s.Status)
}

func (f facts) paused() (Class, string) {
	p := f.state.Pause
	why := p.Detail
	switch p.Reason {
	case event.PausedBudget:
		return Budget, why
	case event.PausedByUser:
		return Stopped, "paused by a person"
	case event.PausedNoProg:
		kind := fault.Kind("")
		if h := f.state.HandOff; h != nil && h.Fault != nil {
			kind = h.Fault.Kind
		}
		switch {
		case kind == fault.Unverified:
			return f.byVerdict(), why
		case kind == fault.NoProgress && f.signal != "repeated_error":
			return Loop, why
		}
		if c := byFault(f, f.fault); c != Unmet && c != BadPatch {
			return c, why
		}
		return Loop, why
	}
	if h := f.state.HandOff; h != nil && h.Fault != nil {
		return byFault(f, h.Fault.Kind), why
	}
	return Unproven, why
}

func (f facts) waiting() (Class, string) {
	w := f.state.Wait
	switch {
	case w.Reason == event.WaitApproval:
		return NeedsApproval, w.Detail
	case w.Reason == event.WaitRetry && w.Blocked:
		return Environment, w.Detail
	case w.Reason == event.WaitRetry:
		return ProviderFault, w.Detail
	case len(f.state.InDoubt) > 0:
		return UnknownEffect, w.Detail
	case w.Reason == event.WaitUserInput:
		return NeedsUser, w.Detail
	}
	return Unfinished, w.Detail
}

// NotStarted says which command could not even be started, "" when all were: the
// machine broke on the way, whatever became of the goal.
func NotStarted(es []event.Event) string {
	for _, e := range es {
		p, ok := e.Payload.(event.OperationFinished)
		if !ok || p.Result.Fault == nil {
			continue
		}
		if k := p.Result.Fault.Kind; k == fault.SpawnFailed || k == fault.SandboxMissing {
			return e.Op + ": " + p.Result.Fault.Message
		}
	}
	return ""
}

// byFault is the class of a fault that ended a goal or that came last.
func byFault(f facts, kind fault.Kind) Class {
	switch kind {
	case fault.Overloaded, fault.RateLimited, fault.Timeout, fault.StreamCut, fault.Network, fault.ServerError, fault.MalformedReply,
		fault.ContextOverflow, fault.BadCredentials, fault.BadRequest, fault.Refused, fault.UnknownModel:
		return ProviderFault
	case fault.NotRead:
		return EditWithoutRead
	case fault.NoMatch, fault.Ambiguous, fault.StaleEdit:
		return EditMismatch
	case fault.PolicyDenied, fault.UserDenied, fault.PlanGate, fault.Protected, fault.Outside, fault.SecretArgument:
		return PolicyDenied
	case fault.UnknownTool, fault.InvalidArguments:
		return BadCall
	case fault.Unverified:
		return f.byVerdict()
	case fault.BudgetExhausted:
		return Budget
	case fault.InDoubt:
		return UnknownEffect
	case fault.SandboxMissing, fault.SpawnFailed, fault.Storage, fault.Internal, fault.Foreign:
		return Environment
	case fault.NotFound, fault.ExitStatus, fault.TimedOut, fault.OutputLimit, fault.AlreadyExists, fault.TooLarge, fault.NotText:
		return Loop
	}
	return Unmet
}

// byVerdict is the class of the first thing that the last verdict misses. What
// was done to the tests or outside the scope counts before what is not shown.
func (f facts) byVerdict() Class {
	if f.verdict == nil {
		return GaveUp
	}
	class, rank := Unproven, 9
	take := func(c Class, r int) {
		if r < rank {
			class, rank = c, r
		}
	}
	for _, r := range f.verdict.Criteria {
		if r.Result == event.Pass {
			continue
		}
		switch c := f.criteria[r.ID]; c.Kind {
		case event.CriterionTestsIntact:
			take(TestWeakened, 0)
		case event.CriterionScope:
			take(WrongScope, 1)
		case event.CriterionTest, event.CriterionCommand:
			take(f.byRuns(c), 2)
		case event.CriterionReproduces:
			take(NotReproduced, 3)
		case event.CriterionManual:
			take(NeedsUser, 5)
		default:
			take(Unproven, 4)
		}
	}
	if rank == 9 && len(f.state.InDoubt) > 0 {
		return UnknownEffect
	}
	return class
}

// byRuns says what is wrong with the runs of a criterion's command.
func (f facts) byRuns(c event.Criterion) Class {
	tree := f.verdict.Tree
	var last *event.TestCompleted
	ran, passed, failed := false, 0, 0
	for i, t := range f.tests {
		if !evidence.Same(t.Command, c.Command) {
			continue
		}
		ran = true
		if t.TreeBefore != tree || t.TreeAfter != tree {
			continue
		}
		last = &f.tests[i]
		if t.ExitCode == 0 && t.Counts.Failed == 0 {
			passed++
		} else {
			failed++
		}
	}
	switch {
	case !ran && f.changes == 0:
		return GaveUp
	case !ran:
		return NoTestRun
	case last == nil:
		return StaleTest
	case passed > 0 && failed > 0:
		return Flaky
	case last.ExitCode == 0 && last.Counts.Failed > 0:
		return MaskedExit
	case last.ExitCode == 0 && c.Kind == event.CriterionTest && last.Counts.Executed() == 0:
		return EmptyTest
	case f.changes == 0:
		return GaveUp
	}
	return BadPatch
}
