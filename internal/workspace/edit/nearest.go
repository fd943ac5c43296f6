package edit

import (
	"fmt"
	"regexp"
	"sort"
	"strings"

	"belay/internal/fault"
)

const (
	maxCompared  = 20000 // lines of the file that are looked at for a hint
	maxLineBytes = 400   // bytes of a line that are compared
	maxNearest   = 3
	alike        = 0.5 // Dice coefficient of letter pairs from which lines look alike
)

var numberedLine = regexp.MustCompile(`^\s*\d+[\t:|→]`)

// noMatch says that old is not there and which lines look like it.
func (v view) noMatch(old string) error {
	msg := "old text does not occur in the file"
	if near := v.nearest(old); len(near) > 0 {
		msg += "; what looks most like it: " + strings.Join(near, "; ")
	}
	next := "read the file again and quote it exactly"
	if numberedLine.MatchString(old) {
		next = "leave out the line numbers; they are not part of the file"
	}
	return fault.New(fault.NoMatch, fault.Model, msg, next)
}

// nearest finds lines that look like the most telling line of old: its
// longest one.
func (v view) nearest(old string) []string {
	var telling string
	for _, l := range strings.Split(old, "\n") {
		if l = strings.TrimSpace(l); len(l) > len(telling) {
			telling = l
		}
	}
	want := pairs(telling)
	if len(want) == 0 {
		return nil
	}
	type candidate struct {
		line  int
		text  string
		score float64
	}
	var found []candidate
	rest := v.shown
	for n := 1; n <= maxCompared && rest != ""; n++ {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if score := dice(want, pairs(line)); score >= alike {
			found = append(found, candidate{n, line, score})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].score > found[j].score })
	var out []string
	for _, c := range found[:min(len(found), maxNearest)] {
		out = append(out, fmt.Sprintf("line %d: %q", c.line, clip(c.text)))
	}
	return out
}

func clip(s string) string {
	if len(s) <= maxLineBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxLineBytes], "") + "…"
}

func pairs(line string) map[[2]byte]int {
	line = strings.ToLower(squeeze(line))
	line = line[:min(len(line), maxLineBytes)]
	m := make(map[[2]byte]int, len(line))
	for i := 0; i+1 < len(line); i++ {
		m[[2]byte{line[i], line[i+1]}]++
	}
	return m
}

func dice(a, b map[[2]byte]int) float64 {
	var both, total int
	for p, n := range a {
		both += min(n, b[p])
		total += n
	}
	for _, n := range b {
		total += n
	}
	if total == 0 {
		return 0
	}
	return 2 * float64(both) / float64(total)
}
