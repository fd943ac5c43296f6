package eval

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"belay/internal/core"
	"belay/internal/event"
)

// End is what a run came to: what the expectations are held against.
type End struct {
	Exit     int
	Snapshot core.Snapshot
	Events   []event.Event
	// Said is what the program printed, Class what the ledger says went wrong.
	Said  string
	Class Class
	// Repo is the workspace at the end, Start a copy of it as it was before.
	Repo, Start string
}

// Unmet lists what is not as expected, one sentence each, nothing if all is.
func (x Expect) Unmet(end End) []string {
	u := unmet{}
	s := end.Snapshot
	if x.Exit != nil {
		u.equal("the exit code", fmt.Sprint(end.Exit), fmt.Sprint(*x.Exit))
	}
	u.word("the status", string(s.Status), string(x.Status))
	u.word("completed as", string(s.How), string(x.How))
	u.word("the wait reason", string(s.WaitReason), string(x.Wait))
	u.word("the pause reason", string(s.PauseReason), string(x.Pause))
	u.word("the class", string(end.Class), string(x.Class))
	u.match("the reason of the rest", reason(s), x.Why)
	missing := strings.Join(Missing(s), "\n")
	for _, p := range x.Missing {
		u.match("what is missing", missing, p)
	}
	for _, p := range x.Says {
		u.match("what is printed", end.Said, p)
	}
	u.events(x.Events, end.Events)
	u.order(x.Order, end.Events)
	for _, name := range slices.Sorted(maps.Keys(x.Files)) {
		u.file(end.Repo, name, x.Files[name])
	}
	for _, name := range slices.Sorted(maps.Keys(x.Lines)) {
		b, _ := readRegular(filepath.Join(end.Repo, name))
		if n := strings.Count(string(b), "\n"); n != x.Lines[name] {
			u.say("%s has %d lines, expected %d: %s", name, n, x.Lines[name], short(string(b)))
		}
	}
	u.changed(x, end)
	return u.all
}

// reason is why a goal rests, in the words that a person reads.
func reason(s core.Snapshot) string {
	words := []string{s.WaitDetail, s.PauseDetail}
	if s.HandOff != nil {
		words = append(words, s.HandOff.Why)
	}
	return strings.TrimSpace(strings.Join(words, "\n"))
}

// Missing is what stands against the goal's completion.
func Missing(s core.Snapshot) []string {
	m := slices.Clone(s.Missing)
	if s.HandOff != nil {
		for _, h := range s.HandOff.Missing {
			if !slices.Contains(m, h) {
				m = append(m, h)
			}
		}
	}
	return m
}

type unmet struct{ all []string }

func (u *unmet) say(format string, args ...any) { u.all = append(u.all, fmt.Sprintf(format, args...)) }

func (u *unmet) equal(what, got, want string) {
	if got != want {
		u.say("%s is %s, expected %s", what, named(got), named(want))
	}
}

func named(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// word compares only where something is expected; none expects nothing there.
func (u *unmet) word(what, got, want string) {
	switch {
	case want == "":
	case want == "none" && got == "":
	default:
		u.equal(what, got, want)
	}
}

func (u *unmet) match(what, text string, p Pattern) {
	if !p.IsZero() && !p.MatchString(text) {
		u.say("%s does not match %q: %s", what, p.String(), short(text))
	}
}

// short is a text in one line of a bounded length.
func short(text string) string {
	const most = 400
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "it is empty"
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func (u *unmet) events(want []EventCount, es []event.Event) {
	tools := toolsOf(es)
	for _, w := range want {
		n := 0
		for _, e := range es {
			if e.Type == w.Event && (w.Tool == "" || tools[e.Op] == w.Tool) && (w.Text.IsZero() || w.Text.Match(payload(e))) {
				n++
			}
		}
		least, most := 1, -1
		switch {
		case w.Count != nil:
			least, most = *w.Count, *w.Count
		case w.Min != nil || w.Max != nil:
			least = 0
			if w.Min != nil {
				least = *w.Min
			}
			if w.Max != nil {
				most = *w.Max
			}
		}
		if n >= least && (most < 0 || n <= most) {
			continue
		}
		what := string(w.Event)
		if w.Tool != "" {
			what += " of " + w.Tool
		}
		if !w.Text.IsZero() {
			what += fmt.Sprintf(" with %q", w.Text.String())
		}
		bound := fmt.Sprintf("at least %d", least)
		if most >= 0 {
			bound = fmt.Sprintf("%d to %d", least, most)
		}
		if least == most {
			bound = fmt.Sprint(least)
		}
		u.say("%s comes %d times, expected %s", what, n, bound)
	}
}

// toolsOf tells which tool an operation uses.
func toolsOf(es []event.Event) map[string]string {
	tools := map[string]string{}
	for _, e := range es {
		if p, ok := e.Payload.(event.OperationProposed); ok {
			tools[e.Op] = p.Tool
		}
	}
	return tools
}

// payload is an event's payload as the program prints it.
func payload(e event.Event) []byte {
	b, err := json.Marshal(e.Payload)
	if err != nil {
		return nil
	}
	return b
}

func (u *unmet) order(want []string, es []event.Event) {
	i := 0
	for _, t := range core.Timeline(es) {
		if i < len(want) && t.Name == want[i] {
			i++
		}
	}
	if i < len(want) {
		u.say("%q does not come, in its place, in the timeline", want[i])
	}
}

func (u *unmet) file(repo, name string, want File) {
	path := filepath.Join(repo, name)
	b, err := readRegular(path)
	switch {
	case want.Absent && exists(path):
		u.say("%s is there, expected none", name)
		return
	case want.Absent:
		return
	case err != nil:
		u.say("%s is not there", name)
		return
	}
	text := string(b)
	if want.Is != nil && text != *want.Is {
		u.say("%s is %q, expected %q", name, clip(text), clip(*want.Is))
	}
	for _, p := range want.Contains {
		if !p.MatchString(text) {
			u.say("%s does not contain %q: %q", name, p.String(), clip(text))
		}
	}
	for _, p := range want.Lacks {
		if p.MatchString(text) {
			u.say("%s contains %q", name, p.String())
		}
	}
	if info, err := os.Stat(path); err == nil && want.Mode != "" {
		u.equal("the mode of "+name, strconv.FormatUint(uint64(info.Mode().Perm()), 8), strings.TrimLeft(want.Mode, "0"))
	}
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// changed compares the workspace with its copy from before the run. What git
// keeps for itself may not change unless the case allows it.
func (u *unmet) changed(x Expect, end End) {
	if end.Start == "" {
		return
	}
	paths, err := differing(end.Start, end.Repo)
	if err != nil {
		u.say("the workspace cannot be compared with its start: %v", err)
		return
	}
	var mine []string
	for _, p := range paths {
		if p == ".git" || strings.HasPrefix(p, ".git/") {
			if x.Git == "" {
				u.say("%s was changed: a run writes nothing there", p)
			}
			continue
		}
		mine = append(mine, p)
	}
	if x.Changed == nil {
		return
	}
	for _, p := range mine {
		if !slices.Contains(*x.Changed, p) {
			u.say("%s was changed, expected as it was", p)
		}
	}
	for _, p := range *x.Changed {
		if !slices.Contains(mine, p) {
			u.say("%s is as it was, expected changed", p)
		}
	}
}
