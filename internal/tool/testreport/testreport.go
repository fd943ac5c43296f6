// Package testreport reads what test runners print and counts passed, failed
// and skipped tests. It must not know how the output was produced, nor decide
// whether the counts are enough for anything.
//
// It is pure and reads in one pass with bounded memory. Every runner has its
// own reader and all readers see every line, so that a log with several
// runners in it (a Makefile that tests a backend and a frontend) is summed,
// and a pipeline or `|| true` that masks the exit status hides nothing.
//
// What is counted:
//   - Subtests that the runner reports are tests.
//   - Plain `go test` names no passing tests: a package that passes and reports
//     no test by name counts as one passed, except with "[no tests to run]".
//   - What never got as far as a test (a package that does not build, a test
//     module that can not be imported, a panic outside a test) counts as one
//     failed and is named.
//   - Expected failures count as skipped: they are no evidence that code works.
package testreport

import (
	"bytes"
	"strconv"
	"strings"

	"belay/internal/event"
)

// MaxFailing is how many names of failing tests are kept.
const MaxFailing = 50

const (
	// maxLine is how much of one line is read; JUnit reports can be one line.
	maxLine = 8 << 20
	maxName = 200
)

// reader understands one runner.
type reader interface {
	// line takes one line without its end and without colours.
	line(s string)
	// counts returns what was counted, and false when the runner was not seen.
	counts() (event.TestCounts, bool)
}

// Parser is a writer that takes a log in pieces. The zero value is not usable;
// call NewParser.
type Parser struct {
	readers []reader
	buf     []byte
	over    bool // the present line is over maxLine; its rest is dropped
}

// NewParser returns a Parser for one log.
func NewParser() *Parser {
	return &Parser{readers: []reader{&goReader{}, &pytestReader{}, &unittestReader{}, &jestReader{},
		&vitestReader{}, &cargoReader{}, &nodeReader{}, &mochaReader{}, &junitReader{}}}
}

// Write takes the next piece of the log. It never fails.
func (p *Parser) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			p.keep(b)
			return n, nil
		}
		if len(p.buf) == 0 && !p.over {
			p.line(b[:min(i, maxLine)])
		} else {
			p.keep(b[:i])
			p.line(p.buf)
		}
		p.buf, p.over = p.buf[:0], false
		b = b[i+1:]
	}
}

func (p *Parser) keep(b []byte) {
	if p.over {
		return
	}
	if room := maxLine - len(p.buf); len(b) > room {
		b, p.over = b[:room], true
	}
	p.buf = append(p.buf, b...)
}

func (p *Parser) line(b []byte) {
	s := stripEscapes(strings.TrimSuffix(string(b), "\r"))
	for _, r := range p.readers {
		r.line(s)
	}
}

// Counts ends the log and returns the sum over all runners seen. Runner is
// empty when none was, and joins the names with "+" when there were several.
func (p *Parser) Counts() event.TestCounts {
	if len(p.buf) > 0 {
		p.line(p.buf)
		p.buf, p.over = nil, false
	}
	var sum event.TestCounts
	var names []string
	for _, r := range p.readers {
		c, seen := r.counts()
		if !seen {
			continue
		}
		names = append(names, c.Runner)
		sum.Passed += c.Passed
		sum.Failed += c.Failed
		sum.Skipped += c.Skipped
		sum.Failing = append(sum.Failing, c.Failing...)
	}
	sum.Runner = strings.Join(names, "+")
	if len(sum.Failing) > MaxFailing {
		sum.Failing = sum.Failing[:MaxFailing]
	}
	return sum
}

// Parse counts the tests of a whole log.
func Parse(log string) event.TestCounts {
	p := NewParser()
	// A Parser never fails to take bytes.
	_, _ = p.Write([]byte(log))
	return p.Counts()
}

// stripEscapes removes colour sequences, which some runners print even to a
// pipe.
func stripEscapes(s string) string {
	if !strings.Contains(s, "\x1b[") {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i+2:]
		j := strings.IndexFunc(s, func(r rune) bool { return r >= 0x40 && r <= 0x7e })
		if j < 0 {
			return b.String()
		}
		s = s[j+1:]
	}
}

// names collects failing tests: in order, each once, capped.
type names struct {
	list []string
	seen map[string]bool
}

func (n *names) add(name string) {
	name = strings.ToValidUTF8(strings.TrimSpace(name[:min(len(name), maxName)]), "")
	if name == "" || n.seen[name] || len(n.list) >= MaxFailing {
		return
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[name] = true
	n.list = append(n.list, name)
}

// tallies reads "2 failed, 1 passed" into a map from word to number. It is
// false unless every item is a number and words.
func tallies(s, sep string) (map[string]int64, bool) {
	m := map[string]int64{}
	for item := range strings.SplitSeq(s, sep) {
		num, word, ok := strings.Cut(strings.TrimSpace(item), " ")
		n, err := strconv.ParseInt(num, 10, 64)
		if !ok || err != nil || n < 0 {
			return nil, false
		}
		m[strings.TrimSpace(word)] += n
	}
	return m, true
}

// onlyWords reports whether all words of the tallies are among the given.
func onlyWords(m map[string]int64, words ...string) bool {
	known := 0
	for _, w := range words {
		if _, ok := m[w]; ok {
			known++
		}
	}
	return known == len(m)
}

// number reads a non-negative number that stands between prefix and the next
// byte that is no digit.
func number(s, prefix string) (n int64, rest string, ok bool) {
	rest, ok = strings.CutPrefix(s, prefix)
	if !ok {
		return 0, s, false
	}
	i := 0
	for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(rest[:i], 10, 64)
	return n, rest[i:], err == nil
}
