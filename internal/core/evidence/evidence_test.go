package evidence_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/evidence"
	"belay/internal/event"
)

const command = "go test ./..."

func record(t *rapid.T) evidence.Record {
	return evidence.Record{
		Op:       fmt.Sprint("op", rapid.IntRange(1, 9).Draw(t, "op")),
		Command:  rapid.SampledFrom([]string{command, " " + command + "\n", "go  test ./...", "true"}).Draw(t, "command"),
		Dir:      rapid.SampledFrom([]string{"", "", "", "sub"}).Draw(t, "dir"),
		Test:     rapid.Bool().Draw(t, "test"),
		ExitCode: rapid.SampledFrom([]int{0, 0, 0, 1, 137}).Draw(t, "exit"),
		TimedOut: rapid.IntRange(0, 4).Draw(t, "timed out") == 0,
		Moved:    rapid.IntRange(0, 4).Draw(t, "moved") == 0,
		Counts: event.TestCounts{Passed: rapid.Int64Range(0, 2).Draw(t, "passed"), Failed: rapid.SampledFrom([]int64{0, 0, 1}).Draw(t, "failed"),
			Skipped: rapid.Int64Range(0, 1).Draw(t, "skipped")},
		Tree: rapid.SampledFrom([]string{"now", "now", "old"}).Draw(t, "tree"),
	}
}

// shows says, independently of the package, what one run shows about a
// criterion on the tree "now": "pass", "fail", or nothing.
func shows(r evidence.Record, kind event.CriterionKind) string {
	if strings.TrimSpace(r.Command) != command || r.Dir != "" || r.Tree != "now" || r.TimedOut || r.Moved {
		return ""
	}
	if r.ExitCode != 0 || kind == event.CriterionTest && (r.Counts.Failed > 0 || r.Counts.Passed == 0) {
		return "fail"
	}
	return "pass"
}

// A run on another tree, one that changed the tree, one that was cut short, an
// empty one and one with a masked exit status never pass; passing and failing
// on one tree is unknown; and where good evidence stands, it passes.
func TestACriterionPassesOnlyOnGoodEvidenceForThisTree(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]event.CriterionKind{event.CriterionTest, event.CriterionCommand}).Draw(t, "kind")
		var shelf evidence.Shelf
		found := map[string]int{}
		last := ""
		for _, r := range rapid.SliceOfN(rapid.Custom(record), 0, 6).Draw(t, "runs") {
			shelf = shelf.Add(r)
			found[shows(r, kind)]++
			if strings.TrimSpace(r.Command) == command && r.Dir == "" && r.Tree == "now" {
				last = shows(r, kind)
			}
		}
		got := evidence.Judge(event.Criterion{ID: "c", Kind: kind, Command: command}, evidence.World{Tree: "now", Shelf: shelf})
		want := event.ResultUnknown
		switch {
		case found["pass"] > 0 && found["fail"] > 0: // flaky
		case last != "":
			want = last
		}
		if got.Result != want {
			t.Fatalf("%s (%s), want %s", got.Result, got.Reason, want)
		}
		if (got.Result == event.Pass) == (got.Reason != "") {
			t.Fatalf("%s with the reason %q", got.Result, got.Reason)
		}
		if got.Result == event.Pass && len(got.Evidence) == 0 {
			t.Fatal("passes without naming its evidence")
		}
		seen[got.Result]++
	})
	for _, r := range []string{event.Pass, event.Fail, event.ResultUnknown} {
		if seen[r] == 0 {
			t.Errorf("no case was %s: the property says nothing about it", r)
		}
	}
}

func TestTheReasonNamesTheKindOfBadEvidence(t *testing.T) {
	t.Parallel()
	good := evidence.Record{Op: "op1", Command: command, Tree: "now", Test: true, Counts: event.TestCounts{Passed: 1}}
	change := func(f func(*evidence.Record)) evidence.Shelf { r := good; f(&r); return evidence.Shelf{r} }
	bad := good
	bad.ExitCode = 1
	for _, c := range []struct {
		shelf          evidence.Shelf
		result, reason string
	}{
		{evidence.Shelf{good}, event.Pass, ""},
		{nil, event.ResultUnknown, "has not been run"},
		{change(func(r *evidence.Record) { r.Tree = "old" }), event.ResultUnknown, "on an older state"},
		{change(func(r *evidence.Record) { r.Moved = true }), event.ResultUnknown, "changed the workspace while it ran"},
		{change(func(r *evidence.Record) { r.TimedOut = true; r.ExitCode = -1 }), event.ResultUnknown, "did not end within its time"},
		{change(func(r *evidence.Record) { r.ExitCode = 2 }), event.Fail, "exit code 2"},
		{change(func(r *evidence.Record) { r.Counts.Failed = 3 }), event.Fail, "masked"},
		{change(func(r *evidence.Record) { r.Counts = event.TestCounts{Skipped: 4} }), event.Fail, "no test was executed"},
		{evidence.Shelf{good, bad}, event.ResultUnknown, "flaky"},
		{evidence.Shelf{bad, good}, event.ResultUnknown, "flaky"},
		{change(func(r *evidence.Record) { r.Dir = "sub" }), event.ResultUnknown, "has not been run"},
	} {
		got := evidence.Judge(event.Criterion{ID: "c", Kind: event.CriterionTest, Command: command}, evidence.World{Tree: "now", Shelf: c.shelf})
		if got.Result != c.result || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%+v: %s, %q; want %s, a word of %q", c.shelf, got.Result, got.Reason, c.result, c.reason)
		}
	}
}

func TestTheLatestPassIsOneOnThisTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shelf := evidence.Shelf(rapid.SliceOfN(rapid.Custom(record), 0, 8).Draw(t, "runs"))
		got, ok := shelf.LatestPass("now")
		want := -1
		for i, r := range shelf {
			if r.Tree == "now" && r.ExitCode == 0 && !r.TimedOut && !r.Moved && r.Counts.Passed > 0 && r.Counts.Failed == 0 {
				want = i
			}
		}
		if ok != (want >= 0) || ok && fmt.Sprint(got) != fmt.Sprint(shelf[want]) {
			t.Fatalf("%+v %t, want the run %d", got, ok, want)
		}
	})
}

func TestTheShelfKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var s evidence.Shelf
	for i := range evidence.Keep + 10 {
		before := s
		s = s.Add(evidence.Record{Seq: uint64(i)})
		if len(before) > 0 && before[0].Seq != s[max(0, len(before)-evidence.Keep)].Seq && len(before) < evidence.Keep {
			t.Fatal("adding changed the shelf it was added to")
		}
	}
	if len(s) != evidence.Keep || s[0].Seq != 10 || s[len(s)-1].Seq != evidence.Keep+9 {
		t.Fatalf("%d records from %d to %d", len(s), s[0].Seq, s[len(s)-1].Seq)
	}
}

func TestAPersonsAnswerHoldsForTheTreeThatWasShown(t *testing.T) {
	t.Parallel()
	c := event.Criterion{ID: "looks", Kind: event.CriterionManual, Text: "Does it look right?"}
	for _, k := range []struct {
		answers        map[string]evidence.Answer
		result, reason string
	}{
		{nil, event.ResultUnknown, "waits for a person"},
		{map[string]evidence.Answer{"looks": {Accepted: true, Tree: "now"}}, event.Pass, ""},
		{map[string]evidence.Answer{"looks": {Accepted: true, Tree: "old"}}, event.ResultUnknown, "has changed since"},
		{map[string]evidence.Answer{"looks": {Accepted: false, Tree: "now", Reason: "too wide"}}, event.Fail, "too wide"},
		{map[string]evidence.Answer{"other": {Accepted: true, Tree: "now"}}, event.ResultUnknown, "waits for a person"},
	} {
		got := evidence.Judge(c, evidence.World{Tree: "now", Answers: k.answers})
		if got.Result != k.result || !strings.Contains(got.Reason, k.reason) {
			t.Errorf("%+v: %s %q", k.answers, got.Result, got.Reason)
		}
	}
}

// asExpression is the pattern language of scope criteria as a regular
// expression: another way to say the same.
func asExpression(pattern string) *regexp.Regexp {
	var parts []string
	for _, seg := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/"), "/") {
		if seg == "**" {
			parts = append(parts, `(?:[^/]+/)*`)
			continue
		}
		q := regexp.QuoteMeta(seg)
		q = strings.ReplaceAll(q, `\*`, `[^/]*`)
		q = strings.ReplaceAll(q, `\?`, `[^/]`)
		parts = append(parts, q+"/")
	}
	return regexp.MustCompile("^" + strings.Join(parts, "") + ".*$")
}

func TestPathPatternsMeanWhatTheirExpressionMeans(t *testing.T) {
	t.Parallel()
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "a.go", "*", "*.go", "a*", "?", "**"})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "a.go", "b.go", ".git"})
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "pattern"), "/")
		pattern = rapid.SampledFrom([]string{"", "./"}).Draw(t, "prefix") + pattern + rapid.SampledFrom([]string{"", "/"}).Draw(t, "suffix")
		path := strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path"), "/")
		got, want := evidence.MatchPath(pattern, path), asExpression(pattern).MatchString(path+"/")
		if got != want {
			t.Fatalf("%q against %q: %t, want %t", pattern, path, got, want)
		}
		if got {
			matched++
		}
	})
	if matched == 0 {
		t.Error("nothing matched: the property says nothing")
	}
}

func TestAPatternThatCanNeverMatchIsRefused(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", "/", "./", ".", "a//b", "/etc/passwd", "../x", "a/../b", "a/./b", "[", "a/[z-", `a\`} {
		if evidence.CheckPattern(p) == nil {
			t.Errorf("%q is accepted", p)
		}
	}
	for _, p := range []string{"a", "a/", "./a", "**", "**/*_test.go", "a/[xyz]/b", "docs/*.md", ".github/**", "a b/ü"} {
		if err := evidence.CheckPattern(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestManyStarsDoNotTakeForever(t *testing.T) {
	t.Parallel()
	pattern, path := strings.Repeat("**/", 30)+"never", strings.Repeat("a/", 60)+"a"
	if evidence.MatchPath(pattern, path) {
		t.Error("it matches")
	}
}

func TestScopeLooksAtEveryChange(t *testing.T) {
	t.Parallel()
	c := event.Criterion{ID: "scope", Kind: event.CriterionScope, Allow: []string{"src"}, Forbid: []string{"**/*.lock"}}
	for _, k := range []struct {
		paths  []string
		more   int
		result string
	}{
		{nil, 0, event.Pass},
		{[]string{"src/a.go", "src/x/b.go"}, 0, event.Pass},
		{[]string{"src/a.go", "README.md"}, 0, event.Fail},
		{[]string{"src/go.lock"}, 0, event.Fail},
		{[]string{"srcs/a.go"}, 0, event.Fail},
		{[]string{"src/a.go"}, 1, event.ResultUnknown}, // what is not listed is not known to be allowed
	} {
		w := evidence.World{Tree: "now", More: k.more}
		for _, p := range k.paths {
			w.Changes = append(w.Changes, event.Change{Path: p})
		}
		if got := evidence.Judge(c, w); got.Result != k.result {
			t.Errorf("%q: %s (%s), want %s", k.paths, got.Result, got.Reason, k.result)
		}
	}
}

// The whole is complete exactly when each criterion passes; it lists every one
// that does not; and what this version cannot judge is never complete.
func TestAVerdictIsCompleteOnlyWhenEveryCriterionPasses(t *testing.T) {
	t.Parallel()
	kinds := []event.CriterionKind{event.CriterionTest, event.CriterionCommand, event.CriterionManual, event.CriterionScope,
		event.CriterionReview, event.CriterionReproduces, event.CriterionTestsIntact, event.CriterionArtifact, "kind of a newer belay"}
	rapid.Check(t, func(t *rapid.T) {
		var cs []event.Criterion
		w := evidence.World{Tree: "now", Answers: map[string]evidence.Answer{}}
		for i := range rapid.IntRange(0, 4).Draw(t, "criteria") {
			id := fmt.Sprint("c", i)
			cs = append(cs, event.Criterion{ID: id, Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Command: command, Allow: []string{"src"}})
			if rapid.Bool().Draw(t, "answered") {
				w.Answers[id] = evidence.Answer{Accepted: rapid.Bool().Draw(t, "accepted"), Tree: rapid.SampledFrom([]string{"now", "old"}).Draw(t, "tree")}
			}
		}
		w.Shelf = rapid.SliceOfN(rapid.Custom(record), 0, 4).Draw(t, "runs")
		if rapid.Bool().Draw(t, "strays") {
			w.Changes = []event.Change{{Path: "README.md"}}
		}
		v := evidence.Conclude(cs, w)
		all, fails := true, false
		for i, c := range cs {
			r := evidence.Judge(c, w)
			if v.Criteria[i].Result != r.Result || v.Criteria[i].ID != c.ID {
				t.Fatalf("criterion %d: %+v, judged alone %+v", i, v.Criteria[i], r)
			}
			all, fails = all && r.Result == event.Pass, fails || r.Result == event.Fail
			if listed := strings.Contains(strings.Join(v.Missing, "\n"), c.ID+": "); listed == (r.Result == event.Pass) {
				t.Fatalf("%s is %s, listed as missing: %t", c.ID, r.Result, listed)
			}
		}
		switch {
		case (v.Verdict == event.Complete) != all:
			t.Fatalf("%s, all pass: %t", v.Verdict, all)
		case fails && v.Verdict != event.Incomplete:
			t.Fatalf("%s with a failing criterion", v.Verdict)
		case v.Tree != "now" || len(v.Criteria) != len(cs):
			t.Fatalf("%+v", v)
		}
	})
}

func TestACompletionRestsOnItsWeakestEvidence(t *testing.T) {
	t.Parallel()
	test, scope := event.Criterion{Kind: event.CriterionTest}, event.Criterion{Kind: event.CriterionScope}
	manual, review := event.Criterion{Kind: event.CriterionManual}, event.Criterion{Kind: event.CriterionReview}
	for _, c := range []struct {
		cs   []event.Criterion
		want event.CompletedHow
	}{
		{[]event.Criterion{test, scope}, event.Verified},
		{[]event.Criterion{test, review}, event.Judged},
		{[]event.Criterion{test, manual}, event.Attested},
		{[]event.Criterion{review, manual, test}, event.Attested},
		{[]event.Criterion{manual, review}, event.Attested},
	} {
		if got := evidence.How(c.cs); got != c.want {
			t.Errorf("%v: %s, want %s", c.cs, got, c.want)
		}
	}
}
