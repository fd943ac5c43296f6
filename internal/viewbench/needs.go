package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"belay/internal/event"
)

// needs tells what an action uses that it must have from somewhere: the paths
// and the symbols in its arguments, and the error that it answers to.
type needs struct {
	// errors are the messages of the latest failure, by file, and for how many
	// more responses they are worked on.
	errors map[string][]string
	left   int
}

func newNeeds() *needs { return &needs{errors: map[string][]string{}} }

var (
	pathWord   = regexp.MustCompile(`[A-Za-z0-9_][A-Za-z0-9_./-]*\.go\b`)
	symbolWord = regexp.MustCompile(`\b[A-Za-z_][A-Za-z0-9_]{4,}\b`)
	errorLine  = regexp.MustCompile(`(?m)^(\S+\.go):\d+:\d+: .*$`)
)

// of lists what the calls of a response use. What they write anew is theirs.
func (n *needs) of(r event.ModelResponded) map[string][]string {
	out := map[string][]string{}
	add := func(kind, word string) {
		if !slices.Contains(out[kind], word) {
			out[kind] = append(out[kind], word)
		}
	}
	for _, p := range r.Parts {
		if p.Kind != event.PartCall {
			continue
		}
		var args map[string]any
		if json.Unmarshal([]byte(p.Arguments), &args) != nil {
			continue
		}
		for key, v := range args {
			s, ok := v.(string)
			if !ok || key == "new_string" {
				continue
			}
			for _, w := range pathWord.FindAllString(s, -1) {
				add("path", w)
				for _, e := range n.errors[w] {
					add("error", e)
				}
			}
			if key == "pattern" || key == "old_string" || key == "decision" {
				for _, w := range symbolWord.FindAllString(strings.ReplaceAll(s, `\b`, " "), -1) {
					add("symbol", w)
				}
			}
		}
	}
	if n.left--; n.left <= 0 {
		n.errors = map[string][]string{}
	}
	return out
}

// learn takes in the errors of a command that failed.
func (n *needs) learn(e event.Event) {
	p, ok := e.Payload.(event.OperationFinished)
	if !ok || p.Outcome != event.Failed {
		return
	}
	n.errors, n.left = map[string][]string{}, 4
	for _, m := range errorLine.FindAllStringSubmatch(p.Result.Output.Head, -1) {
		file := strings.TrimPrefix(m[1], "./")
		n.errors[file] = append(n.errors[file], m[0])
	}
}
