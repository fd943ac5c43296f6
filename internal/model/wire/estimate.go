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
// OpenAI's o200k vocabulary, as a share of the count. The compat module holds
// it against that vocabulary on source code, prose in several scripts, logs,
// hex and base64; it mostly lies 10 to 60 percent above.
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
// and prose alike.
func Tokens(s string) int64 {
	var n int64
	for i := 0; i < len(s); {
		c := s[i]
		j := i + 1
		switch {
		case c >= utf8.RuneSelf:
			_, size := utf8.DecodeRuneInString(s[i:])
			j = i + size
			// Two bytes are Latin, Greek or Cyrillic letters, three mostly
			// Chinese, Japanese and Korean, four mostly emoji; vocabularies
			// know few words of them.
			n += int64(max(size-1, 1))
		case isLetter(c):
			for j < len(s) && isLetter(s[j]) && (s[j] > 'Z' || s[j-1] <= 'Z') {
				j++
			}
			n += 1 + int64(j-i-1)/5
		case c >= '0' && c <= '9':
			for j < len(s) && s[j] >= '0' && s[j] <= '9' {
				j++
			}
			n += 1 + int64(j-i-1)/2
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			for j < len(s) && (s[j] == ' ' || s[j] == '\t' || s[j] == '\n' || s[j] == '\r') {
				j++
			}
			if j-i > 1 || c != ' ' {
				n += 1 + int64(j-i-1)/8
			}
		default:
			n++
		}
		i = j
	}
	return n
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

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
