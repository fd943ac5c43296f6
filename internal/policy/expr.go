package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word judges what a word does while it is expanded: substitutions run
// commands, arithmetic can, and a few expansions do in disguise.
func (w *walker) word(word *syntax.Word) {
	if word == nil {
		return
	}
	w.wordParts(word.Parts)
}

func (w *walker) wordParts(parts []syntax.WordPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			w.wordParts(p.Parts)
		case *syntax.CmdSubst:
			if p.TempFile || p.ReplyVar {
				w.unresolved(w.source(p), "this kind of substitution is not understood", "$( … )")
				continue
			}
			w.nested(p, p.Stmts)
		case *syntax.ProcSubst:
			if len(p.Stmts) == 0 {
				// Bash makes nothing of it, not a file's name.
				w.unresolved(w.source(p), "a substitution without a command", "leave it out")
			}
			if p.Op != syntax.CmdIn {
				w.unresolved(w.source(p), "a process that is written to through a substitution", "a pipe")
			}
			w.nested(p, p.Stmts)
		case *syntax.ArithmExp:
			w.arithm(p.X)
		case *syntax.ParamExp:
			w.param(p)
		default:
			w.unresolved(w.source(p), "this kind of expansion is not understood", "")
		}
	}
}

func (w *walker) nested(n syntax.Node, list []*syntax.Stmt) {
	defer w.leave()
	if w.enter(n) {
		w.subshell(list)
	}
}

func (w *walker) param(p *syntax.ParamExp) {
	text := w.source(p)
	odd := p.Width || p.IsSet || p.Flags != nil || p.NestedParam != nil || len(p.Modifiers) > 0 || p.Param == nil
	if odd || p.Excl && p.Names == 0 && !everyElement(p.Index) {
		w.unresolved(text, "an indirect expansion: which variable it reads, and what that runs, is not known", "name the variable")
		return
	}
	name := p.Param.Value
	if w.facts.vars[name] == nil && !p.Length && secretVariable(name) {
		f := finding{kind: KindRead, text: text, id: "builtin:secret"}
		w.add(f.part(Ask, "builtin:secret", "uses $"+name+", whose name says that it holds a secret", ""), false)
	}
	if p.Index != nil && !everyElement(p.Index) {
		w.arithm(p.Index)
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				w.arithm(x)
			}
		}
	}
	if p.Repl != nil {
		w.word(p.Repl.Orig)
		w.word(p.Repl.With)
	}
	if p.Exp == nil {
		return
	}
	w.word(p.Exp.Word)
	switch p.Exp.Op {
	case syntax.OtherParamOps:
		switch op, _ := unquote(p.Exp.Word); op {
		case "Q", "U", "u", "L":
		default:
			w.unresolved(text, "this expansion evaluates the variable's content", "")
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		w.setsVariable(name, text)
	}
}

func everyElement(x syntax.ArithmExpr) bool {
	word, ok := x.(*syntax.Word)
	return ok && (word.Lit() == "@" || word.Lit() == "*")
}

func secretVariable(name string) bool {
	up := strings.ToUpper(name)
	for _, s := range []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY", "CREDENTIAL"} {
		if strings.Contains(up, s) {
			return true
		}
	}
	return false
}

// counters are shell variables that always hold a number.
var counters = map[string]bool{"RANDOM": true, "SRANDOM": true, "SECONDS": true, "LINENO": true, "EPOCHSECONDS": true, "PPID": true,
	"UID": true, "EUID": true, "BASHPID": true, "OPTIND": true, "#": true, "?": true, "$": true, "!": true}

const arithReason = "arithmetic evaluates what it is given as an expression, which can run commands; this is not surely a number: "

// arithm judges an arithmetic expression. Bash evaluates the content of
// variables in it as expressions again, array subscripts with substitutions
// included, so everything in it must be a number.
func (w *walker) arithm(x syntax.ArithmExpr) {
	defer w.leave()
	if !w.enter(x) {
		return
	}
	switch x := x.(type) {
	case *syntax.BinaryArithm:
		// What a plain assignment sets is not evaluated.
		if word, ok := x.X.(*syntax.Word); x.Op != syntax.Assgn || !ok || !identifier(word.Lit()) {
			w.arithm(x.X)
		}
		w.arithm(x.Y)
	case *syntax.UnaryArithm:
		w.arithm(x.X)
	case *syntax.ParenArithm:
		w.arithm(x.X)
	case *syntax.Word:
		w.arithmWord(x.Parts)
	default:
		w.unresolved(w.source(x), "this arithmetic is not understood", "")
	}
}

func (w *walker) arithmWord(parts []syntax.WordPart) {
	if len(parts) != 1 {
		for _, p := range parts {
			w.unresolved(w.source(p), arithReason+w.source(p), "plain numbers and variables that hold them")
		}
		return
	}
	bad := func(n syntax.Node) {
		w.unresolved(w.source(n), arithReason+w.source(n), "plain numbers and variables that hold them")
	}
	switch p := parts[0].(type) {
	case *syntax.Lit:
		if !w.counts(p.Value, p.Pos()) {
			bad(p)
		}
	case *syntax.SglQuoted:
		if !number(p.Value) {
			bad(p)
		}
	case *syntax.DblQuoted:
		if len(p.Parts) > 0 {
			w.arithmWord(p.Parts)
		}
	case *syntax.ParamExp:
		w.param(p)
		if p.Length {
			return
		}
		if p.Param == nil || !plainParam(p) || !w.counts(p.Param.Value, p.Pos()) {
			bad(p)
		}
	case *syntax.ArithmExp:
		w.arithm(p.X)
	case *syntax.CmdSubst:
		w.wordParts(parts)
		if !numberCommand(p) {
			bad(p)
		}
	default:
		bad(p)
	}
}

// counts reports whether text in an expression is a number, or a variable that
// surely holds one.
func (w *walker) counts(s string, at syntax.Pos) bool {
	if number(s) || counters[s] {
		return true
	}
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return strings.Trim(s[2:], "0123456789abcdefABCDEF") == ""
	}
	v := w.facts.vars[s]
	return v != nil && v.numbers && !w.facts.wild && v.setAt(at)
}

// numberCommand reports whether a substitution surely yields a number.
func numberCommand(p *syntax.CmdSubst) bool {
	c := lastCall(p)
	if c == nil {
		return false
	}
	name := c.Args[0].Lit()
	switch name {
	case "nproc":
		return true
	case "wc":
		for _, a := range c.Args[1:] {
			// With a file operand wc prints the name as well.
			if v, ok := unquote(a); !ok || !strings.HasPrefix(v, "-") || strings.HasPrefix(v, "--") {
				return false
			}
		}
		return true
	case "date":
		return len(c.Args) == 2 && (c.Args[1].Lit() == "+%s" || c.Args[1].Lit() == "+%s%N")
	}
	return false
}

// lastCall is the simple command whose output a substitution yields: the only
// one, or the last of a pipeline.
func lastCall(p *syntax.CmdSubst) *syntax.CallExpr {
	if len(p.Stmts) != 1 {
		return nil
	}
	cmd := p.Stmts[0].Cmd
	for {
		b, ok := cmd.(*syntax.BinaryCmd)
		if !ok {
			break
		}
		if b.Op != syntax.Pipe {
			return nil
		}
		cmd = b.Y.Cmd
	}
	c, ok := cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 || len(c.Assigns) > 0 {
		return nil
	}
	return c
}

// tame reports whether a substitution's output, unquoted, is surely one word
// that is no option: a number, a commit id, the working directory.
func (w *walker) tame(p *syntax.CmdSubst) bool {
	if numberCommand(p) {
		return true
	}
	c := lastCall(p)
	if c == nil || len(w.facts.funcs) > 0 {
		return false
	}
	var words []string
	for _, a := range c.Args {
		v, ok := unquote(a)
		if !ok {
			return false
		}
		words = append(words, v)
	}
	switch line := strings.Join(words, " "); line {
	case "pwd", "git rev-parse --show-toplevel", "git rev-parse HEAD", "git rev-parse --short HEAD", "git rev-parse --abbrev-ref HEAD",
		"git branch --show-current", "uname", "uname -s", "uname -m", "whoami", "id -u", "id -g", "date +%F", "date +%Y-%m-%d":
		return true
	default:
		if rest, ok := strings.CutPrefix(line, "git merge-base "); ok {
			return !strings.Contains(" "+rest, " -")
		}
	}
	return false
}

// test judges a [[ ]] expression.
func (w *walker) test(x syntax.TestExpr) {
	defer w.leave()
	if !w.enter(x) {
		return
	}
	switch x := x.(type) {
	case *syntax.Word:
		w.word(x)
	case *syntax.ParenTest:
		w.test(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			if word, ok := x.X.(*syntax.Word); !ok || !identifier(word.Lit()) {
				w.unresolved(w.source(x), "the subscript of a tested variable can run commands", "")
			}
			return
		}
		w.test(x.X)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if word, ok := side.(*syntax.Word); ok {
					w.arithmWord(word.Parts)
				} else {
					w.test(side)
				}
			}
		default:
			w.test(x.X)
			w.test(x.Y)
		}
	default:
		w.unresolved(w.source(x), "this test is not understood", "")
	}
}
