package main

import (
	"fmt"
	"strings"
	"time"

	ts "github.com/tree-sitter/go-tree-sitter"

	"belay/internal/symbols"
)

// parseLimit is how long the parser itself may take: what people write takes
// milliseconds, what is made to hurt can take minutes.
const parseLimit = 5 * time.Second

// read parses one file and walks its tree once.
func read(language string, src []byte, limit time.Duration) (symbols.File, error) {
	g, ok := grammars[language]
	if !ok {
		return symbols.File{}, &symbols.NoParser{Language: language}
	}
	if err := symbols.Readable(src); err != nil {
		return symbols.File{}, err
	}
	g.ready()
	p := ts.NewParser()
	defer p.Close()
	if err := p.SetLanguage(g.lang); err != nil {
		return symbols.File{}, err
	}
	began := time.Now()
	tree := p.ParseWithOptions(func(at int, _ ts.Point) []byte { return src[min(at, len(src)):] }, nil,
		&ts.ParseOptions{ProgressCallback: func(ts.ParseState) bool { return time.Since(began) > limit }})
	if tree == nil {
		return symbols.File{}, &symbols.Unreadable{Why: fmt.Sprintf("the parser took longer than %v", limit)}
	}
	defer tree.Close()
	root := tree.RootNode()
	w := &walk{g: g, src: src, at: map[string][]int{}}
	w.all(root)
	return symbols.File{Language: language, Symbols: w.found, Uses: symbols.Sorted(w.at), Broken: root.HasError(),
		Cut: len(w.found) > symbols.MaxSymbols || w.uses > symbols.MaxUses}, nil
}

// walk goes over one tree, without recursion: how deep a file nests is the
// file's choice, not ours.
type walk struct {
	g     *grammar
	src   []byte
	found []symbols.Symbol
	at    map[string][]int
	uses  int
	// open are the definitions around the present node, outermost first.
	open []open
}

// open is a definition that the walk is inside of.
type open struct {
	depth     int
	container string
	// class says that functions in it are its methods; function that values in
	// it are nobody else's business.
	class, function, enum bool
}

func (w *walk) all(root *ts.Node) {
	cur := root.Walk()
	defer cur.Close()
	for depth := 0; ; {
		for len(w.open) > 0 && w.open[len(w.open)-1].depth >= depth {
			w.open = w.open[:len(w.open)-1]
		}
		w.node(cur, depth)
		if cur.GotoFirstChild() {
			depth++
			continue
		}
		for !cur.GotoNextSibling() {
			if !cur.GotoParent() {
				return
			}
			depth--
		}
	}
}

func (w *walk) node(cur *ts.TreeCursor, depth int) {
	n := cur.Node()
	id := int(n.KindId())
	if id >= len(w.g.table) {
		return // the kind of an error
	}
	e := w.g.table[id]
	if e.name && w.uses <= symbols.MaxUses {
		w.use(n)
	}
	if e.def != nil && len(w.found) <= symbols.MaxSymbols {
		w.define(n, e.def, depth)
	}
}

func (w *walk) use(n *ts.Node) {
	name := strings.TrimPrefix(text(n, w.src), ":")
	if name == "" {
		return
	}
	line := int(n.StartPosition().Row) + 1
	if old := w.at[name]; len(old) == 0 || old[len(old)-1] != line {
		w.at[name] = append(old, line)
		w.uses++
	}
}

func (w *walk) define(n *ts.Node, d *def, depth int) {
	var in open
	if len(w.open) > 0 {
		in = w.open[len(w.open)-1]
	}
	if d.inEnum && (!in.enum || depth != in.depth+2) {
		return
	}
	if d.value && in.function {
		if d.kindOf == nil || d.kindOf(n, d.kind, w.src) != symbols.Function {
			return
		}
	}
	name, container := "", ""
	if d.named != nil {
		name, container = d.named(n, w.src)
	} else {
		name = plainName(text(n.ChildByFieldName("name"), w.src))
	}
	if name == "" || strings.ContainsAny(name, "\n\r") {
		return
	}
	kind := d.kind
	if d.member != "" && in.class {
		kind = d.member
	}
	if d.kindOf != nil {
		if kind = d.kindOf(n, kind, w.src); kind == "" {
			return
		}
	}
	if kind == symbols.Function && (in.class || container != "") {
		kind = symbols.Method
	}
	within := joined(in.container, container)
	if !d.scope {
		from, to := lines(n)
		found := symbols.Symbol{Name: name, Kind: kind, Container: within, Line: from, End: to, Signature: w.signature(n)}
		w.found = append(w.found, found)
		if d.others != nil {
			for _, found.Name = range d.others(n, w.src) {
				w.found = append(w.found, found)
			}
		}
	}
	if len(w.open) >= symbols.MaxDepth {
		// Deeper containers keep the name of this one.
		w.open = append(w.open, open{depth: depth, container: in.container, class: in.class, function: in.function})
		return
	}
	o := open{depth: depth, container: joined(within, name), enum: kind == symbols.Enum}
	switch kind {
	case symbols.Class, symbols.Struct, symbols.Interface, symbols.Enum:
		o.class = true
	case symbols.Function, symbols.Method:
		o.function = true
	case symbols.Module:
		o.class = w.g == grammars[symbols.Ruby] // a module's functions are its methods there
	default:
		o.function = in.function
	}
	w.open = append(w.open, o)
}

func joined(container, name string) string {
	switch {
	case container == "":
		return name
	case name == "" || len(container)+len(name) > symbols.MaxContainer:
		return container
	}
	return container + "." + name
}

// signature is the definition up to its body, or its first line.
func (w *walk) signature(n *ts.Node) string {
	from, to := n.ByteRange()
	body := n.ChildByFieldName("body")
	if body == nil {
		if v := n.ChildByFieldName("value"); isFunction(v) || v != nil && v.Kind() == "object" {
			if body = v.ChildByFieldName("body"); body == nil {
				body = v
			}
		}
	}
	if body != nil && body.StartByte() > from {
		to = body.StartByte()
	}
	to = min(to, from+4*symbols.MaxSignature, uint(len(w.src)))
	s := string(w.src[from:to])
	if body == nil || body.StartByte() <= from {
		s, _, _ = strings.Cut(s, "\n")
	}
	for before := ""; before != s; {
		before = s
		s = strings.TrimSpace(s)
		for _, end := range []string{"{", "=>", "=", ":", ";"} {
			s = strings.TrimSuffix(s, end)
		}
	}
	return s
}

// lines are the first and the last line of a node. Some nodes of C end with
// their line's end, which is the next line's beginning.
func lines(n *ts.Node) (from, to int) {
	a, b := n.StartPosition(), n.EndPosition()
	from, to = int(a.Row)+1, int(b.Row)+1
	if b.Column == 0 && to > from {
		to--
	}
	return from, to
}
