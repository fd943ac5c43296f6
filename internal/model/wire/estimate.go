package wire

import (
	"unicode/utf8"

	"belay/internal/event"
	"belay/internal/model"
)

// The overheads in tokens that providers add around content: role markers,
// ids, the framing of a tool declaration.
const (
	overheadRequest = 16
	overheadMessage = 8
	overheadCall    = 16
	overheadTool    = 16
)

// EstimateError is the most by which Estimate may lie below the count of
// OpenAI's o200k vocabulary, as a share of the count. The module compat/ holds
// it against that vocabulary: measured on 2026-11-30 the estimate was 0.99 to
// 1.1 times the count for hashes, hex and base64, 1.3 to 1.5 for source, logs
// and prose, and up to 1.9 for minified JSON and for scripts other than Latin.
const EstimateError = 0.15

// Estimate is the number of input tokens of a request by its text alone, with
// no vocabulary: an upper estimate, since a budget and a window are safer with
// too high a number than with too low a one.
func Estimate(r model.Request) int64 {
	n := overheadRequest + Tokens(r.System) + Tokens(r.State)
	for _, t := range r.Tools {
		n += overheadTool + Tokens(t.Name) + Tokens(t.Description) + Tokens(string(t.Schema))
	}
	for _, m := range r.Messages {
		n += overheadMessage + Tokens(m.Text)
		for _, p := range m.Parts {
			n += Tokens(p.Text)
			if p.Kind == event.PartCall {
				n += overheadCall + Tokens(p.Tool) + Tokens(p.Arguments)
			}
			if p.Kind == event.PartOpaque || p.Kind == event.PartThink && p.Text == "" {
				// Signed or encrypted reasoning is base64, which is longer than
				// the tokens it stands for.
				n += int64(len(p.Data)) / 4
			}
		}
		for _, t := range m.Results {
			n += overheadCall + Tokens(t.Text)
		}
	}
	return n
}

// Tokens estimates the tokens of a text. Vocabularies split text before they
// merge bytes: words with the blank before them, digits, punctuation, runs of
// blanks. Counting those pieces, and long pieces more than once, follows code
// and prose alike; runs that look random (hashes, base64) count by length.
func Tokens(s string) int64 {
	var quarters int64
	for i := 0; i < len(s); {
		c := s[i]
		j := i + 1
		switch class[c] {
		case classWide:
			_, size := utf8.DecodeRuneInString(s[i:])
			j = i + size
			quarters += wide[size]
		case classAlnum:
			digits := false
			for j = i; j < len(s) && class[s[j]] == classAlnum; j++ {
				digits = digits || s[j] <= '9'
			}
			if n := j - i; digits && n >= randomRun {
				quarters += int64(3 * n)
			} else {
				quarters += 4 * words(s[i:j])
			}
		case classBlank:
			for j < len(s) && class[s[j]] == classBlank {
				j++
			}
			if j-i > 1 || c != ' ' {
				quarters += 4 + 4*int64(j-i-1)/8
			}
		default:
			quarters += 4
		}
		i = j
	}
	return (quarters + 3) / 4
}

// randomRun is the length from which letters mixed with digits are taken for a
// hash or for base64.
const randomRun = 20

// wide is what a rune costs in quarters of a token, by its length: two bytes
// are Latin, Greek, Cyrillic and the like, three mostly Chinese, Japanese and
// Korean, four mostly emoji. An invalid byte has length one.
var wide = [5]int64{0, 4, 2, 5, 12}

// words counts the pieces of a run of letters and digits: each change to an
// upper-case letter and each change between letters and digits begins one.
func words(s string) int64 {
	var n int64
	for i := 0; i < len(s); {
		j := i + 1
		if s[i] <= '9' {
			for j < len(s) && s[j] <= '9' {
				j++
			}
			n += 1 + int64(j-i-1)/2
		} else {
			for j < len(s) && s[j] > '9' && (s[j] > 'Z' || s[j-1] <= 'Z') {
				j++
			}
			n += 1 + int64(j-i-1)/5
		}
		i = j
	}
	return n
}

const (
	classOther = iota
	classAlnum
	classBlank
	classWide
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch b := byte(c); {
		case b >= utf8.RuneSelf:
			t[c] = classWide
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9':
			t[c] = classAlnum
		case b == ' ' || b == '\t' || b == '\n' || b == '\r':
			t[c] = classBlank
		}
	}
	return t
}()

// SizeHint is about how many bytes a request takes on a wire, so that its
// buffer need not grow.
func SizeHint(r model.Request) int {
	n := 4096 + len(r.System) + len(r.State)
	for _, t := range r.Tools {
		n += len(t.Description) + len(t.Schema) + 128
	}
	for _, m := range r.Messages {
		n += len(m.Text) + 64
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Arguments) + len(p.Data) + 64
		}
		for _, t := range m.Results {
			n += len(t.Text) + 96
		}
	}
	return n + n/8
}
