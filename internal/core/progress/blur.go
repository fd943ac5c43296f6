package progress

import "strings"

// maxBlurred bounds the work on one text.
const maxBlurred = 64 << 10

// Blur takes out of a text what differs between two looks at the same thing:
// clock times and dates, measured durations (with a fraction, or below a
// second), memory addresses, and how blanks are laid out. Plain numbers stay:
// a count that moves is news. With numbers they go too, and quotes with them:
// so two calls that differ by a line number or an offset are near-equal.
func Blur(text string, numbers bool) string {
	if len(text) > maxBlurred {
		text = text[:maxBlurred/2] + text[len(text)-maxBlurred/2:]
	}
	var b strings.Builder
	b.Grow(len(text))
	blank := true
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if !blank {
				b.WriteByte(' ')
			}
			blank = true
			i++
			continue
		case numbers && (c == '"' || c == '\'' || c == '\\'):
			i++
			continue
		case digit(c) && (i == 0 || !word(text[i-1])):
			n := wordEnd(text, i)
			switch w := text[i:n]; {
			case moment(w):
				b.WriteByte('~')
			case numbers:
				b.WriteString(noDigits(w))
			default:
				b.WriteString(w)
			}
			i = n
		case numbers && digit(c):
			b.WriteByte('#')
			for i < len(text) && digit(text[i]) {
				i++
			}
		default:
			b.WriteByte(c)
			i++
		}
		blank = false
	}
	return strings.TrimRight(b.String(), " ")
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func word(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

// wordEnd is where what begins with a digit ends: letters and digits, and the
// points, colons and hyphens between them ("µ" is two bytes, both above 0x7f).
func wordEnd(s string, i int) int {
	for i < len(s) && (word(s[i]) || s[i] >= 0x80 || (s[i] == '.' || s[i] == ':' || s[i] == '-' || s[i] == '+') && i+1 < len(s) && word(s[i+1])) {
		i++
	}
	return i
}

func noDigits(w string) string {
	var b strings.Builder
	for i := 0; i < len(w); i++ {
		if !digit(w[i]) {
			b.WriteByte(w[i])
		} else if i == 0 || !digit(w[i-1]) {
			b.WriteByte('#')
		}
	}
	return b.String()
}

// moment reports whether a word is a clock time, a date, a measured duration or
// an address.
func moment(w string) bool {
	if strings.HasPrefix(w, "0x") && len(w) > 6 {
		return true
	}
	shape := noDigits(w)
	switch shape {
	case "#:#:#", "#:#:#.#", "#-#-#", "#-#-#T#:#:#Z", "#-#-#T#:#:#.#Z", "#-#-#T#:#:#", "#-#-#T#:#:#.#",
		"#-#-#T#:#:#+#:#", "#-#-#T#:#:#.#+#:#", "#-#-#T#:#:#-#:#", "#-#-#T#:#:#.#-#:#":
		return true
	case "#.#s", "#.#ms", "#.#us", "#.#µs", "#.#ns", "#ms", "#us", "#µs", "#ns", "#m#.#s", "#h#m#.#s", "#.#m", "#.#h":
		return true
	}
	return false
}
