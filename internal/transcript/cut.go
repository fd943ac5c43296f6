package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"belay/internal/event"
	"belay/internal/model"
)

// The caps on what one item may take, in bytes.
const (
	// MaxResult is the most of one result that the model is shown.
	MaxResult = 48 << 10
	// MaxExchange is what the results of one response share.
	MaxExchange = 192 << 10
	minResult   = 2 << 10
	// MaxUserText is the most of one text of the user.
	MaxUserText = 64 << 10
	// MaxNote is the most that a note of belay quotes.
	MaxNote = 8 << 10
	// MaxSummary is the most of a summary.
	MaxSummary = 64 << 10
	// MaxUnseen is the most that each message keeps which a compaction finds
	// before the model has answered it.
	MaxUnseen = 16 << 10
	maxLine   = 300
)

// cut leaves out the middle of a text that is longer than limit and says so;
// whole says where the whole is kept. Two thirds go to the head: it holds what
// the text is, the tail holds how it ended.
func cut(s string, limit int, whole string) string {
	if len(s) <= limit {
		return s
	}
	h := limit * 2 / 3
	t := len(s) - (limit - h)
	if i := strings.LastIndexByte(s[:h], '\n'); i > h/2 {
		h = i + 1
	}
	if i := strings.IndexByte(s[t:], '\n'); i >= 0 && i < (len(s)-t)/2 {
		t += i + 1
	}
	for h > 0 && !utf8.RuneStart(s[h]) {
		h--
	}
	for t < len(s) && !utf8.RuneStart(s[t]) {
		t++
	}
	return s[:h] + "\n" + leftOut(t-h, whole) + "\n" + s[t:]
}

// line makes one short line of words that come from elsewhere, so that they
// cannot pass for a paragraph of somebody else.
func line(s string) string {
	s = strings.Join(strings.Fields(valid(s)), " ")
	if len(s) <= maxLine {
		return s
	}
	n := maxLine
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// path is a file name as a note shows it: a name can hold anything.
func path(p string) string {
	if p != "" && strings.IndexFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) < 0 {
		return p
	}
	return fmt.Sprintf("%q", p)
}

// shortened is a message that a compaction keeps because the model has not
// answered it yet, so short that it cannot make the next request overflow too.
// limit is what it may take altogether.
func shortened(m model.Message, limit int) model.Message {
	m.Text = cut(m.Text, limit, "")
	if n := len(m.Results); n > 0 {
		results := make([]model.ToolResult, n)
		for i, r := range m.Results {
			r.Text = cut(r.Text, max(limit/n, 256), "by the compaction; call again for what you need")
			results[i] = r
		}
		m.Results = results
	}
	if n := len(m.Parts); n > 0 {
		parts := make([]event.Part, 0, n)
		for _, p := range m.Parts {
			each := max(limit/n, 256)
			p.Text = cut(p.Text, each, "")
			if len(p.Arguments) > each {
				b, err := json.Marshal(map[string]string{"belay": leftOut(len(p.Arguments), "")})
				if err != nil {
					panic("transcript: a string is always encodable: " + err.Error())
				}
				p.Arguments = string(b)
			}
			if len(p.Data) > 2*limit {
				if p.Kind != event.PartCall {
					continue // reasoning that outgrows the window cannot go back
				}
				p.Data = nil
			}
			parts = append(parts, p)
		}
		if len(parts) == 0 {
			parts = append(parts, event.Part{Kind: event.PartText, Text: leftOut(len(m.Parts[0].Data), "")})
		}
		m.Parts = parts
	}
	return m
}
