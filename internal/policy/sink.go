package policy

import (
	"strings"
	"unicode/utf8"
)

// maxPartText bounds Part.Text, in bytes.
const maxPartText = 400

// finding is one thing that the built-in knowledge has to say, before rules.
type finding struct {
	kind     PartKind
	text     string
	decision Decision
	id       string // of the built-in knowledge; "" when nothing names it
	reason   string
	fix      string
	// word is the flag or word that raised the finding. A rule that allows has
	// to spell it out: a wildcard written for a reader does not let a flag
	// through that turns it into a writer.
	word        string
	path        string // resolved, for reads and writes
	destructive bool
	network     bool
}

// sink collects judged parts. It is where rules meet built-in knowledge.
type sink struct {
	cfg   *compiled
	tool  string
	start string // the directory that the command starts in
	parts []Part
	// ruled marks the parts that a rule decided.
	ruled   []bool
	network bool
	scope   string
	steps   int
	// reach is what is known of each simple command's way to the network.
	reach []reach
	// observe, if set, is told the words of every simple command.
	observe func([]arg)
}

func (s *sink) add(p Part, ruled bool) {
	p.Text = shorten(p.Text)
	p.tool = s.tool
	for i, q := range s.parts {
		if q.Text == p.Text && q.Kind == p.Kind && q.Decision == p.Decision && q.Reason == p.Reason {
			s.ruled[i] = s.ruled[i] || ruled
			return
		}
	}
	s.parts = append(s.parts, p)
	s.ruled = append(s.ruled, ruled)
}

func shorten(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxPartText {
		return text
	}
	cut := maxPartText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

func (f finding) part(d Decision, id, reason, fix string) Part {
	if d == Allow {
		fix = ""
	}
	return Part{Text: f.text, Kind: f.kind, Decision: d, Rule: id, Reason: reason, Fix: fix, Path: f.path,
		Destructive: f.destructive, Network: f.network}
}

// judged is what rules make of one finding.
type judged struct {
	decision Decision
	id       string
	reason   string
	ruled    bool
}

// combine applies rules of one access to built-in knowledge: denial wins over
// asking, asking over allowing; an allow rule turns a built-in question into
// permission, never a built-in denial, and never a question about destroying.
func combine(f finding, rules []rule) judged {
	j := judged{decision: f.decision, id: f.id, reason: f.reason}
	var permit *rule
	for i := range rules {
		r := &rules[i]
		switch {
		case r.decision == Allow:
			if permit == nil {
				permit = r
			}
		case r.decision.rank() > j.decision.rank() || r.decision == j.decision && !j.ruled && f.decision != Deny:
			j = judged{r.decision, r.id, r.because(), true}
		}
	}
	if permit != nil && !j.ruled && f.decision == Ask && !f.destructive {
		j = judged{Allow, permit.id, permit.because(), true}
	}
	return j
}

func (r rule) because() string {
	if r.Reason != "" {
		return r.Reason
	}
	return "rule " + r.id + " (" + r.what() + ") says " + string(r.decision)
}

// toolPart adds the part about the tool itself. Without always it is only added
// when a rule has something stricter to say.
func (s *sink) toolPart(f finding, always bool) {
	var rs []rule
	for _, r := range s.cfg.rules {
		if r.broken != nil {
			s.add(finding{kind: KindTool, text: s.tool}.part(Ask, r.id, "rule "+r.id+" cannot be read: "+r.broken.Error(),
				"mend the rule"), true)
			continue
		}
		if r.Tool != "" && r.Command == "" && r.Path == "" && r.Network == "" && appliesTo(r.Tool, KindTool, s.tool, Deny) {
			rs = append(rs, r)
		}
	}
	j := combine(f, rs)
	if always || j.decision != Allow {
		s.add(f.part(j.decision, j.id, j.reason, f.fix), j.ruled)
	}
}

// remote adds a part that a rule on the tool may allow.
func (s *sink) remote(f finding) {
	var rs []rule
	for _, r := range s.cfg.rules {
		if r.broken == nil && r.decision == Allow && r.Tool != "" && r.Command == "" && r.Path == "" && r.Network == "" && wild(r.Tool, s.tool) {
			rs = append(rs, r)
		}
	}
	j := combine(f, rs)
	s.add(f.part(j.decision, j.id, j.reason, f.fix), j.ruled)
}

// path adds the part about one path that is read or written. also are rules
// that govern it beside the rules on paths: those that allowed the command.
func (s *sink) path(f finding, also ...rule) {
	rs := also
	for _, r := range s.cfg.rules {
		if r.broken != nil || r.Command != "" || r.Network != "" || !appliesTo(r.Tool, f.kind, s.tool, r.decision) {
			continue
		}
		if r.Path != "" && f.path != "" && matchPath(r.Path, f.path) {
			rs = append(rs, r)
			continue
		}
		// The whole of a file tool may be allowed by its name.
		if r.Path == "" && r.decision == Allow && r.Tool == s.tool && s.zone(f.path) == inside && !secret(f.path) {
			rs = append(rs, r)
		}
	}
	j := combine(f, rs)
	s.add(f.part(j.decision, j.id, j.reason, f.fix), j.ruled)
}

// command adds the parts about one simple command: one for the command itself
// and one for each path that decides something. note says why it is allowed
// when nothing is found.
func (s *sink) command(words []arg, text, id, note string, findings []finding) {
	if s.observe != nil {
		s.observe(words)
	}
	var permits []rule
	strict := judged{decision: Allow}
	for _, r := range s.cfg.rules {
		if r.broken != nil || r.Command == "" || r.onNetwork() || r.Tool != "" && !wild(r.Tool, s.tool) && !wild(r.Tool, "run_command") {
			continue
		}
		yes, maybe := r.match(words)
		switch {
		case r.decision == Allow && yes:
			permits = append(permits, r)
		case r.decision == Deny && !yes && maybe:
			if strict.decision != Deny {
				strict = judged{Ask, r.id, "what is not known before it runs may make it what rule " + r.id + " (" + r.what() + ") denies", true}
			}
		case r.decision != Allow && (yes || maybe) && r.decision.rank() > strict.decision.rank():
			strict = judged{r.decision, r.id, r.because(), true}
		}
	}
	own := finding{kind: KindCommand, text: text, id: id, decision: Allow, reason: note}
	if note == "" {
		own.reason = "reads only"
	}
	var whys, fixes []string
	ruled, ids := strict.ruled, []string{}
	for _, f := range findings {
		if f.path != "" || f.kind == KindRead || f.kind == KindWrite {
			s.pathOf(f, text, permits)
			continue
		}
		j := combine(f, covering(permits, f))
		own.destructive = own.destructive || f.destructive
		own.network = own.network || f.network
		ruled = ruled || j.ruled
		if j.decision.rank() > own.decision.rank() {
			own.decision, own.kind, whys, fixes, ids = j.decision, f.kind, nil, nil, nil
		}
		if j.decision == own.decision {
			whys, ids = appendNew(whys, j.reason), append(ids, j.id)
			if !f.destructive || !strings.HasPrefix(f.fix, "a rule ") {
				fixes = appendNew(fixes, f.fix) // no rule allows destroying
			}
		}
	}
	if len(whys) > 0 {
		own.reason, own.id = strings.Join(whys, "; "), ids[0]
	} else if len(permits) > 0 {
		own.reason, own.id = permits[0].because(), permits[0].id
	}
	if strict.ruled && strict.decision.rank() >= own.decision.rank() {
		own.decision, own.id, own.reason, fixes = strict.decision, strict.id, strict.reason, nil
	}
	p := own.part(own.decision, own.id, own.reason, strings.Join(fixes, "; or "))
	p.words = words
	s.add(p, ruled)
	s.reaches(words, id, note, permits, len(findings) == 0 && !strict.ruled)
}

func (s *sink) pathOf(f finding, text string, permits []rule) {
	if f.text == "" {
		f.text = text
	}
	if f.kind == KindRead && f.decision == Allow && !s.cfg.guarded {
		return // a plain read is said with the command
	}
	if f.kind == KindWrite && (f.path == "" || s.zone(f.path) != inside) || f.kind == KindRead {
		// What a command writes outside or to an unknown place, and the secrets
		// it reads, are not taken in by a rule that allows the command.
		permits = nil
	}
	s.path(f, covering(permits, f)...)
}

// covering are the allow rules that cover a finding.
func covering(permits []rule, f finding) []rule {
	if f.kind == KindUnresolved && f.word == "" {
		return nil
	}
	if f.word == "" {
		return permits
	}
	var rs []rule
	for _, r := range permits {
		if r.names(f.word) {
			rs = append(rs, r)
		}
	}
	return rs
}

func appendNew(list []string, s string) []string {
	if s == "" || contains(list, s) {
		return list
	}
	return append(list, s)
}
