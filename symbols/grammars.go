package main

import (
	"slices"
	"strings"
	"sync"
	"unsafe"

	ts "github.com/tree-sitter/go-tree-sitter"
	tsc "github.com/tree-sitter/tree-sitter-c/bindings/go"
	tscpp "github.com/tree-sitter/tree-sitter-cpp/bindings/go"
	tsjava "github.com/tree-sitter/tree-sitter-java/bindings/go"
	tsjs "github.com/tree-sitter/tree-sitter-javascript/bindings/go"
	tspy "github.com/tree-sitter/tree-sitter-python/bindings/go"
	tsruby "github.com/tree-sitter/tree-sitter-ruby/bindings/go"
	tsrust "github.com/tree-sitter/tree-sitter-rust/bindings/go"
	tsts "github.com/tree-sitter/tree-sitter-typescript/bindings/go"

	"belay/internal/symbols"
)

// revision counts the changes of the tables below and of the walk: what was
// read before is read again.
const revision = "1"

// version names what the results depend on: this program and its grammars.
func version() string {
	return "treesitter" + revision + "/c-0.23.4,c++-0.23.4,java-0.23.5,javascript-0.23.1,python-0.23.6,ruby-0.23.1,rust-0.23.2,typescript-0.23.2"
}

// grammar is one language: which nodes of its trees are definitions, which are
// names.
type grammar struct {
	load func() unsafe.Pointer
	// defs are the definitions by kind of node.
	defs map[string]def
	// names are the kinds of nodes that are identifiers.
	names []string

	once sync.Once
	lang *ts.Language
	// table holds what to do by the number of a node's kind.
	table []entry
}

type entry struct {
	def  *def
	name bool
}

// def is one kind of definition.
type def struct {
	kind symbols.Kind
	// member is the kind within a class and its like, "" for the same; a function
	// is a method there in any case.
	member symbols.Kind
	// named finds the name; nil means the field "name".
	named func(n *ts.Node, text []byte) (name, container string)
	// kindOf corrects the kind by the node itself; "" drops the definition.
	kindOf func(n *ts.Node, k symbols.Kind, text []byte) symbols.Kind
	// value says that it is no definition of interest within a function.
	value bool
	// others are further names that one node defines: int x, y.
	others func(n *ts.Node, text []byte) []string
	// inEnum says that it is a definition only directly in an enumeration.
	inEnum bool
	// scope says that it only lends its name to what is in it.
	scope bool
}

var (
	identifiers = []string{"identifier", "type_identifier", "field_identifier", "namespace_identifier"}
	scriptNames = []string{"identifier", "type_identifier", "property_identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern", "private_property_identifier"}
)

var script = map[string]def{
	"class_declaration":              {kind: symbols.Class},
	"class":                          {kind: symbols.Class},
	"function_declaration":           {kind: symbols.Function},
	"function_expression":            {kind: symbols.Function},
	"generator_function_declaration": {kind: symbols.Function},
	"method_definition":              {kind: symbols.Method},
	"field_definition":               {kind: symbols.Field, named: fieldNamed("property"), kindOf: callable(symbols.Method)},
	"variable_declarator":            {kind: symbols.Variable, kindOf: scriptVariable, value: true},
	"pair":                           {kind: symbols.Method, named: fieldNamed("key"), kindOf: onlyCallable},
	"assignment_expression":          {kind: symbols.Function, named: memberNamed, kindOf: onlyCallable},
}

var typed = merged(script, map[string]def{
	"abstract_class_declaration": {kind: symbols.Class},
	"interface_declaration":      {kind: symbols.Interface},
	"enum_declaration":           {kind: symbols.Enum},
	"enum_assignment":            {kind: symbols.Constant},
	"property_identifier":        {kind: symbols.Constant, named: itself, inEnum: true},
	"type_alias_declaration":     {kind: symbols.Type},
	"function_signature":         {kind: symbols.Function},
	"method_signature":           {kind: symbols.Method},
	"abstract_method_signature":  {kind: symbols.Method},
	"property_signature":         {kind: symbols.Field},
	"public_field_definition":    {kind: symbols.Field, kindOf: callable(symbols.Method)},
	"internal_module":            {kind: symbols.Module},
	"module":                     {kind: symbols.Module},
})

var c = map[string]def{
	"function_definition":  {kind: symbols.Function, named: declared},
	"declaration":          {kind: symbols.Variable, named: declared, others: alsoDeclared, kindOf: prototype(symbols.Function), value: true},
	"field_declaration":    {kind: symbols.Field, named: declared, others: alsoDeclared, kindOf: prototype(symbols.Method)},
	"struct_specifier":     {kind: symbols.Struct, kindOf: withBody},
	"union_specifier":      {kind: symbols.Struct, kindOf: withBody},
	"enum_specifier":       {kind: symbols.Enum, kindOf: withBody},
	"enumerator":           {kind: symbols.Constant},
	"type_definition":      {kind: symbols.Type, named: declared},
	"preproc_def":          {kind: symbols.Macro},
	"preproc_function_def": {kind: symbols.Macro},
	"class_specifier":      {kind: symbols.Class, kindOf: withBody},
	"namespace_definition": {kind: symbols.Module},
	"alias_declaration":    {kind: symbols.Type},
	"concept_definition":   {kind: symbols.Type},
}

var grammars = map[string]*grammar{
	symbols.Python: {load: tspy.Language, names: identifiers, defs: map[string]def{
		"class_definition":    {kind: symbols.Class},
		"function_definition": {kind: symbols.Function},
		"assignment":          {kind: symbols.Variable, member: symbols.Field, named: plainLeft, kindOf: shouted, value: true},
	}},
	symbols.JavaScript: {load: tsjs.Language, names: scriptNames, defs: script},
	symbols.TypeScript: {load: tsts.LanguageTypescript, names: scriptNames, defs: typed},
	symbols.TSX:        {load: tsts.LanguageTSX, names: scriptNames, defs: typed},
	symbols.Rust: {load: tsrust.Language, names: append(slices.Clone(identifiers), "shorthand_field_identifier"), defs: map[string]def{
		"function_item":           {kind: symbols.Function},
		"function_signature_item": {kind: symbols.Function},
		"struct_item":             {kind: symbols.Struct},
		"union_item":              {kind: symbols.Struct},
		"enum_item":               {kind: symbols.Enum},
		"enum_variant":            {kind: symbols.Constant},
		"trait_item":              {kind: symbols.Interface},
		"type_item":               {kind: symbols.Type},
		"associated_type":         {kind: symbols.Type},
		"mod_item":                {kind: symbols.Module},
		"const_item":              {kind: symbols.Constant},
		"static_item":             {kind: symbols.Variable},
		"macro_definition":        {kind: symbols.Macro},
		"field_declaration":       {kind: symbols.Field},
		"impl_item":               {kind: symbols.Class, named: implNamed, scope: true},
	}},
	symbols.Java: {load: tsjava.Language, names: identifiers, defs: map[string]def{
		"class_declaration":               {kind: symbols.Class},
		"record_declaration":              {kind: symbols.Class},
		"interface_declaration":           {kind: symbols.Interface},
		"annotation_type_declaration":     {kind: symbols.Interface},
		"enum_declaration":                {kind: symbols.Enum},
		"enum_constant":                   {kind: symbols.Constant},
		"method_declaration":              {kind: symbols.Method},
		"constructor_declaration":         {kind: symbols.Method},
		"compact_constructor_declaration": {kind: symbols.Method},
		"variable_declarator":             {kind: symbols.Field, value: true},
	}},
	symbols.C:   {load: tsc.Language, names: identifiers, defs: c},
	symbols.CPP: {load: tscpp.Language, names: identifiers, defs: c},
	symbols.Ruby: {load: tsruby.Language, names: []string{"identifier", "constant", "instance_variable", "class_variable", "global_variable", "simple_symbol"}, defs: map[string]def{
		"class":            {kind: symbols.Class},
		"module":           {kind: symbols.Module},
		"method":           {kind: symbols.Function},
		"singleton_method": {kind: symbols.Method},
		"assignment":       {kind: symbols.Constant, named: constantLeft, value: true},
		"call":             {kind: symbols.Field, named: attribute, others: moreAttributes, value: true},
	}},
}

// languages are those that are read here, sorted.
func languages() []string {
	var out []string
	for l := range grammars {
		out = append(out, l)
	}
	slices.Sort(out)
	return out
}

func merged(a, b map[string]def) map[string]def {
	out := map[string]def{}
	for _, m := range []map[string]def{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// ready loads the grammar and turns its tables from names into numbers.
func (g *grammar) ready() *grammar {
	g.once.Do(func() {
		g.lang = ts.NewLanguage(g.load())
		g.table = make([]entry, g.lang.NodeKindCount())
		for i := range g.table {
			id := uint16(i)
			if !g.lang.NodeKindIsNamed(id) {
				continue
			}
			kind := g.lang.NodeKindForId(id)
			if d, ok := g.defs[kind]; ok {
				g.table[i].def = &d
			}
			g.table[i].name = slices.Contains(g.names, kind)
		}
	})
	return g
}

// known are the kinds of nodes that a grammar has, for the test that no table
// names one that is gone.
func (g *grammar) known() map[string]bool {
	g.ready()
	out := map[string]bool{}
	for i := range g.table {
		if g.lang.NodeKindIsNamed(uint16(i)) {
			out[g.lang.NodeKindForId(uint16(i))] = true
		}
	}
	return out
}

func text(n *ts.Node, src []byte) string {
	if n == nil {
		return ""
	}
	a, b := n.ByteRange()
	if a > b || b > uint(len(src)) || b-a > 4*symbols.MaxSignature {
		return ""
	}
	return string(src[a:b])
}

// plainName is a name as it is written, its separators as dots.
func plainName(s string) string {
	return strings.ReplaceAll(strings.Trim(s, `"'`+"`"), "::", ".")
}
