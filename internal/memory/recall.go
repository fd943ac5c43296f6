package memory

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"belay/internal/event"
)

// What a goal is shown at most.
const (
	MaxShown = 2 << 10 // bytes of all lines together
	MaxItems = 16
	maxLine  = 400
)

// Item is one thing that is remembered, as lists show it.
type Item struct {
	ID   string           `json:"id"`
	Kind event.MemoryKind `json:"kind"`
	// Text is the one line that says it.
	Text     string    `json:"text"`
	Decision *Decision `json:"decision,omitempty"`
	Command  *Command  `json:"command,omitempty"`

	rank int
	at   At
	runs int
}

// Query is what a goal brings: its text, and the commands of its tests.
type Query struct {
	Text  string
	Tests []string
}

// The ranks, best first. Within a rank commands that ran more often come first,
// then what is newer.
const (
	rankRepository = iota // decisions for the whole repository
	rankNamedPath         // decisions for paths that the goal's text names
	rankTests             // the goal's own test commands
	rankTrouble           // commands that failed here, and what mended them or that nothing did
	rankPath              // decisions for other paths
	rankWorks             // commands that always worked
)

// List is everything that is remembered, in the order in which a goal with
// this query would be shown it.
func (b *Book) List(q Query) []Item {
	var items []Item
	for id, d := range b.Decisions {
		if b.Revoked[id] {
			continue
		}
		it := Item{ID: id, Kind: event.MemoryDecision, Text: d.line(), Decision: d, rank: rankRepository, at: d.At}
		if len(d.Paths) > 0 {
			it.rank = rankPath
			if names(q.Text, d.Paths) {
				it.rank = rankNamedPath
			}
		}
		items = append(items, it)
	}
	for id, c := range b.Commands {
		it := Item{ID: id, Kind: event.MemoryCommand, Text: b.line(c), Command: c, rank: rankWorks, at: c.Last, runs: c.Runs()}
		switch {
		case tests(c.Command, q.Tests):
			it.rank = rankTests
		case c.Failed > 0:
			it.rank = rankTrouble
		}
		items = append(items, it)
	}
	slices.SortFunc(items, func(x, y Item) int {
		switch {
		case x.rank != y.rank:
			return x.rank - y.rank
		case x.runs != y.runs:
			return y.runs - x.runs
		}
		return y.at.compare(x.at)
	})
	return items
}

// names reports whether a text names one of the paths, or a file below it.
func names(text string, paths []string) bool {
	for _, p := range paths {
		p = strings.TrimRight(strings.TrimSuffix(p, "**"), "/*")
		if p != "" && strings.Contains(text, p) {
			return true
		}
		if dir := path.Dir(p); path.Ext(p) != "" && dir != "." && strings.Contains(text, dir+"/") {
			return true
		}
	}
	return false
}

// Recall is what a goal is shown: the best items that fit, each whole.
func (b *Book) Recall(q Query) event.MemoryRecalled {
	var out event.MemoryRecalled
	size := 0
	for _, it := range b.List(q) {
		if len(out.Items) == MaxItems || size+len(it.Text)+1 > MaxShown {
			out.More++
			continue
		}
		size += len(it.Text) + 1
		out.Items = append(out.Items, event.MemoryItem{ID: it.ID, Kind: it.Kind, Text: it.Text})
	}
	return out
}

// oneLine makes one line of words that may hold anything.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))), " ")
	if len(s) <= most {
		return s
	}
	cut := strings.ToValidUTF8(s[:most], "")
	return cut + "…"
}

func (d *Decision) line() string {
	s := oneLine(d.Decision, maxLine)
	if d.Reason != "" {
		s += " (because " + oneLine(d.Reason, maxLine/2) + ")"
	}
	if len(d.Paths) > 0 {
		s = "for " + oneLine(strings.Join(d.Paths, ", "), maxLine/4) + ": " + s
	}
	return s + fmt.Sprintf(" [goal %s, %s]", oneLine(d.At.Goal, 40), day(d.At))
}

func day(a At) string {
	s := a.Time.String()
	return s[:min(len(s), 10)]
}

// line is a command with what is known of it.
func (b *Book) line(c *Command) string {
	s := "`" + c.Command + "`"
	if c.Dir != "." {
		s += " in " + oneLine(c.Dir, 80)
	}
	var parts []string
	add := func(n int, words string) {
		if n == 1 {
			parts = append(parts, words+" once")
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%s %d times", words, n))
		}
	}
	add(c.Worked, "worked")
	add(c.TestsFailed, "ran with failing tests")
	if c.Failed > 0 {
		add(c.Failed, "failed")
		parts[len(parts)-1] += " (" + c.LastFailure + ")"
	}
	s += " " + strings.Join(parts, ", ")
	if f := b.mend(c); f != "" {
		s += "; " + f
	}
	if c.MS >= 10_000 {
		s += fmt.Sprintf("; the last run took %d s", c.MS/1000)
	}
	return oneLine(s, 2*maxLine) + fmt.Sprintf(" [last %s]", day(c.Last))
}

// mend says what was done between the latest failure and the next success. A
// command that is forgotten by now is not named.
func (b *Book) mend(c *Command) string {
	for _, f := range c.Fixes {
		var did []string
		for _, id := range f.Commands {
			if o := b.Commands[id]; o != nil && id != c.ID {
				words := "`" + o.Command + "`"
				if o.Dir != c.Dir {
					words += " in " + oneLine(o.Dir, 80)
				}
				did = append(did, words)
			}
		}
		if len(did) > 0 {
			return "after a failure it worked once these had run: " + strings.Join(did, ", ")
		}
		if len(f.Paths) > 0 {
			return "after a failure it worked once these had changed: " + oneLine(strings.Join(f.Paths, ", "), maxLine/2)
		}
		if len(f.Commands) == 0 {
			return "after a failure it worked on another try"
		}
	}
	return ""
}
