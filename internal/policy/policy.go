package policy

import (
	"strings"

	"belay/internal/event"
)

// Decision is what policy says about an operation or one part of it.
type Decision string

// The three decisions, mildest first.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask"
	Deny  Decision = "deny"
)

// rank orders decisions by strictness; what is no decision counts as Ask.
func (d Decision) rank() int {
	switch d {
	case Allow:
		return 0
	case Deny:
		return 2
	default:
		return 1
	}
}

// Strictest returns the stricter of two decisions.
func Strictest(a, b Decision) Decision {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// Config is everything beside the operation that a judgement depends on.
type Config struct {
	// Rules are the user's, the repository's and the goal's, Layer set. The
	// repository's have been through Narrow.
	Rules []event.Rule
	// TestCommands are the goal's test commands. One of them, to the letter
	// (blanks at both ends aside) and in the workspace root, needs no question.
	TestCommands []string
	// TestNetwork is what the goal lets a test command reach of the network, by
	// the command's text: "loopback" or "full".
	TestNetwork map[string]string
	// Approve is not applied here: the core applies it to what is asked.
	Approve event.ApproveMode
	// Root is the absolute path of the workspace root. It tells which absolute
	// paths lie inside; without it they all count as outside.
	Root string
	// Protected are path patterns beside the built-in ones that nothing may
	// write: belay's own state, the user's policy files.
	Protected []string
}

// PartKind says what one part of a judgement is about.
type PartKind string

// The kinds of part.
const (
	KindCommand    PartKind = "command"    // a simple command
	KindRead       PartKind = "read"       // a file whose content is read
	KindWrite      PartKind = "write"      // a file that is written or removed
	KindNetwork    PartKind = "network"    // network access that the tool call asks for
	KindAssignment PartKind = "assignment" // a variable that changes how programs run
	KindRemote     PartKind = "remote"     // a remote resource
	KindTool       PartKind = "tool"       // the tool itself
	KindUnresolved PartKind = "unresolved" // shell text that cannot be judged before it runs
)

// Part is one judged part of an operation.
type Part struct {
	// Text is the part as it was written, shortened to maxPartText bytes.
	Text     string   `json:"text"`
	Kind     PartKind `json:"kind"`
	Decision Decision `json:"decision"`
	// Rule is the id of the rule or of the built-in knowledge that decided;
	// empty when nothing names the part.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
	// Fix says what would allow it: other words for the model to use, or a
	// rule for the user to write. Empty when the part is allowed or nothing
	// can.
	Fix string `json:"fix,omitempty"`
	// Path is the file of a read or write part: relative to the root when it
	// lies inside, else absolute or beginning with ~.
	Path        string `json:"path,omitempty"`
	Destructive bool   `json:"destructive,omitempty"`
	Network     bool   `json:"network,omitempty"`

	// words are the command's, for Suggest; tool is the judged tool's name.
	words []arg
	tool  string
	// scope is what a network part asks for, needs the commands that no rule
	// lets reach it.
	scope string
	needs [][]arg
}

// Verdict is the judgement of one operation.
type Verdict struct {
	Decision Decision `json:"decision"`
	// Reason is one line for a person and for the model.
	Reason string `json:"reason"`
	Parts  []Part `json:"parts"`
	// Destructive says that it can discard work or rewrite history: it is
	// preceded by a checkpoint and no rule allows it beforehand.
	Destructive bool `json:"destructive,omitempty"`
	// Writes are the files it is known to write, as in Part.Path.
	Writes []string `json:"writes,omitempty"`
	// Network says that some part reaches for the network.
	Network bool `json:"network,omitempty"`
	// Scope is what the command reaches of the network if it runs: "" for
	// nothing, "loopback" or "full". It is what was asked for or, where nothing
	// was, what rules grant.
	Scope string `json:"scope,omitempty"`
}

// Judge decides about one operation from its arguments alone. toolName and
// effect are the tool's own declaration. It never fails: what it cannot
// understand is Ask, with the reason.
func Judge(c Config, toolName string, effect event.EffectClass, a event.Access) Verdict {
	return judgeWith(compile(c), toolName, effect, a)
}

// Explain judges shell text as if run_command proposed it in the root.
func Explain(c Config, shell string) Verdict {
	return Judge(c, "run_command", event.Supervised, event.Access{Command: shell})
}

func judgeWith(cfg *compiled, toolName string, effect event.EffectClass, a event.Access) Verdict {
	s := &sink{cfg: cfg, tool: toolName}
	s.judgeTool(effect, a)
	if a.Command != "" {
		s.judgeCommand(a)
		s.judgeNetwork(a)
	}
	return s.verdict()
}

// judgeTool judges everything of an operation that is not shell text.
func (s *sink) judgeTool(effect event.EffectClass, a event.Access) {
	named := a.Command != "" || len(a.Reads) > 0 || len(a.Writes) > 0 || a.Remote != "" || a.Network != ""
	tool := finding{kind: KindTool, text: s.tool, decision: Allow, id: "builtin:tool"}
	switch {
	case effect == event.Control:
		tool.reason = "belay answers this tool itself; it touches nothing"
	case effect == event.Read:
		tool.reason = "reads only"
	case named:
		tool.reason = ""
	default:
		tool.decision, tool.id = Ask, ""
		tool.reason = "the tool has side effects that belay cannot see beforehand"
		tool.fix = "a rule `decision: allow, tool: " + s.tool + "`"
	}
	// A tool that says what it touches is judged by that; its name alone only
	// becomes a part when a rule names it or nothing else does.
	s.toolPart(tool, !named)
	for _, p := range a.Reads {
		s.toolPath(p, KindRead)
	}
	for _, p := range a.Writes {
		s.toolPath(p, KindWrite)
	}
	if a.Remote != "" {
		s.remote(finding{kind: KindRemote, text: a.Remote, decision: Ask, network: true,
			reason: "changes " + a.Remote + ", which is outside this machine",
			fix:    "a rule `decision: allow, tool: " + s.tool + "`"})
	}
	if a.Network != "" && a.Command == "" {
		s.remote(finding{kind: KindNetwork, text: "network: " + a.Network, decision: Ask, network: true,
			reason: "asks for network access (" + a.Network + ")",
			fix:    "leave the network out if the command works without it"})
	}
}

// toolPath judges a path that a file tool names.
func (s *sink) toolPath(p string, kind PartKind) {
	f := s.accessFinding(s.resolve(p, ""), kind)
	f.text = p
	if zone := s.zone(f.path); zone == outside && f.decision != Deny {
		f.decision, f.id = Deny, "builtin:outside"
		f.reason, f.fix = "file tools reach only the workspace", "use a path inside the workspace"
	}
	s.path(f)
}

// accessFinding judges the reading or writing of one resolved path by the
// built-in knowledge about paths alone.
func (s *sink) accessFinding(path string, kind PartKind) finding {
	f := finding{kind: kind, text: path, path: path}
	if kind == KindRead {
		if secret(path) {
			f.decision, f.id = Ask, "builtin:secret"
			f.reason = "reads " + path + ", which usually holds secrets"
			f.fix = "a rule `decision: allow, tool: read, path: " + path + "`"
			return f
		}
		f.decision, f.id, f.reason = Allow, "builtin:read", "reads only"
		return f
	}
	switch {
	case s.cfg.protected(path):
		f.decision, f.id = Deny, "builtin:protected"
		f.reason = path + " is protected: git's own data, policy files and belay's state are never written by an operation"
	case device(path):
		f.decision, f.id, f.reason = Allow, "builtin:device", "writes to no file"
		f.path = ""
	case system(path):
		f.decision, f.id, f.reason = Deny, "builtin:system", "writes to "+path+", which belongs to the machine or to the user's account"
	case s.zone(path) == inside:
		f.decision, f.id, f.reason = Ask, "builtin:write", "writes "+path
		f.fix = "a rule `decision: allow, tool: write, path: " + path + "`"
	default:
		f.decision, f.id, f.reason = Ask, "builtin:outside", "writes "+path+", which is outside the workspace"
		f.fix = "write inside the workspace, or a rule `decision: allow, tool: write, path: " + path + "`"
	}
	return f
}

// judgeCommand judges shell text. Text that is a test command of the goal to
// the letter was given by the user, so what would be asked about it is not;
// what a rule or the protection of paths denies stays denied.
func (s *sink) judgeCommand(a event.Access) {
	dir := s.resolve(a.Dir, "")
	from := len(s.parts)
	s.start = dir
	w := &walker{sink: s, cwd: []string{dir}}
	w.text(a.Command, true)
	if dir == "." && s.cfg.isTest(a.Command) {
		for i := from; i < len(s.parts); i++ {
			p := &s.parts[i]
			if p.Decision == Ask && !s.ruled[i] {
				p.Decision, p.Rule, p.Fix = Allow, "goal:test", ""
				p.Reason = "part of a test command of the goal"
			}
		}
	}
}

// verdict folds the parts.
func (s *sink) verdict() Verdict {
	v := Verdict{Decision: Allow, Parts: s.parts, Network: s.network, Scope: s.scope}
	if len(s.parts) == 0 {
		return Verdict{Decision: Ask, Reason: "there is nothing to judge"}
	}
	for _, p := range s.parts {
		v.Decision = Strictest(v.Decision, p.Decision)
		v.Destructive = v.Destructive || p.Destructive
		v.Network = v.Network || p.Network
		if p.Kind == KindWrite && p.Path != "" && !contains(v.Writes, p.Path) {
			v.Writes = append(v.Writes, p.Path)
		}
	}
	var why []string
	for _, p := range s.parts {
		if p.Decision == v.Decision && p.Reason != "" && !contains(why, p.Reason) {
			why = append(why, p.Reason)
		}
	}
	const most = 3
	if len(why) > most {
		why = append(why[:most:most], "and more")
	}
	v.Reason = strings.Join(why, "; ")
	return v
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
