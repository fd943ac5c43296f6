package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// Captured is what environment_captured last said of each depth.
type Captured struct {
	Light map[string]string `json:"light,omitempty"`
	Deep  map[string]string `json:"deep,omitempty"`
	// Tree is the one that Deep was captured on.
	Tree string `json:"tree,omitempty"`
}

// Facts that the core adds: where the goal stood.
const (
	factTodos = "todos"
	factTests = "tests"
)

// What is kept of a capture: it is shown, never decided on.
const (
	maxFacts     = 60
	maxFactBytes = 400
)

// All are the facts of both depths.
func (c Captured) All() map[string]string {
	if len(c.Light)+len(c.Deep) == 0 {
		return nil
	}
	out := maps.Clone(c.Light)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, c.Deep)
	return out
}

// wantsDeep reports whether a look should bring the facts of the index of
// symbols: at the milestone that a verification is, once for each tree.
func (s State) wantsDeep() bool {
	return s.Status == lifecycle.Verifying && s.Captured.Tree != s.Revision.Tree
}

// captured records facts of the environment, light ones only when they are new.
func (w *step) captured(depth string, facts map[string]string) {
	if len(facts) == 0 {
		return
	}
	facts = boundFacts(facts)
	if depth == event.DepthLight {
		had := maps.Clone(w.s.Captured.Light)
		delete(had, factTodos)
		delete(had, factTests)
		if maps.Equal(had, facts) {
			return
		}
		maps.Copy(facts, w.s.standing())
	}
	w.emitBy(event.ActorRuntime, "", event.EnvironmentCaptured{Depth: depth, Facts: facts})
}

// standing is the state of the task as facts.
func (s State) standing() map[string]string {
	out := map[string]string{}
	if n := len(s.Todos); n > 0 {
		done := len(doneTodos(s.Todos))
		out[factTodos] = fmt.Sprintf("%d of %d completed", done, n)
	}
	if p, ok := s.Evidence.LatestPass(s.Revision.Tree); ok {
		out[factTests] = fmt.Sprintf("%s: %d passed", p.Command, p.Counts.Passed)
	} else if n := len(s.Failures); n > 0 {
		f := s.Failures[n-1]
		out[factTests] = fmt.Sprintf("%s: exit code %d", f.Command, f.ExitCode)
	}
	return boundFacts(out)
}

// boundFacts keeps the first facts, by name, each of a bounded length.
func boundFacts(facts map[string]string) map[string]string {
	out := make(map[string]string, min(len(facts), maxFacts))
	for _, k := range slices.Sorted(maps.Keys(facts)) {
		if len(out) == maxFacts {
			break
		}
		out[cutFact(k)] = cutFact(facts[k])
	}
	return out
}

// factLine is facts as one line, by name, without those of the machine: a
// timeline is about the goal.
func factLine(facts map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(facts)) {
		if !strings.HasPrefix(k, "toolchain ") {
			out = append(out, k+": "+facts[k])
		}
	}
	return strings.Join(out, "; ")
}

func cutFact(s string) string {
	if len(s) <= maxFactBytes {
		return s
	}
	n := maxFactBytes - len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
