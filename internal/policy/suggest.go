package policy

import (
	"strings"

	"belay/internal/event"
)

// Suggest returns the narrowest sensible rules that would allow an operation
// that is asked about now, for "always allow this": one for each part that
// asks. It returns nil when no rule can: the operation is denied, destroys
// something, or cannot be judged before it runs. The rules are for the user's
// layer, and each carries the command or path it came from as its example.
func Suggest(c Config, a event.Access) []event.Rule {
	tool := "run_command"
	if a.Command == "" && len(a.Writes) > 0 {
		tool = "write_file"
	}
	return suggest(c, tool, a)
}

func suggest(c Config, tool string, a event.Access) []event.Rule {
	v := Judge(c, tool, event.Opaque, a)
	if v.Decision != Ask || v.Destructive {
		return nil
	}
	var rules []event.Rule
	for _, p := range v.Parts {
		if p.Decision != Ask {
			continue
		}
		more, ok := suggestions(p)
		if !ok {
			return nil
		}
		for _, r := range more {
			rules = merge(rules, r)
		}
	}
	suffice := func(rules []event.Rule) bool {
		with := c
		with.Rules = append(append([]event.Rule{}, c.Rules...), rules...)
		return Judge(with, tool, event.Opaque, a).Decision == Allow
	}
	if !suffice(rules) {
		return nil
	}
	// A rule on a command may take in what it writes: leave out what is not
	// needed.
	for i := 0; i < len(rules); {
		fewer := append(append([]event.Rule{}, rules[:i]...), rules[i+1:]...)
		if suffice(fewer) {
			rules = fewer
		} else {
			i++
		}
	}
	return rules
}

// merge adds a rule, or its network to the one that is there already.
func merge(rules []event.Rule, r event.Rule) []event.Rule {
	for i, o := range rules {
		if o.Command == r.Command && o.Path == r.Path && o.Tool == r.Tool {
			rules[i].Network = wider(o.Network, r.Network)
			return rules
		}
	}
	return append(rules, r)
}

// suggestions are the rules for one part: one, but for the network, which each
// command that would reach it needs for itself.
func suggestions(p Part) ([]event.Rule, bool) {
	if p.Kind != KindNetwork {
		r, ok := suggestion(p)
		return []event.Rule{r}, ok
	}
	var rules []event.Rule
	for _, words := range p.needs {
		r, ok := suggestion(Part{Kind: KindCommand, words: words})
		if !ok {
			return nil, false
		}
		r.Network = p.scope
		rules = append(rules, r)
	}
	return rules, len(rules) > 0
}

func suggestion(p Part) (event.Rule, bool) {
	r := event.Rule{Decision: string(Allow), Layer: "user", Reason: "always allowed by the user"}
	switch p.Kind {
	case KindWrite, KindRead:
		if p.Path == "" || strings.HasPrefix(p.Path, "?") {
			return r, false
		}
		r.Tool, r.Path, r.Match = string(p.Kind), p.Path, []string{p.Path}
		return r, true
	case KindCommand, KindAssignment:
		if len(p.words) == 0 {
			return r, false
		}
		r.Command = suggestCommand(p.words)
		if line, ok := staticLine(p.words); ok {
			r.Match = []string{line}
		}
		return r, r.Command != ""
	case KindTool, KindRemote:
		r.Tool = p.tool
		return r, p.tool != ""
	default:
		return r, false
	}
}

func staticLine(words []arg) (string, bool) {
	var out []string
	for _, w := range words {
		if !w.plain() {
			return "", false
		}
		out = append(out, quote(w.val))
	}
	return strings.Join(out, " "), true
}

// exact are programs for which only this very command is allowed, because
// their further words decide everything.
var exact = map[string]bool{"interpreter": true, "shell": true, "privilege": true, "network": true, "container": true, "system": true,
	"process": true, "wrapper": true, "desktop": true, "xargs": true}

// deep are programs whose second word is a command with a command below it.
var deep = map[string]int{"npm": 3, "pnpm": 3, "yarn": 3, "cargo": 2, "go": 3, "git": 2, "make": 2, "just": 2, "task": 2, "gradle": 2, "mvn": 2, "npx": 2,
	"poetry": 3, "uv": 3, "bundle": 3, "rake": 2, "dotnet": 2, "bazel": 2, "mix": 2, "pip": 2, "pip3": 2, "composer": 2}

// suggestCommand is a pattern for a command: its leading words, then whatever
// follows where the program's further words only say what to work on.
func suggestCommand(words []arg) string {
	if !words[0].plain() {
		return ""
	}
	name := words[0].val
	family := strings.TrimPrefix(knowledge[name].id, "builtin:")
	line, static := staticLine(words)
	if (family == "shell" || family == "interpreter") && takesInput(words) {
		return "" // it would allow whatever is piped into it
	}
	if exact[family] || strings.Contains(name, "/") {
		if !static {
			return ""
		}
		return line
	}
	keep := 1
	if n := deep[name]; n > 0 {
		for keep < n && keep < len(words) && words[keep].plain() && (keep == 1 || words[keep-1].val == "run" || words[keep-1].val == "exec" || words[keep-1].val == "mod") {
			keep++
		}
	}
	if keep >= len(words) {
		if !static {
			return ""
		}
		return line
	}
	pattern := make([]string, 0, len(words))
	for _, w := range words[:keep] {
		pattern = append(pattern, quote(w.val))
	}
	// An option that was asked about has to be spelled out.
	for _, w := range words[keep:] {
		if w.plain() && w.isFlag() && (family == "git" || family == "go" || family == "text" || family == "read" || family == "find") {
			if static {
				return line
			}
			return ""
		}
	}
	return strings.Join(append(pattern, "*"), " ")
}

// takesInput reports whether a shell or interpreter is told neither a file nor
// code, so that it runs what it reads.
func takesInput(words []arg) bool {
	for _, w := range words[1:] {
		if !w.plain() || !w.isFlag() || strings.ContainsAny(strings.TrimLeft(w.val, "-"), "ce") && !strings.HasPrefix(w.val, "--") {
			return w.plain() && w.val == "-"
		}
	}
	return true
}

// quote writes a word so that a pattern, or a shell, reads it literally.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-+=:,./@%", r))
	}) < 0 {
		return s
	}
	if strings.Contains(s, "'") {
		if !strings.ContainsAny(s, "\"$`\\") {
			return `"` + s + `"`
		}
		return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'"
	}
	return "'" + s + "'"
}
