package testdiff

import (
	"belay/internal/lazyre"
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxDetail is how much of a quoted line is shown.
const maxDetail = 120

var (
	declared = []*lazyre.Regexp{
		lazyre.New(`^\s*func\s+((?:\([^)]*\)\s*)?(?:Test|Fuzz|Example)\w*)\s*\(`),
		lazyre.New(`^\s*(?:async\s+)?def\s+(test\w*)\s*\(`),
		lazyre.New(`^\s*class\s+(Test\w*|\w+Tests?)\b`),
		lazyre.New("(?:^|[\\s.;(])(?:it|test|specify|scenario|describe|context)(?:\\.\\w+)*\\s*(?:\\([^)]*\\)\\s*)?\\(\\s*(['\"`][^'\"`]+['\"`])"),
		lazyre.New("^\\s*(?:it|specify|scenario|describe|context|test)\\s+(['\"][^'\"]+['\"])\\s+do\\b"),
		lazyre.New(`^\s*fn\s+(\w*test\w*)\s*\(`),
		lazyre.New(`^\s*(?:public\s+)?(?:void|function|fun)\s+(test\w+|should\w+)\s*\(`),
	}
	attributes = lazyre.New(`^\s*(#\[(?:\w+::)*test\b.*\]|@Test\b.*|\[(?:Fact|Theory|Test)\b.*\])`)
	skips      = lazyre.New(`\bt\.Skip(?:Now|f)?\(|\btesting\.Short\(|^//go:build\b|^// \+build\b|` +
		`\bpytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)\b|\bunittest\.(?:skip|skipIf|skipUnless|expectedFailure)\b|@(?:skip|skipIf|skipUnless|expectedFailure)\b|\bskipTest\(|\bSkipTest\b|\bcollect_ignore(?:_glob)?\b|pytest_ignore_collect|pytest_collection_modifyitems|\b__test__\s*=\s*False|` +
		`\b(?:it|test|describe|suite|context)\.(?:skip|only|todo|fails|skipIf|runIf)\b|(?:^|\s)(?:xit|xdescribe|xtest|xcontext|xspecify|fit|fdescribe|fcontext)\s*[(' "]|\bthis\.skip\(|\bpending\s*\(|` +
		`#\[ignore\b|@Disabled\b|@Ignore\b|\[Ignore\b|\bSkip\s*=\s*"|\bmarkTestSkipped\(|\bmarkTestIncomplete\(`)
	asserts = lazyre.New(`\bassert\w*\b|\bexpect\w*\s*[({.]|\brequire\.\w+\(|\bt\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\bshould\b|\braises\(|\bverify\(|\bpanic!\(|\bcheck\.\w+\(`)
	leaves  = lazyre.New(`^\s*(?:sys\.exit|os\._exit|os\.Exit|process\.exit|std::process::exit|exit)\s*\(?\s*0`)
)

// Compare says what the tests lost between the two states. files are the paths
// that differ and are tests by isTest, or define what the command runs.
func Compare(files []File, command string, isTest func(string) bool) []Finding {
	var out []Finding
	before, after := newMarks(), newMarks()
	for _, f := range files {
		if isTest(f.Path) && text(f.Before) && text(f.After) {
			before.read(f.Path, f.Before)
			after.read(f.Path, f.After)
		}
	}
	for _, f := range files {
		if isTest(f.Path) {
			out = append(out, lost(f, before, after)...)
		}
	}
	out = append(out, redefined(files, command)...)
	slices.SortFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Detail, b.Detail))
	})
	return slices.Compact(out)
}

func text(b []byte) bool { return bytes.IndexByte(b, 0) < 0 }

// marks are what the lines of test files say, counted over all of them, so that
// a test that moved to another file is not taken for lost.
type marks struct {
	tests, asserts map[string]int
	// of says for each file what it has.
	of map[string]*mark
}

type mark struct{ tests, asserts, skips, leaves []string }

func newMarks() *marks {
	return &marks{tests: map[string]int{}, asserts: map[string]int{}, of: map[string]*mark{}}
}

func (m *marks) read(path string, content []byte) {
	f := &mark{}
	m.of[path] = f
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\r\n")
		l := strings.TrimSpace(line)
		if commented(l) {
			continue
		}
		for _, re := range declared {
			if g := re.FindStringSubmatch(line); g != nil {
				f.tests = append(f.tests, g[1])
				m.tests[g[1]]++
				break
			}
		}
		switch {
		case skips.MatchString(l):
			f.skips = append(f.skips, l)
		case attributes.MatchString(line):
			f.tests = append(f.tests, l)
			m.tests[l]++
		case leaves.MatchString(line):
			f.leaves = append(f.leaves, l)
		case asserts.MatchString(l):
			f.asserts = append(f.asserts, l)
			m.asserts[l]++
		}
	}
}

// commented reports whether a line says nothing to the machine: a test behind a
// comment sign does not run. Build constraints are comments that do.
func commented(l string) bool {
	if strings.HasPrefix(l, "//go:build") || strings.HasPrefix(l, "// +build") {
		return false
	}
	return strings.HasPrefix(l, "//") || strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "#[") || strings.HasPrefix(l, "* ") || strings.HasPrefix(l, "/*")
}

// lost are the findings about one test file.
func lost(f File, before, after *marks) []Finding {
	was, is := before.of[f.Path], after.of[f.Path]
	if was == nil || is == nil { // bytes that are no text
		if f.Before != nil && f.After == nil {
			return []Finding{{Deleted, f.Path, ""}}
		}
		return nil
	}
	var out []Finding
	gone := missing(was.tests, before.tests, after.tests)
	switch {
	case f.Before != nil && f.After == nil && (len(gone) > 0 || len(was.tests) == 0):
		return []Finding{{Deleted, f.Path, ""}}
	case f.Before == nil && len(was.tests)+len(is.tests) > 0:
		return nil // a new file with tests of its own may skip them
	}
	for _, name := range gone {
		out = append(out, Finding{Deleted, f.Path, clip(name)})
	}
	for _, l := range extra(is.skips, was.skips) {
		out = append(out, Finding{Skipped, f.Path, clip(l)})
	}
	for _, l := range extra(is.leaves, was.leaves) {
		out = append(out, Finding{Skipped, f.Path, "it ends the run: " + clip(l)})
	}
	for _, l := range missing(was.asserts, before.asserts, after.asserts) {
		out = append(out, Finding{Weakened, f.Path, "does not assert any more: " + clip(l)})
	}
	return out
}

// missing are the items of a file that occur less often in all files than
// before.
func missing(items []string, before, after map[string]int) []string {
	var out []string
	seen := map[string]bool{}
	for _, it := range items {
		if !seen[it] && after[it] < before[it] {
			out = append(out, it)
		}
		seen[it] = true
	}
	return out
}

// extra are the items of a that b has less often.
func extra(a, b []string) []string {
	left := map[string]int{}
	for _, x := range b {
		left[x]++
	}
	var out []string
	for _, x := range a {
		if left[x] > 0 {
			left[x]--
			continue
		}
		out = append(out, x)
	}
	return out
}

func clip(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\uFFFD")
	if len(s) <= maxDetail {
		return s
	}
	return strings.ToValidUTF8(s[:maxDetail], "") + "…"
}

// Words lists findings in one line, with the rest counted.
func Words(fs []string, more int) string {
	const most = 5
	if len(fs) > most {
		more += len(fs) - most
		fs = fs[:most]
	}
	s := strings.Join(fs, "; ")
	if more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}
