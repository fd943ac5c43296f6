package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits on what is judged at all. They keep hostile text from costing time or
// stack: the parser is recursive.
const (
	maxText   = 64 << 10
	maxNest   = 200 // open brackets in the text, as a cheap bound before parsing
	maxDepth  = 60  // nested syntax nodes
	maxSteps  = 4000
	maxRounds = 8 // texts within texts: sh -c, eval
)

// unreadable says why text is not even parsed, or "".
func unreadable(text string) string {
	if len(text) > maxText {
		return "the text is too long to judge"
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return "the text holds control characters, which shells and people read differently"
		}
	}
	if continuedComment(text) {
		return "a line with a comment ends in a backslash, which shells read differently"
	}
	if deepest(text) > maxNest {
		return "the text is nested too deeply to judge"
	}
	for _, r := range text {
		switch {
		case r == 0xFFFD:
			return "the text is not valid UTF-8"
		case r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x2069, r == 0xFEFF, r == 0x00AD:
			return "the text holds invisible characters, so it is not what it looks like"
		}
	}
	if keywords(text) > 2*maxNest {
		return "the text has too many compound commands to judge"
	}
	return ""
}

// continuedComment reports whether what may be a comment ends in a backslash.
// Bash ends the comment at the end of the line all the same; the parser does
// not, and would take the next command for part of this one.
func continuedComment(text string) bool {
	for rest := text; ; {
		at := strings.Index(rest, "\\\n")
		if at < 0 {
			return false
		}
		line := rest[strings.LastIndexByte(rest[:at], '\n')+1 : at]
		for i := 0; i < len(line); i++ {
			if line[i] == '#' && (i == 0 || strings.IndexByte(" \t;&|()<>`", line[i-1]) >= 0) {
				return true
			}
		}
		rest = rest[at+2:]
	}
}

// deepest counts how deep brackets nest, not minding quotes.
func deepest(text string) int {
	depth, most := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			if depth > 0 {
				depth--
			}
		}
		most = max(most, depth)
	}
	return most
}

// keywords counts words that open a compound command.
func keywords(text string) int {
	n := 0
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}", r) }) {
		switch f {
		case "if", "elif", "while", "until", "for", "case", "select", "!", "time", "function", "coproc":
			n++
		}
	}
	return n
}

// facts are what one text says about its own variables and functions, taken
// from the whole of it, whatever the order of execution: a value counts as
// possible if any assignment gives it.
type facts struct {
	vars  map[string]*variable
	funcs map[string]*function
	// wild says that variables may be set in ways that the text does not show
	// (eval, source, read into a computed name).
	wild bool
	// unset says that functions may be taken away again.
	unset bool
}

type variable struct {
	values  []*syntax.Word
	numbers bool // every assignment is by arithmetic or a plain number so far
	open    bool // may hold a value that the text does not show
	// set are the stretches of text in which an assignment has surely
	// happened. Elsewhere the variable may be unset, or be the environment's.
	set []span
}

// span is a stretch of the text, in bytes.
type span struct{ from, to uint }

func (v *variable) setAt(pos syntax.Pos) bool {
	at := pos.Offset()
	for _, s := range v.set {
		if s.from <= at && at < s.to {
			return true
		}
	}
	return false
}

type function struct {
	bodies []*syntax.Stmt
	// sure is set when the only definition is a statement of its own at the
	// top, which therefore has run before anything below it.
	sure bool
	pos  syntax.Pos
}

func (f *facts) variable(name string) *variable {
	if f.vars == nil {
		f.vars = map[string]*variable{}
	}
	v := f.vars[name]
	if v == nil {
		v = &variable{numbers: true}
		f.vars[name] = v
	}
	return v
}

func (f *facts) open(name string) {
	v := f.variable(name)
	v.open, v.numbers = true, false
}

// survey collects the facts of a parsed text.
func survey(file *syntax.File) *facts {
	f := &facts{}
	f.list(file.Stmts, ^uint(0))
	syntax.Walk(file, func(n syntax.Node) bool {
		f.lists(n)
		switch n := n.(type) {
		case *syntax.Assign:
			f.assign(n)
		case *syntax.ForClause:
			if it, ok := n.Loop.(*syntax.WordIter); ok && it.Name != nil {
				v := f.variable(it.Name.Value)
				v.values = append(v.values, it.Items...)
				for _, item := range it.Items {
					v.numbers = v.numbers && number(item.Lit())
				}
				if !it.InPos.IsValid() {
					v.open, v.numbers = true, false
				}
			}
		case *syntax.FuncDecl:
			f.function(n)
		case *syntax.CallExpr:
			f.call(n)
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				f.open(n.Param.Value)
			}
		case *syntax.BinaryArithm:
			f.arithm(n)
		case *syntax.UnaryArithm:
			if word, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) {
				f.number(word.Lit())
			}
		case *syntax.CoprocClause:
			f.wild = true
		case *syntax.Redirect:
			if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
				f.number(strings.Trim(n.N.Value, "{}"))
			}
		}
		return true
	})
	for _, s := range file.Stmts {
		if d, ok := s.Cmd.(*syntax.FuncDecl); ok && !s.Background && d.Name != nil && len(s.Redirs) == 0 {
			if fn := f.funcs[d.Name.Value]; fn != nil && len(fn.bodies) == 1 {
				fn.sure = true
			}
		}
	}
	return f
}

// lists notes the statement lists that a node holds.
func (f *facts) lists(n syntax.Node) {
	if n == nil {
		return
	}
	end := func() uint { return n.End().Offset() }
	switch n := n.(type) {
	case *syntax.Block:
		f.list(n.Stmts, end())
	case *syntax.Subshell:
		f.list(n.Stmts, end())
	case *syntax.CmdSubst:
		f.list(n.Stmts, end())
	case *syntax.ProcSubst:
		f.list(n.Stmts, end())
	case *syntax.IfClause:
		stop := n.FiPos
		if n.Else != nil {
			stop = n.Else.Position
		}
		f.list(n.Then, stop.Offset())
	case *syntax.WhileClause:
		f.list(n.Do, end())
	case *syntax.ForClause:
		f.list(n.Do, end())
		switch l := n.Loop.(type) {
		case *syntax.WordIter:
			if l.Name != nil {
				f.sets(l.Name.Value, n.DoPos, end())
			}
		case *syntax.CStyleLoop:
			f.setsArithm(l.Init, n.ForPos, end())
		}
	case *syntax.CaseItem:
		f.list(n.Stmts, end())
	case *syntax.BinaryCmd:
		if n.Op == syntax.AndStmt {
			f.succeeded(n.X, end())
		}
	}
}

// succeeded notes the assignments in the left side of &&: on the right side
// they have all happened.
func (f *facts) succeeded(s *syntax.Stmt, end uint) {
	if len(s.Redirs) > 0 || s.Negated {
		return
	}
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.AndStmt {
		f.succeeded(b.X, end)
		f.succeeded(b.Y, end)
		return
	}
	f.list([]*syntax.Stmt{s}, end)
}

// list notes the assignments that are statements of a list: they have surely
// happened in what follows in the same list.
func (f *facts) list(stmts []*syntax.Stmt, end uint) {
	for _, s := range stmts {
		if s.Background || len(s.Redirs) > 0 {
			continue
		}
		cmd := s.Cmd
		for {
			b, ok := cmd.(*syntax.BinaryCmd)
			if !ok || b.Op != syntax.AndStmt && b.Op != syntax.OrStmt || len(b.X.Redirs) > 0 {
				break
			}
			cmd = b.X.Cmd // the left side of && and || always runs
		}
		switch c := cmd.(type) {
		case *syntax.CallExpr:
			if len(c.Args) > 0 {
				continue
			}
			for _, a := range c.Assigns {
				if a.Name != nil && !a.Append {
					f.sets(a.Name.Value, a.End(), end)
				}
			}
		case *syntax.DeclClause:
			for _, a := range c.Args {
				if a.Name != nil && !a.Naked && !a.Append {
					f.sets(a.Name.Value, c.End(), end)
				}
			}
		case *syntax.ArithmCmd:
			f.setsArithm(c.X, c.End(), end)
		case *syntax.LetClause:
			for _, x := range c.Exprs {
				f.setsArithm(x, c.End(), end)
			}
		}
	}
}

func (f *facts) sets(name string, from syntax.Pos, end uint) {
	v := f.variable(name)
	v.set = append(v.set, span{from.Offset(), end})
}

func (f *facts) setsArithm(x syntax.ArithmExpr, from syntax.Pos, end uint) {
	b, ok := x.(*syntax.BinaryArithm)
	if !ok {
		return
	}
	if b.Op == syntax.Comma {
		f.setsArithm(b.X, from, end)
		f.setsArithm(b.Y, from, end)
		return
	}
	if word, ok := b.X.(*syntax.Word); ok && b.Op == syntax.Assgn && word.Lit() != "" {
		f.sets(word.Lit(), from, end)
	}
}

func (f *facts) assign(a *syntax.Assign) {
	if a.Name == nil {
		f.wild = true
		return
	}
	if a.Naked {
		f.open(a.Name.Value) // a declaration may unset or lock it
		return
	}
	v := f.variable(a.Name.Value)
	switch {
	case a.Append || a.Index != nil || a.Array != nil:
		v.open, v.numbers = true, false
	case a.Value == nil:
		v.values = append(v.values, &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{}}})
	default:
		v.values = append(v.values, a.Value)
		v.numbers = v.numbers && numeric(a.Value)
	}
}

func (f *facts) arithm(n *syntax.BinaryArithm) {
	word, ok := n.X.(*syntax.Word)
	if !ok {
		return
	}
	switch n.Op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn, syntax.AndAssgn,
		syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		f.number(word.Lit())
	}
}

// number records an assignment whose value is a number that is not known.
func (f *facts) number(name string) {
	if name != "" {
		v := f.variable(name)
		v.open = true
	}
}

func (f *facts) function(d *syntax.FuncDecl) {
	if d.Name == nil {
		f.wild = true
		return
	}
	if f.funcs == nil {
		f.funcs = map[string]*function{}
	}
	fn := f.funcs[d.Name.Value]
	if fn == nil {
		fn = &function{pos: d.Pos()}
		f.funcs[d.Name.Value] = fn
	}
	fn.bodies = append(fn.bodies, d.Body)
}

// call notes the commands that set variables by name. They are looked for
// anywhere among the words, because wrappers may stand before them.
func (f *facts) call(c *syntax.CallExpr) {
	for _, word := range c.Args {
		name, _ := unquote(word)
		switch name {
		case "read", "mapfile", "readarray", "getopts", "printf":
			for _, other := range c.Args {
				// What printf is given is text, but for the -v option, whose
				// odd forms the judgement of printf itself asks about.
				if name, static := unquote(other); identifier(name) {
					f.open(name)
				} else if !static && word.Lit() != "printf" {
					f.wild = true
				}
			}
		case "eval", "source", ".", "trap", "unset", "coproc", "shopt", "alias", "enable":
			f.wild = true
			f.unset = true
		}
	}
}

// unquote is a word's text without its quotes; false when it is not static.
func unquote(word *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(l.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

func identifier(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func number(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// numeric reports whether a word's value is certainly a number.
func numeric(word *syntax.Word) bool {
	if len(word.Parts) != 1 {
		return false
	}
	switch p := word.Parts[0].(type) {
	case *syntax.Lit:
		return number(strings.TrimPrefix(p.Value, "-"))
	case *syntax.ArithmExp:
		return true
	case *syntax.CmdSubst:
		return numberCommand(p)
	case *syntax.DblQuoted:
		return len(p.Parts) == 1 && numeric(&syntax.Word{Parts: p.Parts})
	}
	return false
}

// values resolves a variable, used at a place of the text, to what the text
// assigns to it. open says that it may hold something else as well, or nothing.
func (w *walker) values(name string, at syntax.Pos) ([]arg, bool) {
	v := w.facts.vars[name]
	if v == nil {
		return nil, true
	}
	open := v.open || w.facts.wild || !v.setAt(at)
	if w.resolving > 4 {
		return nil, true
	}
	w.resolving++
	defer func() { w.resolving-- }()
	var out []arg
	for _, word := range v.values {
		for _, reading := range w.expand(word) {
			if len(reading) != 1 {
				open = true
			}
			for _, a := range reading {
				if len(out) == maxVariants {
					return out, true
				}
				out = append(out, a)
			}
		}
	}
	return out, open
}
