package archtest

import (
	"fmt"
	"strings"
	"testing"
)

// one makes a package with one production file, from its source text.
func one(t *testing.T, path, text string) Package {
	t.Helper()
	tree, f, err := parseFile(path+"/x.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := Package{Path: path, Name: tree.Name.Name, Files: []File{f}}
	if tree.Doc != nil {
		p.Doc = tree.Doc.Text()
	}
	return p
}

// expect asserts that exactly one violation is found, and that it names the
// rule and the thing.
func expect(t *testing.T, vs []Violation, words ...string) {
	t.Helper()
	if len(words) == 0 {
		if len(vs) != 0 {
			t.Fatalf("found %d violations where none is:\n%v", len(vs), vs)
		}
		return
	}
	if len(vs) != 1 {
		t.Fatalf("found %d violations, want 1: %v", len(vs), vs)
	}
	for _, w := range words {
		if !strings.Contains(vs[0].String(), w) {
			t.Errorf("the message lacks %q:\n%s", w, vs[0])
		}
	}
	if vs[0].Do == "" {
		t.Error("the message does not say what to do")
	}
}

func TestFloorsRefuseWhatDESIGNRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, from, to string
		want           []string // nil: allowed
	}{
		{"downward", "internal/core", "internal/core/plan", nil},
		{"to a pure helper in another port's tree", "internal/tool/builtin", "internal/workspace/edit", nil},
		{"upward", "internal/core/plan", "internal/core", []string{"floors below", "floor 1", "floor 2"}},
		{"machine to machine", "internal/core/plan", "internal/core/budget", []string{"floors below"}},
		{"adapter to adapter of the same port", "internal/model/openai", "internal/model/anthropic", []string{"adapters never import each other"}},
		{"adapter to adapter of another port", "internal/tool/builtin", "internal/ledger/sqlite", []string{"adapters never import each other"}},
		{"adapter to its port's shared helper", "internal/model/openai", "internal/model/wire", nil},
		{"adapter to another port's shared helper", "internal/model/openai", "internal/tool/textcap", []string{"adapters never import each other"}},
		{"adapter to another port", "internal/tool/builtin", "internal/workspace", nil},
		{"runtime to an adapter", "internal/runtime", "internal/ledger/sqlite", []string{"only cmd/belay sees the adapters"}},
		{"main to an adapter", "cmd/belay", "internal/ledger/sqlite", nil},
		{"face to the service", "internal/cli", "internal/service", nil},
		{"face to the core's values", "internal/cli", "internal/core", nil},
		{"face past the service", "internal/cli", "internal/runtime", []string{"a face knows the service"}},
		{"face to face", "internal/tui", "internal/cli", []string{"floors below"}},
		{"production code to a conformance suite", "internal/ledger/memory", "internal/ledger/ledgertest", []string{"test helpers stay out"}},
		{"an import in the exception list", "internal/tool", "internal/sandbox", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from, ok := roomOf(c.from)
			if !ok {
				t.Fatalf("no room for %s", c.from)
			}
			if _, ok := excepted(exceptions, c.from, c.to); ok {
				expect(t, nil, c.want...)
				return
			}
			var vs []Violation
			if v, bad := judgeEdge(from, edge{c.from, c.to, c.from + "/x.go"}); bad {
				vs = append(vs, v)
			}
			expect(t, vs, c.want...)
		})
	}
}

func TestAPackageWithoutARoomIsRefused(t *testing.T) {
	t.Parallel()
	s := Source{Packages: []Package{one(t, "internal/novelty", "package novelty\n")}}
	expect(t, Floors(s), "internal/novelty", "does not know this package", "add a row")
}

func TestAnExceptionThatNothingUsesIsRefused(t *testing.T) {
	t.Parallel()
	s := Source{Packages: []Package{one(t, "internal/tool", `package tool
import _ "belay/internal/sandbox"
import _ "belay/internal/symbols"
import _ "belay/internal/recall"
`)}}
	expect(t, Floors(s), "internal/tool", "nothing there imports internal/workspace any more")
}

func TestImportsInTestFilesAreFree(t *testing.T) {
	t.Parallel()
	p := one(t, "internal/runtime", `package runtime
import _ "belay/internal/ledger/memory"
`)
	expect(t, Floors(Source{Packages: []Package{p}}), "only cmd/belay sees the adapters")
	p.Files[0].Test = true
	expect(t, Floors(Source{Packages: []Package{p}}))
}

func TestPurePackagesCannotDoAnything(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, text string
		want             []string
	}{
		{"values", "internal/core", `import ("sort"; "belay/internal/event")`, nil},
		{"context", "internal/core", `import "context"`, []string{"imports context", "let the shell do it"}},
		{"a package below a forbidden one", "internal/core/plan", `import "os/exec"`, []string{"imports os/exec"}},
		{"randomness of the second edition", "internal/event", `import "math/rand/v2"`, []string{"math/rand/v2"}},
		{"a name that only begins alike", "internal/core", `import "strings"`, nil},
		{"time", "internal/core", `import "time"`, []string{"imports time"}},
		{"time where it is formatted", "internal/moment", "import \"time\"\nfunc f(t time.Time) string { return t.String() }", nil},
		{"a clock where time is formatted", "internal/moment", "import \"time\"\nvar x = time.Now()", []string{"time.Now", "reads a clock"}},
		{"a clock under another name", "internal/moment", "import t \"time\"\nvar x = t.Now()", []string{"reads a clock"}},
		{"a goroutine", "internal/transcript", "func f() { go f() }", []string{"starts a goroutine"}},
		{"an impure package of ours", "internal/core", `import "belay/internal/workspace"`, []string{"internal/workspace, which is not pure"}},
		{"one that is listed", "internal/core", `import "belay/internal/ledger"`, nil},
		{"a package below one that is listed", "internal/workspace/edit", `import "golang.org/x/text/encoding/unicode"`, nil},
		{"a foreign module", "internal/core", `import "github.com/google/uuid"`, []string{"foreign module github.com/google/uuid"}},
		{"the shell parser in policy", "internal/policy", `import "mvdan.cc/sh/v3/syntax"`, nil},
		{"the shell interpreter in policy", "internal/policy", `import "mvdan.cc/sh/v3/interp"`, []string{"foreign module"}},
		{"a port may have a context", "internal/ledger", `import "context"`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, Purity(Source{Packages: []Package{one(t, c.path, "package x\n"+c.text)}}), c.want...)
		})
	}
}

func TestDocumentsWantAFullSentence(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"// Package x turns values into other values.\npackage x":        true,
		"// Package x turns values into other values. More.\npackage x":  true,
		"// Command x writes the reference of all events.\npackage main": true,
		"// Package x.\npackage x":                                       false,
		"// Turns values into other values, all the time.\npackage x":    false,
		"// Package x turns values into other values\npackage x":         false,
		"package x": false,
		"// Package x turns values into other values.\n\npackage x": false,
	} {
		vs := Documents(Source{Packages: []Package{one(t, "internal/x", text)}})
		if (len(vs) == 0) != good {
			t.Errorf("good = %v, but the rule found %v in:\n%s", good, vs, text)
		}
	}
}

func TestSizesCountProductionCodeOnly(t *testing.T) {
	t.Parallel()
	body := func(n int) string {
		return "package x\nfunc (r *T[K]) f() {\n" + strings.Repeat("\t_ = 0\n", n) + "}\n"
	}
	expect(t, Sizes(Source{Packages: []Package{one(t, "internal/x", body(maxFuncLines-2))}}))
	expect(t, Sizes(Source{Packages: []Package{one(t, "internal/x", body(maxFuncLines-1))}}), "x.go:T.f", "81 lines, 80 allowed")
	long := func(head string, n int) string { return head + "package x\n" + strings.Repeat("\n", n) }
	expect(t, Sizes(Source{Packages: []Package{one(t, "internal/x", long("", maxFileLines-1))}}))
	expect(t, Sizes(Source{Packages: []Package{one(t, "internal/x", long("", maxFileLines))}}), "x.go", "601 lines, 600 allowed")
	expect(t, Sizes(Source{Packages: []Package{one(t, "internal/x", long("// Code generated by gen. DO NOT EDIT.\n\n", maxFileLines))}}))
	test := one(t, "internal/x", long("", maxFileLines))
	test.Files[0].Test = true
	expect(t, Sizes(Source{Packages: []Package{test}}))
}

func TestHeavyModulesAreRefused(t *testing.T) {
	t.Parallel()
	expect(t, Weight(Source{Deps: []string{"pgregory.net/rapid", "github.com/spf13/cobra"}}))
	expect(t, Weight(Source{Deps: []string{"github.com/openai/openai-go/v3"}}), "github.com/openai/openai-go/v3", "go mod why")
}

func TestTheTableItselfIsSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range rooms {
		if seen[r.path] {
			t.Errorf("%s has two rows", r.path)
		}
		seen[r.path] = true
		if r.shared && r.floor != adapters {
			t.Errorf("%s: only a helper on the adapters' floor can be shared", r.path)
		}
		if r.pure && r.floor > core {
			t.Errorf("%s: pure rooms stand on floors 0 to 2", r.path)
		}
	}
	for what, list := range map[string][]exception{"exceptions": exceptions, "pureMay": pureMay, "tooHeavy": tooHeavy, "oversize": oversize} {
		for _, x := range list {
			if len(strings.Fields(x.reason)) < 4 {
				t.Errorf("%s: %s -> %s needs a written reason", what, x.from, x.to)
			}
		}
	}
	for _, x := range exceptions {
		for _, p := range []string{x.from, x.to} {
			if !seen[p] {
				t.Errorf("the exception %s names %s, which has no row", fmt.Sprint(x), p)
			}
		}
	}
}
