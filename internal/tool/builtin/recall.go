package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
	"belay/internal/recall"
	"belay/internal/tool"
	"belay/internal/tool/args"
)

const (
	recallHits  = 8
	recallBytes = 8 << 10
)

var recallDef = &definition{
	name:   recall.Tool,
	effect: event.Read,
	doc:    "Find past calls with results, words said, repository text. Words, and filters " + recall.ModelFilters + ". read_file reads a hit's reference.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "query", Required: true, Aliases: []string{"q", "text", "pattern"}},
	}},
}

// recallTool finds again what the goal went through.
type recallTool struct{ base }

// Describe implements tool.Tool.
func (t recallTool) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	// Against any instant: only whether it can be read.
	if _, _, err := t.query(v, moment.Of(time.Unix(1<<31, 0))); err != nil {
		return nil, event.Access{}, err
	}
	n, err := v.JSON()
	return n, event.Access{}, err
}

func (t recallTool) query(v args.Values, now moment.Time) (recall.Query, bool, error) {
	q, earlier, err := recall.Parse(v.String("query"), now)
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		return q, false, args.Invalid(t.def.name, "query", err.Error())
	}
	q.Limit = recallHits
	return q, earlier, nil
}

// Run implements tool.Runner.
func (t recallTool) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return failed(ctx, err)
	}
	q, earlier, err := t.query(v, moment.Of(time.Now()))
	if err != nil {
		return failed(ctx, err)
	}
	if env.Recall == nil {
		return failed(ctx, fault.New(fault.Internal, fault.Runtime, "this runtime cannot search", "use search_text for the repository"))
	}
	a, err := env.Recall.Search(ctx, q, earlier)
	if err != nil {
		return failed(ctx, err)
	}
	if env.Unreadable != nil {
		a.Hits = slices.DeleteFunc(a.Hits, func(h recall.Hit) bool { return h.Path != "" && env.Unreadable.Holds(h.Path) })
	}
	return succeeded(env.Secrets.Text(showHits(a, call.Goal)))
}

// showHits writes an answer for the model, the best first, within its cap.
func showHits(a recall.Answer, goal string) string {
	var b strings.Builder
	shown := 0
	for i, h := range a.Hits {
		text := showHit(i+1, h, goal)
		if b.Len()+len(text) > recallBytes {
			break
		}
		b.WriteString(text)
		shown++
	}
	switch {
	case len(a.Hits) == 0:
		b.WriteString("Nothing was found. Try fewer or other words, or drop a filter.\n")
	case shown < len(a.Hits):
		fmt.Fprintf(&b, "[… %s; narrow the query]\n", plural(int64(len(a.Hits)-shown), "more hit"))
	}
	for _, n := range a.Notes {
		b.WriteString("[" + n + "]\n")
	}
	return b.String()
}

func showHit(n int, h recall.Hit, goal string) string {
	var b strings.Builder
	ref := func(s string) string { return strings.Replace(s, "event:"+goal+"/", "event:", 1) }
	fmt.Fprintf(&b, "%d. ", n)
	if h.Op != "" {
		b.WriteString(h.Op + " ")
	}
	b.WriteString(h.Action)
	if h.Outcome != "" {
		b.WriteString(" → " + h.Outcome)
	}
	fmt.Fprintf(&b, " (%s", ref(h.Ref))
	if !h.Time.IsZero() {
		b.WriteString(", " + h.Time.Std().Format("01-02 15:04"))
	}
	if h.Whole != "" {
		b.WriteString(", whole output artifact:" + h.Whole)
	}
	if h.Alike > 0 {
		fmt.Fprintf(&b, ", and %d alike", h.Alike)
	}
	b.WriteString(")\n")
	if h.Because != "" {
		b.WriteString("   because: " + h.Because + "\n")
	}
	for line := range strings.Lines(h.Text) {
		b.WriteString("   │ " + strings.TrimRight(line, "\n") + "\n")
	}
	for _, l := range h.Then {
		fmt.Fprintf(&b, "   then: %s %s → %s (%s)\n", l.Op, l.Action, l.Outcome, ref(l.Ref))
	}
	return b.String()
}

// isEvent reports whether a path names an event instead of a file.
func isEvent(p string) bool {
	_, _, ok := recall.ParseReference(p)
	return ok
}

// readEvent is an event as a text.
func readEvent(ctx context.Context, env tool.Env, ref string) (string, error) {
	if env.Recall == nil {
		return "", fault.New(fault.NotFound, fault.Runtime, "events cannot be read here", "")
	}
	text, err := env.Recall.Event(ctx, ref)
	return env.Secrets.Text(text), err
}
