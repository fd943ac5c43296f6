package textcap

import (
	"io"
	"unicode/utf8"
)

// maxLine is how much of an unfinished line the Cleaner holds back to let a
// carriage return replace it. A longer line is passed on in pieces.
const maxLine = 64 << 10

// Cleaner is a writer that turns what a terminal program printed into plain
// text and passes it on: escape sequences and control characters are removed,
// progress lines that were overwritten with carriage returns are reduced to
// what stood there last, and bytes that are not UTF-8 become U+FFFD. Memory is
// bounded whatever comes in. Close passes on the unfinished last line.
type Cleaner struct {
	w    io.Writer
	err  error
	line []byte
	// passed says that a piece of the present line has been passed on already,
	// so it can no longer be replaced.
	passed bool
	// cr says that a carriage return came and nothing after it yet.
	cr    bool
	esc   escape
	split []byte // the first bytes of a rune that is not complete yet
}

// escape is where inside an escape sequence the input stands.
type escape uint8

const (
	escNone    escape = iota
	escStart          // after ESC
	escCSI            // ESC [ …
	escString         // ESC ] P X ^ _ … until BEL or ESC \
	escStrEnd         // ESC inside such a string
	escCharset        // ESC ( and kin: one more byte
)

// NewCleaner returns a Cleaner that writes to w.
func NewCleaner(w io.Writer) *Cleaner { return &Cleaner{w: w} }

// Write takes raw output. It always takes all of p; an error of the writer
// behind it is returned once and then again by Close.
func (c *Cleaner) Write(p []byte) (int, error) {
	n := len(p)
	if len(c.split) > 0 {
		p = append(c.split, p...)
		c.split = nil
	}
	for len(p) > 0 && c.err == nil {
		if c.esc != escNone {
			c.escape(p[0])
			p = p[1:]
			continue
		}
		if k := plainRun(p); k > 0 {
			c.text(p[:k])
			p = p[k:]
			continue
		}
		if p[0] >= utf8.RuneSelf {
			if !utf8.FullRune(p) {
				c.split = append([]byte(nil), p...)
				break
			}
			_, size := utf8.DecodeRune(p)
			c.rune(p, size)
			p = p[size:]
			continue
		}
		c.control(p[0])
		p = p[1:]
	}
	return n, c.err
}

// plainRun is the length of the printable ASCII at the start of p.
func plainRun(p []byte) int {
	for i, b := range p {
		if (b < 0x20 && b != '\t') || b >= 0x7f {
			return i
		}
	}
	return len(p)
}

func (c *Cleaner) rune(p []byte, size int) {
	if r, _ := utf8.DecodeRune(p); r == utf8.RuneError && size == 1 {
		c.text([]byte("\uFFFD"))
	} else if r >= 0x80 && r < 0xa0 {
		if r == 0x9b { // the one-byte form of ESC [
			c.esc = escCSI
		}
	} else {
		c.text(p[:size])
	}
}

func (c *Cleaner) text(p []byte) {
	if c.cr {
		c.cr = false
		c.replace()
	}
	c.line = append(c.line, p...)
	if len(c.line) > maxLine {
		c.pass()
		c.passed = true
	}
}

// replace forgets the present line because something is printed over it.
func (c *Cleaner) replace() {
	c.line = c.line[:0]
	if c.passed {
		c.passed = false
		c.line = append(c.line, '\n')
		c.pass()
	}
}

func (c *Cleaner) control(b byte) {
	switch b {
	case '\n':
		c.cr = false
		c.line = append(c.line, '\n')
		c.pass()
		c.passed = false
	case '\r':
		c.cr = true
	case '\b':
		if len(c.line) > 0 {
			_, size := utf8.DecodeLastRune(c.line)
			c.line = c.line[:len(c.line)-size]
		}
	case 0x1b:
		c.esc = escStart
	}
}

func (c *Cleaner) escape(b byte) {
	switch c.esc {
	case escStart:
		switch b {
		case '[':
			c.esc = escCSI
		case ']', 'P', 'X', '^', '_':
			c.esc = escString
		case '(', ')', '*', '+', '#', '%', ' ':
			c.esc = escCharset
		default:
			c.esc = escNone
		}
	case escCSI:
		if b >= 0x40 && b <= 0x7e {
			c.esc = escNone
			if b == 'G' { // to a column: progress displays mean the first one
				c.cr = true
			}
		} else if b == '\n' { // a cut sequence must not swallow the next line
			c.esc = escNone
			c.control(b)
		}
	case escString:
		switch b {
		case 0x07:
			c.esc = escNone
		case 0x1b:
			c.esc = escStrEnd
		case '\n':
			c.esc = escNone
			c.control(b)
		}
	case escStrEnd, escCharset:
		c.esc = escNone
	}
}

func (c *Cleaner) pass() {
	if len(c.line) > 0 && c.err == nil {
		_, c.err = c.w.Write(c.line)
	}
	c.line = c.line[:0]
}

// Close passes on what is held back. It does not close the writer behind.
func (c *Cleaner) Close() error {
	if len(c.split) > 0 {
		c.split = nil
		c.text([]byte("\uFFFD"))
	}
	c.pass()
	return c.err
}
