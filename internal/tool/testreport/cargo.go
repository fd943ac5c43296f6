package testreport

import (
	"strings"

	"belay/internal/event"
)

// cargoReader reads cargo test (all its binaries summed) and cargo nextest.
type cargoReader struct {
	c    event.TestCounts
	n    names
	seen bool
}

func (r *cargoReader) line(s string) {
	switch {
	case strings.HasPrefix(s, "test result: "):
		_, list, _ := strings.Cut(s, ". ")
		list, _, _ = strings.Cut(list, "; finished in ")
		if m, ok := tallies(list, "; "); ok {
			r.seen = true
			r.c.Passed += m["passed"]
			r.c.Failed += m["failed"]
			r.c.Skipped += m["ignored"]
		}
	case strings.HasPrefix(s, "test ") && strings.HasSuffix(s, " ... FAILED"):
		r.n.add(strings.TrimSuffix(s[len("test "):], " ... FAILED"))
	case strings.HasPrefix(s, "error: could not compile ") && strings.Contains(s, " test"):
		// "error: could not compile `slug` (lib test) due to 1 previous error"
		_, name, _ := strings.Cut(s, "`")
		name, _, _ = strings.Cut(name, " due to ")
		r.seen = true
		r.c.Failed++
		r.n.add(strings.Replace(name, "`", "", 1) + " [build failed]")
	default:
		r.nextest(strings.TrimSpace(s))
	}
}

// nextest takes "Summary [ 0.005s] 3 tests run: 2 passed, 1 failed, 1 skipped"
// and "FAIL [ 0.003s] crate tests::name".
func (r *cargoReader) nextest(t string) {
	if rest, ok := strings.CutPrefix(t, "Summary ["); ok {
		_, list, found := strings.Cut(rest, " run: ")
		m, ok := tallies(list, ", ")
		if !found || !ok {
			return
		}
		r.seen = true
		for word, n := range m {
			word, _, _ = strings.Cut(word, " (") // "2 passed (1 slow)"
			switch word {
			case "passed":
				r.c.Passed += n
			case "failed", "timed out", "exec failed":
				r.c.Failed += n
			case "skipped":
				r.c.Skipped += n
			}
		}
	} else if rest, ok := strings.CutPrefix(t, "FAIL ["); ok {
		if _, name, found := strings.Cut(rest, "] "); found {
			r.n.add(name)
		}
	}
}

func (r *cargoReader) counts() (event.TestCounts, bool) {
	r.c.Runner, r.c.Failing = "cargo", r.n.list
	if !r.seen {
		r.c.Failing = nil
	}
	return r.c, r.seen
}
