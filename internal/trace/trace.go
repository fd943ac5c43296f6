// Package trace projects a goal's events into spans with the names of the
// OpenTelemetry GenAI conventions: the goal is a workflow, a turn an agent's
// invocation, a model request a chat, an operation the execution of a tool.
//
// A span is a function of the ledger. Its ids follow from the goal and from the
// turn, request or operation that it shows, its times are those of events: so
// the same trace goes on after a crash, on another machine too, and whatever is
// sent twice is the same span. The package must not know how spans are sent.
package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"belay/internal/event"
	"belay/internal/moment"
)

// Schema is the version of the conventions that the names are of.
const Schema = "https://opentelemetry.io/schemas/1.41.0"

// Kind is a span's kind, as OTLP numbers them.
type Kind int

// The kinds that occur.
const (
	Internal Kind = 1
	Client   Kind = 3
)

// Attr is one attribute: Value is a string, an int64, a bool or a []string.
type Attr struct {
	Key   string
	Value any
}

// Mark is something that happened at an instant of a span.
type Mark struct {
	Name  string
	At    moment.Time
	Attrs []Attr
}

// Span is one span that has ended.
type Span struct {
	Trace, ID, Parent string // hex
	Name              string
	Kind              Kind
	Start, End        moment.Time
	Attrs             []Attr
	Marks             []Mark
	// Links are the root spans of other traces that belong to it.
	Links []Link
	// Error is the low-cardinality kind of what went wrong, "" for nothing;
	// Message says it in words, where content may be told.
	Error, Message string
	// Place is where the work was done: it is for that place to send it.
	Place string
}

// Link names a span of another trace.
type Link struct{ Trace, ID string }

// TraceID is the id of a goal's trace.
func TraceID(goal string) string { return id(16, "trace", goal) }

// SpanID is the id of a span of a goal: what it shows, and which.
func SpanID(goal, what, which string) string { return id(8, "span", goal, what, which) }

func id(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:n])
}

// The kinds of things that have spans, as they go into ids.
const (
	ofGoal         = "goal"
	ofTurn         = "turn"
	ofRequest      = "request"
	ofOperation    = "operation"
	ofWait         = "wait"
	ofVerification = "verification"
)

// Fold is what is known of a goal whose spans are still open. The zero value is
// a goal without events.
type Fold struct {
	// Content has texts exported: prompts, answers, arguments and results.
	Content bool

	goal, parent, model, text string
	began                     moment.Time
	place                     string
	turn                      open
	turnMarks                 []Mark
	said                      []string
	request                   open
	asked                     event.ModelRequested
	ops                       map[string]*op
	wait                      open
	waitFor                   event.WaitReason
	check                     open
	used                      event.Usage
	cost, steps               int64
	over                      bool
	// orphans belong to a turn whose worker died: whoever takes over sends them.
	orphans []Span
}

// open is a span that has begun.
type open struct {
	id    string
	start moment.Time
}

func (o open) is() bool { return o.id != "" }

// op is an operation on its way.
type op struct {
	event.OperationProposed
	ready, started moment.Time
	parent         string
	asked          bool
	marks          []Mark
	attempts, runs int
}

// Take takes in the next event and returns the spans that end with it.
func (f *Fold) Take(e event.Event) []Span {
	if f.goal == "" {
		f.goal, f.began, f.ops = e.Goal, e.Time, map[string]*op{}
	}
	spans := f.take(e)
	for i := range spans {
		spans[i].Trace, spans[i].Place = TraceID(f.goal), f.place
		spans[i].Attrs = append(spans[i].Attrs, Attr{"gen_ai.conversation.id", f.goal})
	}
	return spans
}

func (f *Fold) take(e event.Event) []Span {
	switch p := e.Payload.(type) {
	case event.GoalReceived:
		f.parent, f.model, f.text = p.Parent, p.Settings.Model, p.Spec.Text
	case event.TurnStarted:
		f.place = p.Place
		spans := f.orphans
		f.orphans, f.turn, f.turnMarks, f.said = nil, open{e.Turn, e.Time}, nil, nil
		if p.Takeover {
			f.turnMarks = append(f.turnMarks, Mark{Name: "belay.takeover", At: e.Time})
		}
		return spans
	case event.TurnEnded:
		return f.turnEnded(e, p)
	case event.UserMessage:
		f.said = append(f.said, p.Text)
		f.turnMarks = append(f.turnMarks, Mark{Name: "belay.message", At: e.Time, Attrs: []Attr{{"belay.message.mode", string(p.Mode)}}})
	case event.ModelRequested:
		f.request, f.asked = open{p.Request, e.Time}, p
	case event.ModelResponded, event.ModelFailed:
		return f.answered(e)
	case event.GoalWaiting:
		f.wait, f.waitFor = open{e.ID, e.Time}, p.Reason
	case event.GoalWoken:
		return f.woken(e, string(p.Reason))
	case event.VerificationStarted:
		f.check = open{p.Verification, e.Time}
	case event.VerificationFinished:
		return f.verified(e, p)
	default:
		return f.operation(e)
	}
	return nil
}

func (f *Fold) operation(e event.Event) []Span {
	switch p := e.Payload.(type) {
	case event.OperationProposed:
		f.ops[e.Op] = &op{OperationProposed: p, ready: e.Time, parent: f.parentID()}
	case event.ApprovalRequested:
		f.mark(e, "belay.approval_requested", nil)
	case event.ApprovalGranted:
		f.mark(e, "belay.approval_granted", []Attr{{"belay.by", string(p.By)}})
	case event.ApprovalDenied:
		f.mark(e, "belay.approval_denied", []Attr{{"belay.by", string(p.By)}})
	case event.OperationStarted:
		if o := f.ops[e.Op]; o != nil {
			if o.attempts++; o.started == 0 {
				o.started = e.Time
			} else {
				o.marks = append(o.marks, Mark{Name: "belay.attempt", At: e.Time, Attrs: []Attr{{"belay.attempt", int64(p.Attempt)}}})
			}
		}
	case event.OperationFinished:
		return f.finished(e, p)
	case event.OperationRejected:
		return f.rejected(e, p)
	default:
		return f.end(e)
	}
	return nil
}

// mark notes what happened to an operation, from when on it could run.
func (f *Fold) mark(e event.Event, name string, attrs []Attr) {
	if o := f.ops[e.Op]; o != nil {
		o.ready, o.asked = e.Time, true
		o.marks = append(o.marks, Mark{Name: name, At: e.Time, Attrs: attrs})
	}
}

// parentID is what new spans hang under: the turn, or the goal between turns.
func (f *Fold) parentID() string {
	if f.turn.is() {
		return SpanID(f.goal, ofTurn, f.turn.id)
	}
	return SpanID(f.goal, ofGoal, "")
}

// provider and name are the two halves of a model's name.
func split(model string) (provider, name string) {
	provider, name, ok := strings.Cut(model, ":")
	if !ok {
		return "", model
	}
	return provider, name
}

func (f *Fold) turnEnded(e event.Event, p event.TurnEnded) []Span {
	if !f.turn.is() {
		return nil
	}
	provider, name := split(f.model)
	s := Span{ID: SpanID(f.goal, ofTurn, f.turn.id), Parent: SpanID(f.goal, ofGoal, ""), Name: "invoke_agent belay", Kind: Internal,
		Start: f.turn.start, End: e.Time, Marks: f.turnMarks,
		Attrs: []Attr{{"gen_ai.operation.name", "invoke_agent"}, {"gen_ai.agent.name", "belay"}, {"gen_ai.provider.name", provider},
			{"gen_ai.request.model", name}, {"belay.turn.id", f.turn.id}, {"belay.turn.stop_reason", string(p.Reason)}}}
	if f.Content {
		s.Attrs = append(s.Attrs, messages("gen_ai.input.messages", "user", f.said)...)
	}
	spans := []Span{s}
	f.turn, f.turnMarks, f.said = open{}, nil, nil
	if p.Reason == event.StopFailed {
		spans[0].Error = "failed"
	}
	if p.Reason == event.StopSuperseded && !f.over {
		f.orphans = append(f.orphans, spans...)
		return nil
	}
	return spans
}

// woken ends a wait; a goal that ends while it waits ends the wait too.
func (f *Fold) woken(e event.Event, why string) []Span {
	if !f.wait.is() {
		return nil
	}
	s := Span{ID: SpanID(f.goal, ofWait, f.wait.id), Parent: SpanID(f.goal, ofGoal, ""), Name: "wait " + string(f.waitFor), Kind: Internal,
		Start: f.wait.start, End: e.Time, Attrs: []Attr{{"belay.wait.reason", string(f.waitFor)}}}
	if why != "" && why != string(f.waitFor) {
		s.Attrs = append(s.Attrs, Attr{"belay.wait.ended_by", why})
	}
	f.wait = open{}
	return []Span{s}
}

func (f *Fold) verified(e event.Event, p event.VerificationFinished) []Span {
	start := e.Time
	if f.check.is() && f.check.id == p.Verification {
		start, f.check = f.check.start, open{}
	}
	s := Span{ID: SpanID(f.goal, ofVerification, p.Verification), Parent: f.parentID(), Name: "belay.verification", Kind: Internal, Start: start, End: e.Time,
		Attrs: []Attr{{"belay.verdict", p.Verdict.Verdict}, {"belay.goal.version", int64(p.Version)}}}
	return []Span{s}
}

// end sends the goal's own span.
func (f *Fold) end(e event.Event) []Span {
	var how, completed, failed string
	switch p := e.Payload.(type) {
	case event.GoalCompleted:
		how, completed = "completed", string(p.How)
	case event.GoalFailed:
		how, failed = "failed", string(p.Fault.Kind)
	case event.GoalCancelled:
		how = "cancelled"
	default:
		return nil
	}
	if f.over {
		return nil
	}
	f.over = true
	spans := append(f.woken(e, how), f.orphans...)
	f.orphans = nil
	provider, name := split(f.model)
	s := Span{ID: SpanID(f.goal, ofGoal, ""), Name: "invoke_workflow goal", Kind: Internal, Start: f.began, End: e.Time, Error: failed,
		Attrs: []Attr{{"gen_ai.operation.name", "invoke_workflow"}, {"gen_ai.workflow.name", "goal"}, {"gen_ai.provider.name", provider},
			{"gen_ai.request.model", name}, {"gen_ai.usage.input_tokens", f.used.Input}, {"gen_ai.usage.output_tokens", f.used.Output},
			{"belay.goal.status", how}, {"belay.cost_micros", f.cost}, {"belay.steps", f.steps}}}
	if completed != "" {
		s.Attrs = append(s.Attrs, Attr{"belay.goal.completed_how", completed})
	}
	if f.parent != "" {
		s.Links = []Link{{TraceID(f.parent), SpanID(f.parent, ofGoal, "")}}
	}
	if f.Content {
		s.Attrs = append(s.Attrs, messages("gen_ai.input.messages", "user", []string{f.text})...)
	}
	return append(spans, s)
}
