package testreport

import (
	"strings"

	"belay/internal/event"
)

// pytestReader reads pytest's last line, and where -qq leaves it out, the
// progress letters.
type pytestReader struct {
	c        event.TestCounts
	n        names
	summary  bool
	progress event.TestCounts
	letters  bool
}

var pytestWords = []string{"failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "error", "errors",
	"warning", "warnings", "rerun", "subtests passed", "subtests failed", "subtests skipped"}

func (p *pytestReader) line(s string) {
	for _, prefix := range []string{"FAILED ", "ERROR "} {
		// "FAILED path::test - message", in the short summary only: the ids
		// hold a "::" or name a file.
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			id, _, _ := strings.Cut(rest, " - ")
			if strings.Contains(id, "::") || strings.HasSuffix(id, ".py") {
				p.n.add(id)
			}
			return
		}
	}
	if p.dots(s) {
		return
	}
	t := strings.TrimSpace(strings.Trim(strings.TrimSpace(s), "="))
	i := strings.LastIndex(t, " in ")
	if i < 0 || !pytestTime(t[i+len(" in "):]) {
		return
	}
	if t[:i] == "no tests ran" {
		p.summary = true
		return
	}
	m, ok := tallies(t[:i], ", ")
	if !ok || !onlyWords(m, pytestWords...) {
		return
	}
	p.summary = true
	p.c.Passed += m["passed"] + m["xpassed"] + m["subtests passed"]
	p.c.Failed += m["failed"] + m["error"] + m["errors"] + m["subtests failed"]
	p.c.Skipped += m["skipped"] + m["xfailed"] + m["subtests skipped"]
}

// pytestTime takes "0.12s" and "75.31s (0:01:15)".
func pytestTime(s string) bool {
	s, _, _ = strings.Cut(s, " (")
	num, ok := strings.CutSuffix(s, "s")
	return ok && num != "" && strings.Trim(num, "0123456789.") == ""
}

// dots takes "..F.s   [ 50%]".
func (p *pytestReader) dots(s string) bool {
	t := strings.TrimSpace(s)
	if !strings.HasSuffix(t, "%]") {
		return false
	}
	i := strings.LastIndex(t, "[")
	if i <= 0 || strings.Trim(t[i:], "[]% 0123456789") != "" {
		return false
	}
	run := strings.TrimSpace(t[:i])
	if run == "" || strings.Trim(run, ".FEsxX") != "" {
		return false
	}
	p.letters = true
	p.progress.Passed += int64(strings.Count(run, ".") + strings.Count(run, "X"))
	p.progress.Failed += int64(strings.Count(run, "F") + strings.Count(run, "E"))
	p.progress.Skipped += int64(strings.Count(run, "s") + strings.Count(run, "x"))
	return true
}

func (p *pytestReader) counts() (event.TestCounts, bool) {
	if !p.summary {
		p.c = p.progress
	}
	p.c.Runner, p.c.Failing = "pytest", p.n.list
	return p.c, p.summary || p.letters
}

// unittestReader reads Python's unittest (also as Django runs it).
type unittestReader struct {
	c    event.TestCounts
	n    names
	seen bool
	// ran is the number of "Ran N tests" whose verdict line is awaited, -1 for
	// none.
	ran     int64
	open    bool
	failing []string
	ruler   bool
}

func (u *unittestReader) line(s string) {
	ruler := u.ruler
	u.ruler = strings.HasPrefix(s, "======") && strings.Trim(s, "=") == ""
	if ruler {
		for _, prefix := range []string{"ERROR: ", "FAIL: ", "UNEXPECTED SUCCESS: "} {
			if rest, ok := strings.CutPrefix(s, prefix); ok {
				u.failing = append(u.failing, rest)
				return
			}
		}
	}
	if n, rest, ok := number(s, "Ran "); ok && (strings.HasPrefix(rest, " test in ") || strings.HasPrefix(rest, " tests in ")) {
		u.ran, u.open = n, true
		return
	}
	if !u.open {
		return
	}
	verdict, detail, _ := strings.Cut(s, " (")
	switch verdict {
	case "OK", "FAILED", "NO TESTS RAN":
		u.verdict(strings.TrimSuffix(detail, ")"))
	}
}

// verdict takes "failures=1, errors=1, skipped=2, expected failures=1".
func (u *unittestReader) verdict(detail string) {
	u.seen, u.open = true, false
	var failed, skipped int64
	for item := range strings.SplitSeq(detail, ", ") {
		word, num, _ := strings.Cut(item, "=")
		n, _, ok := number(num, "")
		if !ok {
			continue
		}
		switch word {
		case "failures", "errors", "unexpected successes":
			failed += n
		case "skipped", "expected failures":
			skipped += n
		}
	}
	// Subtests fail more often than the test that holds them, and a class that
	// can not be set up fails without a test: passed is what is left of the
	// tests that ran.
	tests := map[string]bool{}
	for _, f := range u.failing {
		u.n.add(f)
		name, rest, _ := strings.Cut(f, " (")
		where, _, _ := strings.Cut(rest, ")")
		if strings.HasPrefix(name, "setUp") || strings.HasPrefix(name, "tearDown") {
			continue
		}
		tests[name+" "+where] = true
	}
	bad := int64(len(tests))
	if len(u.failing) == 0 {
		bad = failed
	}
	u.c.Passed += max(u.ran-bad-skipped, 0)
	u.c.Failed += failed
	u.c.Skipped += skipped
	u.failing = nil
}

func (u *unittestReader) counts() (event.TestCounts, bool) {
	u.c.Runner, u.c.Failing = "unittest", u.n.list
	return u.c, u.seen
}
