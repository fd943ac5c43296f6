package main

import (
	"strings"

	ts "github.com/tree-sitter/go-tree-sitter"

	"belay/internal/symbols"
)

// This file finds the names of definitions where they are not simply in the
// field "name", and the kinds that depend on more than the kind of the node.

type (
	namer  = func(n *ts.Node, src []byte) (name, container string)
	kinder = func(n *ts.Node, k symbols.Kind, src []byte) symbols.Kind
)

func fieldNamed(field string) namer {
	return func(n *ts.Node, src []byte) (string, string) {
		return plainName(text(n.ChildByFieldName(field), src)), ""
	}
}

// isFunction are the values that make a variable, field or key callable.
func isFunction(n *ts.Node) bool {
	if n == nil {
		return false
	}
	switch n.Kind() {
	case "arrow_function", "function_expression", "generator_function":
		return true
	}
	return false
}

// callable turns what holds a function into k.
func callable(k symbols.Kind) kinder {
	return func(n *ts.Node, was symbols.Kind, _ []byte) symbols.Kind {
		if isFunction(n.ChildByFieldName("value")) {
			return k
		}
		return was
	}
}

// onlyCallable drops what holds anything else than a function.
func onlyCallable(n *ts.Node, k symbols.Kind, _ []byte) symbols.Kind {
	if isFunction(n.ChildByFieldName("value")) || isFunction(n.ChildByFieldName("right")) {
		return k
	}
	return ""
}

// memberNamed is the right end of a.b.c = function …
func memberNamed(n *ts.Node, src []byte) (string, string) {
	left := n.ChildByFieldName("left")
	if left == nil || left.Kind() != "member_expression" {
		return "", ""
	}
	object := strings.TrimSuffix(text(left.ChildByFieldName("object"), src), ".prototype")
	if object == "this" || object == "module" || object == "exports" || object == "module.exports" || strings.ContainsAny(object, "()[]{}\n ") {
		object = ""
	}
	return text(left.ChildByFieldName("property"), src), object
}

func scriptVariable(n *ts.Node, k symbols.Kind, src []byte) symbols.Kind {
	if name := n.ChildByFieldName("name"); name == nil || name.Kind() != "identifier" {
		return "" // a pattern takes apart, it defines no one thing
	}
	if isFunction(n.ChildByFieldName("value")) {
		return symbols.Function
	}
	// Only at the top of a file does it come this far often.
	if p := n.Parent(); p != nil && strings.HasPrefix(text(p.ChildByFieldName("kind"), src), "const") {
		return symbols.Constant
	}
	return k
}

// plainLeft is the left side of an assignment that is one name.
func plainLeft(n *ts.Node, src []byte) (string, string) {
	if l := n.ChildByFieldName("left"); l != nil && l.Kind() == "identifier" {
		return text(l, src), ""
	}
	return "", ""
}

func constantLeft(n *ts.Node, src []byte) (string, string) {
	if l := n.ChildByFieldName("left"); l != nil && l.Kind() == "constant" {
		return text(l, src), ""
	}
	return "", ""
}

// shouted makes a variable in capitals a constant, as Python writes them.
func shouted(n *ts.Node, k symbols.Kind, src []byte) symbols.Kind {
	if s := text(n.ChildByFieldName("left"), src); len(s) > 1 && s == strings.ToUpper(s) && s != strings.ToLower(s) {
		return symbols.Constant
	}
	return k
}

// attribute is the first name of attr_reader and its like.
func attribute(n *ts.Node, src []byte) (string, string) {
	switch text(n.ChildByFieldName("method"), src) {
	case "attr_reader", "attr_writer", "attr_accessor":
	default:
		return "", ""
	}
	args := n.ChildByFieldName("arguments")
	if args == nil {
		return "", ""
	}
	return strings.TrimPrefix(text(args.NamedChild(0), src), ":"), ""
}

// moreAttributes are the names behind the first.
func moreAttributes(n *ts.Node, src []byte) (out []string) {
	args := n.ChildByFieldName("arguments")
	for i := uint(1); args != nil && i < min(args.NamedChildCount(), 100); i++ {
		if a := args.NamedChild(i); a.Kind() == "simple_symbol" {
			out = append(out, strings.TrimPrefix(text(a, src), ":"))
		}
	}
	return out
}

func itself(n *ts.Node, src []byte) (string, string) { return text(n, src), "" }

// implNamed is the type that an impl block is for, without its parameters.
func implNamed(n *ts.Node, src []byte) (string, string) {
	t := n.ChildByFieldName("type")
	if t != nil && t.Kind() == "generic_type" {
		t = t.ChildByFieldName("type")
	}
	return plainName(text(t, src)), ""
}

// withBody drops what only mentions a type: struct s *p.
func withBody(n *ts.Node, k symbols.Kind, _ []byte) symbols.Kind {
	if n.ChildByFieldName("body") == nil {
		return ""
	}
	return k
}

// maxDeclarator bounds how deep a declarator of C is followed.
const maxDeclarator = 32

// declared follows a declarator of C to the name in it: static int *(*f)(void).
func declared(n *ts.Node, src []byte) (name, container string) {
	return declarator(n.ChildByFieldName("declarator"), src)
}

// alsoDeclared are the names behind the first: int x, *y.
func alsoDeclared(n *ts.Node, src []byte) (out []string) {
	cur := n.Walk()
	defer cur.Close()
	all := n.ChildrenByFieldName("declarator", cur)
	for i := 1; i < min(len(all), 100); i++ {
		if name, _ := declarator(&all[i], src); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func declarator(d *ts.Node, src []byte) (name, container string) {
	for range maxDeclarator {
		if d == nil {
			return "", ""
		}
		switch d.Kind() {
		case "identifier", "field_identifier", "type_identifier", "destructor_name", "operator_name", "primitive_type":
			return text(d, src), container
		case "qualified_identifier":
			if scope := plainName(text(d.ChildByFieldName("scope"), src)); scope != "" {
				if i := strings.IndexByte(scope, '<'); i > 0 {
					scope = scope[:i]
				}
				container = strings.TrimPrefix(container+"."+scope, ".")
			}
			d = d.ChildByFieldName("name")
		case "template_function":
			d = d.ChildByFieldName("name")
		default:
			next := d.ChildByFieldName("declarator")
			if next == nil && d.NamedChildCount() > 0 { // parentheses, references
				next = d.NamedChild(d.NamedChildCount() - 1)
			}
			d = next
		}
	}
	return "", ""
}

// prototype turns a declaration of a function into k.
func prototype(k symbols.Kind) kinder {
	return func(n *ts.Node, was symbols.Kind, _ []byte) symbols.Kind {
		d := n.ChildByFieldName("declarator")
		for range maxDeclarator {
			if d == nil {
				return was
			}
			switch d.Kind() {
			case "function_declarator":
				if inner := d.ChildByFieldName("declarator"); inner != nil && inner.Kind() == "parenthesized_declarator" {
					return was // a pointer to a function
				}
				return k
			case "pointer_declarator", "reference_declarator":
				next := d.ChildByFieldName("declarator")
				if next == nil && d.NamedChildCount() > 0 {
					next = d.NamedChild(d.NamedChildCount() - 1)
				}
				d = next
			default:
				return was
			}
		}
		return was
	}
}
