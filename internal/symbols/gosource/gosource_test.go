package gosource_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"belay/internal/symbols"
	"belay/internal/symbols/gosource"
)

const shop = `// Package shop sells.
package shop

import "fmt"

const (
	Max, min = 10, 1 // Cart in a comment
)

var registry = map[string]int{
	"a": 1,
}

type (
	// Cart is generic.
	Cart[T any] struct {
		Items []T
		name, label string
		fmt.Stringer
	}
	Store interface {
		Get(id string) (int, error)
	}
)

type ID = string

func (c *Cart[T]) Add(item T) *Cart[T] {
	local := "Store"
	fmt.Println(local, min)
	return c
}

func New[T any](
	items ...T,
) *Cart[T] {
	return &Cart[T]{Items: items}
}

func _() {}
`

func read(t *testing.T, src string) symbols.File {
	t.Helper()
	f, err := gosource.Parser{}.Parse(context.Background(), symbols.Go, []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGoFilesAreReadAsTheFixtureSays(t *testing.T) {
	t.Parallel()
	f := read(t, shop)
	var b strings.Builder
	for _, s := range f.Symbols {
		fmt.Fprintf(&b, "%d-%d %s %s: %s\n", s.Line, s.End, s.Kind, s.Qualified(), s.Signature)
	}
	for _, u := range f.Uses {
		if u.Name == "Cart" || u.Name == "Store" || u.Name == "local" || u.Name == "min" {
			fmt.Fprintf(&b, "%s %v\n", u.Name, u.Lines)
		}
	}
	const want = `7-7 constant Max: Max, min = 10, 1
7-7 constant min: Max, min = 10, 1
10-12 variable registry: registry = map[string]int
16-20 struct Cart: Cart[T any] struct
17-17 field Cart.Items: Items []T
18-18 field Cart.name: name, label string
18-18 field Cart.label: label string
21-23 interface Store: Store interface
22-22 method Store.Get: Get(id string) (int, error)
26-26 type ID: type ID = string
28-32 method Cart.Add: func (c *Cart[T]) Add(item T) *Cart[T]
34-38 function New: func New[T any]( items ...T, ) *Cart[T]
Cart [16 28 36 37]
Store [21]
local [29 30]
min [7 30]
`
	if b.String() != want || f.Broken || f.Cut {
		t.Errorf("broken %t, cut %t; got\n%s", f.Broken, f.Cut, b.String())
	}
}

func TestHostileGoIsReadOrRefused(t *testing.T) {
	t.Parallel()
	deep := 200_000
	for name, src := range map[string]string{
		"empty":       "",
		"no package":  "func f() {}",
		"parentheses": "package a\nvar x = " + strings.Repeat("(", deep),
		"blocks":      "package a\nfunc f() " + strings.Repeat("{", deep),
		"types":       "package a\ntype T " + strings.Repeat("[]", deep) + "int",
		"pointers":    "package a\nfunc (x " + strings.Repeat("*", deep) + "T) f() {}",
		"operators":   "package a\nvar x = 1" + strings.Repeat("+1", deep),
		"one line":    "package a\nvar " + strings.Repeat("a", 1<<20) + " int",
		"many names":  "package a\n" + strings.Repeat("var a1, b2 int\n", 60_000),
		"invalid":     "package a\nvar \xff\xfe = \xc3\x28\nfunc \x80f() {}\nfunc ok() {}",
		"directives":  "package a\n//line /etc/passwd:100\nfunc f() {}\n",
	} {
		f, err := gosource.Parser{}.Parse(context.Background(), symbols.Go, []byte(src))
		if err != nil {
			if _, ok := symbols.IsUnreadable(err); !ok {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if len(f.Symbols) > symbols.MaxSymbols || len(f.Symbols) == symbols.MaxSymbols && !f.Cut {
			t.Errorf("%s: %d symbols, cut %t", name, len(f.Symbols), f.Cut)
		}
		for _, s := range f.Symbols {
			if len(s.Name) > symbols.MaxName || len(s.Signature) > symbols.MaxSignature || s.Line < 1 || s.End < s.Line {
				t.Fatalf("%s: %+v", name, s)
			}
			if name == "directives" && s.Line != 3 {
				t.Errorf("a comment moves a function to line %d", s.Line)
			}
		}
	}
	for why, src := range map[string][]byte{"binary": {'p', 0}, "larger": make([]byte, symbols.MaxBytes+1)} {
		if _, err := (gosource.Parser{}).Parse(context.Background(), symbols.Go, src); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := (gosource.Parser{}).Parse(context.Background(), symbols.Python, nil); err == nil {
		t.Error("Go's parser reads Python")
	}
}

func TestAFileWithErrorsStillShowsWhatIsWhole(t *testing.T) {
	t.Parallel()
	f := read(t, "package a\n\nfunc before() {}\n\nfunc broken( {\n\nfunc after() {}\n")
	if !f.Broken || len(f.Symbols) == 0 || f.Symbols[0].Name != "before" {
		t.Errorf("%+v", f)
	}
}

// BenchmarkFile reads one file of 1,000 lines.
func BenchmarkFile(b *testing.B) {
	src := []byte("package a\n" + strings.Repeat("\nfunc (s *Store) Append(e Event) error {\n\tif err := s.check(e); err != nil {\n\t\treturn err\n\t}\n\treturn s.write(e.Encode(), len(s.rows))\n}\n", 125))
	for b.Loop() {
		if _, err := (gosource.Parser{}).Parse(context.Background(), symbols.Go, src); err != nil {
			b.Fatal(err)
		}
	}
}
