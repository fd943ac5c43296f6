package builtin

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGlobsMatchAsInGitignore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, base, path string
		want                bool
	}{
		{"*.go", "", "a.go", true}, {"*.go", "", "x/y/a.go", true}, {"*.go", "", "a.gop", false}, {"*.go", "", "a/go", false},
		{"src/*.go", "", "src/a.go", true}, {"src/*.go", "", "src/x/a.go", false}, {"src/*.go", "", "lib/src/a.go", false},
		{"src/**/*.go", "", "src/a.go", true}, {"src/**/*.go", "", "src/x/y/a.go", true}, {"**/a.go", "", "a.go", true},
		{"src/**", "", "src/x/y", true}, {"src/", "", "src/x/y", true}, {"src/**", "", "srcs/x", false},
		{"./src/*.go", "", "src/a.go", true}, {"/a.go", "", "a.go", true}, {"/a.go", "", "x/a.go", false},
		{"?.go", "", "a.go", true}, {"?.go", "", "ab.go", false}, {"[a-c].go", "", "b.go", true}, {"[!a-c].go", "", "b.go", false}, {"[^a-c].go", "", "d.go", true},
		{"*.{go,mod}", "", "go.mod", true}, {"*.{go,mod}", "", "go.sum", false}, {"{a,b/c}/*.go", "", "b/c/x.go", true},
		{"!*.go", "", "a.go", false}, {"!*.go", "", "a.rs", true}, {"a,b", "", "a,b", true}, {`\*.go`, "", "*.go", true}, {`\*.go`, "", "a.go", false},
		{"a+b(c).txt", "", "a+b(c).txt", true}, {"größe.*", "", "x/größe.txt", true}, {"gr?ße.*", "", "größe.txt", true},
		{"sub/*.go", "src", "src/sub/a.go", true}, {"src/sub/*.go", "src", "src/sub/a.go", true}, {"}", "", "}", true},
	} {
		g, err := compileGlob(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := g.match(c.base, c.path); got != c.want {
			t.Errorf("%s on %s (from %q): %v", c.pattern, c.path, c.base, got)
		}
	}
	for _, bad := range []string{"[a", "{a,b", "[z-a]"} {
		if _, err := compileGlob(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestGlobsNeverPanic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringOf(rapid.SampledFrom([]rune(`*?[]{},!/\.ab-é^$(+|`))).Draw(t, "pattern")
		if g, err := compileGlob(p); err == nil {
			g.match("", rapid.StringOf(rapid.SampledFrom([]rune("ab/.é"))).Draw(t, "path"))
		}
	})
}

func TestThePagerDoesNotDependOnHowTextIsCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "\n", "é", "line\n", strings.Repeat("x", 1500)})).Draw(t, "text"), "")
		from, limit := rapid.Int64Range(1, 6).Draw(t, "from"), rapid.Int64Range(1, 6).Draw(t, "limit")
		whole := &pager{from: from, limit: limit, maxBytes: 4000}
		io.WriteString(whole, text)
		pieces := &pager{from: from, limit: limit, maxBytes: 4000}
		for i := range len(text) {
			pieces.Write([]byte{text[i]})
		}
		if a, b := whole.close(), pieces.close(); a != b || a != (text != "" && !strings.HasSuffix(text, "\n")) {
			t.Fatalf("unterminated: %v, %v", a, b)
		}
		if !bytes.Equal(whole.out.Bytes(), pieces.out.Bytes()) || whole.lines != pieces.lines || whole.last != pieces.last || whole.lines != lineCount(text) {
			t.Fatalf("%q and %q", whole.out.String(), pieces.out.String())
		}
	})
}

func TestChangedLinesAreThoseThatDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, want string }{
		{"a\nb\nc\n", "a\nB\nc\n", "line 2"},
		{"a\nb\nc\n", "a\nc\n", "lines removed before line 2"},
		{"a\n", "a\nb\nc", "lines 2 to 3"},
		{"1\n2\n3\n4\n5\n6\n", "one\n2\n3\n4\n5\nsix\n", "line 1, line 6"},
		{"", "a\n", "line 1"},
	} {
		if got := inWords(changed(c.before, c.after)); got != c.want {
			t.Errorf("%q to %q: %s", c.before, c.after, got)
		}
	}
}

func BenchmarkSpecs(b *testing.B) {
	for b.Loop() {
		for _, d := range []*definition{readFileDef, listFilesDef, searchTextDef, writeFileDef, filePatchDef, runCommandDef, runTestDef, updatePlanDef, updateTodosDef, recordDecisionDef, askUserDef, finishDef} {
			if len(d.args.Schema()) == 0 {
				b.Fatal("no schema")
			}
		}
	}
}
