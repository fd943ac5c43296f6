// Package evidence judges criteria by recorded results that are bound to a
// tree. It knows commands, exit codes and counts; it must not know models: no
// sentence anyone wrote can pass a criterion here.
package evidence

import (
	"fmt"
	"path"
	"strings"

	"belay/internal/event"
)

// Record is one run of a command on a tree.
type Record struct {
	Op       string           `json:"op_id"`
	Seq      uint64           `json:"seq"`
	Command  string           `json:"command"`
	Dir      string           `json:"dir,omitempty"`
	Test     bool             `json:"test,omitempty"`
	ExitCode int              `json:"exit_code"`
	TimedOut bool             `json:"timed_out,omitempty"`
	Counts   event.TestCounts `json:"counts"`
	Tree     string           `json:"tree"`
	// Moved says that the tree was another one after the run.
	Moved bool `json:"moved,omitempty"`
	// Scratch says that it ran in a private copy of the tree, where files that
	// are ignored are not; Broken that what failed got as far as no test.
	Scratch bool `json:"scratch,omitempty"`
	Broken  bool `json:"broken,omitempty"`
	// Tools identifies the programs that it ran with.
	Tools string `json:"tools,omitempty"`
}

// Clean reports whether the run ended with exit 0 within its time on a tree
// that it did not change.
func (r Record) Clean() bool { return r.ExitCode == 0 && !r.TimedOut && !r.Moved }

// TestPass reports whether the record is a successful test: clean, and at
// least one test really ran and none failed. A masked exit status shows in the
// counts.
func (r Record) TestPass() bool {
	return r.Clean() && r.Counts.Executed() > 0 && r.Counts.Failed == 0
}

// Keep bounds how many records a shelf holds: what is older than that was
// taken on trees that are long gone.
const Keep = 128

// Shelf holds the recent records, oldest first.
type Shelf []Record

// Add returns the shelf with one more record.
func (s Shelf) Add(r Record) Shelf {
	n := append(Shelf(nil), s...)
	n = append(n, r)
	if len(n) > Keep {
		n = n[len(n)-Keep:]
	}
	return n
}

// On returns the records of a command in the workspace on a tree, oldest first.
func (s Shelf) On(command, tree string) Shelf { return s.on(command, tree, false) }

// Copy returns the records of a command in private copies of a tree.
func (s Shelf) Copy(command, tree string) Shelf { return s.on(command, tree, true) }

func (s Shelf) on(command, tree string, scratch bool) Shelf {
	var rs Shelf
	for _, r := range s {
		if r.Tree == tree && r.Dir == "" && r.Scratch == scratch && Same(r.Command, command) {
			rs = append(rs, r)
		}
	}
	return rs
}

// Same compares shell texts: only white space at the ends is ignored, because
// anything inside may matter to the shell.
func Same(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// LatestPass returns the newest successful test on a tree.
func (s Shelf) LatestPass(tree string) (Record, bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i].Tree == tree && !s[i].Scratch && s[i].TestPass() {
			return s[i], true
		}
	}
	return Record{}, false
}

// Answer is a person's answer to a manual criterion, bound to what was shown.
type Answer struct {
	Accepted bool   `json:"accepted"`
	Tree     string `json:"tree"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
}

// World is what a judgement may look at.
type World struct {
	Tree    string
	Shelf   Shelf
	Changes []event.Change    // against the baseline
	More    int               // changed paths that Changes does not list
	Answers map[string]Answer // by criterion id
	// Baseline is the tree that the goal found, Test the goal's test command.
	Baseline, Test string
	Checks         Checks
	// Verification is the running one; what may change without the tree is
	// looked at anew in each.
	Verification string
	// GivenUp are the looks, by the key of their need, that cannot be had, with
	// the reason.
	GivenUp map[string]string
}

// Judge judges one criterion. Everything that could not be established is
// unknown, never pass.
func Judge(c event.Criterion, w World) event.CriterionResult {
	r := event.CriterionResult{ID: c.ID, Result: event.ResultUnknown}
	switch c.Kind {
	case event.CriterionCommand, event.CriterionTest:
		judgeRun(c, w, &r)
	case event.CriterionScope:
		judgeScope(c, w, &r)
	case event.CriterionManual:
		judgeManual(c, w, &r)
	case event.CriterionReproduces:
		judgeReproduces(c, w, &r)
	case event.CriterionTestsIntact:
		judgeIntact(c, w, &r)
	case event.CriterionArtifact:
		judgeArtifact(c, w, &r)
	case event.CriterionReview:
		judgeReview(c, w, &r)
	default:
		r.Reason = fmt.Sprintf("this version of belay cannot judge a criterion of kind %q", c.Kind)
	}
	if r.Result == event.ResultUnknown {
		if why := w.lost(c); why != "" {
			r.Reason = why
		}
	}
	return r
}

func judgeRun(c event.Criterion, w World, r *event.CriterionResult) {
	runs := w.Shelf.On(c.Command, w.Tree)
	if len(runs) == 0 {
		r.Reason = fmt.Sprintf("`%s` has not been run on the repository as it is now", c.Command)
		switch old := lastOf(w.Shelf, c.Command); {
		case old == nil:
		case old.Moved:
			r.Reason += fmt.Sprintf(" (its last run, %s, changed the workspace while it ran, so it is evidence for no state of it)", old.Op)
		default:
			r.Reason += fmt.Sprintf(" (its last run, %s, was on an older state)", old.Op)
		}
		return
	}
	good := good(c.Kind)
	passed, failed, last := tally(runs, good)
	r.Evidence = []string{last.Op}
	switch {
	case passed > 0 && failed > 0:
		r.Reason = fmt.Sprintf("flaky: `%s` passed %d and failed %d times on the same tree", c.Command, passed, failed)
		if !sameTools(runs) {
			r.Reason += ", with other tools (interpreter, test runner) in some of the runs"
		}
	case good(last) && int64(passed) < c.Repeat:
		r.Reason = fmt.Sprintf("`%s` passed %d of %d times on the repository as it is now", c.Command, passed, c.Repeat)
	case good(last):
		r.Result = event.Pass
	case last.TimedOut:
		r.Reason = fmt.Sprintf("`%s` did not end within its time", c.Command)
	case last.Moved:
		r.Reason = fmt.Sprintf("`%s` changed the workspace while it ran, so it is evidence for no state of it", c.Command)
	case last.ExitCode != 0:
		r.Result, r.Reason = event.Fail, fmt.Sprintf("`%s` ended with exit code %d", c.Command, last.ExitCode)
	case last.Counts.Failed > 0:
		r.Result, r.Reason = event.Fail, fmt.Sprintf("`%s` ended with exit code 0 but reported %d failed tests: its exit status is masked", c.Command, last.Counts.Failed)
	default:
		r.Result, r.Reason = event.Fail, fmt.Sprintf("`%s` ended with exit code 0 but no test was executed", c.Command)
	}
}

// good is what a run must be to pass a criterion of a kind.
func good(k event.CriterionKind) func(Record) bool {
	if k == event.CriterionTest {
		return Record.TestPass
	}
	return Record.Clean
}

// tally counts passes and failures; what did not end in its time or moved the
// tree is neither.
func tally(runs Shelf, good func(Record) bool) (passed, failed int, last Record) {
	for _, x := range runs {
		switch {
		case good(x):
			passed++
		case x.TimedOut, x.Moved:
		default:
			failed++
		}
		last = x
	}
	return passed, failed, last
}

func sameTools(runs Shelf) bool {
	for _, r := range runs {
		if r.Tools != runs[0].Tools {
			return false
		}
	}
	return true
}

func lastOf(s Shelf, command string) *Record {
	for i := len(s) - 1; i >= 0; i-- {
		if !s[i].Scratch && Same(s[i].Command, command) {
			return &s[i]
		}
	}
	return nil
}

func judgeScope(c event.Criterion, w World, r *event.CriterionResult) {
	if w.More > 0 {
		r.Reason = fmt.Sprintf("%d more changed paths than can be looked at", w.More)
		return
	}
	for _, ch := range w.Changes {
		if matchAny(c.Forbid, ch.Path) {
			r.Result, r.Reason = event.Fail, fmt.Sprintf("%s was changed, which is forbidden", ch.Path)
			return
		}
		if len(c.Allow) > 0 && !matchAny(c.Allow, ch.Path) {
			r.Result, r.Reason = event.Fail, fmt.Sprintf("%s was changed, which is outside the allowed paths", ch.Path)
			return
		}
	}
	r.Result, r.Evidence = event.Pass, []string{"diff"}
}

func judgeManual(c event.Criterion, w World, r *event.CriterionResult) {
	a, ok := w.Answers[c.ID]
	switch {
	case !ok:
		r.Reason = "waits for a person's answer"
	case a.Tree != w.Tree:
		r.Reason = "the repository has changed since the person answered"
	case a.Accepted:
		r.Result, r.Evidence = event.Pass, []string{"user"}
	default:
		r.Result, r.Reason, r.Evidence = event.Fail, "refused by a person: "+a.Reason, []string{"user"}
	}
}

func matchAny(patterns []string, p string) bool {
	for _, pat := range patterns {
		if MatchPath(pat, p) {
			return true
		}
	}
	return false
}

// MatchPath matches a slash-separated path against a pattern: * and ? within
// one segment, ** over any number of segments, and a pattern that names a
// folder matches everything below it.
func MatchPath(pattern, p string) bool {
	return matchSegments(segments(pattern), strings.Split(p, "/"))
}

func segments(pattern string) []string {
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/"), "/")
}

// CheckPattern says why a pattern could never match, or nil: a forbidden path
// that is written wrong would forbid nothing.
func CheckPattern(pattern string) error {
	if strings.HasPrefix(pattern, "/") {
		return fmt.Errorf("%q is absolute; write it relative to the workspace", pattern)
	}
	for _, seg := range segments(pattern) {
		switch _, err := path.Match(seg, ""); {
		case err != nil:
			return fmt.Errorf("%q: %q is no pattern: %w", pattern, seg, err)
		case seg == "" || seg == "." || seg == "..":
			return fmt.Errorf("%q matches no path of a workspace; write it from the root, without dots as segments", pattern)
		}
	}
	return nil
}

// matchSegments goes back only to the last ** that it passed, so that many of
// them cost no more than one.
func matchSegments(pat, segs []string) bool {
	star, rest := -1, 0 // after the last **, and where it began to match
	p, s := 0, 0
	for {
		switch {
		case p == len(pat):
			return true // the pattern named a folder above, or the path itself
		case pat[p] == "**":
			p++
			star, rest = p, s
		case s < len(segs) && matchSegment(pat[p], segs[s]):
			p, s = p+1, s+1
		case star >= 0 && rest < len(segs):
			rest++
			p, s = star, rest
		default:
			return false
		}
	}
}

func matchSegment(pat, seg string) bool {
	ok, err := path.Match(pat, seg)
	return err == nil && ok
}

// Conclude turns the results of all criteria into a verdict.
func Conclude(cs []event.Criterion, w World) event.Verdict {
	v := event.Verdict{Verdict: event.Complete, Tree: w.Tree, Criteria: []event.CriterionResult{}}
	for _, c := range cs {
		r := Judge(c, w)
		v.Criteria = append(v.Criteria, r)
		if r.Result == event.Pass {
			continue
		}
		v.Missing = append(v.Missing, c.ID+": "+r.Reason)
		if r.Result == event.Fail || c.Kind != event.CriterionManual && len(r.Evidence) == 0 {
			v.Verdict = event.Incomplete
		} else if v.Verdict == event.Complete {
			v.Verdict = event.VerdictUnknown
		}
	}
	return v
}

// How says on what a complete verdict rests: the weakest kind of evidence that
// it needed.
func How(cs []event.Criterion) event.CompletedHow {
	how := event.Verified
	for _, c := range cs {
		switch c.Kind {
		case event.CriterionManual:
			return event.Attested
		case event.CriterionReview:
			how = event.Judged
		}
	}
	return how
}
