// Package textcap makes text that a tool brought back fit for a model: it
// cleans terminal output and shortens long text to its head and tail, saying
// how much was left out. The whole is kept elsewhere; nothing here stores
// anything or knows tools, goals or models.
//
// It is pure: it imports neither os nor time and works in memory that does not
// grow with its input.
package textcap

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Omission is what a shortened text leaves out.
type Omission struct {
	Bytes int64
	// Lines is how many line ends lie in the part left out.
	Lines int64
}

// String says it in words.
func (o Omission) String() string {
	switch o.Lines {
	case 0:
		return fmt.Sprintf("%d bytes left out", o.Bytes)
	case 1:
		return fmt.Sprintf("%d bytes (1 line) left out", o.Bytes)
	}
	return fmt.Sprintf("%d bytes (%d lines) left out", o.Bytes, o.Lines)
}

// Window is a writer that keeps the first and the last bytes of what is
// written to it, and counts the rest.
type Window struct {
	headCap, tailCap int
	head             []byte
	tail             []byte // up to twice tailCap; the last tailCap bytes count
	total            int64
	lines            int64
}

// NewWindow keeps up to head bytes of the start and tail bytes of the end.
func NewWindow(head, tail int) *Window {
	return &Window{headCap: max(head, 0), tailCap: max(tail, 0)}
}

// Write never fails.
func (w *Window) Write(p []byte) (int, error) {
	n := len(p)
	w.total += int64(n)
	w.lines += int64(bytes.Count(p, []byte{'\n'}))
	if room := w.headCap - len(w.head); room > 0 {
		k := min(room, len(p))
		w.head = append(w.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > w.tailCap {
		p = p[len(p)-w.tailCap:]
		w.tail = w.tail[:0]
	}
	if len(w.tail)+len(p) > 2*w.tailCap {
		keep := max(w.tailCap-len(p), 0)
		w.tail = append(w.tail[:0], w.tail[len(w.tail)-keep:]...)
	}
	w.tail = append(w.tail, p...)
	return n, nil
}

// Total is how many bytes were written.
func (w *Window) Total() int64 { return w.total }

// Lines is how many line ends were written.
func (w *Window) Lines() int64 { return w.lines }

// Cut reports whether Text leaves something out.
func (w *Window) Cut() bool { return w.total > int64(w.headCap+w.tailCap) }

// Text returns what was written when it fits, else the head, the note on a
// line of its own, and the tail. Both are cut at line ends where one is near,
// and never inside a rune. note may be nil for the plain words of Omission.
func (w *Window) Text(note func(Omission) string) string {
	last := w.tail
	if len(last) > w.tailCap {
		last = last[len(last)-w.tailCap:]
	}
	if !w.Cut() {
		return string(w.head) + string(last)
	}
	head, tail := trimEnd(w.head), trimStart(last)
	o := Omission{
		Bytes: w.total - int64(len(head)+len(tail)),
		Lines: w.lines - int64(bytes.Count(head, []byte{'\n'})) - int64(bytes.Count(tail, []byte{'\n'})),
	}
	if note == nil {
		note = func(o Omission) string { return "[… " + o.String() + " …]" }
	}
	var b bytes.Buffer
	b.Write(head)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		b.WriteByte('\n')
	}
	b.WriteString(note(o))
	b.WriteByte('\n')
	b.Write(tail)
	return b.String()
}

// trimEnd drops the broken line at the end of a head, or at least the broken
// rune when the line is most of it.
func trimEnd(b []byte) []byte {
	if i := bytes.LastIndexByte(b, '\n'); i >= len(b)/2 {
		return b[:i+1]
	}
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// trimStart drops the broken line at the start of a tail, or at least the
// broken rune.
func trimStart(b []byte) []byte {
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i < len(b)/2 {
		return b[i+1:]
	}
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	if len(b) < utf8.UTFMax {
		return nil // the end of one rune and nothing else
	}
	return b
}

// Shorten is Window for a string that is already there. The second result
// reports whether something was left out.
func Shorten(s string, head, tail int, note func(Omission) string) (string, bool) {
	w := NewWindow(head, tail)
	// A Window never fails to take bytes.
	_, _ = w.Write([]byte(s))
	return w.Text(note), w.Cut()
}

// Line cuts one line to at most limit bytes, at a rune, and marks the cut with
// how many bytes are missing.
func Line(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	k := limit
	for k > 0 && !utf8.RuneStart(s[k]) {
		k--
	}
	return fmt.Sprintf("%s… [%d more bytes in this line]", s[:k], len(s)-k)
}

// Around cuts one line to about limit bytes around the byte range from..to,
// and marks both cuts.
func Around(s string, from, to, limit int) string {
	if len(s) <= limit {
		return s
	}
	pad := max((limit-(to-from))/2, 0)
	lo, hi := max(from-pad, 0), 0
	hi = min(lo+limit, len(s))
	lo = max(min(lo, hi-limit), 0)
	for lo > 0 && !utf8.RuneStart(s[lo]) {
		lo--
	}
	for hi < len(s) && !utf8.RuneStart(s[hi]) {
		hi--
	}
	out := s[lo:hi]
	if lo > 0 {
		out = "…" + out
	}
	if hi < len(s) {
		out += "…"
	}
	return out
}
