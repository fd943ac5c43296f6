// Package terminal makes text fit for a terminal: nothing that a model, a
// repository or a command wrote may steer it.
//
// It must not know what the text is about.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes untrusted text harmless for a terminal: control characters and
// characters that reorder text are shown as what they are, line ends and tabs
// stay. Everything that comes from a model, a repository or a command goes
// through here before it is printed.
func Safe(s string) string {
	clean := true
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if harmful(r, n) {
			clean = false
			break
		}
		i += n
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case !harmful(r, n):
			b.WriteRune(r)
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, "\\x%02x", s[i])
		case r < 0x100:
			fmt.Fprintf(&b, "\\x%02x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
		i += n
	}
	return b.String()
}

// Line is Safe for text that belongs on one line of belay's own: its line ends
// are shown as what they are too, so that no line of it can pass for one of
// belay's.
func Line(s string) string { return strings.ReplaceAll(Safe(s), "\n", `\n`) }

// Block is Safe for text with lines of its own. Each but the first begins with a
// bar, which tells it from belay's own lines.
func Block(s string) string {
	return strings.ReplaceAll(Safe(strings.TrimRight(s, "\n")), "\n", "\n  │ ")
}

// JSON makes JSON harmless for a terminal without changing what it means: what
// would steer one is written by its number. It must hold no raw line ends but
// those between values.
func JSON(b []byte) []byte {
	var out []byte
	from := 0
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		// Bytes that are no text cannot be written by a number, and encoders leave
		// none.
		if harmful(r, n) && !(r == utf8.RuneError && n <= 1) {
			out = append(out, b[from:i]...)
			out = fmt.Appendf(out, "\\u%04x", r)
			from = i + n
		}
		i += n
	}
	if out == nil {
		return b
	}
	return append(out, b[from:]...)
}

func harmful(r rune, n int) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == utf8.RuneError && n <= 1:
		return true
	case unicode.IsControl(r):
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c, r == 0x2028, r == 0x2029:
		return true // bidirectional controls, line and paragraph separators
	}
	return false
}
