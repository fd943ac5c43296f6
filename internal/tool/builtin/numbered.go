package builtin

import (
	"bytes"
	"fmt"
	"strings"

	"belay/internal/tool/textcap"
)

// maxShownLine is how many bytes of one line are shown.
const maxShownLine = 2000

// numberLine is how a line of a file is shown: its number, an arrow, and the
// line as it is.
func numberLine(b *bytes.Buffer, n int64, line string) {
	fmt.Fprintf(b, "%6d→%s\n", n, textcap.Line(line, maxShownLine))
}

// pager is a writer that keeps a range of lines, numbered, and counts the
// rest. It holds one line at a time and of a very long one only the start.
type pager struct {
	from, limit int64 // first line to keep (1-based), and how many
	maxBytes    int
	out         bytes.Buffer
	last        int64 // the last line kept
	lines       int64 // complete lines so far
	line        []byte
	length      int // of the present line, whatever is kept of it
	full        bool
}

func (p *pager) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			p.take(b)
			break
		}
		p.take(b[:i])
		p.end()
		b = b[i+1:]
	}
	return n, nil
}

func (p *pager) take(b []byte) {
	p.length += len(b)
	if room := maxShownLine - len(p.line); p.wanted() && room > 0 {
		p.line = append(p.line, b[:min(room, len(b))]...)
	}
}

func (p *pager) wanted() bool {
	return !p.full && p.lines+1 >= p.from && p.lines+1 < p.from+p.limit
}

func (p *pager) end() {
	if p.wanted() {
		text := strings.ToValidUTF8(string(p.line), "") // a rune may be cut at the end
		if p.length > maxShownLine {
			text = fmt.Sprintf("%s… [%d more bytes in this line]", text, p.length-len(text))
		}
		before := p.out.Len()
		fmt.Fprintf(&p.out, "%6d→%s\n", p.lines+1, text)
		if p.out.Len() > p.maxBytes && p.last > 0 {
			p.out.Truncate(before)
			p.full = true
		} else {
			p.last = p.lines + 1
		}
	}
	p.lines++
	p.line, p.length = p.line[:0], 0
}

// close ends the text and reports whether its last line had no line end.
func (p *pager) close() (unterminated bool) {
	if unterminated = p.length > 0; unterminated {
		p.end()
	}
	return unterminated
}
