package openai

import (
	"encoding/json"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// reasoningData is what the adapter keeps beside a part so that reasoning can
// go back in the shape in which it came.
type reasoningData struct {
	// Field is reasoning_content or reasoning.
	Field string `json:"field,omitempty"`
	// Details is OpenRouter's reasoning_details, a list.
	Details json.RawMessage `json:"reasoning_details,omitempty"`
}

// callData is what a server wants back with a call: Google's thought
// signatures travel in extra_content.
type callData struct {
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

// Body returns the exact bytes of a request. The stable part ends behind the
// last message that later requests repeat.
func (m *Model) Body(r model.Request) ([]byte, int, error) {
	turns, err := wire.Turns(r.Messages, Provider)
	if err != nil {
		return nil, 0, err
	}
	b := append(make([]byte, 0, wire.SizeHint(r)), `{"model":`...)
	b = wire.AppendString(b, m.cfg.Name)
	b = append(b, `,"stream":true`...)
	if !m.cfg.NoStreamUsage {
		b = append(b, `,"stream_options":{"include_usage":true}`...)
	}
	if b, err = appendTools(b, r.Tools); err != nil {
		return nil, 0, err
	}
	b = append(b, `,"messages":[`...)
	open := len(b)
	if r.System != "" {
		b = append(b, `{"role":"system","content":`...)
		b = append(wire.AppendString(b, r.System), '}')
	}
	b, stable := m.appendTurns(b, open, turns, r.State)
	b = append(b, ']')
	if r.MaxOutput > 0 {
		b = append(b, ',', '"')
		b = append(b, m.cfg.LimitField...)
		b = strconv.AppendInt(append(b, `":`...), r.MaxOutput, 10)
	}
	return append(b, '}'), stable, nil
}

func appendTools(b []byte, tools []model.Tool) ([]byte, error) {
	if len(tools) == 0 {
		return b, nil // some servers refuse an empty list
	}
	b = append(b, `,"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"function","function":{"name":`...)
		b = wire.AppendString(b, t.Name)
		b = append(b, `,"description":`...)
		b = wire.AppendString(b, t.Description)
		if len(t.Schema) > 0 {
			var err error
			if b, err = wire.AppendRaw(append(b, `,"parameters":`...), t.Schema, "the schema of tool "+t.Name); err != nil {
				return nil, fault.New(fault.Internal, fault.Runtime, err.Error(), "correct the tool's schema")
			}
		}
		b = append(b, "}}"...)
	}
	return append(b, ']'), nil
}

// appendTurns writes the messages. Texts of neighbouring user messages are
// joined inside one string, because some chat templates want the roles to
// alternate, and because a later text then only extends the bytes before it.
func (m *Model) appendTurns(b []byte, open int, turns []wire.Turn, state string) ([]byte, int) {
	stable := len(b)
	begin := func(role string) {
		if len(b) > open {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"role":"`...), role...), `","content":`...)
	}
	inUser := false // the string of a user message is still open
	for _, t := range turns {
		if t.Parts == nil {
			begin("user")
			b = append(b, '"')
			for i, text := range t.User {
				if i > 0 {
					b = append(b, `\n\n`...)
				}
				b = wire.AppendText(b, text)
			}
			inUser, stable = true, len(b)
			continue
		}
		if inUser {
			b, inUser = append(b, `"}`...), false
		}
		for _, part := range portions(t) {
			begin("assistant")
			b = m.appendAssistant(b, part.Parts)
			for _, res := range part.Results {
				b = append(b, `,{"role":"tool","tool_call_id":`...)
				b = wire.AppendString(b, res.CallID)
				b = append(b, `,"content":`...)
				b = append(wire.AppendString(b, resultText(res)), '}')
			}
		}
		if len(t.Results) > 0 {
			stable = len(b)
		}
	}
	if state == "" && (len(turns) == 0 || len(turns[len(turns)-1].Results) == 0 && !inUser) {
		state = wire.Continue
	}
	switch {
	case inUser && state != "":
		b = append(b, `\n\n`...)
		b = append(wire.AppendText(b, state), `"}`...)
	case inUser:
		b = append(b, `"}`...)
	case state != "":
		begin("user")
		b = append(wire.AppendString(b, state), '}')
	}
	return b, stable
}

// maxCalls is how many calls OpenAI takes back in one message, although its
// models and others make more.
const maxCalls = 128

// portions splits a turn with more calls than one message may hold.
func portions(t wire.Turn) []wire.Turn {
	if len(t.Results) <= maxCalls {
		return []wire.Turn{t}
	}
	var out []wire.Turn
	for _, p := range t.Parts {
		n := len(out)
		if n == 0 || p.Kind == event.PartCall && len(out[n-1].Results) == maxCalls {
			out = append(out, wire.Turn{})
			n++
		}
		last := &out[n-1]
		last.Parts = append(last.Parts, p)
		if p.Kind == event.PartCall {
			last.Results = append(last.Results, t.Results[(n-1)*maxCalls+len(last.Results)])
		}
	}
	return out
}

// resultText marks a failed result in words, since this wire has no field for
// it, and an empty one, since some servers refuse empty content.
func resultText(r model.ToolResult) string {
	text := r.Text
	if strings.TrimSpace(text) == "" {
		text = "(no output)"
	}
	if r.Error {
		return "ERROR: " + text
	}
	return text
}

// appendAssistant writes content, calls and reasoning; the caller wrote the
// role and the key of content.
func (m *Model) appendAssistant(b []byte, parts []event.Part) []byte {
	texts := 0
	for _, p := range parts {
		if p.Kind != event.PartText {
			continue
		}
		if texts++; texts == 1 {
			b = append(b, '"')
		} else {
			b = append(b, `\n\n`...)
		}
		b = wire.AppendText(b, p.Text)
	}
	if texts > 0 {
		b = append(b, '"')
	} else {
		b = append(b, "null"...)
	}
	b = m.appendCalls(b, parts)
	if m.reasoningBack(parts) {
		b = appendReasoning(b, parts)
	}
	return append(b, '}')
}

func (m *Model) appendCalls(b []byte, parts []event.Part) []byte {
	calls := 0
	for _, p := range parts {
		if p.Kind != event.PartCall {
			continue
		}
		if calls++; calls == 1 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = wire.AppendString(b, p.CallID)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = wire.AppendString(b, p.Tool)
		b = append(b, `,"arguments":`...)
		b = append(wire.AppendString(b, p.Arguments), '}')
		var data callData
		if !m.own && len(p.Data) > 0 && json.Unmarshal(p.Data, &data) == nil && len(data.Extra) > 0 {
			if with, err := wire.AppendRaw(append(b, `,"extra_content":`...), data.Extra, "extra_content"); err == nil {
				b = with
			}
		}
		b = append(b, '}')
	}
	if calls > 0 {
		b = append(b, ']')
	}
	return b
}

func appendReasoning(b []byte, parts []event.Part) []byte {
	text, field := "", ""
	var details json.RawMessage
	for _, p := range parts {
		var data reasoningData
		if p.Kind == event.PartCall || len(p.Data) == 0 || json.Unmarshal(p.Data, &data) != nil {
			continue
		}
		if data.Field == "reasoning" || data.Field == "reasoning_content" {
			text, field = text+p.Text, data.Field
		}
		if len(data.Details) > 0 {
			details = data.Details
		}
	}
	if field != "" {
		b = append(append(append(b, `,"`...), field...), `":`...)
		b = wire.AppendString(b, text)
	}
	if len(details) > 0 {
		if with, err := wire.AppendRaw(append(b, `,"reasoning_details":`...), details, "reasoning_details"); err == nil {
			b = with
		}
	}
	return b
}
