package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is the built-in knowledge about one program: the id under which it
// is explained, and a function that says what is not plainly harmless about a
// call. A call about which it says nothing is allowed.
type command struct {
	id    string
	judge func(*call)
}

// knowledge is filled by the families' files.
var knowledge = map[string]command{}

func learn(id string, judge func(*call), names ...string) {
	for _, n := range names {
		if knowledge[n].judge != nil {
			panic("policy: two families know " + n)
		}
		knowledge[n] = command{id: "builtin:" + id, judge: judge}
	}
}

// call is one simple command under judgement.
type call struct {
	w     *walker
	name  string // bare program name
	args  []arg  // without the name
	all   []arg
	text  string
	found []finding
	// through says that the program only runs what follows it: its own part is
	// left out when nothing is to be said about it.
	through bool
	id      string
	// note, if set, says why the call is allowed, in place of "reads only".
	note string
}

// ask raises a question about the call. word is the flag that raised it, or
// "" when it is the program itself.
func (c *call) ask(word, reason, fix string) *finding {
	c.found = append(c.found, finding{kind: KindCommand, text: c.text, decision: Ask, id: c.id, reason: reason, fix: fix, word: word})
	return &c.found[len(c.found)-1]
}

// destroys raises the question about a call that can discard work.
func (c *call) destroys(word, reason, fix string) {
	c.ask(word, reason, fix).destructive = true
}

// network raises the question about a call that reaches for the network.
func (c *call) network(reason string) {
	c.ask("", reason, c.rule()).network = true
}

func (c *call) deny(reason string) {
	f := c.ask("", reason, "")
	f.decision, f.destructive = Deny, true
}

// unclear raises the question about something that only running it would show.
func (c *call) unclear(word, reason, fix string) {
	c.ask(word, reason, fix).kind = KindUnresolved
}

func (c *call) writes(a arg) { c.found = append(c.found, c.w.accesses(a, KindWrite, c.text)...) }
func (c *call) reads(a arg)  { c.found = append(c.found, c.w.accesses(a, KindRead, c.text)...) }

// rule is the fix that names a rule for the whole command.
func (c *call) rule() string {
	return "a rule `decision: allow, command: " + c.name + " …`"
}

// run judges a command that this one runs.
func (c *call) run(words []arg) {
	if len(words) == 0 {
		return
	}
	if c.w.depth > maxDepth {
		c.unclear("", "commands are wrapped too deeply to judge", "run the command itself")
		return
	}
	c.w.depth++
	c.w.simple(words, spell(words), syntax.Pos{})
	c.w.depth--
}

func spell(words []arg) string {
	var b strings.Builder
	for i, a := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if a.src != "" {
			b.WriteString(a.src)
		} else {
			b.WriteString(quote(a.val))
		}
	}
	return b.String()
}

// shell judges a text that the call hands to a shell. same says that it runs
// in this very shell (eval), so that its cd counts here.
func (c *call) shell(text string, same bool) {
	inner := &walker{sink: c.w.sink, cwd: c.w.cwd, then: c.w.then, depth: c.w.depth, rounds: c.w.rounds + 1}
	inner.text(text, false)
	if same {
		c.w.cwd = union(c.w.cwd, inner.cwd)
	}
}

// call judges a simple command as it stands in the text.
func (w *walker) call(c *syntax.CallExpr) {
	readsInput := len(c.Args) > 0 && c.Args[0].Lit() == "read"
	for _, a := range c.Assigns {
		w.assign(a, readsInput)
	}
	for _, a := range c.Args {
		w.word(a)
	}
	text := w.source(c)
	if len(c.Args) == 0 {
		w.add(finding{kind: KindAssignment, text: text}.part(Allow, "builtin:shell", "sets a variable of the shell", ""), false)
		return
	}
	if computed(c.Args[0]) {
		w.unresolved(text, "which command this runs is not known before it runs", "write the command's name out")
	}
	readings := [][]arg{nil}
	for _, word := range c.Args {
		alts := w.expand(word)
		if len(readings)*len(alts) > maxVariants {
			alts = [][]arg{{{src: w.source(word), loose: true}}}
		}
		readings = product(readings, alts)
	}
	for _, words := range readings {
		w.simple(words, text, c.Pos())
	}
}

// computed reports whether a command's name is the result of an expansion.
func computed(word *syntax.Word) bool {
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if hasWildcard(p.Value) && p.Value != "[" || strings.HasPrefix(p.Value, "~") || braceLike(word) {
				return true
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return true
			}
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if _, ok := q.(*syntax.Lit); !ok || p.Dollar {
					return true
				}
			}
		default:
			return true
		}
	}
	return false
}

// simple judges one simple command whose words are expanded as far as known.
func (w *walker) simple(words []arg, text string, at syntax.Pos) {
	w.then = w.cwd
	if w.steps++; w.steps > maxSteps {
		w.unresolved("", "the text is too large or too deep to judge", "shorter, plainer commands")
		return
	}
	if len(words) == 0 {
		return // an expansion that came out empty; computed has asked
	}
	first := words[0]
	// "[" alone is a command, not a pattern.
	if first.glob && first.val == "[" {
		first.glob = false
		words = append([]arg{known("[")}, words[1:]...)
	}
	if !first.plain() || first.val == "" {
		w.sink.command(words, text, "", "", []finding{{kind: KindUnresolved, text: text, decision: Ask, id: "builtin:unresolved",
			reason: "which command this runs is not known before it runs", fix: "write the command's name out"}})
		return
	}
	if w.callFunction(first.val, text, at) {
		w.sink.command(words, text, "builtin:shell", "a function of the text; its body is judged by itself", nil)
		return
	}
	name, ok := first.val, true
	if strings.Contains(name, "/") {
		name, ok = systemProgram(name)
	}
	c := &call{w: w, name: name, args: words[1:], all: words, text: text}
	known := knowledge[name]
	if strings.HasPrefix(known.id, "builtin:shell") {
		c.note = "touches only the shell itself"
	}
	switch {
	case !ok:
		c.name = first.val
		c.ask("", "runs "+first.val+", a program of the workspace or of a folder that belay does not know", c.rule())
	case known.judge == nil:
		c.ask("", "belay does not know what "+name+" does", c.rule())
	default:
		c.id = known.id
		known.judge(c)
		for i := range c.found {
			if c.found[i].id == "" && c.found[i].decision != Allow {
				c.found[i].id = c.id
			}
		}
	}
	if w.cfg.isTest(text) && w.start == "." && len(w.cwd) == 1 && w.cwd[0] == "." {
		for i := range c.found {
			f := &c.found[i]
			if f.decision == Ask && f.path == "" {
				f.decision, f.id, f.reason, f.fix = Allow, "goal:test", "a test command of the goal", ""
				c.id = f.id
			}
		}
	}
	if c.through && len(c.found) == 0 && !w.cfg.speaksOf(words) && w.observe == nil {
		return
	}
	if c.through && c.note == "" {
		c.note = "runs the command that follows; that is judged by itself"
	}
	w.sink.command(words, text, c.id, c.note, c.found)
}

// speaksOf reports whether a rule has something to say about a command.
func (c *compiled) speaksOf(words []arg) bool {
	for _, r := range c.rules {
		if r.Command == "" || r.broken != nil || r.decision == Allow || r.onNetwork() {
			continue
		}
		if yes, maybe := r.match(words); yes || maybe {
			return true
		}
	}
	return false
}

// systemProgram returns the bare name of a program in a folder where the
// system keeps its own.
func systemProgram(p string) (string, bool) {
	for _, dir := range []string{"/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"} {
		if base, ok := strings.CutPrefix(p, dir); ok && base != "" && !strings.Contains(base, "/") {
			return base, true
		}
	}
	return "", false
}

// assign judges an assignment. input says that it stands before read, whose
// IFS changes nothing else.
func (w *walker) assign(a *syntax.Assign, input bool) {
	if a.Name != nil && !(input && a.Name.Value == "IFS") {
		w.setsVariable(a.Name.Value, w.source(a))
	}
	if a.Index != nil {
		w.arithm(a.Index)
	}
	w.word(a.Value)
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				w.arithm(e.Index)
			}
			w.word(e.Value)
		}
	}
}

// setsVariable asks when a variable changes how programs run.
func (w *walker) setsVariable(name, text string) {
	if !dangerous(name) {
		return
	}
	w.add(finding{kind: KindAssignment, text: text}.part(Ask, "builtin:variable",
		"sets "+name+", which changes what programs run or where they look", "run the command without it"), false)
}

var dangerousNames = map[string]bool{
	"PATH": true, "IFS": true, "ENV": true, "CDPATH": true, "SHELLOPTS": true, "BASHOPTS": true, "PS4": true, "PS0": true, "PS1": true, "PS2": true,
	"PROMPT_COMMAND": true, "EDITOR": true, "VISUAL": true, "BROWSER": true, "SHELL": true, "HOME": true, "PWD": true, "OLDPWD": true,
	"TMPDIR": true, "GLOBIGNORE": true, "HISTFILE": true, "LESSOPEN": true, "LESSCLOSE": true, "LESS": true, "RUBYOPT": true, "RUBYLIB": true,
	"JAVA_TOOL_OPTIONS": true, "_JAVA_OPTIONS": true, "JDK_JAVA_OPTIONS": true, "MAVEN_OPTS": true, "GRADLE_OPTS": true, "MAKEFLAGS": true,
	"MAKE": true, "CC": true, "CXX": true, "LD": true, "AR": true, "CFLAGS": true, "LDFLAGS": true, "CPPFLAGS": true, "RUSTC": true, "RUSTFLAGS": true,
	"RUSTC_WRAPPER": true, "GOFLAGS": true, "GOROOT": true, "GOPATH": true, "GOPROXY": true, "GOTOOLCHAIN": true, "GOWORK": true, "GOENV": true,
	"GOTOOLDIR": true, "GONOSUMDB": true, "GOSUMDB": true, "GOINSECURE": true, "GOPRIVATE": true, "GOCACHE": true, "GOMODCACHE": true, "GOBIN": true,
	"GREP_OPTIONS": true, "TAR_OPTIONS": true, "RIPGREP_CONFIG_PATH": true, "ACKRC": true, "JQ_LIBRARY_PATH": true, "MANPATH": true, "PERLLIB": true,
	"TERMINFO": true, "TERMCAP": true, "MANOPT": true, "SSH_ASKPASS": true, "SUDO_ASKPASS": true, "POSIXLY_CORRECT": true, "FPATH": true,
	"ZDOTDIR": true, "BASH_CMDS": true, "BASH_ALIASES": true, "HOSTALIASES": true, "LOCPATH": true, "GCONV_PATH": true, "AWKPATH": true, "AWKLIBPATH": true,
	"MAIL": true, "MAILPATH": true, "INPUTRC": true, "TIMEFORMAT": true, "EXECIGNORE": true, "FIGNORE": true, "BASH_XTRACEFD": true,
}

var dangerousPrefixes = []string{"LD_", "DYLD_", "GIT_", "BASH_FUNC", "BASH_ENV", "PYTHON", "NODE_", "NPM_", "npm_", "YARN_", "PNPM_", "PIP_",
	"PERL5", "CARGO_", "CGO_CFLAGS", "CGO_LDFLAGS", "XDG_", "SSH_", "DOCKER_", "GOTEST", "BELAY_", "MALLOC_", "GLIBC_", "ASAN_"}

// harmless are names that a dangerous prefix would take in.
var harmless = map[string]bool{"NODE_ENV": true, "PYTHONDONTWRITEBYTECODE": true, "PYTHONUNBUFFERED": true, "PYTHONIOENCODING": true,
	"PYTHONHASHSEED": true, "GIT_PAGER_IN_USE": true, "CARGO_TERM_COLOR": true, "GIT_OPTIONAL_LOCKS": true}

// dangerous reports whether a variable of this name can make a harmless
// program run or write something.
func dangerous(name string) bool {
	if harmless[name] {
		return false
	}
	if dangerousNames[name] || strings.HasSuffix(name, "PAGER") || strings.HasSuffix(strings.ToLower(name), "_proxy") {
		return true
	}
	for _, p := range dangerousPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// decl judges declare, local, export, readonly and typeset.
func (w *walker) decl(d *syntax.DeclClause) {
	text := w.source(d)
	if d.Variant.Value == "nameref" {
		w.unresolved(text, "a reference to another variable", "name the variable")
		return
	}
	named := false
	for _, a := range d.Args {
		switch {
		case a.Name == nil:
			flag, ok := unquote(a.Value)
			if !ok || !strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "+") {
				w.unresolved(text, "which variable is declared is not known before it runs", "name the variable")
				w.word(a.Value)
				continue
			}
			if bad := strings.Trim(flag[1:], "aArxgt"); bad != "" {
				w.unresolved(text, "the option "+flag+" of "+d.Variant.Value+" changes how values are read, or lists what is set", "leave the option out")
			}
		default:
			named = true
			w.assign(a, false)
		}
	}
	if !named {
		w.unresolved(text, d.Variant.Value+" without a name lists all variables, secrets included", "name the variable")
		return
	}
	w.quiet(d)
}
