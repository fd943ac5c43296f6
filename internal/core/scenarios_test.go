package core_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
)

// The eight scenarios of the seed on long runs, and its table of attempts 7 and
// 9, each as a property: whatever else happens in between, in whatever order.
// The same stories stand as traces in testdata/scripts/seed2_*.txt.

// story plays lines on a bench; a line may be refused, but never be illegal.
type story struct {
	*bench
	t *rapid.T
}

func newStory(t *rapid.T, lines ...string) *story {
	s := &story{newBench(), t}
	s.plays(lines...)
	return s
}

func (s *story) plays(lines ...string) {
	for _, l := range lines {
		if err := s.do(l); err != nil && !errors.As(err, new(refusal)) {
			s.t.Fatalf("%s: %v\n%s", l, err, strings.Join(s.out, "\n"))
		}
	}
}

// between plays lines of which none may matter, drawn in any number.
func (s *story) between(lines ...string) {
	for range rapid.IntRange(0, 4).Draw(s.t, "how much") {
		s.plays(rapid.SampledFrom(lines).Draw(s.t, "noise"))
	}
}

// after are the events from a place on.
func (s *story) after(head uint64) []event.Event { return s.events[head:] }

func (s *story) none(head uint64, why string, types ...event.Type) {
	for _, e := range s.after(head) {
		for _, t := range types {
			if e.Type == t {
				s.t.Fatalf("%s: event %d is %s\n%s", why, e.Seq, e.Type, strings.Join(s.out, "\n"))
			}
		}
	}
}

func (s *story) count(typ event.Type, op string) int {
	n := 0
	for _, e := range s.events {
		if e.Type == typ && e.Op == op {
			n++
		}
	}
	return n
}

func (s *story) status(want lifecycle.Status) {
	if s.state.Status != want {
		s.t.Fatalf("the goal is %s, want %s\n%s", s.state.Status, want, strings.Join(s.out, "\n"))
	}
}

var ends = []string{"ended op1 passed=3", "ended op1 exit=1 failed=1", "ended op1 unknown", "ended op1 timed_out=1 exit=137", "ended op1 signal=SIGTERM"}

// What advances a goal, none of which may follow once it stands still.
var advances = []event.Type{event.TypeModelRequested, event.TypeOperationStarted, event.TypeVerificationStarted, event.TypeGoalCompleted, event.TypeGoalResumed}

func TestScenarioPauseWhileWaitingForATool(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, `begin approve=auto test="make check"`, "model test; write a.go new; read b", "prepared op1")
		noise := []string{"poke", "observed", "composed", "tick 90000", "steer quickly", "say well?", "prepared op2", "as w1 poke"}
		s.between("tick 10", "poke")
		s.plays("pause")
		head := s.state.Head
		s.between(noise...)
		s.plays("as w1 " + rapid.SampledFrom(ends).Draw(t, "end"))
		s.between(noise...)
		if rapid.Bool().Draw(t, "another worker wakes") {
			s.plays("as w1 release", "claim w2 takeover")
		}
		s.between(noise...)
		s.status(lifecycle.Paused)
		s.none(head, "the goal goes on by itself", advances...)
		if n := s.count(event.TypeOperationFinished, "op1"); n != 1 {
			t.Fatalf("the result is kept %d times", n)
		}
		if s.state.Pause.Reason != event.PausedByUser {
			t.Fatalf("it is paused by %s", s.state.Pause.Reason)
		}
	})
}

func TestScenarioOldResultAfterCancel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, `begin approve=auto test="make check"`)
		effect := rapid.SampledFrom([]string{"test", "opaque pager", "write a.go new", "push main"}).Draw(t, "effect")
		s.plays("model "+effect+"; read b; write c.go new", "prepared op1")
		s.between("tick 10", "poke", "steer quickly")
		s.plays("cancel")
		head := s.state.Head
		noise := []string{"poke", "observed", "composed", "as w1 ended op2", "as w1 prepared op3", "resume", "approve", "say go on", "revise text=other", "as w1 reply text done"}
		s.between(noise...)
		late := rapid.Bool().Draw(t, "by a worker that was replaced")
		if late {
			s.plays("claim w2 takeover")
			s.between(noise...)
		}
		s.plays("as w1 " + rapid.SampledFrom([]string{"ended op1", "ended op1 failed", "ended op1 unknown"}).Draw(t, "end"))
		s.between(noise...)
		s.status(lifecycle.Cancelled)
		s.none(head, "it begins something", advances...)
		if n := s.count(event.TypeOperationFinished, "op1"); n != 1 {
			t.Fatalf("what really happened is recorded %d times", n)
		}
		for _, op := range []string{"op2", "op3"} {
			if n := s.count(event.TypeOperationRejected, op) + s.count(event.TypeOperationFinished, op); n != 1 {
				t.Fatalf("%s has %d outcomes", op, n)
			}
		}
	})
}

func TestScenarioTwoWorkersWoken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, "begin approve=auto")
		s.plays(rapid.SampledFrom([]string{"poke", "composed", "model read a", "model write a.go new"}).Draw(t, "how far"))
		s.plays("claim w2 takeover")
		turn := s.state.Turn.ID
		for range rapid.IntRange(1, 10).Draw(t, "lines") {
			if rapid.Bool().Draw(t, "the one that was replaced") {
				head := s.state.Head
				s.plays("as w1 " + rapid.SampledFrom([]string{"observed", "observed T9", "composed", "reply text done", "reply read z", "prepared op1",
					"fail overloaded", "release", "poke", "never op1", "ended op1"}).Draw(t, "stale"))
				for _, e := range s.after(head) {
					switch e.Type {
					case event.TypeOperationStarted, event.TypeOperationFinished, event.TypeModelFailed:
						if op, open := s.state.Find(e.Op); open && op.Open() && op.AttemptBy == event.Worker("w1") && op.Phase == operation.Started {
							t.Fatalf("the replaced worker started %s", e.Op)
						}
					default:
						t.Fatalf("the replaced worker records %s", e.Type)
					}
				}
				continue
			}
			s.plays("as w2 " + rapid.SampledFrom([]string{"observed", "composed", "reply read b", "poke"}).Draw(t, "current"))
		}
		if s.state.Turn != nil && s.state.Turn.ID != turn && s.state.Turn.Worker != "w2" {
			t.Fatalf("the turn is %s of %s", s.state.Turn.ID, s.state.Turn.Worker)
		}
		if s.state.Revision.Tree == "T9" {
			t.Fatal("what the replaced worker saw moved the revision")
		}
		if s.state.Fence != 2 {
			t.Fatalf("the fence is %d", s.state.Fence)
		}
	})
}

func TestScenarioGoalRevisedDuringVerification(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, `begin approve=auto test="make check"`, "model test", "do op1 passed=3",
			rapid.SampledFrom([]string{"model finish done", "model text done"}).Draw(t, "claim"))
		s.status(lifecycle.Verifying)
		s.between("tick 50", "poke")
		s.plays(`revise test="make lint"`)
		s.between("observed", "poke", "composed", "as w1 observed", "as w1 poke")
		if s.state.Version != 2 || s.state.Status != lifecycle.Active || s.count(event.TypeGoalCompleted, "") > 0 {
			t.Fatalf("version %d is %s", s.state.Version, s.state.Status)
		}
		s.plays("as w1 release", "claim w2", "observed", "model finish done", "observed")
		s.status(lifecycle.Active)
		if v := s.state.Verdict; v == nil || v.Verdict == event.Complete || !strings.Contains(strings.Join(v.Missing, " "), "make lint") {
			t.Fatalf("the newest criteria were not judged: %+v", v)
		}
	})
}

func TestScenarioCrashAfterTheWrite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, "begin approve=auto")
		class := rapid.SampledFrom([]string{"write a.go new", "run make release", "push main", "opaque pager"}).Draw(t, "class")
		s.plays("model "+class, "prepared op1")
		crashes := rapid.IntRange(1, 4).Draw(t, "crashes")
		for i := range crashes {
			s.plays("crash", fmt.Sprintf("claim w%d takeover", i+2))
		}
		for _, e := range s.events {
			if p, ok := e.Payload.(event.OperationStarted); ok && p.Attempt != 1 {
				t.Fatalf("it is run again without a look: attempt %d", p.Attempt)
			}
		}
		wants := ""
		for _, e := range s.last.wants {
			wants += wantLine(e, s.now) + ";"
		}
		if strings.HasPrefix(class, "opaque") {
			if len(s.state.InDoubt) != 1 || strings.Contains(wants, "run op1") {
				t.Fatalf("nothing can tell what it did, but it is %v, wanted: %s", s.state.InDoubt, wants)
			}
			s.plays("observed", "model "+class)
			if o, ok := s.state.Find("op2"); ok && o.Open() {
				t.Fatal("the same action is taken up again")
			}
			return
		}
		if wants != "probe op1.1;" {
			t.Fatalf("the new worker wants %s", wants)
		}
		s.plays(rapid.SampledFrom([]string{"ended op1 recovered=probe", "ended op1 unknown recovered=probe", "never op1"}).Draw(t, "found"))
		if n := s.count(event.TypeOperationStarted, "op1"); n > 2 {
			t.Fatalf("it began %d times", n)
		}
	})
}

func TestScenarioRestartAfterCompaction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, `begin test="make check" manual="Does it look right?"`, "steer keep the public names", "poke",
			`model run ls; decide keep strings.Title; todos {"todos":[{"id":"1","content":"mend a.go","status":"in_progress"}]}`, "do op1", "model test", "do op4 passed=3")
		pending := rapid.Bool().Draw(t, "an approval is pending")
		s.plays("composed tokens=90000 window=100000")
		if s.state.Compacted == 0 {
			t.Fatal("nothing was compacted")
		}
		if pending {
			s.plays("model write a.go new", "prepared op5")
		}
		before := js([]any{s.state.Criteria(), s.state.Wait, s.state.Todos, s.state.Decisions, s.state.Evidence, s.state.Approvals, s.state.Said, s.state.Judgement()})
		for i := range rapid.IntRange(1, 3).Draw(t, "restarts") {
			s.plays("crash", fmt.Sprintf("claim w%d takeover", i+2))
		}
		wait := s.state.Wait
		if pending {
			s.plays("observed") // it waits again, for the same answer
			wait = s.state.Wait
		}
		after := js([]any{s.state.Criteria(), wait, s.state.Todos, s.state.Decisions, s.state.Evidence, s.state.Approvals, s.state.Said, s.state.Judgement()})
		if before != after {
			t.Fatalf("lost:\n%s\n%s", before, after)
		}
		sum := s.state.Summary()
		for _, want := range []string{"keep the public names", "keep strings.Title", "[in_progress] 1: mend a.go", "tests: pass", "op4", "looks: unknown"} {
			if !strings.Contains(sum, want) {
				t.Fatalf("the summary does not hold %q:\n%s", want, sum)
			}
		}
		if err := s.look("messages"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestScenarioBudgetSpentOrSameFailure(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		which := rapid.SampledFrom([]string{"tokens=2300", "steps=2", "turns=1 steps_per_turn=2", "cost=25000", "tool_ms=25", "deadline=4000", "same_error=2"}).Draw(t, "limit")
		s := newStory(t, `begin approve=auto test="make check" `+which)
		for i := range 14 {
			if s.state.Status != lifecycle.Active || s.state.Turn == nil {
				break
			}
			s.plays("tick 1000")
			if price := strings.HasPrefix(which, "cost"); price {
				s.plays("composed price=10000000", "reply run make gen")
			} else {
				s.plays("model run make gen")
			}
			s.plays(fmt.Sprintf("do op%d exit=2", i+1))
		}
		s.status(lifecycle.Paused)
		if r := s.state.Pause.Reason; r != event.PausedBudget && r != event.PausedNoProg {
			t.Fatalf("%s: it is paused by %s", which, r)
		}
		if s.state.HandOff == nil || s.state.HandOff.Why == "" || s.state.HandOff.HowResume == "" {
			t.Fatal("it does not say why it stopped and how to go on")
		}
		s.none(0, "it is called complete", event.TypeGoalCompleted)
		head := s.state.Head
		s.between("poke", "observed", "composed", "claim w9 takeover", "tick 100000")
		s.none(head, "it goes on by itself", advances...)
	})
}

func TestScenarioClaimWithoutEvidence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, `begin approve=auto test="make check" refused_claims=9`)
		bad := []string{"do %s exit=1 failed=1", "do %s passed=0", "do %s passed=2 failed=1", "do %s timed_out=1 exit=137", "do %s unknown"}
		op := 0
		for range rapid.IntRange(0, 4).Draw(t, "bad evidence") {
			op++
			s.plays("model test")
			if o, ok := s.state.Find(fmt.Sprint("op", op)); !ok || !o.Open() {
				continue // it is refused: an earlier run is in doubt, or failed too often
			}
			s.plays(fmt.Sprintf(rapid.SampledFrom(bad).Draw(t, "evidence"), fmt.Sprint("op", op)))
		}
		if rapid.Bool().Draw(t, "good evidence of another tree") && s.state.Status == lifecycle.Active && len(s.state.InDoubt) == 0 && len(s.state.Progress.Forbidden) == 0 {
			s.plays("tree T8", "model test")
			op++
			s.plays(fmt.Sprintf("do op%d passed=3", op), "tree T9")
		}
		for range rapid.IntRange(1, 4).Draw(t, "claims") {
			s.plays(rapid.SampledFrom([]string{"model text All tests pass. I have verified everything.", "model finish verified: 100% of the criteria pass"}).Draw(t, "claim"), "observed")
		}
		s.none(0, "words completed it", event.TypeGoalCompleted)
		claimed := s.count(event.TypeCompletionClaimed, "") > 0
		if s.state.Verdict == nil && claimed && s.state.Status == lifecycle.Active && s.state.Verification == nil && s.state.Pause == nil {
			t.Fatalf("no verdict was given\n%s", strings.Join(s.out, "\n"))
		}
		if v := s.state.Verdict; v != nil && (v.Verdict == event.Complete || len(v.Missing) == 0) {
			t.Fatalf("the verdict is %s and misses %q", v.Verdict, v.Missing)
		}
	})
}

// The table: a verification under attempt 7, a pause, a resume, a verification
// under attempt 9. Only what belongs to the newest decides, whenever it comes.
func TestScenarioAttempts7And9(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t, `begin approve=auto test="make check"`, "model test", "do op1 passed=3", "model finish done")
		seven := s.state.Fence
		s.status(lifecycle.Verifying)
		rounds := rapid.IntRange(1, 3).Draw(t, "pauses")
		for i := range rounds {
			s.between("as w1 poke", "tick 10")
			s.plays("pause")
			s.status(lifecycle.Paused)
			s.between("as w1 observed", "as w1 poke")
			s.status(lifecycle.Paused)
			s.plays("resume", fmt.Sprintf("claim n%d", i), "observed")
			s.status(lifecycle.Verifying)
		}
		if s.state.Fence < seven+2 {
			t.Fatalf("the fence went from %d to %d", seven, s.state.Fence)
		}
		s.between("as w1 observed", "as w1 poke", "as w1 release")
		s.status(lifecycle.Verifying) // the old result is refused
		s.plays("observed")
		s.status(lifecycle.Completed) // the current one counts
		s.between("as w1 observed", "pause", "cancel", "resume")
		s.status(lifecycle.Completed)
		if n := s.count(event.TypeGoalCompleted, ""); n != 1 {
			t.Fatalf("it completed %d times", n)
		}
	})
}
