package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker judges one shell text. Only the syntax nodes that its methods name
// are understood; anything else asks.
type walker struct {
	*sink
	src   string
	facts *facts
	// cwd are the directories that the next command may run in; then are those
	// if the last command succeeded. A cd may fail, so after it both the old
	// and the new one are possible, but after `cd x &&` only the new one.
	cwd, then []string
	depth     int
	rounds    int
	resolving int
	calling   []string
}

// text parses and judges a whole text.
func (w *walker) text(src string, top bool) {
	if why := unreadable(src); why != "" {
		w.unresolved(src, why, "shorter, plainer commands")
		return
	}
	if w.rounds > maxRounds {
		w.unresolved(src, "shells are nested too deeply to judge", "run the command itself")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if err != nil {
		w.unresolved(src, "the text cannot be parsed as bash: "+err.Error(), "write it so that bash reads it without doubt")
		return
	}
	w.src, w.facts = src, survey(file)
	w.stmts(file.Stmts)
	if top && len(file.Stmts) == 0 {
		w.unresolved(src, "there is no command in it", "")
	}
}

func (w *walker) unresolved(text, reason, fix string) {
	f := finding{kind: KindUnresolved, text: text, decision: Ask, reason: reason, fix: fix}
	w.add(f.part(Ask, "builtin:unresolved", reason, fix), false)
}

// source is a node's own text.
func (w *walker) source(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if to > uint(len(w.src)) || from > to {
		return ""
	}
	return w.src[from:to]
}

// enter bounds depth and work; the caller returns when it is false.
func (w *walker) enter(n syntax.Node) bool {
	w.depth++
	w.steps++
	if w.depth > maxDepth || w.steps > maxSteps {
		w.unresolved("", "the text is too large or too deep to judge", "shorter, plainer commands")
		return false
	}
	return true
}

func (w *walker) leave() { w.depth-- }

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	defer w.leave()
	if !w.enter(s) {
		return
	}
	if s.Coprocess || s.Disown {
		w.unresolved(w.source(s), "this way to run a command in the background is not understood", "")
		return
	}
	for _, r := range s.Redirs {
		w.redirect(r)
	}
	before := w.cwd
	w.then = w.cwd
	if s.Cmd != nil {
		w.command(s.Cmd)
	}
	switch {
	case s.Background:
		w.cwd, w.then = before, before
	case s.Negated:
		w.then = w.cwd
	}
	if s.Cmd == nil && len(s.Redirs) > 0 && len(w.parts) == 0 {
		w.add(finding{kind: KindCommand, text: w.source(s)}.part(Allow, "builtin:redirect", "a redirection alone", ""), false)
	}
}

// subshell judges statements whose cd does not reach what follows.
func (w *walker) subshell(list []*syntax.Stmt) {
	cwd, then := w.cwd, w.then
	w.stmts(list)
	w.cwd, w.then = cwd, then
}

func (w *walker) command(cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		w.call(c)
	case *syntax.BinaryCmd:
		w.binary(c)
	case *syntax.Block:
		w.stmts(c.Stmts)
	case *syntax.Subshell:
		w.subshell(c.Stmts)
	case *syntax.IfClause:
		w.ifClause(c)
	case *syntax.WhileClause:
		w.loop(func() { w.stmts(c.Cond); w.stmts(c.Do) })
	case *syntax.ForClause:
		w.forClause(c)
	case *syntax.CaseClause:
		w.caseClause(c)
	case *syntax.FuncDecl:
		w.declare(c)
	case *syntax.ArithmCmd:
		w.arithm(c.X)
		w.quiet(c)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			w.arithm(x)
		}
		w.quiet(c)
	case *syntax.TestClause:
		w.test(c.X)
		w.quiet(c)
	case *syntax.DeclClause:
		w.decl(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			w.stmt(c.Stmt)
		}
	default:
		w.unresolved(w.source(cmd), "this kind of shell syntax is not understood", "plain commands")
	}
}

// quiet notes a piece of shell that touches nothing but the shell itself.
func (w *walker) quiet(n syntax.Node) {
	w.add(finding{kind: KindCommand, text: w.source(n)}.part(Allow, "builtin:shell", "touches only the shell itself", ""), false)
}

func (w *walker) binary(c *syntax.BinaryCmd) {
	switch c.Op {
	case syntax.AndStmt:
		w.stmt(c.X)
		all := w.cwd
		w.cwd = w.then
		w.stmt(c.Y)
		w.cwd = union(all, w.cwd)
	case syntax.OrStmt:
		w.stmt(c.X)
		all, ok := w.cwd, w.then
		w.stmt(c.Y)
		w.cwd = union(all, w.cwd)
		w.then = union(ok, w.then)
	case syntax.Pipe, syntax.PipeAll:
		w.subshell([]*syntax.Stmt{c.X})
		w.subshell([]*syntax.Stmt{c.Y})
	default:
		w.unresolved(w.source(c), "this operator is not understood", "")
	}
}

func union(a, b []string) []string {
	out := append([]string{}, a...)
	for _, d := range b {
		if !contains(out, d) {
			out = append(out, d)
		}
	}
	if len(out) > maxRounds {
		return []string{"?"}
	}
	return out
}

func (w *walker) ifClause(c *syntax.IfClause) {
	var after []string
	cond := w.cwd
	sawElse := false
	for ; c != nil; c = c.Else {
		w.cwd = cond
		w.stmts(c.Cond)
		cond = w.cwd
		w.stmts(c.Then)
		after = union(after, w.cwd)
		sawElse = sawElse || len(c.Cond) == 0
	}
	if !sawElse {
		after = union(after, cond)
	}
	w.cwd, w.then = after, after
}

// loop judges a body that may run any number of times: what a cd in it does
// to its next round counts.
func (w *walker) loop(body func()) {
	for i := 0; ; i++ {
		before := w.cwd
		body()
		w.cwd = union(before, w.cwd)
		if len(w.cwd) == len(before) || len(before) == 1 && before[0] == "?" {
			break
		}
		if i == 2 {
			w.cwd = []string{"?"}
		}
	}
	w.then = w.cwd
}

func (w *walker) forClause(c *syntax.ForClause) {
	if c.Select {
		w.unresolved(w.source(c), "select waits for an answer on the terminal", "")
		return
	}
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		for _, item := range l.Items {
			w.word(item)
		}
		if l.Name != nil {
			w.setsVariable(l.Name.Value, w.source(l))
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x != nil {
				w.arithm(x)
			}
		}
	default:
		w.unresolved(w.source(c), "this kind of loop is not understood", "")
		return
	}
	w.loop(func() { w.stmts(c.Do) })
}

func (w *walker) caseClause(c *syntax.CaseClause) {
	w.word(c.Word)
	start, after := w.cwd, w.cwd
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			w.word(p)
		}
		// A branch may be reached through the one before it (;&).
		w.cwd = union(start, after)
		w.stmts(item.Stmts)
		after = union(after, w.cwd)
	}
	w.cwd, w.then = after, after
	w.quiet(c.Word)
}

// declare notes a function. Its body is judged where it is called; but a name
// that stands for something known, or that bash calls by itself, is a trick.
func (w *walker) declare(c *syntax.FuncDecl) {
	if c.Name == nil {
		w.unresolved(w.source(c), "a function without a name", "")
		return
	}
	name := c.Name.Value
	switch {
	case knowledge[name].judge != nil || name == "command_not_found_handle" || name == "return" || strings.Contains(name, "/"):
		w.unresolved(w.source(c), "it defines a function under the name of a known command ("+name+")", "give the function another name")
	case !identifier(strings.ReplaceAll(name, "-", "_")):
		w.unresolved(w.source(c), "a function with an odd name", "give the function a plain name")
	default:
		w.add(finding{kind: KindCommand, text: name + "() {…}"}.part(Allow, "builtin:shell", "defines a function; its body is judged where it is called", ""), false)
	}
}

// callFunction judges a call to a function that the text defines. It reports
// false when the call may reach a program of that name instead.
func (w *walker) callFunction(name, text string, at syntax.Pos) bool {
	fn := w.facts.funcs[name]
	if fn == nil {
		return false
	}
	if contains(w.calling, name) {
		w.unresolved(text, "the function "+name+" calls itself", "a loop")
		return true
	}
	w.calling = append(w.calling, name)
	for _, body := range fn.bodies {
		w.stmt(body)
	}
	w.calling = w.calling[:len(w.calling)-1]
	return fn.sure && !w.facts.unset && (len(w.calling) > 0 || !at.IsValid() || at.After(fn.pos))
}

// redirect judges a redirection: a write, a read, or a copy of a descriptor.
func (w *walker) redirect(r *syntax.Redirect) {
	if r.Hdoc != nil {
		w.word(r.Hdoc)
	}
	if r.Word != nil {
		w.word(r.Word)
	}
	text := w.source(r)
	kind := KindWrite
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return
	case syntax.RdrIn:
		kind = KindRead
	case syntax.DplIn, syntax.DplOut:
		if v, ok := unquote(r.Word); ok && (v == "-" || number(v) || number(strings.TrimSuffix(v, "-"))) {
			return
		}
		if r.Op == syntax.DplIn {
			w.unresolved(text, "the descriptor that is copied is not known", "")
			return
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
	default:
		w.unresolved(text, "this redirection is not understood", "")
		return
	}
	for _, reading := range w.expand(r.Word) {
		if len(reading) != 1 {
			w.unresolved(text, "the file that is redirected to or from is not known before it runs", "name the file")
			continue
		}
		w.redirectTo(reading[0], kind, text)
	}
}

func (w *walker) redirectTo(a arg, kind PartKind, text string) {
	if host, ok := strings.CutPrefix(a.val, "/dev/tcp/"); ok || strings.HasPrefix(a.val, "/dev/udp/") {
		w.network = true
		f := finding{kind: KindUnresolved, text: text, network: true}
		w.add(f.part(Ask, "builtin:network", "opens a network connection to "+host, ""), false)
		return
	}
	for _, f := range w.accesses(a, kind, text) {
		if kind == KindWrite || f.decision != Allow {
			w.path(f)
		}
	}
}

// accesses judges the reading or writing of a path that a command names, from
// each directory it may run in.
func (w *walker) accesses(a arg, kind PartKind, text string) []finding {
	if !a.static {
		return w.unknownAccess(a, kind, text)
	}
	val := a.val
	var out []finding
	for _, dir := range w.cwd {
		p := w.resolve(val, dir)
		f := w.accessFinding(p, kind)
		f.text = text
		if f.decision == Ask && w.zone(p) == unknownDir {
			f.reason = "writes " + val + " in a directory that is not known before it runs"
			f.fix = "use a path from the workspace root, without cd"
		}
		if f.decision == Allow && kind == KindRead && w.cfg.guarded && a.glob {
			f.decision, f.id = Ask, ""
			f.reason = "a rule restricts the reading of some files, and which files " + a.src + " stands for is not known before it runs"
			f.fix = "name the files"
		}
		if kind == KindRead {
			f.word = a.val
		}
		out = append(out, f)
	}
	return out
}

func (w *walker) unknownAccess(a arg, kind PartKind, text string) []finding {
	f := finding{kind: kind, text: text, decision: Ask, id: "builtin:unresolved"}
	if kind == KindRead {
		switch {
		case strings.HasPrefix(a.val, "/dev/fd/"):
			return nil
		case w.cfg.guarded:
			f.reason = "a rule restricts the reading of some files, and which file " + a.src + " is, is not known before it runs"
		case a.frag != "" && secret(strings.ReplaceAll(a.frag, "\x00", "")):
			f.reason = "reads " + a.src + ", which usually holds secrets"
		default:
			return nil
		}
		f.fix = "name the file"
		return []finding{f}
	}
	if w.cfg.protected(strings.ReplaceAll(a.frag, "\x00", "/")) {
		f.decision, f.id = Deny, "builtin:protected"
		f.reason = a.src + " is protected: git's own data, policy files and belay's state are never written by an operation"
		return []finding{f}
	}
	if strings.HasPrefix(a.val, "/dev/fd/") {
		return nil
	}
	f.reason, f.fix = "writes a file whose name is not known before it runs ("+a.src+")", "name the file"
	return []finding{f}
}
