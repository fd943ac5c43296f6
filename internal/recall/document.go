package recall

import (
	"encoding/json"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"belay/internal/event"
	"belay/internal/fault"
)

// Document is what of one event can be found.
type Document struct {
	Kind    Kind
	Tool    string
	Outcome string
	// Files are the paths that it is about.
	Files []string
	// Head is the event in a line: the action, or what was said.
	Head string
	// Text is what is searched beside Head: for an operation's end, the feedback.
	Text string
	// Whole is the address of the whole text, where Text is only its head.
	Whole string
	// Act is equal for operations that do the same, "" for other events.
	Act string
}

// Tool is the name of the tool by which a model searches.
const Tool = "recall"

// unsearched are events that only serve the runtime, or that repeat in one piece
// what other events hold.
var unsearched = map[event.Type]bool{
	event.TypeModelRequested: true, event.TypeWorkspaceObserved: true, event.TypeTurnStarted: true, event.TypeTurnEnded: true,
	event.TypeVerificationStarted: true, event.TypeWorkspacePacked: true, event.TypeDiffUpdated: true, event.TypeContextCompacted: true,
	event.TypeOperationStarted: true, event.TypeGoalWoken: true, event.TypePolicyChanged: true,
}

// DocumentOf projects an event; ok is false for one that is not searched. What an
// event type has of its own counts where this function does not know the type.
func DocumentOf(e event.Event) (d Document, ok bool) {
	if unsearched[e.Type] || e.Payload == nil {
		return Document{}, false
	}
	if d, ok = operationDocument(e); !ok {
		if d, ok = saidDocument(e); !ok {
			d, ok = factDocument(e)
		}
	}
	if d.Kind == "" {
		return Document{}, false
	}
	d.Files = cleanPaths(d.Files)
	d.Head, d.Text = strings.ToValidUTF8(d.Head, "\uFFFD"), strings.ToValidUTF8(d.Text, "\uFFFD")
	return d, ok
}

func operationDocument(e event.Event) (Document, bool) {
	d := Document{Kind: Operation}
	switch p := e.Payload.(type) {
	case event.OperationProposed:
		if p.Tool == Tool {
			return Document{}, true // what was found once is no finding
		}
		d.Tool = p.Tool
		d.Files = append(append(d.Files, p.Access.Reads...), p.Access.Writes...)
		d.Head = Action(p)
		d.Act = p.Tool + " " + string(p.Arguments)
		if p.Access.Command != "" {
			d.Act = p.Tool + " " + p.Access.Dir + " " + p.Access.Command
		}
		d.Text = values(p.Arguments)
	case event.OperationRejected:
		d.Outcome = string(p.Outcome)
		d.Head, d.Text = "did not start: "+string(p.Fault.Kind), faultText(&p.Fault)
	case event.ApprovalRequested:
		d.Tool = p.Tool
		d.Files = append(append(d.Files, p.Access.Reads...), p.Access.Writes...)
		d.Head, d.Text, d.Whole = "approval requested: "+strings.Join(p.Why, "; "), p.Intent.Preview.Head, p.Intent.Preview.Whole.SHA256
	case event.ApprovalGranted:
		d.Tool, d.Head = p.Tool, "approval granted by "+string(p.By)
	case event.ApprovalDenied:
		d.Tool, d.Outcome, d.Head = p.Tool, string(event.Rejected), "approval denied by "+string(p.By)+": "+p.Reason
	case event.OperationFinished:
		if p.Tool == Tool {
			return Document{}, true
		}
		d = finished(p.Result)
		d.Tool, d.Outcome, d.Head = p.Tool, string(p.Outcome), p.Tool+" "+string(p.Outcome)
	case event.OperationReconciled:
		d.Outcome, d.Head = string(p.Outcome), "settled by "+string(p.By)+": "+p.Reason
		if p.Result != nil {
			f := finished(*p.Result)
			d.Text, d.Whole, d.Files = f.Text, f.Whole, f.Files
		}
	case event.TestCompleted:
		d.Outcome = string(event.Succeeded)
		if p.ExitCode != 0 || p.TimedOut {
			d.Outcome = string(event.Failed)
		}
		d.Head, d.Whole = "test completed: "+p.Command, p.Log.SHA256
		d.Text = join(strings.Join(p.Counts.Failing, "\n"), p.Tail)
	default:
		return Document{}, false
	}
	return d, true
}

func finished(r event.Result) Document {
	d := Document{Kind: Operation, Text: r.Output.Head, Whole: r.Output.Whole.SHA256}
	if d.Whole == "" && r.Command != nil {
		d.Whole = r.Command.Output.SHA256
	}
	if r.Fault != nil && !strings.Contains(d.Text, r.Fault.Message) {
		d.Text = join(faultText(r.Fault), d.Text)
	}
	if r.Test != nil {
		d.Text = join(strings.Join(r.Test.Failing, "\n"), d.Text)
	}
	for _, f := range r.Files {
		d.Files = append(d.Files, f.Path)
	}
	for _, f := range r.Seen {
		d.Files = append(d.Files, f.Path)
	}
	if r.Check != nil {
		d.Text = join(d.Text, strings.Join(r.Check.Findings, "\n"), r.Check.Reason)
	}
	return d
}

func saidDocument(e event.Event) (Document, bool) {
	d := Document{Kind: Said}
	switch p := e.Payload.(type) {
	case event.GoalReceived:
		d.Head, d.Text = "the goal: "+first(p.Spec.Text), specText(p.Spec)
	case event.GoalRevised:
		d.Head, d.Text = "the goal, revised: "+first(p.Spec.Text), specText(p.Spec)
	case event.UserMessage:
		d.Head, d.Text = "the user: "+first(p.Text), p.Text
	case event.ModelResponded:
		for _, part := range p.Parts {
			if part.Kind == event.PartText || part.Kind == event.PartThink {
				d.Text = join(d.Text, part.Text)
			}
		}
		if strings.TrimSpace(d.Text) == "" {
			return Document{}, true // only calls: they are operations, and found as such
		}
		d.Head = "the model: " + first(d.Text)
	case event.PlanUpdated:
		d.Head, d.Files = strings.TrimSuffix("plan: "+first(p.Plan.Summary), ": "), p.Plan.Scope
		for _, s := range p.Plan.Steps {
			d.Text = join(d.Text, s.Text)
		}
		d.Text = join(d.Text, strings.Join(p.Plan.OpenQuestions, "\n"))
	case event.TodosUpdated:
		d.Head = "todos"
		for _, t := range p.Todos {
			d.Text = join(d.Text, string(t.Status)+": "+t.Content+" "+t.Reason)
		}
	case event.DecisionRecorded:
		d.Head, d.Text = "decision: "+first(p.Decision), join(p.Decision, p.Reason, p.Scope)
	case event.CompletionClaimed:
		d.Head, d.Text = "claims to be done", p.Summary
	case event.GoalHandedOff:
		d.Head = "handed off: " + p.Why
		d.Text = join(faultText(p.Fault), strings.Join(p.Done, "\n"), strings.Join(p.Missing, "\n"), strings.Join(p.Running, "\n"))
	case event.CriterionAnswered:
		d.Head, d.Text = "answer to "+p.Criterion, p.Reason
	default:
		return Document{}, false
	}
	return d, true
}

func factDocument(e event.Event) (Document, bool) {
	d := Document{Kind: Fact, Head: strings.ReplaceAll(string(e.Type), "_", " ")}
	switch p := e.Payload.(type) {
	case event.RepoStateMutated:
		for _, c := range p.Changes {
			d.Files = append(d.Files, c.Path)
		}
		d.Head = "changed by " + p.By + ": " + strings.Join(d.Files[:min(len(d.Files), 8)], ", ")
	case event.Damaged:
		return Document{}, false
	case event.Unknown:
		d.Text = values(p.Raw)
	default:
		raw, err := json.Marshal(e.Payload)
		if err != nil {
			return Document{}, false
		}
		d.Text = values(raw)
	}
	return d, true
}

// Action is a proposed operation in a line.
func Action(p event.OperationProposed) string {
	if p.Access.Command != "" {
		return p.Tool + ": " + first(p.Access.Command)
	}
	if paths := append(slices.Clone(p.Access.Writes), p.Access.Reads...); len(paths) > 0 {
		return p.Tool + " " + strings.Join(paths[:min(len(paths), 4)], ", ")
	}
	if v := first(values(p.Arguments)); v != "" {
		return p.Tool + ": " + v
	}
	return p.Tool
}

func specText(s event.GoalSpec) string {
	text := join(s.Text, strings.Join(s.Constraints, "\n"))
	for _, c := range s.Acceptance {
		text = join(text, c.ID+" "+c.Text+" "+c.Command)
	}
	return text
}

func faultText(f *fault.Fault) string {
	if f == nil {
		return ""
	}
	return string(f.Kind) + ": " + join(f.Message, f.SuggestedAction)
}

// values are the texts inside a JSON value, a line each, keys in order.
func values(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			sort.Strings(keys)
			for _, k := range keys {
				walk(v[k])
			}
		}
	}
	walk(v)
	return strings.Join(out, "\n")
}

func join(texts ...string) string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, "\n")
}

// first is the first line that says something, shortened.
func first(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return Shorten(line, 160)
		}
	}
	return ""
}

// Shorten cuts a text to at most n bytes, at a character's end, and shows that
// it did.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(0, n-len("…"))
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func cleanPaths(ps []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, p := range ps {
		if p = CleanPath(p); p != "" && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// CleanPath brings a path to the one form in which paths are compared: without
// leading or doubled slashes, "" for the root itself.
func CleanPath(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+strings.ToValidUTF8(p, "\uFFFD")), "/")
	return p
}

// Places are the names under which a path is found by the filter file: itself,
// the folders above it, and its bare name.
func Places(p string) []string {
	p = CleanPath(p)
	if p == "" {
		return nil
	}
	out := []string{p}
	if base := path.Base(p); base != p {
		out = append(out, base)
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}
