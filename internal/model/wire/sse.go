package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line of a stream that is accepted, in bytes. Some
// servers send a whole tool call, file content included, as one line.
const MaxLine = 32 << 20

// ErrLineTooLong says that a line of the stream is longer than MaxLine.
var ErrLineTooLong = errors.New("stream line over the limit")

// Event is one server-sent event. Type is "" when the server named none.
type Event struct {
	Type string
	Data []byte // valid until the next call
}

// Events reads server-sent events from a stream. Lines may end in LF, CR or
// CRLF, and may be split over reads at any byte.
type Events struct {
	r      io.Reader
	buf    []byte // unread bytes are buf[pos:]
	pos    int
	seen   int  // bytes of buf[pos:] already searched for a line end
	skipLF bool // the last line ended in CR: an LF that follows belongs to it
	began  bool
	err    error
	data   []byte
	max    int
}

// NewEvents reads events from r.
func NewEvents(r io.Reader) *Events { return &Events{r: r, max: MaxLine} }

// Next returns the next event. At the end of the stream it returns io.EOF,
// together with the event that was under way if the stream ended before the
// blank line that closes one: the caller knows whether its data is whole.
func (e *Events) Next() (Event, error) {
	ev, any := Event{}, false
	e.data = e.data[:0]
	for {
		line, err := e.line()
		if err != nil && len(line) == 0 {
			if !any {
				return Event{}, err
			}
			ev.Data = e.data
			return ev, err
		}
		if len(line) == 0 {
			if any {
				ev.Data = e.data
				return ev, nil
			}
			ev.Type = "" // an event without data is dropped, its type too
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if any {
				e.data = append(e.data, '\n')
			}
			e.data, any = append(e.data, value...), true
			if len(e.data) > e.max {
				return Event{}, fmt.Errorf("%w of %d bytes", ErrLineTooLong, e.max)
			}
		case "event":
			ev.Type = string(value)
		}
	}
}

// line returns the next line without its end. The last line of a stream may
// have none: it is returned with nil error, and the error comes next.
func (e *Events) line() ([]byte, error) {
	for {
		if e.skipLF && e.pos < len(e.buf) {
			if e.buf[e.pos] == '\n' {
				e.pos++
			}
			e.skipLF = false
		}
		rest := e.buf[e.pos:]
		if i := bytes.IndexAny(rest[e.seen:], "\r\n"); i >= 0 {
			end := e.seen + i
			e.skipLF = rest[end] == '\r'
			e.pos, e.seen = e.pos+end+1, 0
			return e.begin(rest[:end]), nil
		}
		e.seen = len(rest)
		if len(rest) > e.max {
			return nil, fmt.Errorf("%w of %d bytes", ErrLineTooLong, e.max)
		}
		if e.err != nil {
			e.pos, e.seen = len(e.buf), 0
			return e.begin(rest), e.err
		}
		e.fill()
	}
}

// begin drops a byte-order mark in front of the first line.
func (e *Events) begin(line []byte) []byte {
	if !e.began {
		e.began = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

func (e *Events) fill() {
	if e.pos > 0 {
		n := copy(e.buf, e.buf[e.pos:])
		e.buf, e.pos = e.buf[:n], 0
	}
	if cap(e.buf)-len(e.buf) < 4096 {
		grown := make([]byte, len(e.buf), 2*cap(e.buf)+8192)
		copy(grown, e.buf)
		e.buf = grown
	}
	n, err := e.r.Read(e.buf[len(e.buf):cap(e.buf)])
	e.buf = e.buf[:len(e.buf)+n]
	e.err = err
}
