package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// findings are the ids of what users of coding agents reported: letter and
// count.
var findings = func() (ids []string) {
	for _, g := range []struct {
		letter string
		n      int
	}{{"A", 9}, {"B", 7}, {"C", 3}, {"D", 8}, {"E", 8}, {"F", 9}, {"G", 3}, {"I", 7}, {"J", 3}, {"K", 4}, {"L", 3}, {"M", 4}, {"P", 7}} {
		for i := range g.n {
			ids = append(ids, fmt.Sprint(g.letter, i+1))
		}
	}
	return ids
}()

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tests finds every test function there is, compat's included, as
// folder.TestName.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	top, found := root(t), map[string]bool{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = strings.TrimPrefix(filepath.ToSlash(dir), "internal/")
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				found[dir+"."+fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !found["archtest.TestTheDocumentsNameOnlyTestsThatExist"] {
		t.Fatal("the search for tests does not even find this one")
	}
	return found
}

func TestTheDocumentsNameOnlyTestsThatExist(t *testing.T) {
	t.Parallel()
	exists := tests(t)
	for _, doc := range []string{"docs/field-coverage.md", "docs/invariants.md"} {
		holds(t, ClaimedTests(doc, read(t, doc), exists))
	}
}

func TestEveryFindingOfTheFieldIsListed(t *testing.T) {
	t.Parallel()
	if len(findings) != 75 {
		t.Fatalf("%d findings, want 75", len(findings))
	}
	const doc = "docs/field-coverage.md"
	holds(t, Coverage(doc, Rows(read(t, doc)), findings))
}

func TestEveryInvariantNamesTheTestsThatShowIt(t *testing.T) {
	t.Parallel()
	rows := Rows(read(t, "docs/invariants.md"))
	for i := range 8 {
		if i >= len(rows) || rows[i].ID != fmt.Sprint(i+1) {
			t.Fatalf("row %d of docs/invariants.md is not invariant %d", i+1, i+1)
		}
		if len(rows[i].Tests) == 0 {
			t.Errorf("invariant %d names no test", i+1)
		}
	}
	if len(rows) != 8 {
		t.Errorf("%d rows, want the eight invariants", len(rows))
	}
}

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	top := root(t)
	docs, err := filepath.Glob(filepath.Join(top, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob(filepath.Join(top, "docs/decisions/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs = append(append(docs, decisions...), filepath.Join(top, "README.md"), filepath.Join(top, "CONTRIBUTING.md"), filepath.Join(top, "AGENTS.md"))
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	n := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			n++
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d links found", n)
	}
}

func TestAClaimWithoutATestIsRefused(t *testing.T) {
	t.Parallel()
	ids := []string{"A1"}
	for _, c := range []struct {
		name, row string
		want      []string
	}{
		{"covered with a test", "| A1 | dies | covered | `core.TestX` |", nil},
		{"partly with a remark", "| A1 | dies | partly | `core.TestX`; not on Windows |", nil},
		{"open", "| A1 | dies | open | |", nil},
		{"covered by words", "| A1 | dies | covered | trust us |", []string{"names no test"}},
		{"open with a test", "| A1 | dies | open | `core.TestX` |", []string{"open but names a test"}},
		{"another word", "| A1 | dies | done | `core.TestX` |", []string{"status done"}},
		{"missing", "", []string{"A1 has 0 rows"}},
		{"twice", "| A1 | dies | open | |\n| A1 | dies | open | |", []string{"A1 has 2 rows"}},
		{"unknown", "| A1 | dies | open | |\n| Z9 | dies | open | |", []string{"Z9 is no known finding"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, Coverage("doc.md", Rows(c.row), ids), c.want...)
		})
	}
	exists := map[string]bool{"ledger/sqlite.TestX": true}
	expect(t, ClaimedTests("doc.md", "see `ledger/sqlite.TestX`", exists))
	expect(t, ClaimedTests("doc.md", "see `ledger/sqlite.TestY`", exists), "doc.md:1", "no test ledger/sqlite.TestY")
	expect(t, ClaimedTests("doc.md", "see TestX", exists), "TestX is not written as a test")
}
