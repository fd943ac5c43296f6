package symbols_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"belay/internal/symbols"
)

func TestALanguageIsKnownByTheNameOfTheFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a.go": symbols.Go, "b/c.PY": symbols.Python, "x.d.ts": symbols.TypeScript, "x.tsx": symbols.TSX, "a.mjs": symbols.JavaScript,
		"Rakefile": symbols.Ruby, "a/Gemfile": symbols.Ruby, "a.rs": symbols.Rust, "A.java": symbols.Java, "a.c": symbols.C, "a.hpp": symbols.CPP,
		"README.md": "", "go": "", ".go": symbols.Go, "a.go.txt": "", "": ""} {
		if got := symbols.Language(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if symbols.LanguageOf("a.h", []byte("int f(void);")) != symbols.C || symbols.LanguageOf("a.h", []byte("namespace a {}")) != symbols.CPP {
		t.Error("headers are not told apart")
	}
}

func TestAQualifiedNameIsTakenApart(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{"f": {"", "f"}, "a.B.c": {"a.B", "c"}, "A::b()": {"A", "b"}, "A#b": {"A", "b"}, "p->f": {"p", "f"}, " x ": {"", "x"}, ".": {"", ""}, "a.": {"", "a"}, "": {"", ""}} {
		if c, n := (symbols.Query{Name: in}).Split(); c != want[0] || n != want[1] {
			t.Errorf("%q: %q and %q", in, c, n)
		}
	}
}

// Whatever a parser says, what is kept of it is bounded and valid.
func TestTidyBoundsWhateverAParserSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.SampledFrom([]string{"a", "\xff", "文", " \n", "é"}).Draw(t, "piece"), rapid.IntRange(0, 400).Draw(t, "n"))
		})
		f := symbols.File{Symbols: make([]symbols.Symbol, rapid.SampledFrom([]int{0, 1, 3, symbols.MaxSymbols, symbols.MaxSymbols + 1}).Draw(t, "symbols"))}
		n := len(f.Symbols)
		for i := range min(n, 3) {
			f.Symbols[i] = symbols.Symbol{Name: text.Draw(t, "name"), Container: text.Draw(t, "container"), Signature: text.Draw(t, "signature")}
		}
		for range rapid.IntRange(0, 3).Draw(t, "uses") {
			f.Uses = append(f.Uses, symbols.Use{Name: text.Draw(t, "used"), Lines: make([]int, rapid.SampledFrom([]int{1, symbols.MaxUses / 2, symbols.MaxUses}).Draw(t, "lines"))})
		}
		lines := 0
		for _, u := range f.Uses {
			lines += len(u.Lines)
		}
		got := symbols.Tidy(f)
		if got.Cut != (n > symbols.MaxSymbols || lines > symbols.MaxUses) {
			t.Fatalf("%d symbols and %d uses: cut %t", n, lines, got.Cut)
		}
		for _, s := range got.Symbols {
			if len(s.Name) > symbols.MaxName || len(s.Container) > symbols.MaxContainer || len(s.Signature) > symbols.MaxSignature ||
				!utf8.ValidString(s.Name+s.Container+s.Signature) || strings.Contains(s.Signature, "\n") {
				t.Fatalf("%+v", s)
			}
		}
		kept := 0
		for _, u := range got.Uses {
			kept += len(u.Lines)
		}
		if len(got.Symbols) > symbols.MaxSymbols || kept > symbols.MaxUses {
			t.Fatalf("%d symbols, %d uses", len(got.Symbols), kept)
		}
	})
}

func TestGapsNameWhatIsNotCovered(t *testing.T) {
	t.Parallel()
	s := symbols.Status{Languages: []symbols.Coverage{{Language: "go", Files: 3, Symbols: 9}}}
	if got := s.Gaps(); got != "" {
		t.Errorf("all is covered: %q", got)
	}
	s.Languages = append(s.Languages, symbols.Coverage{Language: "rust", Files: 1, Missing: true})
	s.Pending, s.Failed, s.Failures = 2, 1, []string{"a.go: it is binary"}
	if got, want := s.Gaps(), "not read here: rust (1 file); "+symbols.Remedy+"; 2 files not read yet: ask again soon; 1 file could not be read, the first: a.go: it is binary"; got != want {
		t.Errorf("got %q", got)
	}
}
