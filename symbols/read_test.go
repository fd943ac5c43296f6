package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belay/internal/symbols"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// listing is what a golden file holds.
func listing(f symbols.File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "language %s, broken %t, cut %t\n\n", f.Language, f.Broken, f.Cut)
	for _, s := range f.Symbols {
		fmt.Fprintf(&b, "%d-%d %s %s: %s\n", s.Line, s.End, s.Kind, s.Qualified(), s.Signature)
	}
	b.WriteByte('\n')
	for _, u := range f.Uses {
		fmt.Fprintf(&b, "%s %v\n", u.Name, u.Lines)
	}
	return b.String()
}

func TestEachLanguageIsReadAsItsFixtureSays(t *testing.T) {
	t.Parallel()
	fixtures, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, path := range fixtures {
		if strings.HasSuffix(path, ".golden") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		language := symbols.LanguageOf(path, src)
		seen[language] = true
		f, err := read(language, src, time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		got := listing(symbols.Tidy(f))
		if *update {
			if err := os.WriteFile(path+".golden", []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path + ".golden")
		if err != nil || string(want) != got {
			t.Errorf("%s: %v; got\n%s", path, err, got)
		}
	}
	for _, l := range languages() {
		if !seen[l] {
			t.Errorf("%s has no fixture", l)
		}
	}
}

// A table that names a kind of node that the grammar does not have would
// silently find nothing.
func TestTheTablesNameOnlyWhatTheGrammarsHave(t *testing.T) {
	t.Parallel()
	shared := map[string]bool{} // tables that several grammars share name what only one has
	for _, l := range []string{symbols.C, symbols.CPP, symbols.JavaScript, symbols.TypeScript, symbols.TSX} {
		for k := range grammars[l].known() {
			shared[k] = true
		}
	}
	for l, g := range grammars {
		have := g.known()
		for k := range g.defs {
			if !have[k] && !shared[k] {
				t.Errorf("%s: there is no node %s", l, k)
			}
		}
		some := slices.ContainsFunc(g.names, func(k string) bool { return have[k] })
		if !some {
			t.Errorf("%s: no node is a name", l)
		}
	}
}

// hostile are contents that nobody writes and somebody sends.
func hostile() map[string]string {
	deep := 20_000
	return map[string]string{
		"empty":       "",
		"parentheses": strings.Repeat("(", deep),
		"brackets":    strings.Repeat("[", deep) + strings.Repeat("]", deep),
		"blocks":      strings.Repeat("{", deep) + strings.Repeat("}", deep),
		"classes":     strings.Repeat("class A {\n", 20_000),
		"functions":   strings.Repeat("def f():\n", 20_000),
		"quotes":      strings.Repeat("\"", 99_999),
		"one line":    strings.Repeat("a", 1<<20),
		"many names":  strings.Repeat("ab cd ", 1<<17),
		"invalid":     "class A\xff\xfe { int \xc3\x28; }\ndef \x80f(): pass",
		"templates":   strings.Repeat("`${", 50_000),
		"generics":    "A" + strings.Repeat("<A", 50_000),
		"heredocs":    strings.Repeat("<<~A\n", 10_000),
		"operators":   strings.Repeat("a+", 200_000),
	}
}

func TestHostileContentIsReadOrRefusedInTime(t *testing.T) {
	t.Parallel()
	for name, src := range hostile() {
		for _, l := range languages() {
			f, err := read(l, []byte(src), 100*time.Millisecond)
			if err != nil {
				if _, ok := symbols.IsUnreadable(err); !ok {
					t.Errorf("%s as %s: %v", name, l, err)
				}
				continue
			}
			f = symbols.Tidy(f)
			if len(f.Symbols) > symbols.MaxSymbols {
				t.Errorf("%s as %s: %d symbols", name, l, len(f.Symbols))
			}
			for _, s := range f.Symbols {
				if len(s.Signature) > symbols.MaxSignature || len(s.Container) > symbols.MaxContainer || s.Line < 1 || s.End < s.Line {
					t.Fatalf("%s as %s: %+v", name, l, s)
				}
			}
		}
	}
	for why, src := range map[string][]byte{"binary": {'a', 0, 'b'}, "larger": make([]byte, symbols.MaxBytes+1)} {
		if _, err := read(symbols.C, src, time.Minute); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
