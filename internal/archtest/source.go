package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Source describes a tree of packages: all that the rules look at.
type Source struct {
	Packages []Package
	// Deps are the import paths of everything that the program is built from.
	Deps []string
}

// Package is one package of ours.
type Package struct {
	// Path is the import path without the module.
	Path  string
	Name  string
	Doc   string
	Files []File
}

// File is one Go file of a package, whatever its build tags.
type File struct {
	// Path is relative to the module's root.
	Path      string
	Test      bool
	Generated bool
	Lines     int
	Imports   []string
	Funcs     []Func
	// Clock are the uses of package time that read a clock, Go the go
	// statements; both as positions.
	Clock, Go []string
}

// Func is one declared function with its size from the func keyword to the
// closing brace.
type Func struct {
	Name  string
	Lines int
	Line  int
}

// Load describes the module rooted at dir.
func Load(dir string) (Source, error) {
	listed, deps, err := goList(dir)
	if err != nil {
		return Source{}, err
	}
	dirs, err := packageDirs(dir)
	if err != nil {
		return Source{}, err
	}
	var s Source
	s.Deps = deps
	seen := map[string]bool{}
	for _, d := range append(dirs, listed...) {
		if seen[d] {
			continue
		}
		seen[d] = true
		p, err := loadPackage(dir, d)
		if err != nil {
			return Source{}, err
		}
		s.Packages = append(s.Packages, p)
	}
	sort.Slice(s.Packages, func(i, j int) bool { return s.Packages[i].Path < s.Packages[j].Path })
	return s, nil
}

// goList asks the go command which packages of ours there are and what the
// program is built from.
func goList(dir string) (own, deps []string, err error) {
	// With -e a package that does not build is listed all the same: that is the
	// compiler's to report, and the rules hold for the rest.
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Module", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list -deps ./...: %w\n%s", err, stderr.String())
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath string
			Standard   bool
			Module     *struct{ Main bool }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return own, deps, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("read the output of go list: %w", err)
		}
		if p.Module != nil && p.Module.Main {
			own = append(own, strings.TrimPrefix(p.ImportPath, module+"/"))
		}
		if !p.Standard {
			deps = append(deps, p.ImportPath)
		}
	}
}

// packageDirs finds every folder with Go files, so that a package that a build
// tag hides from go list still obeys the rules.
func packageDirs(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "vendor"
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (hidden || nested == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if len(dirs) == 0 || dirs[len(dirs)-1] != rel {
			dirs = append(dirs, rel)
		}
		return nil
	})
	return dirs, err
}

func loadPackage(root, rel string) (Package, error) {
	p := Package{Path: rel}
	names, err := filepath.Glob(filepath.Join(root, rel, "*.go"))
	if err != nil {
		return p, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return p, err
		}
		tree, f, err := parseFile(filepath.ToSlash(filepath.Join(rel, filepath.Base(name))), text)
		if err != nil {
			return p, err
		}
		p.Files = append(p.Files, f)
		if f.Test {
			continue
		}
		p.Name = tree.Name.Name
		if tree.Doc != nil && len(tree.Doc.Text()) > len(p.Doc) {
			p.Doc = tree.Doc.Text()
		}
	}
	return p, nil
}

// parseFile reads off one file what the rules look at.
func parseFile(path string, text []byte) (*ast.File, File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, File{}, fmt.Errorf("parse: %w", err)
	}
	f := File{Path: path, Test: strings.HasSuffix(path, "_test.go"), Generated: ast.IsGenerated(tree),
		Lines: bytes.Count(text, []byte("\n"))}
	timeName := ""
	for _, spec := range tree.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, File{}, fmt.Errorf("%s: import %s: %w", path, spec.Path.Value, err)
		}
		f.Imports = append(f.Imports, p)
		if p == "time" {
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			from, to := fset.Position(n.Pos()).Line, fset.Position(n.End()).Line
			f.Funcs = append(f.Funcs, Func{Name: funcName(n), Lines: to - from + 1, Line: from})
		case *ast.GoStmt:
			f.Go = append(f.Go, fset.Position(n.Pos()).String())
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && timeName != "" && x.Name == timeName && contains(clock, n.Sel.Name) {
				f.Clock = append(f.Clock, fset.Position(n.Pos()).String()+": time."+n.Sel.Name)
			}
		}
		return true
	})
	return tree, f, nil
}

// funcName is Name, or Type.Name for a method.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
