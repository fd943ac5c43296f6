package trace

import (
	"encoding/json"
	"strconv"

	"belay/internal/event"
)

// answered ends a model request.
func (f *Fold) answered(e event.Event) []Span {
	if !f.request.is() {
		return nil
	}
	provider, name := split(f.asked.Model)
	s := Span{ID: SpanID(f.goal, ofRequest, f.request.id), Parent: f.parentID(), Name: "chat " + name, Kind: Client, Start: f.request.start, End: e.Time,
		Attrs: []Attr{{"gen_ai.operation.name", "chat"}, {"gen_ai.provider.name", provider}, {"gen_ai.request.model", name},
			{"gen_ai.request.max_tokens", f.asked.MaxOutput}, {"belay.request.id", f.request.id}, {"belay.request.attempt", int64(f.asked.Attempt)}}}
	switch p := e.Payload.(type) {
	case event.ModelResponded:
		if p.Request != f.request.id {
			return nil
		}
		u := p.Usage
		f.used.Input, f.used.Output = f.used.Input+u.Input, f.used.Output+u.Output
		f.cost, f.steps = f.cost+p.CostMicros, f.steps+1
		s.Attrs = append(s.Attrs, Attr{"gen_ai.usage.input_tokens", u.Input}, Attr{"gen_ai.usage.output_tokens", u.Output},
			Attr{"gen_ai.usage.cache_read.input_tokens", u.CachedInput}, Attr{"gen_ai.usage.cache_creation.input_tokens", u.CacheWrite},
			Attr{"belay.cost_micros", p.CostMicros})
		if p.Model != "" {
			s.Attrs = append(s.Attrs, Attr{"gen_ai.response.model", p.Model})
		}
		if p.StopReason != "" {
			s.Attrs = append(s.Attrs, Attr{"gen_ai.response.finish_reasons", []string{p.StopReason}})
		}
		if f.Content {
			s.Attrs = append(s.Attrs, outputMessages(p)...)
		}
	case event.ModelFailed:
		if p.Request != f.request.id {
			return nil
		}
		s.Error = string(p.Fault.Kind)
		if f.Content {
			s.Message = p.Fault.Message
		}
	}
	f.request = open{}
	return []Span{s}
}

// span is what an operation's end, whichever, has in common.
func (f *Fold) span(e event.Event, o *op, outcome event.Outcome) Span {
	start := o.started
	if start == 0 || start == e.Time {
		start = o.ready // what rides with its end began when it could
	}
	which := e.Op
	if o.runs > 0 {
		which += "." + strconv.Itoa(o.runs+1)
	}
	s := Span{ID: SpanID(f.goal, ofOperation, which), Parent: o.parent, Name: "execute_tool " + o.Tool, Kind: Internal, Start: start, End: e.Time, Marks: o.marks,
		Attrs: []Attr{{"gen_ai.operation.name", "execute_tool"}, {"gen_ai.tool.name", o.Tool}, {"gen_ai.tool.type", "function"}, {"belay.op.id", e.Op},
			{"belay.op.effect", string(o.Effect)}, {"belay.op.outcome", string(outcome)}, {"belay.op.attempts", int64(o.attempts)}}}
	if o.CallID != "" {
		s.Attrs = append(s.Attrs, Attr{"gen_ai.tool.call.id", o.CallID})
	}
	if o.asked {
		s.Attrs = append(s.Attrs, Attr{"belay.op.asked", true})
	}
	if len(o.marks) > 0 && o.marks[0].At < s.Start {
		s.Start = o.marks[0].At // what it waited for lies within it
	}
	if f.Content {
		s.Attrs = append(s.Attrs, Attr{"gen_ai.tool.call.arguments", clip(string(o.Arguments))})
	}
	return s
}

func (f *Fold) finished(e event.Event, p event.OperationFinished) []Span {
	o := f.ops[e.Op]
	if o == nil {
		return nil
	}
	s := f.span(e, o, p.Outcome)
	if o.runs++; p.Outcome == event.OutcomeUnknown {
		o.started, o.ready, o.marks = 0, e.Time, nil // a person may have it run again
	} else {
		delete(f.ops, e.Op)
	}
	if p.Recovered != "" {
		s.Attrs = append(s.Attrs, Attr{"belay.op.recovered", p.Recovered})
	}
	if c := p.Result.Command; c != nil {
		s.Attrs = append(s.Attrs, Attr{"process.exit.code", int64(c.ExitCode)})
	}
	if f.Content {
		s.Attrs = append(s.Attrs, Attr{"gen_ai.tool.call.result", clip(p.Result.Output.Head)})
	}
	if p.Outcome != event.Succeeded {
		s.Error = string(p.Outcome)
		if p.Result.Fault != nil {
			s.Error = string(p.Result.Fault.Kind)
			if f.Content {
				s.Message = p.Result.Fault.Message
			}
		}
	}
	return []Span{s}
}

func (f *Fold) rejected(e event.Event, p event.OperationRejected) []Span {
	o := f.ops[e.Op]
	if o == nil {
		return nil
	}
	delete(f.ops, e.Op)
	s := f.span(e, o, p.Outcome)
	s.Error = string(p.Fault.Kind)
	if f.Content {
		s.Message = p.Fault.Message
	}
	return []Span{s}
}

// maxText is the longest text that an attribute has.
const maxText = 8 << 10

func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut]
}

// part is a piece of a message, as the conventions write it.
type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

func messages(key, role string, texts []string) []Attr {
	var ms []message
	for _, t := range texts {
		ms = append(ms, message{Role: role, Parts: []part{{Type: "text", Content: clip(t)}}})
	}
	return asJSON(key, ms)
}

func outputMessages(p event.ModelResponded) []Attr {
	m := message{Role: "assistant", Parts: []part{}, Finish: p.StopReason}
	for _, x := range p.Parts {
		switch x.Kind {
		case event.PartText:
			m.Parts = append(m.Parts, part{Type: "text", Content: clip(x.Text)})
		case event.PartThink:
			m.Parts = append(m.Parts, part{Type: "reasoning", Content: clip(x.Text)})
		case event.PartCall:
			c := part{Type: "tool_call", ID: x.CallID, Name: x.Tool}
			if json.Valid([]byte(x.Arguments)) && len(x.Arguments) <= maxText {
				c.Arguments = json.RawMessage(x.Arguments)
			}
			m.Parts = append(m.Parts, c)
		}
	}
	return asJSON("gen_ai.output.messages", []message{m})
}

func asJSON(key string, ms []message) []Attr {
	if len(ms) == 0 {
		return nil
	}
	b, err := json.Marshal(ms)
	if err != nil {
		return nil // only texts and valid JSON are in it
	}
	return []Attr{{key, string(b)}}
}
