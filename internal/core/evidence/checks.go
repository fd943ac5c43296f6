package evidence

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"belay/internal/event"
)

// Check is what a look of belay's own found for a criterion.
type Check struct {
	Op           string `json:"op_id"`
	Seq          uint64 `json:"seq"`
	Criterion    string `json:"criterion"`
	Verification string `json:"verification,omitempty"`
	event.CheckResult
}

// keepChecks bounds how many checks are held.
const keepChecks = 64

// Checks holds the recent checks, oldest first.
type Checks []Check

// Add returns the checks with one more.
func (cs Checks) Add(c Check) Checks {
	n := append(append(Checks(nil), cs...), c)
	if len(n) > keepChecks {
		n = n[len(n)-keepChecks:]
	}
	return n
}

// on is the newest check of a criterion on a tree.
func (cs Checks) on(criterion, tree string) *Check {
	for i := len(cs) - 1; i >= 0; i-- {
		if cs[i].Criterion == criterion && cs[i].Tree == tree {
			return &cs[i]
		}
	}
	return nil
}

// What belay can do for a criterion that the model cannot, or did not.
const (
	Inspect  = "inspect"  // compare the tests of the two trees
	Scratch  = "scratch"  // run the command in a private copy of a tree
	Rerun    = "rerun"    // run the command in the workspace
	Artifact = "artifact" // look for a file, a commit or a branch
	Review   = "review"   // ask a second model
)

// Need is one thing that has to be looked at before a criterion can be judged.
type Need struct {
	What string `json:"what"`
	// Criterion is its id.
	Criterion string `json:"criterion"`
	// Command and Tree say what is run and on what.
	Command string `json:"command,omitempty"`
	Tree    string `json:"tree,omitempty"`
	Test    bool   `json:"test,omitempty"`
	// On says in words what the tree is.
	On string `json:"on,omitempty"`
}

// The trees that commands are run on in private copies.
const (
	onOldTests = "the present code with the tests as they stood at the start"
	onNewTests = "the code as the goal found it with the present tests"
	onStart    = "the code as the goal found it"
	onNow      = "the present code"
)

// Key names the need: equal keys ask for the same look.
func (n Need) Key() string { return n.Criterion + "/" + n.What + "/" + n.Tree + "/" + n.Command }

// Next is the first look that the criteria need, if any. What only reads comes
// first. Runs in private copies follow when nothing else stands against the
// claim, because they cost time; a reviewer, who costs money, is asked when all
// that can be established without one holds.
func Next(cs []event.Criterion, w World) (Need, bool) {
	var costly []Need
	holds, sure := true, true
	for _, c := range cs {
		if c.Kind == event.CriterionManual || c.Kind == event.CriterionReview {
			continue
		}
		n, ok := need(c, w)
		if ok && n.What != Scratch {
			return n, true
		}
		if ok {
			costly = append(costly, n)
		}
		r := Judge(c, w).Result
		sure = sure && r == event.Pass
		holds = holds && (r == event.Pass || ok)
	}
	if holds && len(costly) > 0 {
		return costly[0], true
	}
	if !sure {
		return Need{}, false
	}
	for _, c := range cs {
		if c.Kind != event.CriterionReview {
			continue
		}
		if n, ok := need(c, w); ok {
			return n, true
		}
	}
	return Need{}, false
}

// need is the next look for one criterion. One that was given up is not asked
// for again.
func need(c event.Criterion, w World) (Need, bool) {
	n := Need{Criterion: c.ID}
	ask := func(what, command, tree string, test bool) (Need, bool) {
		n.What, n.Command, n.Tree, n.Test = what, command, tree, test
		_, gone := w.GivenUp[n.Key()]
		return n, !gone
	}
	switch c.Kind {
	case event.CriterionCommand, event.CriterionTest:
		if again(c, w) {
			return ask(Rerun, c.Command, "", c.Kind == event.CriterionTest)
		}
	case event.CriterionArtifact:
		if k := w.Checks.on(c.ID, w.Tree); k == nil || k.Verification != w.Verification {
			return ask(Artifact, "", w.Tree, false)
		}
	case event.CriterionReview:
		if k := w.Checks.on(c.ID, w.Tree); k == nil || k.Opinion == event.ResultUnknown && k.Verification != w.Verification {
			return ask(Review, "", w.Tree, false)
		}
	case event.CriterionReproduces, event.CriterionTestsIntact:
		k := w.Checks.on(c.ID, w.Tree)
		if k == nil {
			return ask(Inspect, w.commandOf(c), w.Tree, false)
		}
		if tree, on := w.toRun(c, *k); tree != "" {
			n.On = on
			return ask(Scratch, w.commandOf(c), tree, true)
		}
	}
	return n, false
}

// again reports whether belay runs a command or test criterion itself: because
// the user said so and there is no run, or because one pass is not enough.
func again(c event.Criterion, w World) bool {
	runs := w.Shelf.On(c.Command, w.Tree)
	if len(runs) == 0 {
		return c.Verify == event.VerifyRun
	}
	passed, failed, last := tally(runs, good(c.Kind))
	return passed > 0 && failed == 0 && !last.TimedOut && !last.Moved && int64(passed) < c.Repeat
}

// commandOf is the command of a criterion, the goal's own when it names none.
func (w World) commandOf(c event.Criterion) string {
	if c.Command != "" {
		return c.Command
	}
	return w.Test
}

// toRun is the tree on which the criterion's command has still to be run, with
// what it is; "" when there is none.
func (w World) toRun(c event.Criterion, k Check) (tree, on string) {
	command := w.commandOf(c)
	if command == "" || len(k.Findings) > 0 || k.Mixed == "" {
		return "", ""
	}
	if c.Kind == event.CriterionTestsIntact {
		r, base := w.standing(command, k)
		switch {
		case k.Tests == 0 || k.Mixed == w.Tree && r != nil && !r.Scratch && r.TestPass() && base != nil:
		case r == nil:
			return k.Mixed, onOldTests
		case base == nil && (r.Counts.Runner != "" || !r.Clean()):
			return w.Baseline, onStart
		case !r.Scratch && !passes(*r) && base != nil && !passes(*base) && len(w.Shelf.Copy(command, k.Mixed)) == 0:
			return k.Mixed, onOldTests // to tell by name which tests failed before
		}
		return "", ""
	}
	before := w.Shelf.Copy(command, k.Mixed)
	switch now := w.Shelf.Copy(command, w.Tree); {
	case k.Mixed == w.Tree:
	case len(before) == 0:
		return k.Mixed, onNewTests
	case !failsFairly(before[len(before)-1]):
	case len(now) == 0, passes(now[len(now)-1]) && int64(len(now)) < c.Repeat:
		return w.Tree, onNow
	}
	return "", ""
}

// passes reports whether a run is a success: of tests, where it told of any.
func passes(r Record) bool {
	if r.Counts.Runner == "" {
		return r.Clean()
	}
	return r.TestPass()
}

// failsFairly reports whether a run got as far as its tests, or its own end,
// and failed there.
func failsFairly(r Record) bool {
	return !r.TimedOut && !r.Moved && !r.Broken && !passes(r) && (r.Counts.Failed > 0 || r.Counts.Runner == "" && r.ExitCode != 0 && !notFound(r.ExitCode))
}

// notFound are the shell's exit codes for a command that did not run.
func notFound(code int) bool { return code == 126 || code == 127 }

// standing are the newest run of the tests as they stood over the present code,
// and the fullest on the tree that the goal found.
func (w World) standing(command string, k Check) (now, base *Record) {
	copies := w.Shelf.Copy(command, k.Mixed)
	if k.Mixed == w.Tree && len(copies) == 0 {
		copies = w.Shelf.On(command, w.Tree)
	}
	if n := len(copies); n > 0 {
		now = &copies[n-1]
	}
	for _, r := range slices.Concat(w.Shelf.On(command, w.Baseline), w.Shelf.Copy(command, w.Baseline)) {
		if !r.TimedOut && (base == nil || r.Counts.Executed() >= base.Counts.Executed()) {
			base = &r
		}
	}
	return now, base
}

const unseen = "belay has not checked it on the repository as it is now; a claim has it checked"

// lost is why a look could not be had, "" when it was not given up.
func (w World) lost(c event.Criterion) string {
	for key, why := range w.GivenUp {
		if strings.HasPrefix(key, c.ID+"/") {
			return "it could not be checked: " + why
		}
	}
	return ""
}

func judgeReproduces(c event.Criterion, w World, r *event.CriterionResult) {
	command := w.commandOf(c)
	k := w.Checks.on(c.ID, w.Tree)
	if k == nil {
		r.Reason = unseen
		return
	}
	r.Evidence = []string{k.Op}
	before, now := w.Shelf.Copy(command, k.Mixed), w.Shelf.Copy(command, w.Tree)
	switch {
	case len(k.Findings) > 0:
		r.Reason = strings.Join(k.Findings, "; ")
	case k.Mixed == w.Tree:
		r.Result, r.Reason = event.Fail, "nothing but tests differs from what the goal found, so there is no mended code to show"
	case len(before) == 0:
		r.Reason = fmt.Sprintf("`%s` has not been run on the code as the goal found it", command)
	default:
		r.Evidence = append(r.Evidence, before[len(before)-1].Op)
		judgeBefore(command, before, now, r)
	}
	if r.Reason != "" {
		return
	}
	judgeNow(c, command, w, now, r)
}

// judgeBefore looks at the runs on the code as it was found; a reason says what
// is wrong with them.
func judgeBefore(command string, before, now Shelf, r *event.CriterionResult) {
	passed, failed, last := tally(before, passes)
	switch {
	case passed > 0 && failed > 0:
		r.Reason = fmt.Sprintf("flaky: on the code as the goal found it, `%s` passed %d and failed %d times", command, passed, failed)
	case passes(last):
		r.Result, r.Reason = event.Fail, fmt.Sprintf("`%s` passes also on the code as the goal found it, so it does not show the problem", command)
	case last.TimedOut:
		r.Reason = fmt.Sprintf("on the code as the goal found it, `%s` did not end within its time", command)
	case last.Counts.Runner != "" && last.Counts.Executed() == 0:
		r.Result, r.Reason = event.Fail, fmt.Sprintf("`%s` runs no test on the code as the goal found it", command)
	case last.Broken, last.Counts.Runner == "" && len(now) > 0 && now[len(now)-1].Counts.Runner != "":
		r.Reason = fmt.Sprintf("on the code as the goal found it, `%s` does not get as far as a test (it does not build, or cannot be loaded), which shows nothing of the problem; write it so that it runs against the old code too", command)
	case notFound(last.ExitCode):
		r.Reason = fmt.Sprintf("`%s` could not be run in a copy of the code as the goal found it (exit code %d)", command, last.ExitCode)
	}
}

func judgeNow(c event.Criterion, command string, w World, now Shelf, r *event.CriterionResult) {
	if len(now) == 0 {
		r.Reason = fmt.Sprintf("`%s` has not been run on a copy of the present code", command)
		return
	}
	passed, failed, last := tally(now, passes)
	r.Evidence = append(r.Evidence, last.Op)
	_, here, _ := tally(w.Shelf.On(command, w.Tree), passes)
	switch {
	case passed > 0 && failed > 0:
		r.Reason = fmt.Sprintf("flaky: on the present code, `%s` passed %d and failed %d times", command, passed, failed)
	case last.TimedOut:
		r.Reason = fmt.Sprintf("on a copy of the present code, `%s` did not end within its time", command)
	case !passes(last):
		r.Result, r.Reason = event.Fail, fmt.Sprintf("`%s` fails on a copy of the present code (%s)", command, ending(last))
	case here > 0:
		r.Reason = fmt.Sprintf("flaky: `%s` passes in a copy of the present code and failed in the workspace", command)
	case int64(passed) < c.Repeat:
		r.Reason = fmt.Sprintf("`%s` passed %d of %d times on the present code", command, passed, c.Repeat)
	default:
		r.Result = event.Pass
	}
}

// ending says in words how a run failed.
func ending(r Record) string {
	if len(r.Counts.Failing) > 0 {
		return fmt.Sprintf("%d failed: %s", r.Counts.Failed, names(r.Counts.Failing))
	}
	if r.Counts.Failed > 0 {
		return fmt.Sprintf("%d failed", r.Counts.Failed)
	}
	if r.ExitCode == 0 {
		return "no test was executed"
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

func names(list []string) string {
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func judgeIntact(c event.Criterion, w World, r *event.CriterionResult) {
	k := w.Checks.on(c.ID, w.Tree)
	if k == nil {
		r.Reason = unseen
		return
	}
	r.Evidence = []string{k.Op}
	command := w.commandOf(c)
	switch {
	case len(k.Findings) > 0 && k.Mixed == "":
		r.Reason = strings.Join(k.Findings, "; ")
	case len(k.Findings) > 0:
		r.Result, r.Reason = event.Fail, "tests that stood before were changed: "+strings.Join(k.Findings, "; ")
		if k.More > 0 {
			r.Reason += fmt.Sprintf("; and %d more", k.More)
		}
		r.Reason += "; put them back"
	case k.Tests == 0:
		r.Result = event.Pass // there is nothing to weaken
	case command == "" && k.Mixed == w.Tree:
		r.Result = event.Pass // byte for byte as they were
	case command == "":
		r.Reason = "tests were changed, and no command is known that runs those that stood before; name one in the criterion"
	default:
		judgeStanding(command, w, *k, r)
	}
}

func judgeStanding(command string, w World, k Check, r *event.CriterionResult) {
	now, base := w.standing(command, k)
	if now == nil {
		r.Reason = fmt.Sprintf("the tests that stood before have not been run (`%s`) over the present code", command)
		return
	}
	r.Evidence = append(r.Evidence, now.Op)
	passed, failed, _ := tally(w.Shelf.Copy(command, k.Mixed), passes)
	switch {
	case passed > 0 && failed > 0:
		r.Reason = fmt.Sprintf("flaky: the tests that stood before passed %d and failed %d times over the same code", passed, failed)
		return
	case now.TimedOut:
		r.Reason = "the tests that stood before did not end within their time"
		return
	case now.Counts.Runner == "" && now.Clean():
		r.Result = event.Pass // it tells of no counts that could be compared
		return
	case base == nil:
		r.Reason = fmt.Sprintf("`%s` has not been run on the code as the goal found it, so it is not known how many tests ran there", command)
		return
	}
	if base.Op != now.Op {
		r.Evidence = append(r.Evidence, base.Op)
	}
	judgeCounts(*now, *base, r)
}

// judgeCounts compares the tests that stood before over the present code with
// what they were on the code as it was found.
func judgeCounts(now, base Record, r *event.CriterionResult) {
	n, of := now.Counts.Executed(), base.Counts.Executed()
	switch {
	case passes(now) && n < of:
		r.Result, r.Reason = event.Fail, fmt.Sprintf("of the tests that stood before only %d ran; %d ran on the code as the goal found it", n, of)
	case passes(now):
		r.Result = event.Pass
	case passes(base):
		r.Result, r.Reason = event.Fail, "tests that stood before do not pass any more over the present code ("+ending(now)+")"
	case now.Broken || now.Counts.Passed == 0:
		r.Reason = "the tests that stood before do not get as far as a pass in a private copy (" + ending(now) + "); they may need files that git ignores"
	case len(now.Counts.Failing) == 0 || len(base.Counts.Failing) == 0 || int(now.Counts.Failed) > len(now.Counts.Failing) || int(base.Counts.Failed) > len(base.Counts.Failing):
		r.Reason = "the tests failed already on the code as the goal found it, and cannot be told apart by name (" + ending(now) + ")"
	default:
		fresh := slices.DeleteFunc(slices.Clone(now.Counts.Failing), func(name string) bool { return slices.Contains(base.Counts.Failing, name) })
		switch {
		case len(fresh) > 0:
			r.Result, r.Reason = event.Fail, "tests that stood before do not pass any more over the present code: "+names(fresh)
		case n < of:
			r.Result, r.Reason = event.Fail, fmt.Sprintf("of the tests that stood before only %d ran; %d ran on the code as the goal found it", n, of)
		default:
			r.Result = event.Pass // what fails failed before
		}
	}
}

func judgeArtifact(c event.Criterion, w World, r *event.CriterionResult) {
	k := w.Checks.on(c.ID, w.Tree)
	switch {
	case k == nil:
		r.Reason = unseen
	case w.Verification != "" && k.Verification != w.Verification:
		r.Reason = unseen
	case len(k.Findings) > 0:
		r.Result, r.Reason, r.Evidence = event.Fail, strings.Join(k.Findings, "; "), []string{k.Op}
	default:
		r.Result, r.Evidence = event.Pass, []string{k.Op}
	}
}

// judgeReview takes a reviewer's opinion for what it is; any word but a clear
// one is unknown.
func judgeReview(c event.Criterion, w World, r *event.CriterionResult) {
	k := w.Checks.on(c.ID, w.Tree)
	if k == nil {
		r.Reason = "no reviewer has looked at the repository as it is now; a claim that holds otherwise has it reviewed"
		return
	}
	r.Evidence = []string{k.Op}
	switch k.Opinion {
	case event.Pass:
		r.Result = event.Pass
	case event.Fail:
		r.Result, r.Reason = event.Fail, "the reviewer says no: "+k.Reason
	default:
		r.Reason = "the reviewer gave no usable opinion: " + k.Reason
	}
}

// Broken reports whether what failed never got as far as a test: a package that
// does not build, a module that cannot be loaded.
func Broken(c event.TestCounts) bool {
	if c.Failed == 0 || len(c.Failing) == 0 {
		return false
	}
	return !slices.ContainsFunc(c.Failing, func(name string) bool {
		return !strings.HasSuffix(name, " failed]") && !strings.HasSuffix(name, "[failed outside a test]") &&
			!(strings.HasSuffix(name, ".py") && !strings.Contains(name, "::")) && !strings.Contains(name, "_FailedTest")
	})
}

// CheckContent says what is wrong with what an artifact criterion asks of a
// file's content, or nil.
func CheckContent(c event.Criterion) error {
	if c.Matches != "" {
		if _, err := regexp.Compile(c.Matches); err != nil {
			return fmt.Errorf("matches is no regular expression: %w", err)
		}
	}
	if c.SHA256 != "" && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(c.SHA256) {
		return fmt.Errorf("sha256 is %q; it is 64 lower-case hexadecimal digits", c.SHA256)
	}
	if c.Path == "" {
		return nil
	}
	return CheckPattern(c.Path)
}

// HasContent says what a file's content lacks, "" when nothing.
func HasContent(c event.Criterion, content []byte, sha256 string) string {
	switch {
	case c.SHA256 != "" && c.SHA256 != sha256:
		return fmt.Sprintf("%s has the SHA-256 %s, not %s", c.Path, sha256, c.SHA256)
	case c.Contains != "" && !strings.Contains(string(content), c.Contains):
		return fmt.Sprintf("%s does not contain %q", c.Path, c.Contains)
	}
	if c.Matches != "" {
		re, err := regexp.Compile(c.Matches)
		if err != nil {
			return "matches is no regular expression: " + err.Error()
		}
		if !re.Match(content) {
			return fmt.Sprintf("%s does not match %q", c.Path, c.Matches)
		}
	}
	return ""
}
