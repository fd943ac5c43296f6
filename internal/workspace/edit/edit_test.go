package edit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"belay/internal/fault"
)

func utf16le(s string) string {
	b, err := encodeRaw(s, Encoding{Charset: UTF16LE, BOM: true})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func utf16be(s string) string {
	b, err := encodeRaw(s, Encoding{Charset: UTF16BE, BOM: true})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Every row of FIELD.md's theme E that is about content, by its number.
func TestEditsKeepWhatTheyDoNotTouch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, content, old, new, want string
		all                           bool
	}{
		{name: "E1 one line of a CRLF file", content: "a\r\nb\r\nc\r\n", old: "b", new: "B", want: "a\r\nB\r\nc\r\n"},
		{name: "E1 several lines of a CRLF file, given with LF", content: "a\r\nb\r\nc\r\nd\r\n", old: "b\nc\n", new: "x\ny\nz\n", want: "a\r\nx\r\ny\r\nz\r\nd\r\n"},
		{name: "E1 CRLF arguments for an LF file", content: "a\nb\nc\n", old: "a\r\nb", new: "a\r\nB", want: "a\nB\nc\n"},
		{name: "E1 mixed endings stay mixed in the same way", content: "a\r\nb\nc\r\nd\n", old: "a\nb\nc\nd\n", new: "a\nB\nc\nD\n", want: "a\r\nB\nc\r\nD\n"},
		{name: "E1 a new line in a mixed file has the ending of the line it joins", content: "a\nb\r\nc\n", old: "b", new: "b\nb2", want: "a\nb\r\nb2\r\nc\n"},
		{name: "E1 old Mac endings", content: "a\rb\rc\r", old: "b\nc", new: "b\nx\nc", want: "a\rb\rx\rc\r"},
		{name: "a lone carriage return inside an LF file is text", content: "a\rb\nc\n", old: "c", new: "d", want: "a\rb\nd\n"},
		{name: "E2 indent style outside the span", content: "\tif x {\n    y()\n\t}\n", old: "y()", new: "z()", want: "\tif x {\n    z()\n\t}\n"},
		{name: "E3 no newline at the end, edit of line 1", content: "a\nb", old: "a", new: "x", want: "x\nb"},
		{name: "E3 two newlines at the end, edit of line 1", content: "a\nb\n\n", old: "a", new: "x", want: "x\nb\n\n"},
		{name: "E3 append to an unterminated last line", content: "a\nb", old: "b", new: "b\nc", want: "a\nb\nc"},
		{name: "E3 append to a terminated file", content: "a\nb\n", old: "b\n", new: "b\nc\n", want: "a\nb\nc\n"},
		{name: "E3 old text with a newline that the last line has not", content: "a\nb", old: "b\n", new: "b\nc\n", want: "a\nb\nc"},
		{name: "E3 the edit targets the final newline", content: "a\nb\n", old: "b\n", new: "b", want: "a\nb"},
		{name: "E4 spaces for the tabs of a Makefile", content: "all:\n\tgo build\n\tgo vet\n", old: "    go build\n    go vet", new: "    go build\n    go test\n    go vet", want: "all:\n\tgo build\n\tgo test\n\tgo vet\n"},
		{name: "E4 deeper lines follow the file's unit", content: "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n", old: "    if a {\n        b()\n    }", new: "    if a {\n        b()\n        for {\n            c()\n        }\n    }", want: "func f() {\n\tif a {\n\t\tb()\n\t\tfor {\n\t\t\tc()\n\t\t}\n\t}\n}\n"},
		{name: "E4 tabs for the spaces of a Python file", content: "def f():\n    return 1\n", old: "def f():\n\treturn 1\n", new: "def f():\n\tif x:\n\t\treturn 2\n\treturn 1\n", want: "def f():\n    if x:\n        return 2\n    return 1\n"},
		{name: "E4 a shallower new line", content: "a {\n\tb {\n\t\tc()\n\t}\n}\n", old: "        c()\n    }", new: "        c()\n    }\n    d()", want: "a {\n\tb {\n\t\tc()\n\t}\n\td()\n}\n"},
		{name: "E4 trailing blanks of kept lines stay", content: "a  \nb\t\nc\n", old: "a\nb\nc", new: "a\nb\nC", want: "a  \nb\t\nC\n"},
		{name: "E4 deleting a line", content: "a:\n\tb\n\tc\n", old: "    b\n", new: "", want: "a:\n\tc\n"},
		{name: "E4 joining lines", content: "a:\n\tb\n\tc\n", old: "    b\n", new: "    b; ", want: "a:\n\tb; \tc\n"},
		{name: "E4 in a CRLF file", content: "x:\r\n\ta\r\n\tb\r\n", old: "    a\n    b\n", new: "    a\n    q\n    b\n", want: "x:\r\n\ta\r\n\tq\r\n\tb\r\n"},
		{name: "E5 first line of a file with a mark", content: "\xef\xbb\xbfa\nb\n", old: "a\n", new: "x\n", want: "\xef\xbb\xbfx\nb\n"},
		{name: "E8 straight quotes for curly ones", content: "say “hi” and ‘go’\n", old: "say \"hi\" and 'go'", new: "say \"ho\" and 'go'", want: "say “ho” and ‘go’\n"},
		{name: "E8 look-alikes elsewhere stay", content: "“a”\n\"b\"\n“c”\n", old: "\"c\"", new: "\"d\"", want: "“a”\n\"b\"\n“d”\n"},
		{name: "E8 dashes and no-break spaces", content: "a\u00a0– b\n", old: "a - b", new: "a - c", want: "a\u00a0– c\n"},
		{name: "UTF-16 little endian", content: utf16le("a\r\nü\r\n"), old: "ü", new: "ö\nß", want: utf16le("a\r\nö\r\nß\r\n")},
		{name: "UTF-16 big endian with a pair", content: utf16be("a😀b\n"), old: "b", new: "c😀", want: utf16be("a😀c😀\n")},
		{name: "Latin-1", content: "gr\xfc\xdfe\nx\n", old: "x", new: "ä", want: "gr\xfc\xdfe\n\xe4\n"},
		{name: "Windows-1252", content: "\x80 100\nx\n", old: "x", new: "€", want: "\x80 100\n\x80\n"},
		{name: "all occurrences", content: "a b a\r\na\r\n", old: "a", new: "c\nd", want: "c\r\nd b c\r\nd\r\nc\r\nd\r\n", all: true},
		{name: "a file with escape characters can be edited", content: "x\x1b[0m\n", old: "x\x1b[0m", new: "y\x1b[0m", want: "y\x1b[0m\n"},
		{name: "an empty file", content: "", old: "", new: "a\n", want: "a\n"},
		{name: "deleting lines", content: "a\r\nb\r\nc\r\n", old: "b\n", new: "", want: "a\r\nc\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, err := Apply([]byte(c.content), []Replace{{c.old, c.new, c.all}})
			if err != nil {
				t.Fatal(err)
			}
			if string(res.Content) != c.want {
				t.Errorf("got  %q\nwant %q", res.Content, c.want)
			}
		})
	}
}

func TestEditsAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, content string
		edits         []Replace
		kind          fault.Kind
		says          []string
	}{
		{"C3 several matches", "x\na\nb\na\n", []Replace{{"a", "c", false}}, fault.Ambiguous, []string{"2 times", "lines 2, 4"}},
		{"overlapping matches", "aaa\n", []Replace{{"aa", "b", false}}, fault.Ambiguous, []string{"2 times"}},
		{"ambiguous after tolerance", "\ta\n  a\n", []Replace{{"    a\n", "    b\n", false}}, fault.Ambiguous, []string{"2 times", "1, 2"}},
		{"ambiguous look-alikes", "‘a’\n’a‘\n", []Replace{{"'a'", "b", false}}, fault.Ambiguous, []string{"2 times", "1, 2"}},
		{"inconsistent indentation is no match", "\ta\n  b\n", []Replace{{"    a\n    b", "    a", false}}, fault.NoMatch, nil},
		{"no match names what is near", "alpha\nreturn computeTotal(items)\nomega\n", []Replace{{"return computeTotals(item)", "x", false}}, fault.NoMatch, []string{`line 2: "return computeTotal(items)"`}},
		{"quoted line numbers", "alpha\n", []Replace{{"  12\tbeta", "x", false}}, fault.NoMatch, []string{"line numbers"}},
		{"E8 NUL in the old text", "a\n", []Replace{{"a\x00", "b", false}}, fault.InvalidArguments, []string{"old text", "U+0000"}},
		{"E8 control character in the new text", "a\n", []Replace{{"a", "b\x07", false}}, fault.InvalidArguments, []string{"new text", "U+0007"}},
		{"invalid UTF-8", "a\n", []Replace{{"a", "\xff", false}}, fault.InvalidArguments, []string{"UTF-8"}},
		{"empty old text", "a\n", []Replace{{"", "b", false}}, fault.InvalidArguments, []string{"empty"}},
		{"nothing changes", "a\n", []Replace{{"a", "a", false}}, fault.InvalidArguments, []string{"same"}},
		{"no edit", "a\n", nil, fault.InvalidArguments, nil},
		{"binary", "\x7fELF\x00\x01", []Replace{{"a", "b", false}}, fault.NotText, []string{"NUL"}},
		{"compressed", "\x1f\x8b\x08\x06\xff\x03", []Replace{{"a", "b", false}}, fault.NotText, nil},
		{"half a UTF-16 unit", "\xff\xfea", []Replace{{"a", "b", false}}, fault.NotText, []string{"utf-16le"}},
		{"a mark and then no UTF-8", "\xef\xbb\xbf\xff", []Replace{{"a", "b", false}}, fault.NotText, nil},
		{"a character that Latin-1 has not", "gr\xfcn\nx\n", []Replace{{"x", "→", false}}, fault.InvalidArguments, []string{"iso-8859-1", "'→'", "line 2"}},
		{"the edit at fault is named", "a\nb\n", []Replace{{"a", "c", false}, {"q", "r", false}}, fault.NoMatch, []string{"edit 2 of 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Apply([]byte(c.content), c.edits)
			var f *fault.Fault
			if !errors.As(err, &f) {
				t.Fatalf("want a fault of kind %s, got %v", c.kind, err)
			}
			if f.Kind != c.kind {
				t.Errorf("kind %s, want %s: %v", f.Kind, c.kind, f)
			}
			for _, s := range c.says {
				if !strings.Contains(f.Error(), s) {
					t.Errorf("%q does not say %q", f.Error(), s)
				}
			}
		})
	}
}

func TestResultSaysWhereAndHow(t *testing.T) {
	t.Parallel()
	res, err := Apply([]byte("a\nb\na\n"), []Replace{{"a", "x\ny", true}, {"b", "c", false}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Replaced != 3 || fmt.Sprint(res.Lines) != "[1 4 3]" || len(res.Notes) != 0 {
		t.Errorf("got %+v", res)
	}
	res, err = Apply([]byte("\ta\n"), []Replace{{"  a", "  b", false}})
	if err != nil || len(res.Notes) != 1 {
		t.Errorf("a tolerant match must be said: %+v %v", res, err)
	}
}

func TestRewriteKeepsCharsetMarkAndEndings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, was, text, want string }{
		{"uniform CRLF, new text with LF", "a\r\nb\r\n", "x\ny\n", "x\r\ny\r\n"},
		{"uniform CRLF, new text explicit", "a\r\nb\r\n", "x\r\ny\n", "x\r\ny\n"},
		{"LF stays LF", "a\n", "x\ny", "x\ny"},
		{"LF, new text explicit CRLF", "a\n", "x\r\n", "x\r\n"},
		{"mark kept", "\xef\xbb\xbfa\n", "x\n", "\xef\xbb\xbfx\n"},
		{"mark not doubled", "\xef\xbb\xbfa\n", "\ufeffx\n", "\xef\xbb\xbfx\n"},
		{"UTF-16 and CRLF kept", utf16le("a\r\n"), "ü\n", utf16le("ü\r\n")},
		{"Latin-1 kept", "\xfc\n", "ß\n", "\xdf\n"},
		{"mixed: kept lines keep their endings", "a\r\nb\nc\r\n", "a\nb\nx\nc\n", "a\r\nb\nx\r\nc\r\n"},
		{"empty file", "", "x\n", "x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Rewrite([]byte(c.was), c.text)
			if err != nil || string(got) != c.want {
				t.Errorf("got %q %v\nwant %q", got, err, c.want)
			}
		})
	}
	if _, err := Rewrite([]byte("a\x00"), "x"); err == nil {
		t.Error("a binary file was rewritten as text")
	}
	if _, err := Rewrite([]byte("a"), "x\x00"); err == nil {
		t.Error("a NUL went into a text file")
	}
}

func TestHostileSizesEndSoon(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	big := strings.Repeat("a", 1<<20) + "\n" + strings.Repeat("\tx y\n", 100000)
	for _, old := range []string{
		strings.Repeat("a", 1000) + "b", strings.Repeat("    x y\n", 3000) + "z", strings.Repeat("‘", 5000),
	} {
		if _, err := Apply([]byte(big), []Replace{{old, "q", false}}); err == nil {
			t.Error("matched")
		}
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("took %s", took)
	}
}

// alphabet holds everything the package treats in a special way.
var alphabet = []rune("ab \t\n\r'\"‘’“”–-\u00a0üß€😀{}")

func genText(t *rapid.T, label string) string {
	return rapid.StringOfN(rapid.SampledFrom(alphabet), 0, 60, -1).Draw(t, label)
}

func genEncoding(t *rapid.T) Encoding {
	return rapid.SampledFrom([]Encoding{
		{Charset: UTF8}, {Charset: UTF8, BOM: true}, {Charset: UTF16LE, BOM: true}, {Charset: UTF16BE, BOM: true},
	}).Draw(t, "encoding")
}

// TestDecodeAndEncodeBringBackTheSameBytes: for any bytes that are text, the
// raw form comes back; for uniform endings the shown form does as well.
func TestDecodeAndEncodeBringBackTheSameBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 0, 40),
			rapid.Custom(func(t *rapid.T) []byte {
				b, err := encodeRaw(genText(t, "text"), genEncoding(t))
				if err != nil {
					t.Fatal(err)
				}
				return b
			})).Draw(t, "content")
		raw, enc, err := decodeRaw(content)
		if err != nil {
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != fault.NotText {
				t.Fatalf("not a not_text fault: %v", err)
			}
			return
		}
		if back, err := encodeRaw(raw, enc); err != nil || !bytes.Equal(back, content) {
			t.Fatalf("%q came back as %q, %v", content, back, err)
		}
		shown, enc, err := Decode(content)
		if err != nil {
			t.Fatal(err)
		}
		if enc.EOL != Mixed && !strings.Contains(shown, "\r") {
			if back, err := Encode(shown, enc); err != nil || !bytes.Equal(back, content) {
				t.Fatalf("%q was shown as %q and came back as %q, %v", content, shown, back, err)
			}
		}
	})
}

// TestBytesOutsideTheSpanStay takes a piece of what a model is shown, replaces
// it, and compares head and tail of the file with the original.
func TestBytesOutsideTheSpanStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		enc := genEncoding(t)
		raw := genText(t, "raw")
		content, err := encodeRaw(raw, enc)
		if err != nil {
			t.Fatal(err)
		}
		shown, enc, err := Decode(content)
		if err != nil {
			t.Fatal(err)
		}
		runes := []rune(shown)
		if len(runes) == 0 {
			return
		}
		from := rapid.IntRange(0, len(runes)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(runes)).Draw(t, "to")
		old, head, tail := string(runes[from:to]), string(runes[:from]), string(runes[to:])
		new := strings.ReplaceAll(genText(t, "new"), "\r", "")
		res, err := Apply(content, []Replace{{old, new, false}})
		if err != nil {
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind == fault.NoMatch || f.Kind == fault.Internal {
				t.Fatalf("text that is there: %v", err)
			}
			return
		}
		v := newView(strings.TrimPrefix(raw, ""), enc.EOL)
		prefix, _ := encodeRaw(raw[:v.rawOffset(len(head))], enc)
		suffix, _ := encodeRaw(raw[v.rawOffset(len(shown)-len(tail)):], Encoding{Charset: enc.Charset})
		if !bytes.HasPrefix(res.Content, prefix) || !bytes.HasSuffix(res.Content, suffix) {
			t.Fatalf("bytes outside the span changed: %q -> %q", content, res.Content)
		}
		// Seen as one kind of ending, the result is exactly what was asked for.
		rawNow, encNow, err := decodeRaw(res.Content)
		if err != nil {
			t.Fatal(err)
		}
		if encNow.Charset != enc.Charset || encNow.BOM != enc.BOM {
			t.Fatalf("encoding changed from %+v to %+v", enc, encNow)
		}
		now := rawNow
		if enc.EOL == CR {
			now = strings.ReplaceAll(now, "\r", "\n")
		}
		if got, want := unixEndings(now), unixEndings(head+new+tail); got != want {
			t.Fatalf("shown %q, want %q", got, want)
		}
		if enc.EOL == CRLF && strings.Contains(strings.ReplaceAll(rawNow, "\r\n", ""), "\n") {
			t.Fatalf("a CRLF file got a bare newline: %q", rawNow)
		}
		if enc.EOL == LF && strings.Count(rawNow, "\r\n") > strings.Count(raw, "\r\n") && !strings.Contains(raw, "\r") {
			t.Fatalf("an LF file got a CRLF: %q", rawNow)
		}
	})
}

// TestToleranceNeverTouchesOtherLines: whatever matched, lines of the file
// that old does not name stay byte for byte, and look-alikes that both old and
// new have stay in the file's form.
func TestToleranceNeverTouchesOtherLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringOfN(rapid.SampledFrom([]rune("abc ‘’“”–")), 1, 8, -1)
		before := rapid.SliceOfN(line, 0, 4).Draw(t, "before")
		here := "<" + line.Draw(t, "here") + ">"
		after := rapid.SliceOfN(line, 0, 4).Draw(t, "after")
		indent := rapid.SampledFrom([]string{"", "\t", "\t\t", "  "}).Draw(t, "indent")
		content := strings.Join(append(append(append([]string{}, before...), indent+here), after...), "\n")
		old := fold(here)
		if rapid.Bool().Draw(t, "blanks") {
			old = "    " + here
		}
		res, err := Apply([]byte(content), []Replace{{old, old + "!", false}})
		if err != nil {
			t.Fatalf("%q in %q: %v", old, content, err)
		}
		want := strings.Join(append(append(append([]string{}, before...), indent+here+"!"), after...), "\n")
		if string(res.Content) != want {
			t.Fatalf("got %q, want %q", res.Content, want)
		}
	})
}

func TestRunsFindsEveryPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a", "b"})
		lines := rapid.SliceOfN(line, 0, 20).Draw(t, "lines")
		wanted := rapid.SliceOfN(line, 1, 5).Draw(t, "wanted")
		var want []int
		for i := 0; i+len(wanted) <= len(lines); i++ {
			if slices.Equal(lines[i:i+len(wanted)], wanted) {
				want = append(want, i)
			}
		}
		if got := runs(lines, wanted); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
