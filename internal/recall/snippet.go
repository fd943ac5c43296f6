package recall

import (
	"slices"
	"strings"
)

// Snippet picks the lines of a text that hold most of the wanted words, with
// their neighbours, in order, at most most lines of at most 200 bytes each. It
// returns the number of the best line, from 1; 0 means that no line has any.
func Snippet(text string, want []Wanted, most int) (lines []string, best int) {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	type scored struct{ n, at int }
	var hits []scored
	for i, l := range all {
		if i >= maxScanned {
			break
		}
		if n := matches(l, want); n > 0 {
			hits = append(hits, scored{n, i})
		}
	}
	slices.SortStableFunc(hits, func(a, b scored) int { return b.n - a.n })
	show := map[int]bool{}
	for _, h := range hits {
		if best == 0 {
			best = h.at + 1
		}
		for _, i := range []int{h.at, h.at + 1, h.at - 1} {
			if len(show) < most && i >= 0 && i < len(all) {
				show[i] = true
			}
		}
	}
	if len(hits) == 0 {
		for i := 0; i < len(all) && len(show) < most; i++ {
			if strings.TrimSpace(all[i]) != "" {
				show[i] = true
			}
		}
	}
	last := -1
	for i := range all {
		if !show[i] {
			continue
		}
		if last >= 0 && i > last+1 {
			lines = append(lines, "…")
		}
		lines, last = append(lines, Shorten(strings.TrimRight(all[i], " \t\r"), 200)), i
	}
	return lines, best
}

// maxScanned bounds the lines of one text that are looked at for a snippet.
const maxScanned = 5000

// matches counts the wanted words that a text holds.
func matches(text string, want []Wanted) int {
	lower, n := strings.ToLower(text), 0
	var terms map[string]bool
	for _, w := range want {
		if strings.Contains(lower, strings.ToLower(w.Word)) {
			n += 2
			continue
		}
		if terms == nil {
			terms = map[string]bool{}
			for _, t := range Terms(text) {
				terms[t] = true
			}
		}
		for _, way := range w.Ways {
			if allIn(way, terms) {
				n++
				break
			}
		}
	}
	return n
}

func allIn(way []string, terms map[string]bool) bool {
	for _, t := range way {
		if !terms[t] {
			return false
		}
	}
	return true
}
