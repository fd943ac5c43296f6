package core

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"belay/internal/core/budget"
	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/policy"
)

// The tools with which belay looks for itself while a claim is verified. The
// model does not have them.
const (
	ToolCheckTests    = "check_tests"
	ToolCheckRun      = "check_run"
	ToolCheckArtifact = "check_artifact"
	ToolCheckReview   = "check_review"
)

const (
	// CheckTimeoutMS is how long one run in a private copy may take.
	CheckTimeoutMS = 15 * 60_000
	// MaxCheckTries is how often one look is tried that brings nothing: its
	// supervisor was lost, the copy could not be made.
	MaxCheckTries = 3
	// MaxStaleVerifications is how often a claim is verified anew because the
	// workspace was edited meanwhile.
	MaxStaleVerifications = 5
)

// CheckOf is what a check operation is to look at.
type CheckOf struct {
	evidence.Need
	Verification string `json:"verification"`
}

// CheckArgs reads what a check operation is to look at.
func CheckArgs(o operation.Op) (CheckOf, error) {
	var c CheckOf
	if err := json.Unmarshal(o.Args, &c); err != nil {
		return c, fmt.Errorf("core: the arguments of %s: %w", o.ID, err)
	}
	return c, nil
}

// Private reports whether an operation is a look of belay's own that touches
// nothing of the user's: it reads, or it runs in a copy.
func Private(o operation.Op) bool {
	switch o.Tool {
	case ToolCheckTests, ToolCheckRun, ToolCheckArtifact, ToolCheckReview:
		return o.Criterion != ""
	}
	return false
}

// needOf is what an operation of a criterion was proposed for.
func needOf(o operation.Op) evidence.Need {
	if Private(o) {
		if c, err := CheckArgs(o); err == nil {
			return c.Need
		}
	}
	return evidence.Need{What: evidence.Rerun, Criterion: o.Criterion, Command: o.Access.Command}
}

// line are the operations that are taken one after the other now: while a
// claim is verified, those of its criteria.
func (s State) line() []operation.Op {
	if s.Status != lifecycle.Verifying {
		return s.inLine()
	}
	var line []operation.Op
	for _, o := range s.Open {
		if o.Criterion != "" {
			line = append(line, o)
		}
	}
	return line
}

// outdated reports whether the workspace is another than the one that the
// running verification judges.
func (s State) outdated() bool {
	v := s.Verification
	return v != nil && v.Tree != "" && v.Tree != s.Revision.Tree
}

// verify goes on with a verification: one look after the other, then the
// verdict.
func (w *step) verify() bool {
	if w.s.Claim == nil {
		w.giveUpVerification("the claim was withdrawn")
		return true
	}
	if w.s.outdated() {
		w.verifyAnew()
		return true
	}
	if line := w.s.line(); len(line) > 0 {
		return w.advanceOp(line[0])
	}
	if n, ok := evidence.Next(w.s.Criteria(), w.s.world()); ok {
		w.proposeCheck(n)
		return true
	}
	w.verdict()
	return true
}

// verifyAnew gives up a verification whose tree is no longer the workspace's;
// the claim is verified again as it is now, but not for ever.
func (w *step) verifyAnew() {
	const why = "the workspace was edited before it ended"
	if w.s.Claim.Stale < MaxStaleVerifications {
		w.giveUpVerification(why)
		return
	}
	w.withdrawChecks(why)
	claim := *w.s.Claim
	v := event.Verdict{Verdict: event.VerdictUnknown, Criteria: []event.CriterionResult{}, Tree: w.s.Revision.Tree,
		Missing: []string{fmt.Sprintf("somebody else edited the workspace during each of %d verifications, so there is no state to judge", claim.Stale+1)}}
	w.emitBy(event.ActorRuntime, claim.Op, event.VerificationFinished{Verification: w.s.Verification.ID, Version: w.s.Version, Verdict: v})
	w.refuseClaim(claim, v)
}

// giveUpVerification refuses the verdict that a running verification would
// have come to. What was found stays on record, with how the criteria stood.
func (w *step) giveUpVerification(why string) {
	v := w.s.Verification
	if v == nil {
		return
	}
	w.withdrawChecks(why)
	then := w.s
	if v.Tree != "" {
		then.Revision.Tree = v.Tree
	}
	verdict := then.Judgement()
	if verdict.Verdict == event.Complete {
		verdict.Verdict = event.VerdictUnknown // nothing was concluded
	}
	w.emitBy(event.ActorRuntime, "", event.VerificationFinished{Verification: v.ID, Version: v.Version, Verdict: verdict, Refused: why, GivenUp: true})
}

// refused ends a running verification without a verdict.
func (s *State) refused(p event.VerificationFinished) {
	v := s.Verification
	if v == nil || !p.GivenUp || v.ID != p.Verification {
		return // a fact that changes nothing
	}
	s.Stale, s.Verification = v, nil
	if s.Status == lifecycle.Verifying {
		s.Status = lifecycle.Active
	}
	if s.Claim != nil {
		s.Claim.Stale++
	}
}

// lateVerdict keeps as a fact that a worker came back for a verification that
// was given up.
func (w *step) lateVerdict(tree string) {
	v := w.s.Stale
	if v == nil || w.holder() || w.in.Fence != v.Fence {
		return
	}
	detail, err := json.Marshal(map[string]any{"verification": v.ID, "goal_version": v.Version, "fence": v.Fence, "tree": tree})
	if err != nil {
		w.fail(err)
		return
	}
	w.emit(event.LateFact{What: "verification_refused", Detail: detail})
}

// withdrawChecks closes the looks that have not begun.
func (w *step) withdrawChecks(why string) {
	for _, o := range append([]operation.Op(nil), w.s.Open...) {
		if o.Criterion != "" && o.Phase != operation.Started {
			w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: event.Cancelled,
				Fault: *fault.New(fault.Cancelled, fault.User, why, "")})
		}
	}
}

// proposeCheck has belay look for itself.
func (w *step) proposeCheck(n evidence.Need) {
	p := event.OperationProposed{Criterion: n.Criterion, Effect: event.Read}
	args := any(CheckOf{Need: n, Verification: w.s.Verification.ID})
	switch n.What {
	case evidence.Inspect:
		p.Tool = ToolCheckTests
	case evidence.Artifact:
		p.Tool = ToolCheckArtifact
	case evidence.Review:
		p.Tool, p.Effect = ToolCheckReview, event.Opaque
	case evidence.Scratch:
		p.Tool, p.Effect, p.Access = ToolCheckRun, event.Supervised, event.Access{Command: n.Command, Test: n.Test}
	default:
		p.Tool, p.Effect, p.Access = "run_command", event.Supervised, event.Access{Command: n.Command, Test: n.Test}
		if n.Test {
			p.Tool = "run_test"
		}
		args = map[string]string{"command": n.Command}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		w.fail(err)
		return
	}
	p.Arguments = raw
	w.emitBy(event.ActorRuntime, fmt.Sprintf("op%d", w.s.Ops+1), p)
}

// startCheck begins a run in a private copy. Policy is asked as for any
// command; nobody is asked in its place, because nothing waits for the answer
// but the verdict.
func (w *step) startCheck(o operation.Op) bool {
	run := o
	run.Tool = "run_test"
	v := w.s.judge(run)
	if v.Decision == policy.Deny || v.Decision == policy.Ask && w.s.Settings.Approve != event.ApproveAuto {
		w.reject(o, fault.New(fault.PolicyDenied, fault.User, fmt.Sprintf("policy does not let `%s` run unasked (%s)", o.Access.Command, v.Reason),
			"allow it with a rule (belay policy), or take it out of the criteria"))
		return true
	}
	deadline := min(CheckTimeoutMS, w.s.Budget.Left().ToolMS)
	if deadline <= 0 {
		w.exhausted("tool seconds")
		return false
	}
	c, err := CheckArgs(o)
	if err != nil {
		w.fail(err)
		return false
	}
	w.emitOp(o.ID, event.OperationStarted{Attempt: o.Attempt + 1, Tree: c.Tree, DeadlineMS: deadline, Place: w.s.Holder.Place,
		Intent: event.Intent{Hash: o.ArgsHash, Network: v.Scope, Preview: event.Text{Head: "$ " + c.Command + "\n"}}})
	w.commit()
	return true
}

// startReview reserves what the reviewer can cost at most before it is asked.
func (w *step) startReview(o operation.Op, b Prepared) {
	if b.Fault != nil {
		w.reject(o, b.Fault)
		return
	}
	reserved, out, short := w.s.Budget.Fit(budget.Ask{Input: b.Review.Tokens, MaxOutput: min(or(b.Review.MaxOutput, ReviewOutput), ReviewOutput),
		InputPrice: b.Review.InputPrice, OutputPrice: b.Review.OutputPrice, PriceKnown: b.Review.PriceKnown}, w.in.Now)
	if short != "" {
		w.exhausted(short)
		return
	}
	w.emitOp(o.ID, event.OperationStarted{Attempt: o.Attempt + 1, Tree: w.s.Revision.Tree, Reserved: reserved, MaxOutput: out, Place: w.s.Holder.Place,
		Intent: event.Intent{Hash: o.ArgsHash}})
	w.commit() // it costs money
}

// ReviewOutput is the most that a reviewer may write, in tokens.
const ReviewOutput = 4096

// finishCheck takes in what a look of belay's own brought. It reports whether
// that is all there is to it: it changed nothing and is no work of the model's.
func (s *State) finishCheck(e event.Event, o operation.Op, p event.OperationFinished) bool {
	if o.Criterion == "" {
		return false
	}
	c := p.Result.Command
	switch {
	case p.Outcome == event.OutcomeUnknown, p.Outcome == event.Cancelled, c == nil && p.Result.Check == nil:
		why := "its outcome is unknown"
		if p.Result.Fault != nil {
			why = p.Result.Fault.Message
		}
		if !p.Late { // what an older holder met is no matter of this verification
			s.tried(o, why, 1)
		}
	case p.Result.Check != nil:
		of, err := CheckArgs(o)
		if err != nil {
			s.refuse(e, err.Error())
			return true
		}
		s.Checks = s.Checks.Add(evidence.Check{Op: o.ID, Seq: e.Seq, Criterion: o.Criterion, Verification: of.Verification, CheckResult: *p.Result.Check})
	case Private(o):
		s.Evidence = s.Evidence.Add(copyRun(e, o, p))
	}
	if !Private(o) {
		return false
	}
	if o.Effect != event.Read {
		s.Fresh = false // it took its time
	}
	return true
}

// copyRun is the evidence of a run in a private copy.
func copyRun(e event.Event, o operation.Op, p event.OperationFinished) evidence.Record {
	r := evidence.Record{Op: o.ID, Seq: e.Seq, Command: o.Access.Command, Test: o.Access.Test, Tree: o.Tree, Scratch: true,
		ExitCode: exitOf(*p.Result.Command), TimedOut: p.Result.Command.TimedOut, Tools: toolsOf(p.Result.Environment)}
	if p.Result.Test != nil {
		r.Counts, r.Broken = *p.Result.Test, evidence.Broken(*p.Result.Test)
	}
	return r
}

// exitOf is the exit code that counts as evidence. What a signal ended has not
// ended by itself, whatever code stands beside it.
func exitOf(c event.CommandResult) int {
	if c.Signal != "" && c.ExitCode == 0 {
		return -1
	}
	return c.ExitCode
}

// tried counts a look that brought nothing, n times over, and gives it up when
// that was often enough.
func (s *State) tried(o operation.Op, why string, n int) {
	v := s.Verification
	if o.Criterion == "" || v == nil {
		return
	}
	need := needOf(o)
	if v.Tried == nil {
		v.Tried = map[string]int{}
	}
	v.Tried[need.Key()] += n
	if v.Tried[need.Key()] >= MaxCheckTries {
		s.giveUp(need, why)
	}
}

func (s *State) giveUp(n evidence.Need, why string) {
	v := s.Verification
	if n.Criterion == "" || v == nil {
		return
	}
	if v.GivenUp == nil {
		v.GivenUp = map[string]string{}
	}
	v.GivenUp[n.Key()] = clip(why, 500)
}

// toolsOf names the programs of a run in one line.
func toolsOf(env map[string]string) string {
	var names []string
	for k, v := range env {
		names = append(names, k+"="+v)
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}

// checkJudged says what is wrong with a criterion that belay looks at itself.
func checkJudged(c event.Criterion) error {
	switch c.Kind {
	case event.CriterionReproduces:
		if strings.TrimSpace(c.Command) == "" {
			return fmt.Errorf("a reproduces criterion needs the command that runs the test which shows the problem")
		}
	case event.CriterionTestsIntact:
	case event.CriterionArtifact:
		return checkArtifact(c)
	case event.CriterionReview:
		if strings.TrimSpace(c.Text) == "" {
			return fmt.Errorf("a review criterion needs in text what the reviewer is to judge")
		}
	default:
		return fmt.Errorf("there is no kind %q; the kinds are command, test, reproduces, scope, tests_intact, artifact, review and manual", c.Kind)
	}
	return nil
}

// checkOptions refuses what a kind does not know, so that nothing that the user
// asks for is passed over.
func checkOptions(c event.Criterion) error {
	runs := c.Kind == event.CriterionCommand || c.Kind == event.CriterionTest
	proof := c.Kind == event.CriterionReproduces || c.Kind == event.CriterionTestsIntact
	artifact := c.Path+c.Contains+c.Matches+c.SHA256+c.Branch+c.Commit != ""
	switch {
	case c.Repeat < 0 || c.Repeat > 100:
		return fmt.Errorf("repeat is %d; it is from 1 to 100", c.Repeat)
	case c.Repeat > 0 && !runs && c.Kind != event.CriterionReproduces:
		return fmt.Errorf("repeat is for command, test and reproduces criteria, not for %s", c.Kind)
	case c.Verify != "" && (c.Verify != event.VerifyRun || !runs):
		return fmt.Errorf("verify is %q; command and test criteria know verify: run", c.Verify)
	case len(c.Tests) > 0 && !proof:
		return fmt.Errorf("tests is for reproduces and tests_intact criteria, not for %s", c.Kind)
	case artifact && c.Kind != event.CriterionArtifact:
		return fmt.Errorf("path, contains, matches, sha256, branch and commit are for artifact criteria, not for %s", c.Kind)
	case len(c.Allow) > 0 && c.Kind != event.CriterionScope && c.Kind != event.CriterionTestsIntact:
		return fmt.Errorf("allow is for scope and tests_intact criteria, not for %s", c.Kind)
	case len(c.Forbid) > 0 && c.Kind != event.CriterionScope:
		return fmt.Errorf("forbid is for scope criteria, not for %s", c.Kind)
	}
	for _, p := range append(append([]string(nil), c.Tests...), c.Allow...) {
		if err := evidence.CheckPattern(p); err != nil {
			return err
		}
	}
	return nil
}

func checkArtifact(c event.Criterion) error {
	content := c.Contains+c.Matches+c.SHA256 != ""
	switch {
	case c.Path == "" && c.Branch == "" && c.Commit == "":
		return fmt.Errorf("an artifact criterion needs a path, a branch, or commit (words of its message)")
	case content && c.Path == "":
		return fmt.Errorf("contains, matches and sha256 say what a file holds: name it in path")
	case c.Path != "" && (c.Branch != "" || c.Commit != ""):
		return fmt.Errorf("a file and a branch or commit are two criteria")
	}
	return evidence.CheckContent(c)
}

// CriterionText is a criterion in one line.
func CriterionText(c event.Criterion) string {
	s := fmt.Sprintf("%s (%s)", c.ID, c.Kind)
	if c.Command != "" {
		s += " `" + c.Command + "`"
	}
	for _, part := range []struct{ name, value string }{{"allow", strings.Join(c.Allow, ", ")}, {"forbid", strings.Join(c.Forbid, ", ")},
		{"path", c.Path}, {"contains", c.Contains}, {"matches", c.Matches}, {"sha256", c.SHA256}, {"branch", c.Branch}, {"commit", c.Commit}} {
		if part.value != "" {
			s += " " + part.name + ": " + part.value
		}
	}
	if c.Text != "" {
		s += " " + c.Text
	}
	return s
}
