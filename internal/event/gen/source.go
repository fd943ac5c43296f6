package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// vocabulary is what the source of a package says about its types.
type vocabulary struct {
	// structs and words are by type name; a name of package fault is prefixed
	// "fault.".
	structs map[string]*structType
	words   map[string]*wordType
	// typeOf maps a payload's Go type to the event type it declares.
	typeOf map[string]string
	// order is the position of an event type in its const block.
	order map[string]int
}

// structType is one struct with its JSON fields.
type structType struct {
	name, doc string
	fields    []field
}

// field is one field; an embedded struct has an empty json name.
type field struct {
	json, typ, doc string
	optional       bool
}

// wordType is a named string type with its constants.
type wordType struct {
	name, doc string
	values    []word
}

type word struct{ value, doc string }

func newVocabulary() *vocabulary {
	return &vocabulary{structs: map[string]*structType{}, words: map[string]*wordType{},
		typeOf: map[string]string{}, order: map[string]int{}}
}

// read adds the package in dir; prefix is put before its type names.
func (v *vocabulary) read(dir, prefix string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	sort.Strings(names)
	var files []*ast.File
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return fmt.Errorf("no Go files in %s", dir)
	}
	// Types first: a constant is sorted under its type, which may stand in a
	// later file.
	for _, f := range files {
		v.readTypes(fset, f, prefix)
	}
	constants := map[string]string{}
	for _, f := range files {
		v.readConstants(f, prefix, constants)
	}
	for _, f := range files {
		v.readMethods(f, constants)
	}
	return nil
}

func (v *vocabulary) readTypes(fset *token.FileSet, f *ast.File, prefix string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			t := s.(*ast.TypeSpec)
			name, doc := prefix+t.Name.Name, text(t.Doc, g.Doc)
			switch x := t.Type.(type) {
			case *ast.StructType:
				v.structs[name] = &structType{name: name, doc: doc, fields: fieldsOf(fset, x, prefix)}
			case *ast.Ident:
				if x.Name == "string" {
					v.words[name] = &wordType{name: name, doc: doc}
				}
			}
		}
	}
}

func fieldsOf(fset *token.FileSet, s *ast.StructType, prefix string) []field {
	var fs []field
	for _, f := range s.Fields.List {
		typ := typeText(fset, f.Type, prefix)
		if len(f.Names) == 0 {
			fs = append(fs, field{typ: typ})
			continue
		}
		tag := ""
		if f.Tag != nil {
			if raw, err := strconv.Unquote(f.Tag.Value); err == nil {
				tag = reflect.StructTag(raw).Get("json")
			}
		}
		for _, n := range f.Names {
			if !n.IsExported() || tag == "-" {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			if name == "" {
				name = n.Name
			}
			fs = append(fs, field{json: name, typ: typ, doc: text(f.Doc, f.Comment),
				optional: strings.Contains(options, "omit")})
		}
	}
	return fs
}

// typeText prints a type as it is written, with names of the package prefixed.
func typeText(fset *token.FileSet, e ast.Expr, prefix string) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, fset, e); err != nil {
		return ""
	}
	s := b.String()
	i := strings.LastIndexAny(s, "]*") + 1
	if bare := s[i:]; ast.IsExported(bare) && !strings.Contains(bare, ".") {
		return s[:i] + prefix + bare
	}
	return s
}

// readConstants fills the words and notes the event types; constants maps a
// constant's name to its value.
func (v *vocabulary) readConstants(f *ast.File, prefix string, constants map[string]string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			c := s.(*ast.ValueSpec)
			typ, ok := c.Type.(*ast.Ident)
			if !ok || len(c.Names) != 1 || len(c.Values) != 1 {
				continue
			}
			lit, ok := c.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				continue
			}
			constants[c.Names[0].Name] = value
			if prefix+typ.Name == "Type" {
				v.order[value] = len(v.order)
			}
			if w := v.words[prefix+typ.Name]; w != nil {
				w.values = append(w.values, word{value, text(c.Doc, c.Comment)})
			}
		}
	}
}

// readMethods finds out which payload declares which event type.
func (v *vocabulary) readMethods(f *ast.File, constants map[string]string) {
	for _, d := range f.Decls {
		m, ok := d.(*ast.FuncDecl)
		if !ok || m.Recv == nil || m.Name.Name != "EventType" || len(m.Body.List) != 1 {
			continue
		}
		recv, ok := m.Recv.List[0].Type.(*ast.Ident)
		ret, isReturn := m.Body.List[0].(*ast.ReturnStmt)
		if !ok || !isReturn || len(ret.Results) != 1 {
			continue
		}
		if c, ok := ret.Results[0].(*ast.Ident); ok && constants[c.Name] != "" {
			v.typeOf[recv.Name] = constants[c.Name]
		}
	}
}

// text joins the first comment there is into one line.
func text(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if g != nil {
			if s := strings.Join(strings.Fields(g.Text()), " "); s != "" {
				return s
			}
		}
	}
	return ""
}
