package recall

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"belay/internal/event"
	"belay/internal/moment"
)

// Filters says, for people and models, what a query may hold beside words.
const (
	Filters = "file:PATH tool:NAME outcome:failed since:2h until:1h in:events|files|earlier"
	// ModelFilters are those that a model is told of.
	ModelFilters = "file:PATH tool:NAME outcome:failed since:2h in:events|files|earlier"
)

// Parse reads a query in words with filters of the form name:value among them.
// earlier says that it asks for the repository's other goals too. What only looks
// like a filter is a word.
func Parse(text string, now moment.Time) (q Query, earlier bool, err error) {
	var words []string
	for _, f := range strings.Fields(text) {
		name, value, ok := strings.Cut(f, ":")
		if !ok || value == "" {
			words = append(words, f)
			continue
		}
		switch strings.ToLower(name) {
		case "file", "path":
			q.File = strings.Trim(value, `"'`)
		case "tool":
			q.Tool = value
		case "outcome":
			q.Outcome, err = outcomeOf(value)
		case "since":
			q.Since, err = When(value, now)
		case "until":
			q.Until, err = When(value, now)
		case "in":
			switch value {
			case "events":
				q.Kinds = append(q.Kinds, Operation, Said, Fact)
			case "files":
				q.Kinds = append(q.Kinds, File, Symbol)
			case "earlier":
				earlier = true
			default:
				err = fmt.Errorf("in:%s is not events, files or earlier", value)
			}
		default:
			words = append(words, f)
		}
		if err != nil {
			return Query{}, false, err
		}
	}
	q.Text = strings.Join(words, " ")
	return q, earlier, nil
}

// Names are the words of a query that may be names of a program's: the only word,
// or those that are written as no word of a language is.
func (q Query) Names() []string {
	words := strings.Fields(q.Text)
	var out []string
	for _, w := range words {
		w = strings.Trim(w, "`'\"()[]{},;:!?")
		if w == "" || strings.Contains(w, "/") {
			continue
		}
		if len(words) == 1 || written(w) {
			out = append(out, w)
		}
		if len(out) == maxNames {
			break
		}
	}
	return out
}

// maxNames is how many names of a query are looked up.
const maxNames = 6

// written reports whether a word has an underscore, a dot or a digit in it, or a
// capital behind a small letter.
func written(w string) bool {
	last := 'A'
	for _, r := range strings.TrimRight(w, ".") {
		if strings.ContainsRune("_.#", r) || unicode.IsDigit(r) || unicode.IsLower(last) && unicode.IsUpper(r) {
			return true
		}
		last = r
	}
	return false
}

func outcomeOf(s string) (string, error) {
	switch o := event.Outcome(s); o {
	case event.Succeeded, event.Failed, event.Rejected, event.Cancelled, event.OutcomeUnknown:
		return s, nil
	}
	return "", fmt.Errorf("outcome %q is not succeeded, failed, rejected, cancelled or unknown", s)
}

// Empty reports whether nothing is asked for.
func (q Query) Empty() bool {
	return q.File == "" && !q.OnlyEvents() && len(Words(q.Text)) == 0
}

// Check refuses values that no hit could have.
func (q Query) Check() error {
	if q.Outcome != "" {
		if _, err := outcomeOf(q.Outcome); err != nil {
			return err
		}
	}
	if q.Empty() {
		return fmt.Errorf("it names nothing to look for: give words, or one of the filters file, tool, outcome, since, until")
	}
	return nil
}

// When reads an instant: how long ago (90m, 2h, 3d, 1w), a date, or a date with
// a time, in UTC where it names no zone.
func When(s string, now moment.Time) (moment.Time, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, err := strconv.ParseUint(strings.TrimSuffix(s, suffix), 10, 16); err == nil && strings.HasSuffix(s, suffix) {
			return moment.Of(now.Std().Add(-time.Duration(n) * unit)), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return moment.Of(now.Std().Add(-d)), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return moment.Of(t), nil
		}
	}
	return 0, fmt.Errorf("%q is no time: say how long ago (90m, 2h, 3d), or a date (2026-01-31)", s)
}

// Reference names an event of a goal.
func Reference(goal string, seq uint64) string { return fmt.Sprintf("event:%s/%d", goal, seq) }

// ParseReference reads what Reference writes, and event:SEQ, whose goal is left
// empty: the one that is asked from.
func ParseReference(ref string) (goal string, seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(ref), "event:")
	if !ok {
		return "", 0, false
	}
	if g, s, both := strings.Cut(rest, "/"); both {
		goal, rest = g, s
		if goal == "" {
			return "", 0, false
		}
	}
	seq, err := strconv.ParseUint(rest, 10, 63)
	return goal, seq, err == nil && seq > 0
}
