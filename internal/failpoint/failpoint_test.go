package failpoint_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belay/internal/failpoint"
)

const root = "../.."

func TestTheReleaseBinaryHoldsNoFailpoint(t *testing.T) {
	t.Parallel()
	for _, b := range []struct {
		tags string
		want bool
	}{{"", false}, {"failpoints", true}} {
		bin := filepath.Join(t.TempDir(), "belay")
		build := exec.Command("go", "build", "-tags", b.tags, "-o", bin, "./cmd/belay")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build with tags %q: %v\n%s", b.tags, err, out)
		}
		program, err := os.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range append(failpoint.Names(), "BELAY_FAILPOINTS") {
			if bytes.Contains(program, []byte(n)) != b.want {
				t.Errorf("with tags %q the binary holds %s: %v, want %v", b.tags, n, !b.want, b.want)
			}
		}
	}
}

// A failpoint that is declared but stands nowhere would be tested by nobody,
// and one that is not listed would never be chosen.
func TestEveryFailpointIsListedAndStandsInTheCode(t *testing.T) {
	t.Parallel()
	listed := map[failpoint.Name]bool{}
	for _, n := range failpoint.Names() {
		if listed[n] {
			t.Errorf("%s is listed twice", n)
		}
		listed[n] = true
	}
	declared := declarations(t)
	used := uses(t)
	for name, value := range declared {
		if !listed[failpoint.Name(value)] {
			t.Errorf("%s (%s) is missing in Names", name, value)
		}
		if !slices.Contains(used, name) {
			t.Errorf("%s (%s) stands nowhere in the program", name, value)
		}
	}
	if len(declared) != len(listed) {
		t.Errorf("%d declared, %d listed", len(declared), len(listed))
	}
}

// declarations are the constants of type Name with their values.
func declarations(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "failpoint.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Name" {
			out[v.Names[0].Name] = strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
		}
		return true
	})
	return out
}

// uses are the names that production code takes from package failpoint.
func uses(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return nil // the compiler's to report
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if id, ok := s.X.(*ast.Ident); ok && id.Name == "failpoint" {
						out = append(out, s.Sel.Name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
