package testreport

import (
	"strings"

	"belay/internal/event"
)

// jestReader reads jest's summary block.
type jestReader struct {
	c    event.TestCounts
	n    names
	seen bool
	file string // of the latest FAIL line
	bad  map[string]bool
}

func (j *jestReader) line(s string) {
	switch {
	case strings.HasPrefix(s, "FAIL "):
		j.file = strings.TrimSpace(s[len("FAIL "):])
	case strings.HasPrefix(s, "  ● Test suite failed to run"):
		if j.bad == nil {
			j.bad = map[string]bool{}
		}
		j.bad[j.file] = true
		j.n.add(j.file + " [test suite failed to run]")
	case strings.HasPrefix(s, "  ● "):
		if name := s[len("  ● "):]; strings.Contains(name, " › ") || j.file != "" {
			j.n.add(name)
		}
	case strings.HasPrefix(s, "No tests found, exiting with code"):
		j.seen = true
	case strings.HasPrefix(s, "Tests:"):
		m, ok := tallies(strings.TrimSpace(s[len("Tests:"):]), ", ")
		if _, total := m["total"]; !ok || !total {
			return
		}
		j.seen = true
		j.c.Passed += m["passed"]
		j.c.Failed += m["failed"] + int64(len(j.bad))
		j.c.Skipped += m["skipped"] + m["todo"]
		j.bad = nil
	}
}

func (j *jestReader) counts() (event.TestCounts, bool) {
	j.c.Runner, j.c.Failing = "jest", j.n.list
	if !j.seen {
		j.c.Failing = nil
	}
	return j.c, j.seen
}

// vitestReader reads vitest's summary block.
type vitestReader struct {
	c      event.TestCounts
	n      names
	seen   bool
	suites int64
}

func (v *vitestReader) line(s string) {
	if name, ok := strings.CutPrefix(s, " FAIL  "); ok {
		v.n.add(name)
		return
	}
	t := strings.TrimSpace(s)
	if strings.HasPrefix(t, "No test files found") {
		v.seen = true
		return
	}
	if i := strings.Index(t, " Failed Suites "); i >= 0 {
		if n, _, ok := number(t[i:], " Failed Suites "); ok {
			v.suites += n
		}
		return
	}
	rest, ok := strings.CutPrefix(t, "Tests  ")
	if !ok {
		return
	}
	rest = strings.TrimSpace(rest)
	if i := strings.LastIndex(rest, " ("); i > 0 {
		rest = rest[:i]
	}
	m, ok := tallies(rest, " | ")
	if !ok && rest != "no tests" {
		return
	}
	v.seen = true
	v.c.Passed += m["passed"]
	v.c.Failed += m["failed"] + v.suites
	v.c.Skipped += m["skipped"] + m["todo"] + m["expected fail"]
	v.suites = 0
}

func (v *vitestReader) counts() (event.TestCounts, bool) {
	v.c.Runner, v.c.Failing = "vitest", v.n.list
	if !v.seen {
		v.c.Failing = nil
	}
	return v.c, v.seen
}

// nodeReader reads node:test (TAP and spec) and plain TAP.
type nodeReader struct {
	summary, lines event.TestCounts
	n              names
	hasTests       bool // both seen: it is the closing block, not a heading
	hasPass        bool
	plan           bool
	pending        string // a "not ok" name that may turn out to be a suite
	listed         bool   // spec's list of failing tests has begun
}

func (r *nodeReader) line(s string) {
	for _, mark := range []string{"# ", "ℹ "} {
		if rest, ok := strings.CutPrefix(s, mark); ok && r.total(rest) {
			return
		}
	}
	t := strings.TrimLeft(s, " ")
	switch {
	case s == "✖ failing tests:":
		r.listed = true
	case r.listed && strings.HasPrefix(s, "✖ "):
		name := s[len("✖ "):]
		if i := strings.LastIndex(name, " ("); i > 0 {
			name = name[:i]
		}
		r.n.add(name)
	case strings.HasPrefix(s, "TAP version "):
		r.plan = true
	case strings.HasPrefix(s, "1.."):
		if _, rest, ok := number(s, "1.."); ok && (rest == "" || rest[0] == ' ') {
			r.plan = true
		}
	case strings.HasPrefix(t, "not ok "):
		r.point(t[len("not ok "):], false, len(t) == len(s))
	case strings.HasPrefix(t, "ok "):
		r.point(t[len("ok "):], true, len(t) == len(s))
	case t == "type: 'suite'":
		r.pending = ""
	}
}

// point takes one test point: "2 - name # SKIP why".
func (r *nodeReader) point(s string, ok, top bool) {
	_, name, isPoint := number(s, "")
	if !isPoint || (name != "" && name[0] != ' ') {
		return
	}
	name, directive, _ := strings.Cut(name, " # ")
	name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "- "))
	directive = strings.ToUpper(directive)
	skip := strings.HasPrefix(directive, "SKIP") || strings.HasPrefix(directive, "TODO")
	r.flush()
	if !ok && !skip {
		r.pending = name
		if name == "" {
			r.pending = "test " + s
		}
	}
	if !top {
		return
	}
	switch {
	case skip:
		r.lines.Skipped++
	case ok:
		r.lines.Passed++
	default:
		r.lines.Failed++
	}
}

func (r *nodeReader) flush() {
	r.n.add(r.pending)
	r.pending = ""
}

// total takes one line of the closing block: "pass 2".
func (r *nodeReader) total(s string) bool {
	word, num, _ := strings.Cut(s, " ")
	n, rest, ok := number(strings.TrimSpace(num), "")
	if !ok || rest != "" {
		return false
	}
	switch word {
	case "tests":
		r.hasTests = true
	case "pass":
		r.hasPass = true
		r.summary.Passed += n
	case "fail", "cancelled":
		r.summary.Failed += n
	case "skipped", "todo":
		r.summary.Skipped += n
	case "suites":
	default:
		return false
	}
	return true
}

func (r *nodeReader) counts() (event.TestCounts, bool) {
	r.flush()
	c, runner := r.lines, "tap"
	if r.hasTests && r.hasPass {
		c, runner = r.summary, "node"
	} else if !r.plan {
		return event.TestCounts{}, false
	}
	c.Runner, c.Failing = runner, r.n.list
	return c, true
}

// mochaReader reads mocha's spec reporter.
type mochaReader struct {
	c     event.TestCounts
	n     names
	seen  bool
	after bool   // the closing block has begun
	suite string // of a failure that is being listed
}

func (m *mochaReader) line(s string) {
	if n, rest, ok := number(strings.TrimPrefix(s, "  "), ""); ok && strings.HasPrefix(s, "  ") {
		switch {
		case strings.HasPrefix(rest, " passing (") && strings.HasSuffix(rest, ")"):
			m.seen, m.after = true, true
			m.c.Passed += n
			return
		case rest == " pending" && m.after:
			m.c.Skipped += n
			return
		case rest == " failing" && m.after:
			m.c.Failed += n
			return
		case strings.HasPrefix(rest, ") ") && m.after:
			m.suite = rest[2:]
			return
		}
	}
	if m.suite == "" {
		return
	}
	name, last := strings.CutSuffix(strings.TrimSpace(s), ":")
	if strings.TrimSpace(s) == "" {
		m.suite = ""
		return
	}
	m.suite += " " + name
	if last {
		m.n.add(m.suite)
		m.suite = ""
	}
}

func (m *mochaReader) counts() (event.TestCounts, bool) {
	m.c.Runner, m.c.Failing = "mocha", m.n.list
	return m.c, m.seen
}
