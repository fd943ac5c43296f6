package core

import (
	"encoding/json"
	"fmt"
	"strings"

	"belay/internal/core/operation"
	"belay/internal/event"
)

// Deed is what an operation was about and how it ended, in one line. Deeds are
// what is left of operations when a conversation is compacted.
type Deed struct {
	Op      string        `json:"op_id"`
	Tool    string        `json:"tool"`
	What    string        `json:"what"`
	Outcome event.Outcome `json:"outcome"`
	// Error is the line that says what went wrong.
	Error string `json:"error,omitempty"`
	// Effect says that it may have changed something.
	Effect bool `json:"effect,omitempty"`
	// Times is how often it was done with this outcome.
	Times int `json:"times"`
}

const (
	maxDeeds = 240
	maxWhat  = 160
)

// did notes a deed. One that was done before moves to the end, with the newest
// op_id: a file that is read twenty times is one line.
func (s *State) did(o operation.Op, p event.OperationFinished) {
	d := Deed{Op: o.ID, Tool: o.Tool, What: subject(o.Args, o.Access), Outcome: p.Outcome, Effect: o.Effect.SideEffect(), Times: 1}
	if p.Outcome != event.Succeeded {
		d.Error = errorLine(p.Result)
	}
	for i := len(s.Deeds) - 1; i >= 0; i-- {
		if was := s.Deeds[i]; was.Tool == d.Tool && was.What == d.What && was.Outcome == d.Outcome {
			d.Times += was.Times
			s.Deeds = append(s.Deeds[:i:i], s.Deeds[i+1:]...)
			break
		}
	}
	s.Deeds = append(s.Deeds, d)
	if len(s.Deeds) <= maxDeeds {
		return
	}
	// What only looked goes first.
	for i, was := range s.Deeds[:maxDeeds/2] {
		if !was.Effect {
			s.Deeds = append(s.Deeds[:i:i], s.Deeds[i+1:]...)
			return
		}
	}
	s.Deeds = s.Deeds[1:]
}

// subject names what the arguments of a call are about.
func subject(args json.RawMessage, a event.Access) string {
	var m map[string]any
	if json.Unmarshal(args, &m) != nil {
		m = nil
	}
	var words []string
	for _, key := range []string{"command", "path", "dir", "pattern", "glob", "query", "symbol", "name", "url"} {
		if s, ok := m[key].(string); ok && s != "" {
			words = append(words, clip(s, maxWhat))
		}
	}
	if len(words) == 0 {
		words = append(words, what(a))
	}
	if old := replaced(m); old != "" {
		words = append(words, fmt.Sprintf("at %q", clip(telling(old), 80)))
	}
	return clip(oneLine(strings.Join(words, " ")), maxWhat)
}

// replaced is the text that an edit replaces, of several the first one's.
func replaced(args map[string]any) string {
	if old, ok := args["old_string"].(string); ok {
		return old
	}
	edits, _ := args["edits"].([]any)
	if len(edits) == 0 {
		return ""
	}
	first, _ := edits[0].(map[string]any)
	old, _ := first["old_string"].(string)
	return old
}

// telling is the longest of the first lines of a text: braces and blank lines
// tell nothing.
func telling(s string) string {
	best := ""
	for n, l := range strings.Split(s, "\n") {
		if l = oneLine(clip(l, maxWhat)); len(l) > len(best) && n < 6 {
			best = l
		}
	}
	return best
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// errorLine is the line of a result that says most about what went wrong: the
// first that names a place or an error, else the last one.
func errorLine(r event.Result) string {
	last := ""
	for n, l := range strings.Split(r.Output.Head, "\n") {
		l = oneLine(clip(l, 4*maxWhat))
		if l == "" || n > 400 {
			continue
		}
		low := strings.ToLower(l)
		if n > 0 && (strings.Contains(low, "error") || strings.Contains(low, "fail") || strings.Contains(low, "panic") || namesPlace(l)) {
			return clip(l, maxWhat)
		}
		last = l
	}
	if last == "" && r.Fault != nil {
		last = oneLine(r.Fault.Message)
	}
	return clip(last, maxWhat)
}

// namesPlace reports whether a line begins with file:line.
func namesPlace(l string) bool {
	_, after, ok := strings.Cut(l, ":")
	return ok && after != "" && after[0] >= '0' && after[0] <= '9' && !strings.Contains(l[:len(l)-len(after)], " ")
}

// deeds adds what was done, as far as there is room: first what may have changed
// something, then what only looked; of each the latest.
func (d *digest) deeds(all []Deed) {
	room, shown := d.extent.deeds, make([]bool, len(all))
	for _, effect := range []bool{true, false} {
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Effect != effect {
				continue
			}
			if room -= len(all[i].words()) + 3; room < 0 {
				break
			}
			shown[i] = true
		}
	}
	var items []string
	for i, x := range all {
		if shown[i] {
			items = append(items, x.words())
		}
	}
	d.list("What was done, the latest last; it succeeded unless the line says otherwise", items)
}

func (d Deed) words() string {
	s := d.Op + " " + d.Tool + " " + d.What
	if d.Times > 1 {
		s += fmt.Sprintf(" (%d times)", d.Times)
	}
	if d.Outcome == event.Succeeded {
		return s
	}
	s += ": " + string(d.Outcome)
	if d.Error != "" {
		s += ", " + d.Error
	}
	return s
}
