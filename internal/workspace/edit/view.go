package edit

import (
	"sort"
	"strings"
)

// view is one content in its two forms: raw, with the endings as they are, and
// shown, with every ending as "\n". Offsets in shown map to raw exactly.
type view struct {
	raw, shown string
	// crlf are the offsets in shown of the newlines that are CRLF in raw.
	crlf []int
	// cr says that single carriage returns are the line endings.
	cr bool
}

func newView(raw string, eol EOL) view {
	v := view{raw: raw, shown: raw}
	switch eol {
	case CR:
		v.cr, v.shown = true, strings.ReplaceAll(raw, "\r", "\n")
	case CRLF, Mixed:
		var b strings.Builder
		b.Grow(len(raw))
		for i := 0; i < len(raw); i++ {
			if raw[i] == '\r' && i+1 < len(raw) && raw[i+1] == '\n' {
				v.crlf = append(v.crlf, b.Len())
				continue
			}
			b.WriteByte(raw[i])
		}
		v.shown = b.String()
	}
	return v
}

// rawOffset maps an offset in shown to raw; in front of a CRLF it is in front
// of the carriage return.
func (v view) rawOffset(at int) int { return at + sort.SearchInts(v.crlf, at) }

// ending is how the newline at an offset of shown stands in raw.
func (v view) ending(at int) string {
	if v.cr {
		return "\r"
	}
	if i := sort.SearchInts(v.crlf, at); i < len(v.crlf) && v.crlf[i] == at {
		return "\r\n"
	}
	return "\n"
}

// span is one piece of shown text that becomes text.
type span struct {
	start, end int
	text       string
}

// splice makes the replacements (sorted, not overlapping) in raw. It returns
// the new raw text and how many bytes of the old one in front of the first and
// behind the last replacement were not touched.
func (v view) splice(spans []span) (raw string, before, after int) {
	if len(spans) == 0 {
		return v.raw, len(v.raw), 0
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		start := v.rawOffset(s.start)
		b.WriteString(v.raw[at:start])
		b.WriteString(v.localise(s))
		at = v.rawOffset(s.end)
	}
	b.WriteString(v.raw[at:])
	return b.String(), v.rawOffset(spans[0].start), len(v.raw) - at
}

// localise gives the newlines of inserted text the endings of the place: the
// endings of the newlines that they replace, in order; past those, the ending
// of the line they stand in; at an unterminated last line, the one before.
func (v view) localise(s span) string {
	if !strings.Contains(s.text, "\n") || len(v.crlf) == 0 && !v.cr {
		return s.text
	}
	var own []string
	for i := s.start; i < s.end; i++ {
		if v.shown[i] == '\n' {
			own = append(own, v.ending(i))
		}
	}
	rest := "\n"
	if len(own) > 0 {
		rest = own[len(own)-1]
	} else if next := strings.IndexByte(v.shown[s.end:], '\n'); next >= 0 {
		rest = v.ending(s.end + next)
	} else if last := strings.LastIndexByte(v.shown[:s.start], '\n'); last >= 0 {
		rest = v.ending(last)
	}
	var b strings.Builder
	for n := 0; ; n++ {
		line, tail, found := strings.Cut(s.text, "\n")
		b.WriteString(line)
		if !found {
			return b.String()
		}
		if n < len(own) {
			b.WriteString(own[n])
		} else {
			b.WriteString(rest)
		}
		s.text = tail
	}
}

func (v view) lineAt(at int) int { return 1 + strings.Count(v.shown[:at], "\n") }
