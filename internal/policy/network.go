package policy

import (
	"errors"
	"fmt"
	"strings"

	"belay/internal/event"
)

// The network is one for the whole text of an operation: its commands share a
// sandbox. So it is granted when each simple command may have it: by a rule
// with a network, or because built-in knowledge knows the command as a reader,
// which sends nothing and runs nothing. Code of the repository may have it only
// by a rule, as one of the goal's tests whose goal says so, or by an answer.

// Names of scopes, as in package sandbox.
const (
	scopeLoopback = "loopback"
	scopeFull     = "full"
)

// rankOf orders scopes; what is none counts as nothing.
func rankOf(scope string) int {
	switch scope {
	case scopeLoopback:
		return 1
	case scopeFull:
		return 2
	}
	return 0
}

func wider(a, b string) string {
	if rankOf(b) > rankOf(a) {
		return b
	}
	return a
}

// reach is one simple command's way to the network.
type reach struct {
	words []arg
	// reader says that built-in knowledge knows it as harmless.
	reader bool
	// scope is what rules, or the goal, let it reach, and rule the one that does.
	scope, rule string
}

// readers are the families whose allowed calls send nothing and run no code.
var readers = map[string]bool{"builtin:read": true, "builtin:text": true, "builtin:find": true, "builtin:xargs": true, "builtin:git": true,
	"builtin:wrapper": true, "builtin:shell": true}

// onNetwork reports whether the rule is about reaching the network alone, and
// says nothing about the command itself.
func (r rule) onNetwork() bool {
	return r.Network != "" && (r.decision != Allow || r.Command == "")
}

// covers reports whether the rule speaks of this scope: a permission of all up
// to its own, a restriction of all from its own on.
func (r rule) covers(scope string) bool {
	if rankOf(scope) == 0 {
		return false
	}
	if r.decision == Allow {
		return rankOf(scope) <= rankOf(r.Network)
	}
	return rankOf(scope) >= rankOf(r.Network)
}

// checkNetwork refuses network rules that say nothing or too much.
func checkNetwork(r event.Rule) error {
	switch {
	case r.Network == "":
		return nil
	case r.Network != scopeLoopback && r.Network != scopeFull:
		return fmt.Errorf("network %q is none of loopback and full", r.Network)
	case r.Path != "":
		return errors.New("it names a path and a network; write two rules")
	case r.Decision == string(Allow) && r.Network == scopeFull && r.Command == "":
		return errors.New("a rule that allows the whole network has to name the command")
	}
	return nil
}

// reaches notes a simple command that has been judged. harmless says that
// built-in knowledge had nothing to ask about it.
func (s *sink) reaches(words []arg, id, note string, permits []rule, harmless bool) {
	r := reach{words: words, reader: harmless && readers[id]}
	for _, permit := range permits {
		if rankOf(permit.Network) > rankOf(r.scope) {
			r.scope, r.rule = permit.Network, permit.id
		}
	}
	if id == "goal:test" || note == goalTests {
		r.reader = false
		if own := s.cfg.testNetwork(words); rankOf(own) > rankOf(r.scope) {
			r.scope, r.rule = own, "goal:test"
		}
	}
	s.reach = append(s.reach, r)
}

// testNetwork is what the goal lets the tests that begin like this command
// reach: the least of them, for it may run the code of any.
func (c *compiled) testNetwork(words []arg) string {
	scope, found := scopeFull, false
	for _, t := range c.TestCommands {
		if fs := strings.Fields(t); len(fs) > 0 && len(words) > 0 && fs[0] == words[0].val {
			own := c.networkOf(t)
			if found = true; rankOf(own) < rankOf(scope) {
				scope = own
			}
		}
	}
	if !found {
		return ""
	}
	return scope
}

// networkOf is what the goal lets this very test command reach.
func (c *compiled) networkOf(text string) string {
	scope := ""
	for t, n := range c.TestNetwork {
		if strings.TrimSpace(t) == strings.TrimSpace(text) {
			scope = wider(scope, n)
		}
	}
	return scope
}

// grant is the widest scope that every command of the text may have without a
// question, with the rule behind it.
func (s *sink) grant(a event.Access) (scope, rule string) {
	for _, p := range s.parts {
		if p.Kind == KindUnresolved {
			return "", ""
		}
	}
	var least *reach
	for i, r := range s.reach {
		if r.reader && r.scope == "" {
			continue
		}
		if least == nil || rankOf(r.scope) < rankOf(least.scope) {
			least = &s.reach[i]
		}
	}
	if least != nil {
		scope, rule = least.scope, least.rule
	}
	if s.resolve(a.Dir, "") == "." && s.cfg.isTest(a.Command) {
		if own := s.cfg.networkOf(a.Command); rankOf(own) > rankOf(scope) {
			scope, rule = own, "goal:test"
		}
	}
	return scope, rule
}

// judgeNetwork judges what the text may reach of the network: what is asked
// for, or, where nothing is said, what rules grant it.
func (s *sink) judgeNetwork(a event.Access) {
	granted, by := s.grant(a)
	want := a.Network
	if want == "" {
		want = granted
	}
	if rankOf(want) == 0 {
		return
	}
	f := finding{kind: KindNetwork, text: "network: " + want, decision: Ask, network: true,
		reason: "reaches " + wordsFor(want), fix: "leave the network out if the command works without it; or a rule `decision: allow, command: …, network: " + want + "` for each command that needs it"}
	if rankOf(want) <= rankOf(granted) {
		f.decision, f.id, f.reason = Allow, by, "may reach "+wordsFor(want)+" by "+by
	}
	var rules []rule
	for _, r := range s.cfg.rules {
		if r.broken == nil && r.onNetwork() && r.covers(want) && (r.Tool == "" || wild(r.Tool, s.tool) || wild(r.Tool, "run_command")) && s.speaks(r) {
			rules = append(rules, r)
		}
	}
	j := combine(f, rules)
	if a.Network == "" && j.decision != Allow {
		return // nobody asked for it: it is not given
	}
	p := f.part(j.decision, j.id, j.reason, f.fix)
	p.scope = want
	for _, r := range s.reach {
		if !r.reader && rankOf(r.scope) < rankOf(want) {
			p.needs = append(p.needs, r.words)
		}
	}
	s.add(p, j.ruled)
	s.scope = want
}

func wordsFor(scope string) string {
	if scope == scopeFull {
		return "the network"
	}
	return "a loopback of its own"
}

// speaks reports whether a network rule is about this text: it names no command,
// or one that may be among those of the text.
func (s *sink) speaks(r rule) bool {
	if r.Command == "" {
		return true
	}
	for _, c := range s.reach {
		if yes, maybe := r.match(c.words); yes || maybe {
			return true
		}
	}
	return false
}
