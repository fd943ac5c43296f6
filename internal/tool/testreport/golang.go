package testreport

import (
	"encoding/json"
	"strings"

	"belay/internal/event"
)

// goReader reads go test: plain, -v and -json.
type goReader struct {
	c    event.TestCounts
	n    names
	seen bool
	// pending are the tests reported by name since the last package line.
	pending event.TestCounts
	// jsonFailed tells for -json which packages have a failing test.
	jsonFailed map[string]bool
}

// goEvent is one line of go test -json.
type goEvent struct{ Action, Package, Test string }

func (g *goReader) line(s string) {
	if strings.HasPrefix(s, `{"`) && strings.Contains(s, `"Action":"`) {
		g.json(s)
		return
	}
	if t := strings.TrimLeft(s, " "); strings.HasPrefix(t, "--- ") {
		g.named(t)
		return
	}
	switch {
	case strings.HasPrefix(s, "=== RUN "):
		g.seen = true
	case strings.HasPrefix(s, "?   \t"):
		g.seen = true
	case strings.HasPrefix(s, "ok  \t"):
		g.seen = true
		if g.pending.Executed()+g.pending.Skipped == 0 && !strings.HasSuffix(strings.TrimSpace(s), "[no tests to run]") {
			g.pending.Passed = 1
		}
		g.settle()
	case strings.HasPrefix(s, "FAIL\t"):
		g.seen = true
		if g.pending.Failed == 0 {
			g.pending.Failed = 1
			name, why, _ := strings.Cut(s[len("FAIL\t"):], "\t")
			if why != "" { // a time stands there: it ran, and failed outside a test
				name += " [failed outside a test]"
			}
			g.n.add(name)
		}
		g.settle()
	}
}

// named takes "--- PASS: TestX/sub (0.00s)".
func (g *goReader) named(t string) {
	word, name, ok := strings.Cut(t[len("--- "):], ": ")
	if !ok {
		return
	}
	if i := strings.LastIndex(name, " ("); i > 0 {
		name = name[:i]
	}
	switch word {
	case "PASS":
		g.pending.Passed++
	case "SKIP":
		g.pending.Skipped++
	case "FAIL":
		g.pending.Failed++
		g.n.add(name)
	default:
		return
	}
	g.seen = true
}

func (g *goReader) settle() {
	g.c.Passed += g.pending.Passed
	g.c.Failed += g.pending.Failed
	g.c.Skipped += g.pending.Skipped
	g.pending = event.TestCounts{}
}

func (g *goReader) json(s string) {
	if strings.Contains(s, `"Action":"output"`) {
		return
	}
	var e goEvent
	if json.Unmarshal([]byte(s), &e) != nil {
		return
	}
	switch e.Action {
	case "pass", "skip", "run", "start":
		g.seen = true
	case "fail":
		g.seen = true
		if e.Test == "" && g.jsonFailed[e.Package] {
			return // the package fails because of a test that is counted
		}
		g.c.Failed++
		if g.jsonFailed == nil {
			g.jsonFailed = map[string]bool{}
		}
		g.jsonFailed[e.Package] = true
		if e.Test == "" {
			e.Test = e.Package + " [failed outside a test]"
		}
		g.n.add(e.Test)
		return
	}
	if e.Test == "" {
		return
	}
	switch e.Action {
	case "pass":
		g.c.Passed++
	case "skip":
		g.c.Skipped++
	}
}

func (g *goReader) counts() (event.TestCounts, bool) {
	g.settle() // a run that was cut off, or a test binary run by itself
	g.c.Runner, g.c.Failing = "go", g.n.list
	return g.c, g.seen
}
