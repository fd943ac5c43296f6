package textcap_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"belay/internal/tool/textcap"
)

func clean(t testing.TB, pieces ...string) string {
	t.Helper()
	var b bytes.Buffer
	c := textcap.NewCleaner(&b)
	for _, p := range pieces {
		if n, err := c.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", p, n, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCleanerMakesTerminalOutputPlain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain":                 {"a\tb\nc", "a\tb\nc"},
		"colours":               {"\x1b[1;31mred\x1b[0m\n", "red\n"},
		"title":                 {"\x1b]0;title\x07x\n", "x\n"},
		"hyperlink":             {"\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\\n", "link\n"},
		"charset":               {"\x1b(Bx\n", "x\n"},
		"progress":              {"10%\r20%\r100%\ndone\n", "100%\ndone\n"},
		"progress at the end":   {"10%\r20%", "20%"},
		"crlf":                  {"a\r\nb\r\n", "a\nb\n"},
		"cr cr lf":              {"a\r\r\nb", "a\nb"},
		"bare cr then nothing":  {"a\r", "a"},
		"column one":            {"10%\x1b[1G20%\n", "20%\n"},
		"backspace":             {"-\b\\\b|\n", "|\n"},
		"backspace over a rune": {"é\bx\n", "x\n"},
		"control characters":    {"a\x00b\x07c\x7fd\n", "abcd\n"},
		"not UTF-8":             {"a\xffb\n", "a\uFFFDb\n"},
		"cut escape":            {"a\x1b[3\nb\n", "a\nb\n"},
		"cut rune at the end":   {"a\xc3", "a\uFFFD"},
		"empty":                 {"", ""},
	} {
		if got := clean(t, c.in); got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", name, c.in, got, c.want)
		}
	}
}

func TestCleanerDoesNotDependOnHowOutputIsCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "世", "\r", "\n", "\x1b[31m", "\x1b]0;t\x07", "\b", "\xff", "😀", "text "})).Draw(t, "parts")
		whole := strings.Join(parts, "")
		var b1, b2 bytes.Buffer
		c1, c2 := textcap.NewCleaner(&b1), textcap.NewCleaner(&b2)
		c1.Write([]byte(whole))
		c1.Close()
		for i := 0; i < len(whole); i++ {
			c2.Write([]byte{whole[i]})
		}
		c2.Close()
		if b1.String() != b2.String() {
			t.Fatalf("%q: whole %q, byte by byte %q", whole, b1.String(), b2.String())
		}
		if !utf8.Valid(b1.Bytes()) || bytes.ContainsAny(b1.Bytes(), "\r\x1b\b") {
			t.Fatalf("%q becomes %q", whole, b1.String())
		}
	})
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// FIELD P4: a hundred thousand progress updates, and a line without an end.
func TestCleanerCollapsesProgressInBoundedMemory(t *testing.T) {
	var b bytes.Buffer
	c := textcap.NewCleaner(&b)
	for i := range 100_000 {
		fmt.Fprintf(c, "\rdownloading %d of 100000", i)
	}
	io.WriteString(c, "\ndone\n")
	c.Close()
	if got := b.String(); got != "downloading 99999 of 100000\ndone\n" {
		t.Errorf("progress becomes %q", got[:min(len(got), 200)])
	}
	var n counter
	c = textcap.NewCleaner(&n)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	allocs := testing.AllocsPerRun(1, func() {
		for range 4 {
			c.Write(chunk)
		}
	})
	c.Close()
	if n != 2*4<<20 || allocs > 50 {
		t.Errorf("%d bytes passed with %v allocations", n, allocs)
	}
}

var noteRE = regexp.MustCompile(`\[… (\d+) bytes(?: \((\d+) lines?\))? left out …\]\n`)

func TestWindowKeepsHeadAndTailAndCountsTheRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "世界", "😀", "\n", "line of text\n", "word "}), 0, 300).Draw(t, "text"), "")
		head, tail := rapid.IntRange(0, 200).Draw(t, "head"), rapid.IntRange(0, 200).Draw(t, "tail")
		w := textcap.NewWindow(head, tail)
		for rest := text; len(rest) > 0; {
			k := rapid.IntRange(1, len(rest)).Draw(t, "k")
			w.Write([]byte(rest[:k]))
			rest = rest[k:]
		}
		got := w.Text(nil)
		if len(text) <= head+tail {
			if got != text || w.Cut() {
				t.Fatalf("%q fits in %d+%d but becomes %q", text, head, tail, got)
			}
			return
		}
		if !w.Cut() || !utf8.ValidString(got) {
			t.Fatalf("cut=%v, %q", w.Cut(), got)
		}
		m := noteRE.FindStringSubmatchIndex(got)
		if m == nil {
			t.Fatalf("no note in %q", got)
		}
		h, tl := got[:m[0]], got[m[1]:]
		if !strings.HasPrefix(text, h) || len(h) > head {
			h = strings.TrimSuffix(h, "\n")
		}
		if !strings.HasPrefix(text, h) || !strings.HasSuffix(text, tl) || len(h) > head || len(tl) > tail {
			t.Fatalf("%q is no head, %q no tail of %q", h, tl, text)
		}
		left, _ := strconv.Atoi(got[m[2]:m[3]])
		if left != len(text)-len(h)-len(tl) {
			t.Fatalf("says %d bytes left out of %d, shows %d", left, len(text), len(h)+len(tl))
		}
		lines := 0
		if m[4] >= 0 {
			lines, _ = strconv.Atoi(got[m[4]:m[5]])
		}
		if want := strings.Count(text[len(h):len(text)-len(tl)], "\n"); lines != want {
			t.Fatalf("says %d lines left out, are %d", lines, want)
		}
	})
}

func TestLineAndAroundKeepRunes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "世", "😀"}), 1, 200).Draw(t, "s"), "")
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		from := rapid.IntRange(0, len(s)-1).Draw(t, "from")
		to := rapid.IntRange(from, len(s)).Draw(t, "to")
		a, l := textcap.Around(s, from, to, limit), textcap.Line(s, limit)
		if !utf8.ValidString(a) || !utf8.ValidString(l) {
			t.Fatalf("Around %q, Line %q", a, l)
		}
		if len(s) <= limit && (a != s || l != s) {
			t.Fatalf("a line that fits is changed: %q %q", a, l)
		}
		if len(a) > limit+16 || len(l) > limit+50 {
			t.Fatalf("too long for %d: %d, %d", limit, len(a), len(l))
		}
	})
	if got := textcap.Around(strings.Repeat("x", 500)+"needle"+strings.Repeat("y", 500), 500, 506, 40); !strings.Contains(got, "needle") {
		t.Errorf("the match is not in %q", got)
	}
}
