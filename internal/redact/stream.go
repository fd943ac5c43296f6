package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

const (
	// maxLine is how much of one line is held; a longer one is judged in pieces.
	maxLine = 64 << 10
	// margin is longer than any secret that has an end of its own.
	margin = 8 << 10
	// maxHeld is how much of what may turn out to be the end of a private key
	// is held back.
	maxHeld = 32 << 10
	// maxHeaders is how many lines may stand between a key's first line and its
	// body.
	maxHeaders = 10
)

// Writer redacts what is written to it and passes it on, whole lines at a time.
// The result does not depend on how the bytes were cut into writes. Close
// passes on what is held back; it does not close the writer behind.
type Writer struct {
	r   *Redactor
	w   io.Writer
	err error
	buf []byte // the line that is not complete
	// swallow drops what belongs to a secret that was longer than the window.
	swallow bool
	block   int // where in a private key: 0 outside, 1 after its first line, 2 in its body
	headers int // lines since then without a body
	held    []string
	heldLen int
}

// Writer returns a Writer that passes on to w.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{r: r, w: w} }

var errClosed = errors.New("redact: written to after Close")

// Write takes all of p, or returns the error of the writer behind.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && w.err == nil {
		piece := p[:min(len(p), maxLine)]
		if end := bytes.LastIndexByte(piece, '\n') + 1; end > 0 {
			piece = piece[:end]
			w.buf = append(w.buf, piece...)
			w.lines()
		} else {
			w.buf = append(w.buf, piece...)
			w.overlong()
		}
		p = p[len(piece):]
	}
	return n, w.err
}

// Close passes on what is left.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if len(w.buf) > 0 {
		l := string(w.buf)
		w.buf = nil
		w.line(l)
	}
	w.flush()
	err := w.err
	w.err = errClosed
	return err
}

func (w *Writer) emit(s string) {
	if w.err == nil && s != "" {
		_, w.err = io.WriteString(w.w, s)
	}
}

// lines judges the complete lines in buf.
func (w *Writer) lines() {
	text := string(w.buf)
	w.buf = w.buf[:0]
	if len(text) <= maxLine && w.block == 0 && !w.swallow && w.r.scan(text) == 0 {
		w.harmless(text)
		return
	}
	for text != "" && w.err == nil {
		end := strings.IndexByte(text, '\n') + 1
		if end > maxLine {
			// It goes the way of those that come in pieces.
			w.buf = append(w.buf, text[:end-1]...)
			w.overlong()
			w.line(string(w.buf) + "\n")
			w.buf = w.buf[:0]
		} else {
			w.line(text[:end])
		}
		text = text[end:]
	}
}

// harmless passes on lines in which no detector can find anything; what may be
// the last lines of a key is held back all the same.
func (w *Writer) harmless(text string) {
	from := 0
	for at := 0; at < len(text); {
		end := at + strings.IndexByte(text[at:], '\n') + 1
		if w.holds(text[at:end]) {
			w.emit(text[from:at])
			w.hold(text[at:end])
			from = end
		} else if len(w.held) > 0 {
			w.flush()
		}
		at = end
	}
	w.emit(text[from:])
}

// holds reports whether a line may be part of a private key whose first line
// was not seen.
func (w *Writer) holds(l string) bool {
	least := longBody
	if len(w.held) > 0 {
		least = 1
	}
	_, _, ok := body(l, least)
	return ok
}

func (w *Writer) hold(l string) {
	w.held = append(w.held, l)
	w.heldLen += len(l)
	for w.heldLen > maxHeld {
		first := w.held[0]
		w.held, w.heldLen = w.held[1:], w.heldLen-len(first)
		w.emit(w.r.line(first))
	}
}

// flush passes on what was held back for nothing.
func (w *Writer) flush() {
	for _, l := range w.held {
		w.emit(w.r.line(l))
	}
	w.held, w.heldLen = nil, 0
}

// line judges one line, its end included; the last one may have none.
func (w *Writer) line(l string) {
	if w.swallow {
		l = w.swallowed(l)
	}
	if w.block > 0 && w.inBlock(l) {
		return
	}
	if closesBlock(l) {
		for _, h := range w.held {
			w.emit(w.r.line(hideBody(h, 1)))
		}
		w.held, w.heldLen = nil, 0
	} else if w.holds(l) {
		w.hold(l)
		return
	}
	w.flush()
	if opensBlock(l) {
		w.block, w.headers = 1, 0
	}
	w.emit(w.r.line(l))
}

// inBlock handles a line after the first one of a private key; false means
// that the line is judged like any other.
func (w *Writer) inBlock(l string) bool {
	least := longBody
	if w.block == 2 {
		least = 1
	}
	switch _, _, ok := body(l, least); {
	case closesBlock(l):
		w.block = 0
		return false
	case ok:
		w.block = 2
		w.emit(w.r.line(hideBody(l, least)))
		return true
	case w.headers < maxHeaders && pemHeader.MatchString(strings.TrimRight(l, "\r\n")):
		w.headers++
		w.emit(w.r.line(l))
		return true
	}
	w.block = 0
	return false
}

// swallowed drops the rest of a secret from the front of s.
func (w *Writer) swallowed(s string) string {
	i := 0
	for i < len(s) && (base64Char(s[i]) || strings.IndexByte(`_-.\~`, s[i]) >= 0) {
		i++
	}
	w.swallow = i == len(s)
	return s[i:]
}

// overlong judges the front of a line that does not end within the window. It
// is cut where no secret spans the cut, at a place that depends on the text
// alone.
func (w *Writer) overlong() {
	for len(w.buf) >= maxLine && w.err == nil {
		if w.swallow {
			rest := w.swallowed(string(w.buf))
			w.buf = append(w.buf[:0], rest...)
			continue
		}
		w.flush()
		w.block = 0
		win := string(w.buf[:maxLine])
		fs := w.r.find(win)
		cut := cutPoint(win)
		for i := len(fs) - 1; i >= 0; i-- {
			if f := fs[i]; f.matchFrom < cut && cut < f.matchTo {
				cut = f.matchFrom
			}
		}
		if cut > 0 {
			w.emit(w.r.line(win[:cut]))
		} else {
			cut = w.filled(win, fs)
		}
		w.buf = append(w.buf[:0], w.buf[cut:]...)
	}
}

// filled handles a window that one secret fills from its start on, and returns
// where that secret ends in it.
func (w *Writer) filled(win string, fs []finding) int {
	for _, f := range fs {
		if f.matchFrom == 0 && f.to > len(win)/2 {
			w.emit(w.r.line(win[:f.from]) + Marker(f.kind))
			w.swallow = f.to == len(win)
			return f.to
		}
	}
	w.emit(w.r.line(win))
	return len(win)
}

// cutPoint is the last place well inside the window where words end.
func cutPoint(win string) int {
	most := len(win) - margin
	for i := most; i > len(win)/2; i-- {
		switch win[i-1] {
		case ' ', '\t', ',', ';', '(', ')', '{', '}', '[', ']':
			return i
		}
	}
	return most
}

// Reader returns a reader of what rd brings, redacted.
func (r *Redactor) Reader(rd io.Reader) io.Reader {
	x := &reader{rd: rd}
	x.w = r.Writer(&x.out)
	return x
}

type reader struct {
	rd  io.Reader
	w   *Writer
	out sink
	in  [32 << 10]byte
	err error
}

// sink collects what is ready to be read.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) { s.b = append(s.b, p...); return len(p), nil }

func (x *reader) Read(p []byte) (int, error) {
	for len(x.out.b) == 0 {
		if x.err != nil {
			return 0, x.err
		}
		n, err := x.rd.Read(x.in[:])
		// A sink takes everything.
		_, _ = x.w.Write(x.in[:n])
		if err != nil {
			x.err = err
			if errors.Is(err, io.EOF) {
				_ = x.w.Close()
			}
		}
	}
	n := copy(p, x.out.b)
	x.out.b = append(x.out.b[:0], x.out.b[n:]...)
	return n, nil
}
