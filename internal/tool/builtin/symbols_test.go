package builtin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"belay/internal/fault"
	"belay/internal/redact"
	"belay/internal/symbols"
	"belay/internal/symbols/gosource"
	"belay/internal/symbols/index"
)

const cartGo = `package cart

// Cart mentions Total in a comment.
type Cart struct {
	items []int
}

func (c *Cart) Total() int {
	return sum(c.items) // Total
}

func sum(all []int) (n int) {
	for _, i := range all {
		n += i
	}
	return n
}
`

// withSymbols gives a world an index that reads Go alone, as every build does.
func withSymbols(t testing.TB, files map[string]string) *world {
	t.Helper()
	w := newWorld(t, files)
	store := index.New(t.TempDir(), symbols.Parsers{gosource.Parser{}})
	w.env.Symbols = store.Of(w.env.Workspace)
	t.Cleanup(func() { w.env.Symbols.Close(); store.Close() })
	return w
}

func TestSymbolsOutlineWhatAFileDefinesAsItIsNow(t *testing.T) {
	t.Parallel()
	w := withSymbols(t, map[string]string{"cart.go": cartGo, "a.py": "def f(): pass\n", "app/x.go": "package x", "notes.md": "# hello\n", "bin.go": "package a\x00", "broken.go": "package a\nfunc ok() {}\nfunc (\n"})
	r := w.ok("symbols", obj{"path": "cart.go"})
	if want := "4-6 struct type Cart struct\n  5 field items []int\n  8-10 method func (c *Cart) Total() int\n12-17 function func sum(all []int) (n int)\n[cart.go: go, 4 definitions]\n"; r.Output.Head != want {
		t.Errorf("got\n%s\nwant\n%s", r.Output.Head, want)
	}
	w.put("cart.go", "package cart\nfunc New() {}\ntype ID int\n")
	w.says(w.ok("symbols", obj{"path": "cart.go"}), "2 function func New()", "\n3 type ID int\n", "2 definitions]")
	w.says(w.ok("symbols", obj{"path": "broken.go"}), "function func ok()", "syntax errors")
	w.refused(fault.NotFound, "symbols", obj{"path": "a.py"}, "nothing here reads python", "make symbols", "search_text")
	w.refused(fault.NotText, "symbols", obj{"path": "notes.md"}, "no source file")
	w.refused(fault.NotText, "symbols", obj{"path": "bin.go"}, "binary")
	w.refused(fault.NotFound, "symbols", obj{"path": "cat.go"}, "there is cart.go")
	w.refused(fault.InvalidArguments, "symbols", obj{"path": "app"}, "app is a folder")
}

func TestSymbolsShowsDefinitionsAndUsesButNoComments(t *testing.T) {
	t.Parallel()
	w := withSymbols(t, map[string]string{"cart.go": cartGo, "app/main.go": "package main\n\nfunc main() {\n\tvar c cart.Cart\n\tprintln(c.Total(), \"Total\")\n}\n", "a.py": "Total = 1\n"})
	r := w.ok("symbols", obj{"name": "Total"})
	if want := "cart.go:8-10 defined in Cart: method func (c *Cart) Total() int\napp/main.go:5: println(c.Total(), \"Total\")\n[1 definition; 1 line with other uses; not read here: python (1 file); " + symbols.Remedy + "]\n"; r.Output.Head != want {
		t.Errorf("got\n%s\nwant\n%s", r.Output.Head, want)
	}
	w.says(w.ok("symbols", obj{"name": "Cart.Total", "path": "app"}), "[0 definitions; 1 line", "app/main.go:5")
	// The file is another one a moment later.
	w.put("cart.go", strings.ReplaceAll(cartGo, "Total", "Sum"))
	w.says(w.ok("symbols", obj{"name": "Sum"}), "cart.go:8-10 defined in Cart")
	w.refused(fault.NoMatch, "symbols", obj{"name": "Tota"}, "no symbol Tota", "not read here: python", "search_text")
	w.refused(fault.NoMatch, "symbols", obj{"name": "sum", "path": "app"}, "no symbol sum in app")
	w.refused(fault.NoMatch, "symbols", obj{"name": "SU"}, "Cart.Sum in cart.go:8")
}

func TestSymbolsShowNoSecretAndNothingThatRulesHide(t *testing.T) {
	t.Parallel()
	key := "sk-test-51Habcdefghijklmnopqrstuvwxyz0123456789"
	w := withSymbols(t, map[string]string{
		"keys.go":        "package k\n\nconst apiKey = \"" + key + "\"\n\nvar long = \"" + strings.Repeat("x", 220) + key + "\"\n\nvar _ = apiKey + long\n",
		"hidden/vars.go": "package h\n\nvar apiKey = \"hidden words\"\n",
	})
	w.env.Secrets = redact.New()
	w.env.Unreadable = hides("hidden")
	for _, r := range []result{w.ok("symbols", obj{"path": "keys.go"}), w.ok("symbols", obj{"name": "apiKey"}), w.ok("symbols", obj{"name": "long"})} {
		if strings.Contains(r.Output.Head, "51Habc") || strings.Contains(r.Output.Head, "hidden") {
			t.Errorf("shown:\n%s", r.Output.Head)
		}
	}
}

// hides is a rule that denies one folder.
type hides string

func (h hides) Any() bool { return true }
func (h hides) Holds(path string) bool {
	return path == string(h) || strings.HasPrefix(path, string(h)+"/")
}
func (h hides) Outside() []string { return nil }

func TestSymbolsStaysWithinItsSize(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("f%02d.go", i)] = "package a\n" + strings.Repeat("func init() { use() }\n", 30)
	}
	w := withSymbols(t, files)
	r := w.ok("symbols", obj{"name": "init"})
	w.says(r, "3000 definitions, 40 shown")
	r = w.ok("symbols", obj{"name": "use"})
	w.says(r, "[0 definitions; 1800 lines with other uses in the first 60 of 100 files, 80 shown: narrow it down with path")
	if len(r.Output.Head) > 14<<10 {
		t.Errorf("%d bytes", len(r.Output.Head))
	}
}

// An index that cannot be kept fails the question, and says why.
func TestAQuestionToABrokenIndexFailsAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"cart.go": cartGo})
	w.refused(fault.NotFound, "symbols", obj{"name": "Cart"}, "not kept here")
	w.refused(fault.NotFound, "symbols", obj{"path": "cart.go"}, "not kept here")
	w.put("state", "a file where the directory should be")
	store := index.New(w.root+"/state", symbols.Parsers{gosource.Parser{}})
	w.env.Symbols = store.Of(w.env.Workspace)
	w.refused(fault.Internal, "symbols", obj{"name": "Cart"}, "cannot catch up", "state")
	w.says(w.ok("symbols", obj{"path": "cart.go"}), "struct type Cart struct")
	if err := w.env.Symbols.Sync(context.Background()); err == nil {
		t.Error("it is kept in a file")
	}
	w.env.Symbols.Close()
}
