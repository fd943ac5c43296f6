package redact

import (
	"belay/internal/lazyre"
	"strings"
)

// The block of a private key is the only secret of several lines. Its lines
// are recognised after its first line, and before its last one, so that the
// end of a file shows no half of a key.

var (
	pemBegin  = lazyre.New(`-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----`)
	pemEnd    = lazyre.New(`-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----`)
	pemHeader = lazyre.New(`^[^A-Za-z]*(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Key-Type)?:? ?[^A-Za-z]*$|(?:Proc-Type|DEK-Info|Version|Comment|Charset): `)
)

// opensBlock reports whether a line ends inside a private key.
func opensBlock(l string) bool {
	if !strings.Contains(l, "PRIVATE KEY") {
		return false
	}
	at := pemBegin.FindAllStringIndex(l, -1)
	return at != nil && !pemEnd.MatchString(l[at[len(at)-1][1]:])
}

func closesBlock(l string) bool { return strings.Contains(l, "PRIVATE KEY") && pemEnd.MatchString(l) }

// longBody is the length of a line in a block; only the last may be shorter.
const longBody = 40

// body finds the base64 of a line of a block: a run at the line's end, with
// nothing but line numbers, names of files, quotes or signs of a diff before
// it.
func body(l string, least int) (from, to int, ok bool) {
	to = len(strings.TrimRight(l, "\r\n\t \"',;\\)+"))
	if strings.HasSuffix(l[:to], `\n`) || strings.HasSuffix(l[:to], `\r`) {
		to = len(strings.TrimRight(l[:to-2], `\`))
	}
	// "\n" inside of quotes leaves its n behind when the quote was trimmed.
	if strings.HasSuffix(l[:to], `\n`) {
		to -= 2
	}
	from = to
	for from > 0 && base64Char(l[from-1]) {
		from--
	}
	if from == 0 && to > 0 && (l[0] == '+' || l[0] == '-') {
		from = 1 // the sign of a diff
	}
	if to-from < least {
		return 0, 0, false
	}
	prefix := l[:from]
	if strings.IndexFunc(prefix, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) >= 0 {
		return from, to, strings.HasSuffix(prefix, ":") || strings.HasSuffix(prefix, "-") || strings.HasSuffix(prefix, "→") ||
			strings.HasSuffix(prefix, `"`) || strings.HasSuffix(prefix, "'")
	}
	return from, to, true
}

func base64Char(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '='
}

func hideBody(l string, least int) string {
	from, to, ok := body(l, least)
	if !ok {
		return l
	}
	return l[:from] + Marker(kindPEM) + l[to:]
}
