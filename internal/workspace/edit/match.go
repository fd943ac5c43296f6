package edit

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"belay/internal/fault"
)

// match is where an edit applies: the replacements to make in the shown text,
// and the places where Old was found.
type match struct {
	spans  []span
	places []int
	note   string
}

func (v view) find(e Replace) (match, error) {
	if err := checkText("old text", e.Old, v.raw); err != nil {
		return match{}, err
	}
	if err := checkText("new text", e.New, v.raw); err != nil {
		return match{}, err
	}
	old, new := unixEndings(e.Old), unixEndings(e.New)
	if v.raw == "" && old == "" && new != "" {
		return match{spans: []span{{0, 0, new}}, places: []int{0}}, nil
	}
	if old == "" {
		return match{}, fault.New(fault.InvalidArguments, fault.Model, "old text is empty, but the file is not",
			"quote the text that is to be replaced, or write the whole file")
	}
	if old == new {
		return match{}, fault.New(fault.InvalidArguments, fault.Model, "old and new text are the same",
			"send the text as it should become")
	}
	places := occurrences(v.shown, old, e.All)
	if len(places) > 1 && !e.All {
		return match{}, v.ambiguous(places, "")
	}
	if len(places) > 0 {
		m := match{places: places}
		pieces := difference(old, new)
		for _, p := range places {
			for _, d := range pieces {
				m.spans = append(m.spans, span{p + d.start, p + d.end, d.text})
			}
		}
		return m, nil
	}
	for _, try := range []func(old, new string) (match, []int){v.atEnd, v.lookAlike, v.byIndent} {
		m, places := try(old, new)
		if len(places) > 1 {
			return match{}, v.ambiguous(places, " (apart from blanks or typographic look-alikes)")
		}
		if len(places) == 1 {
			m.places = places
			return m, nil
		}
	}
	return match{}, v.noMatch(old)
}

// occurrences lists where old stands in text. Without all, overlapping places
// count too: "aa" in "aaa" does not say which one is meant.
func occurrences(text, old string, all bool) []int {
	var at []int
	step := 1
	if all {
		step = len(old)
	}
	for from := 0; from <= len(text)-len(old); {
		i := strings.Index(text[from:], old)
		if i < 0 {
			break
		}
		at = append(at, from+i)
		from += i + step
	}
	return at
}

// difference reduces "old becomes new" to the pieces that differ, in offsets
// of old.
func difference(old, new string) []span {
	var spans []span
	for _, e := range udiff.Strings(old, new) {
		spans = append(spans, span{e.Start, e.End, e.New})
	}
	return spans
}

// atEnd matches an old text that ends with a newline against a last line that
// has none, and leaves that state as it is.
func (v view) atEnd(old, new string) (match, []int) {
	short, ok := strings.CutSuffix(old, "\n")
	if !ok || short == "" || !strings.HasSuffix(v.shown, short) {
		return match{}, nil
	}
	at := len(v.shown) - len(short)
	if at > 0 && v.shown[at-1] != '\n' && !strings.Contains(short, "\n") {
		return match{}, nil
	}
	m := match{note: "the file does not end with a newline; that was kept"}
	for _, d := range difference(short, strings.TrimSuffix(new, "\n")) {
		m.spans = append(m.spans, span{at + d.start, at + d.end, d.text})
	}
	return m, []int{at}
}

// lookAlike matches with typographic characters folded to plain ones. Folding
// is rune by rune, so that offsets in the folded texts map back by counting.
func (v view) lookAlike(old, new string) (match, []int) {
	foldedOld, foldedText := fold(old), fold(v.shown)
	if foldedOld == old && foldedText == v.shown {
		return match{}, nil
	}
	places := occurrences(foldedText, foldedOld, false)
	if len(places) != 1 {
		return match{}, v.unfolded(foldedText, places)
	}
	start := runeOffset(v.shown, utf8.RuneCountInString(foldedText[:places[0]]))
	region := v.shown[start:]
	region = region[:runeOffset(region, utf8.RuneCountInString(foldedOld))]
	m := match{note: "typographic characters (quotes, dashes, no-break spaces) were matched to plain ones; those that stayed keep their form"}
	for _, d := range difference(old, new) {
		m.spans = append(m.spans, span{
			start + runeOffset(region, utf8.RuneCountInString(old[:d.start])),
			start + runeOffset(region, utf8.RuneCountInString(old[:d.end])),
			d.text,
		})
	}
	return m, []int{start}
}

func (v view) unfolded(folded string, places []int) []int {
	at := make([]int, len(places))
	for i, p := range places {
		at[i] = runeOffset(v.shown, utf8.RuneCountInString(folded[:p]))
	}
	return at
}

func runeOffset(s string, runes int) int {
	for i := range s {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(s)
}

func fold(s string) string { return strings.Map(plain, s) }

func plain(r rune) rune {
	switch r {
	case '‘', '’', '‚', '‛', '′':
		return '\''
	case '“', '”', '„', '‟', '″':
		return '"'
	case '‐', '‑', '‒', '–', '—', '―', '−':
		return '-'
	case '\u00a0', '\u2007', '\u202f', '\u2009', '\u200a':
		return ' '
	}
	return r
}

func unixEndings(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// maxPlaces bounds the line numbers in a message.
const maxPlaces = 20

func (v view) ambiguous(places []int, how string) error {
	var lines []string
	for _, p := range places[:min(len(places), maxPlaces)] {
		lines = append(lines, fmt.Sprint(v.lineAt(p)))
	}
	if len(places) > maxPlaces {
		lines = append(lines, "…")
	}
	return fault.New(fault.Ambiguous, fault.Model,
		fmt.Sprintf("old text occurs %d times%s, at lines %s", len(places), how, strings.Join(lines, ", ")),
		"add neighbouring lines until it is unique, or ask for all occurrences")
}
