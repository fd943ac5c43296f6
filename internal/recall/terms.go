package recall

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTerm bounds a term, in bytes. What is longer is no word that anybody types.
const maxTerm = 64

// Terms are the terms under which a text is found, each once, in the order in
// which they first appear.
//
// A word is a run of letters, digits and underscores. It is a term in lower case
// and without underscores, so that FooBar, foo_bar and FOOBAR are the same; and
// so are its parts: at underscores, where lower case turns to upper, before the
// last of several capitals, between letters and digits. Path separators, dots
// and dashes end a word, so that a path is found by any of its names. Scripts
// that are written without spaces become pairs of neighbouring characters.
func Terms(text string) []string {
	var out []string
	seen := map[string]bool{}
	each(text, func(w word) {
		for _, t := range append([]string{w.whole}, w.parts...) {
			if t != "" && !seen[t] {
				seen[t] = true
				out = append(out, t)
			}
		}
	})
	return out
}

// word is one run of a text, with the terms it has.
type word struct {
	whole string
	// parts are the whole's parts, none when it has only one.
	parts []string
	// dense says that it is of a script without spaces: parts are its pairs, and
	// whole is empty.
	dense bool
}

// each calls f with every word of a text.
func each(text string, f func(word)) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if !inWord(r) {
			i += n
			continue
		}
		dense, from := isDense(r), i
		for i < len(text) {
			r, n = utf8.DecodeRuneInString(text[i:])
			if !inWord(r) || isDense(r) != dense {
				break
			}
			i += n
		}
		if dense {
			f(word{parts: pairs(text[from:i]), dense: true})
			continue
		}
		if w := split(text[from:i]); w.whole != "" {
			f(w)
		}
	}
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r))
}

// isDense reports whether a character is of a script that is written without
// spaces between words, or, like Hangul, with endings grown onto them.
func isDense(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// pairs are the overlapping pairs of a run, and its last character alone, so
// that every single one of its characters begins some term.
func pairs(run string) []string {
	rs := []rune(run)
	out := make([]string, 0, len(rs))
	for i := range rs {
		out = append(out, string(rs[i:min(i+2, len(rs))]))
	}
	return out
}

// split takes a run of letters, digits and underscores apart.
func split(run string) word {
	var w word
	var whole strings.Builder
	from := -1
	end := func(at int) {
		if from >= 0 {
			p := strings.ToLower(run[from:at])
			whole.WriteString(p)
			w.parts = append(w.parts, clip(p))
		}
		from = -1
	}
	var last rune
	for i, r := range run {
		if r == '_' {
			end(i)
			last = 0
			continue
		}
		_, n := utf8.DecodeRuneInString(run[i:])
		next, _ := utf8.DecodeRuneInString(run[i+n:])
		if from >= 0 && parts(last, r, next) {
			end(i)
		}
		if from < 0 {
			from = i
		}
		last = r
	}
	end(len(run))
	w.whole = clip(whole.String())
	if len(w.parts) < 2 || len(w.parts) > maxParts {
		// One part is the whole; many of them are no name but a digest or a blob.
		w.parts = nil
	}
	return w
}

// maxParts is how many parts a name has at most.
const maxParts = 12

// parts reports whether a part ends between two characters, with what follows.
func parts(last, r, next rune) bool {
	switch {
	case unicode.IsDigit(last) != unicode.IsDigit(r):
		return true
	case unicode.IsLower(last) && unicode.IsUpper(r):
		return true
	}
	return unicode.IsUpper(last) && unicode.IsUpper(r) && unicode.IsLower(next)
}

func clip(s string) string {
	if len(s) <= maxTerm {
		return s
	}
	n := maxTerm
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Wanted is one word of a query: it is there where one of its ways is, each of
// which is a list of terms that must all be there. The first way is the closest.
type Wanted struct {
	// Word is as it was written.
	Word string
	Ways [][]string
	// Prefix says that the last term of the only way is a beginning.
	Prefix bool
}

// MaxWords is how many words of a query count.
const MaxWords = 12

// Words takes a query's text apart: what is between spaces is one word, however
// many terms it has, so that a path or a qualified name is looked for as a whole.
func Words(text string) []Wanted {
	var out []Wanted
	seen := map[string]bool{}
	for _, f := range strings.Fields(text) {
		var near, far []string
		single := ""
		each(f, func(w word) {
			if w.dense {
				if len(w.parts) == 1 {
					single = w.parts[0]
					return
				}
				// The last character alone is in the pair before it.
				near, far = append(near, w.parts[:len(w.parts)-1]...), append(far, w.parts[:len(w.parts)-1]...)
				return
			}
			near = append(near, w.whole)
			if len(w.parts) > 0 {
				far = append(far, w.parts...)
			} else {
				far = append(far, w.whole)
			}
		})
		w := Wanted{Word: f}
		switch {
		case len(near) > 0:
			w.Ways = append(w.Ways, unique(near))
			if a, b := unique(near), unique(far); strings.Join(a, " ") != strings.Join(b, " ") {
				w.Ways = append(w.Ways, b)
			}
		case single != "":
			w.Ways, w.Prefix = [][]string{{single}}, true
		default:
			continue
		}
		key := strings.Join(w.Ways[0], " ")
		if seen[key] {
			continue
		}
		seen[key] = true
		if out = append(out, w); len(out) == MaxWords {
			break
		}
	}
	return out
}

func unique(ts []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, t := range ts {
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}
