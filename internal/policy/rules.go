package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"belay/internal/event"
)

// compiled is a Config with its rules read.
type compiled struct {
	Config
	rules []rule
	// guarded says that some rule restricts the reading of a path, so that a
	// read whose path is not known beforehand needs a question.
	guarded bool
}

type rule struct {
	event.Rule
	decision Decision
	id       string
	words    []elem
	broken   error
}

// elem is one word of a command pattern.
type elem struct {
	pat  string
	many bool // any number of words
	any  bool // one word, whatever it is
	lit  bool // no wildcard
}

func compile(c Config) *compiled {
	cfg := &compiled{Config: c}
	for i, r := range c.Rules {
		cr := compileRule(r, i)
		if cr.decision == Allow && (cr.broken != nil || r.Layer == layerRepository) {
			continue
		}
		if r.Path != "" && cr.decision != Allow && appliesTo(r.Tool, KindRead, "", Deny) {
			cfg.guarded = true
		}
		cfg.rules = append(cfg.rules, cr)
	}
	return cfg
}

const layerRepository = "repository"

func compileRule(r event.Rule, i int) rule {
	cr := rule{Rule: r, decision: Decision(r.Decision), id: r.ID}
	if cr.id == "" {
		layer := r.Layer
		if layer == "" {
			layer = "rule"
		}
		cr.id = layer + ":" + strconv.Itoa(i+1)
	}
	if r.Command != "" {
		cr.words, cr.broken = readPattern(r.Command)
	}
	switch cr.decision {
	case Allow, Ask, Deny:
	default:
		cr.broken = fmt.Errorf("decision %q is none of allow, ask, deny", r.Decision)
	}
	if cr.broken == nil {
		cr.broken = checkShape(r, cr.words)
	}
	return cr
}

// checkShape refuses rules that say nothing or too much.
func checkShape(r event.Rule, words []elem) error {
	if err := checkNetwork(r); err != nil {
		return err
	}
	switch {
	case r.Tool == "" && r.Command == "" && r.Path == "" && r.Network == "":
		return errors.New("it names no tool, command, path or network; give it one")
	case r.Command != "" && r.Path != "":
		return errors.New("it names a command and a path; write two rules")
	case r.Decision != string(Allow):
		return nil
	case r.Command != "" && !words[0].lit:
		return errors.New("a rule that allows commands has to name the command: its first word may hold no wildcard")
	case r.Command == "" && r.Path == "" && r.Network == "" && (r.Tool == "run_command" || r.Tool == "run_test" || r.Tool == "*"):
		return fmt.Errorf("a rule that allows the whole of %s would allow every command; name the command", r.Tool)
	}
	return nil
}

// readPattern splits a command pattern into words. Quoted or escaped text is
// literal. A last word * stands for any further words, also none; ** does so
// anywhere; another * for exactly one word.
func readPattern(p string) ([]elem, error) {
	var es []elem
	var b strings.Builder
	started, special := false, false
	flush := func() {
		if !started {
			return
		}
		pat := b.String()
		es = append(es, elem{pat: pat, lit: !special, any: pat == "*", many: pat == "**"})
		b.Reset()
		started, special = false, false
	}
	lit := func(c byte) {
		if c == '*' || c == '?' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		started = true
	}
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case ' ', '\t', '\n':
			flush()
		case '\'', '"':
			end := strings.IndexByte(p[i+1:], c)
			if end < 0 {
				return nil, fmt.Errorf("a quote in %q is not closed", p)
			}
			started = true
			for _, q := range []byte(p[i+1 : i+1+end]) {
				lit(q)
			}
			i += end + 1
		case '\\':
			if i++; i == len(p) {
				return nil, fmt.Errorf("%q ends in a backslash", p)
			}
			lit(p[i])
		case '*', '?':
			b.WriteByte(c)
			started, special = true, true
		default:
			lit(c)
		}
	}
	flush()
	if len(es) == 0 {
		return nil, errors.New("the command pattern is empty")
	}
	if last := &es[len(es)-1]; last.any {
		last.any, last.many = false, true
	}
	return es, nil
}

// match holds a pattern against the words of a simple command. yes: it matches
// whatever the words that are not known turn out to be, as far as wildcards
// take them in. maybe: some values of them would match.
func (r rule) match(words []arg) (yes, maybe bool) {
	for _, form := range forms(words, r.decision == Allow) {
		if run(r.words, form, false) {
			return true, true
		}
		maybe = maybe || run(r.words, form, true)
	}
	return false, maybe
}

// forms are the spellings of one command: as written, by the program's bare
// name, and git without its global options. A rule that allows looks through a
// program's folder only where the system keeps its programs.
func forms(words []arg, allow bool) [][]arg {
	if len(words) == 0 {
		return nil
	}
	fs := [][]arg{words}
	w := words[0]
	if w.static && strings.Contains(w.val, "/") {
		base, ok := systemProgram(w.val)
		if !ok && !allow {
			base = w.val[strings.LastIndexByte(w.val, '/')+1:]
		}
		if base != "" {
			words = append([]arg{known(base)}, words[1:]...)
			fs = append(fs, words)
		}
	}
	if words[0].static && words[0].val == "git" {
		if bare := gitBare(words); len(bare) != len(words) {
			fs = append(fs, bare)
		}
	}
	return fs
}

// run walks pattern and words together, keeping every position of the pattern
// that can be reached. generous lets an unknown word stand for anything.
func run(es []elem, words []arg, generous bool) bool {
	at := make([]bool, len(es)+1)
	at[0] = true
	skip := func() {
		for i, e := range es {
			if at[i] && e.many {
				at[i+1] = true
			}
		}
	}
	skip()
	next := make([]bool, len(es)+1)
	for _, w := range words {
		for i := range next {
			// A word that may be several, or none, may leave the position
			// where it is.
			next[i] = generous && (w.loose || w.repeat || w.vanish) && at[i]
		}
		for i, e := range es {
			if !at[i] {
				continue
			}
			if e.many {
				next[i] = true
			} else if e.any || w.plain() && wild(e.pat, w.val) || generous && !w.plain() && couldBe(w, e) {
				next[i+1] = true
			}
		}
		at, next = next, at
		skip()
	}
	return at[len(es)]
}

// couldBe reports whether a word of which only the beginning is known could be
// the pattern's.
func couldBe(w arg, e elem) bool {
	if w.loose || w.glob || w.val == "" {
		return true
	}
	pat := e.pat
	if i := strings.IndexAny(pat, `*?\`); i >= 0 {
		pat = pat[:i]
		return strings.HasPrefix(w.val, pat) || strings.HasPrefix(pat, w.val)
	}
	return strings.HasPrefix(pat, w.val)
}

// names reports whether the pattern spells the word out instead of swallowing
// it with a bare wildcard.
func (r rule) names(word string) bool {
	for _, e := range r.words {
		if e.any || e.many {
			continue
		}
		if wild(e.pat, word) {
			return true
		}
	}
	return false
}

// appliesTo reports whether a rule with this Tool governs an access of this
// kind made by tool. "read" and "write" stand for any access of that kind. A
// restriction on one file tool holds for commands too, or it could be walked
// round; a permission stays with the tool it names.
func appliesTo(ruleTool string, kind PartKind, tool string, d Decision) bool {
	switch ruleTool {
	case "", "*":
		return true
	case "read":
		return kind == KindRead
	case "write":
		return kind == KindWrite
	case "read_file", "list_files", "search_text", "symbols":
		return ruleTool == tool || d != Allow && kind == KindRead
	case "write_file", "file_patch":
		return ruleTool == tool || d != Allow && kind == KindWrite
	}
	return wild(ruleTool, tool)
}

// CheckRules checks rules before they are used: their shape, and that every
// match example is matched and no not_match example is. The error names each
// rule and example that fails.
func CheckRules(rules []event.Rule) error {
	var errs []error
	for i, r := range rules {
		cr := compileRule(r, i)
		name := fmt.Sprintf("rule %d", i+1)
		if r.ID != "" {
			name += " (" + r.ID + ")"
		}
		if cr.broken != nil {
			errs = append(errs, fmt.Errorf("policy: %s: %w", name, cr.broken))
			continue
		}
		for _, ex := range r.Match {
			if !cr.example(ex) {
				errs = append(errs, fmt.Errorf("policy: %s: the match example %q is not matched by %s", name, ex, cr.what()))
			}
		}
		for _, ex := range r.NotMatch {
			if cr.example(ex) {
				errs = append(errs, fmt.Errorf("policy: %s: the not_match example %q is matched by %s", name, ex, cr.what()))
			}
		}
	}
	return errors.Join(errs...)
}

func (r rule) what() string {
	switch {
	case r.Command != "" && r.Network != "":
		return "command: " + strconv.Quote(r.Command) + ", network: " + r.Network
	case r.Command != "":
		return "command: " + strconv.Quote(r.Command)
	case r.Path != "":
		return "path: " + strconv.Quote(r.Path)
	case r.Network != "":
		return "network: " + r.Network
	default:
		return "tool: " + strconv.Quote(r.Tool)
	}
}

// example reports whether the rule matches an example: for a command rule some
// simple command of shell text, for a path rule a path, else a tool's name.
func (r rule) example(ex string) bool {
	switch {
	case r.Command != "":
		s := &sink{cfg: &compiled{}, tool: "run_command"}
		hit := false
		s.observe = func(words []arg) {
			yes, _ := r.match(words)
			hit = hit || yes
		}
		(&walker{sink: s, cwd: []string{"."}}).text(ex, true)
		return hit
	case r.Path != "":
		return matchPath(r.Path, resolvePath(ex, ".", ""))
	case r.Network != "":
		return r.covers(ex)
	default:
		return wild(r.Tool, ex)
	}
}

// Narrow is what a repository's rules are good for: they may only narrow, so
// its allow rules are dropped, each with a warning. The rest gets the
// repository's layer.
func Narrow(repo []event.Rule) ([]event.Rule, []string) {
	var kept []event.Rule
	var warnings []string
	for i, r := range repo {
		cr := compileRule(r, i)
		if cr.decision == Allow {
			warnings = append(warnings, fmt.Sprintf("the repository's rule %d (%s) is ignored: a repository may only narrow what is allowed; put it into your own policy file if you want it", i+1, cr.what()))
			continue
		}
		r.Layer = layerRepository
		kept = append(kept, r)
	}
	return kept, warnings
}

// isTest reports whether shell text is one of the goal's test commands.
func (c *compiled) isTest(text string) bool {
	text = strings.TrimSpace(text)
	for _, t := range c.TestCommands {
		if t = strings.TrimSpace(t); t != "" && t == text {
			return true
		}
	}
	return false
}
