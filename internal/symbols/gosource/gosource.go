// Package gosource reads the symbols of Go files with the standard library's
// own parser: in every build, and as Go itself understands the file. It must
// not know where files come from or where symbols go.
package gosource

import (
	"context"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"runtime"

	"belay/internal/symbols"
)

// Parser reads Go. The zero value is ready.
type Parser struct{}

// version counts the changes of what this package reads off a file.
const version = "1"

// Version implements symbols.Parser: the language grows with the Go that belay
// was built with.
func (Parser) Version(_ context.Context, language string) string {
	if language != symbols.Go {
		return ""
	}
	return "go" + version + "/" + runtime.Version()
}

// Parse implements symbols.Parser.
func (Parser) Parse(ctx context.Context, language string, content []byte) (symbols.File, error) {
	if language != symbols.Go {
		return symbols.File{}, &symbols.NoParser{Language: language}
	}
	if err := symbols.Readable(content); err != nil {
		return symbols.File{}, err
	}
	if err := ctx.Err(); err != nil {
		return symbols.File{}, err
	}
	r := &reader{fset: token.NewFileSet(), text: content}
	tree, err := parser.ParseFile(r.fset, "", content, parser.SkipObjectResolution|parser.AllErrors)
	if tree == nil {
		return symbols.File{}, &symbols.Unreadable{Why: err.Error()}
	}
	for _, d := range tree.Decls {
		r.decl(d)
	}
	return symbols.Tidy(symbols.File{Language: symbols.Go, Symbols: r.found, Uses: uses(content), Broken: err != nil}), nil
}

type reader struct {
	fset  *token.FileSet
	text  []byte
	found []symbols.Symbol
}

func (r *reader) line(p token.Pos) int { return r.fset.PositionFor(p, false).Line }

// add keeps one symbol; from and to enclose it, head is where its signature
// ends.
func (r *reader) add(kind symbols.Kind, name *ast.Ident, container string, from, to, head token.Pos) {
	if name == nil || name.Name == "_" || name.Name == "" {
		return
	}
	r.found = append(r.found, symbols.Symbol{Name: name.Name, Kind: kind, Line: r.line(from), End: r.line(to), Container: container, Signature: r.source(from, head)})
}

func (r *reader) source(from, to token.Pos) string {
	a, b := r.fset.PositionFor(from, false).Offset, r.fset.PositionFor(to, false).Offset
	if a < 0 || b > len(r.text) || a > b {
		return ""
	}
	return string(r.text[a:min(b, a+4*symbols.MaxSignature)])
}

func (r *reader) decl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		kind, container, head := symbols.Function, "", d.End()
		if d.Recv != nil && len(d.Recv.List) > 0 {
			kind, container = symbols.Method, receiver(d.Recv.List[0].Type)
		}
		if d.Body != nil {
			head = d.Body.Lbrace
		}
		r.add(kind, d.Name, container, d.Pos(), d.End(), head)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				r.typeSpec(d, s)
			case *ast.ValueSpec:
				kind := symbols.Variable
				if d.Tok == token.CONST {
					kind = symbols.Constant
				}
				for _, n := range s.Names {
					r.add(kind, n, "", s.Pos(), s.End(), endOfLine(s))
				}
			}
		}
	}
}

// endOfLine leaves out the value of a variable that is a long literal.
func endOfLine(s *ast.ValueSpec) token.Pos {
	if len(s.Values) == 1 {
		switch v := s.Values[0].(type) {
		case *ast.CompositeLit:
			return v.Lbrace
		case *ast.FuncLit:
			return v.Body.Lbrace
		}
	}
	return s.End()
}

func (r *reader) typeSpec(d *ast.GenDecl, s *ast.TypeSpec) {
	from := s.Pos()
	if !d.Lparen.IsValid() {
		from = d.Pos() // with the word type
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		r.add(symbols.Struct, s.Name, "", from, s.End(), t.Fields.Opening)
		r.fields(t.Fields, s.Name.Name, symbols.Field)
	case *ast.InterfaceType:
		r.add(symbols.Interface, s.Name, "", from, s.End(), t.Methods.Opening)
		r.fields(t.Methods, s.Name.Name, symbols.Method)
	default:
		r.add(symbols.Type, s.Name, "", from, s.End(), s.End())
	}
}

func (r *reader) fields(l *ast.FieldList, container string, kind symbols.Kind) {
	for _, f := range l.List {
		for _, n := range f.Names {
			r.add(kind, n, container, n.Pos(), f.End(), f.Type.End())
		}
	}
}

// receiver is the type's name under pointer, parentheses and parameters.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// uses are the identifiers of a file. The scanner is enough: in Go, an
// identifier is one wherever it stands, and never in a comment or string.
func uses(content []byte) []symbols.Use {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(content))
	var s scanner.Scanner
	s.Init(file, content, func(token.Position, string) {}, 0)
	at := map[string][]int{}
	n := 0
	for n <= symbols.MaxUses {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.IDENT || lit == "_" {
			continue
		}
		line := file.PositionFor(pos, false).Line
		if old := at[lit]; len(old) == 0 || old[len(old)-1] != line {
			at[lit] = append(old, line)
			n++
		}
	}
	return symbols.Sorted(at)
}
