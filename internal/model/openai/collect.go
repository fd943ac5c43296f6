package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// chunk is one event of a stream, or a whole reply: they differ only in delta
// and message.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	// Object is "error" in the error shape of older vLLM versions.
	Object string `json:"object"`
}

type choice struct {
	Index        int             `json:"index"`
	Delta        *message        `json:"delta"`
	Message      *message        `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

type message struct {
	Content          json.RawMessage `json:"content"`
	Refusal          string          `json:"refusal"`
	ReasoningContent string          `json:"reasoning_content"`
	// Reasoning is a string with most servers; other shapes are left alone.
	Reasoning        json.RawMessage   `json:"reasoning"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []toolCall        `json:"tool_calls"`
	FunctionCall     *function         `json:"function_call"`
}

type toolCall struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Function function        `json:"function"`
	Extra    json.RawMessage `json:"extra_content"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	// CacheHit is DeepSeek's name for cached tokens.
	CacheHit      int64 `json:"prompt_cache_hit_tokens"`
	PromptDetails struct {
		Cached     int64 `json:"cached_tokens"`
		CacheWrite int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// collector puts a response together.
type collector struct {
	target  wire.Target
	request string
	onDelta func(model.Delta)

	model      string
	text       strings.Builder
	refusal    strings.Builder
	reasoning  strings.Builder
	field      string // the field that reasoning came in
	details    detailList
	calls      callList
	finish     string
	usage      event.Usage
	usageKnown bool
}

func newCollector(t wire.Target, request string, onDelta func(model.Delta)) *collector {
	if onDelta == nil {
		onDelta = func(model.Delta) {}
	}
	return &collector{target: t, request: request, onDelta: onDelta}
}

var done = []byte("[DONE]")

// stream reads server-sent events up to [DONE], or up to the end if a finish
// reason came before it.
func (c *collector) stream(body io.Reader) error {
	events := wire.NewEvents(body)
	for {
		ev, err := events.Next()
		data := bytes.TrimSpace(ev.Data)
		if bytes.Equal(data, done) {
			return nil
		}
		if err != nil {
			// The last chunk may lack the blank line that closes it; a part of
			// one is no JSON.
			if json.Valid(data) {
				if err := c.chunk(data); err != nil {
					return err
				}
			}
			return c.ended(err)
		}
		if len(data) == 0 {
			continue
		}
		if err := c.chunk(data); err != nil {
			return err
		}
	}
}

// ended judges the end of a stream without [DONE].
func (c *collector) ended(err error) error {
	if c.finish != "" {
		return nil
	}
	if errors.Is(err, wire.ErrLineTooLong) {
		return c.target.Malformed("%v", err)
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		return err
	}
	return c.target.Cut(err)
}

// whole reads a reply that is no stream.
func (c *collector) whole(body io.Reader) error {
	all, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	// Some servers stream without saying so.
	if t := bytes.TrimLeft(all, "\r\n \xef\xbb\xbf"); bytes.HasPrefix(t, []byte("data:")) || bytes.HasPrefix(t, []byte(":")) {
		return c.stream(bytes.NewReader(all))
	}
	if !json.Valid(all) {
		if len(bytes.TrimSpace(all)) == 0 || bytes.HasPrefix(bytes.TrimSpace(all), []byte("{")) {
			return c.target.Cut(io.ErrUnexpectedEOF)
		}
		return c.target.Malformed("the reply is not JSON: %.200q", all)
	}
	if err := c.chunk(all); err != nil {
		return err
	}
	return nil
}

// chunk takes in one JSON object.
func (c *collector) chunk(data []byte) error {
	var k chunk
	if err := json.Unmarshal(data, &k); err != nil {
		return c.target.Malformed("a chunk of the reply cannot be read (%v): %.200q", err, data)
	}
	if k.Object == "error" || present(k.Error) {
		return c.target.Classify(wire.ParseFailure(data))
	}
	if k.Model != "" {
		c.model = k.Model
	}
	if u := k.Usage; u != nil {
		c.usageKnown = true
		c.usage = event.Usage{Input: u.Prompt, Output: u.Completion, CachedInput: max(u.PromptDetails.Cached, u.CacheHit),
			CacheWrite: u.PromptDetails.CacheWrite, Reasoning: u.CompletionDetails.Reasoning}
	}
	for _, ch := range k.Choices {
		if ch.Index != 0 {
			continue // only one was asked for
		}
		for _, m := range []*message{ch.Delta, ch.Message} {
			if m == nil {
				continue
			}
			if err := c.message(m); err != nil {
				return err
			}
		}
		if present(ch.Error) {
			return c.target.Classify(wire.ParseFailure([]byte(`{"error":` + string(ch.Error) + `}`)))
		}
		if ch.FinishReason != "" {
			c.finish = ch.FinishReason
		}
	}
	return nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func (c *collector) message(m *message) error {
	text, err := contentText(m.Content)
	if err != nil {
		return c.target.Malformed("content of an unknown shape: %.200s", m.Content)
	}
	if text != "" {
		c.text.WriteString(text)
		c.onDelta(model.Delta{Text: text})
	}
	c.refusal.WriteString(m.Refusal)
	thinking, field := m.ReasoningContent, "reasoning_content"
	if thinking == "" {
		field = "reasoning"
		_ = json.Unmarshal(m.Reasoning, &thinking) // another shape is no text
	}
	if thinking != "" {
		c.field = field
		c.reasoning.WriteString(thinking)
		c.onDelta(model.Delta{Thinking: thinking})
	}
	for _, d := range m.ReasoningDetails {
		c.details.add(d)
	}
	for _, t := range m.ToolCalls {
		if name := c.calls.add(t); name != "" {
			c.onDelta(model.Delta{Tool: name})
		}
	}
	if f := m.FunctionCall; f != nil {
		zero := 0
		if name := c.calls.add(toolCall{Index: &zero, Function: *f}); name != "" {
			c.onDelta(model.Delta{Tool: name})
		}
	}
	return nil
}

// contentText reads content that is a string, null, or a list of text parts.
func contentText(raw json.RawMessage) (string, error) {
	if !present(raw) {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		return s, nil
	}
	var parts []struct {
		Text json.RawMessage `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", err
	}
	for _, p := range parts {
		var t string
		if json.Unmarshal(p.Text, &t) == nil {
			s += t
		}
	}
	return s, nil
}

// response is what came, once it came whole.
func (c *collector) response() (model.Response, error) {
	r := model.Response{Model: c.model, Usage: c.usage, UsageKnown: c.usageKnown}
	switch c.finish {
	case "content_filter":
		return r, c.target.Classify(wire.Failure{Type: "content_filter", Message: "the provider's content filter ended the response"})
	case "error":
		return r, c.target.Classify(wire.Failure{Type: "server_error", Message: "the provider ended the response with an error"})
	}
	if c.refusal.Len() > 0 && c.text.Len() == 0 && len(c.calls.slots) == 0 {
		return r, fault.New(fault.Refused, fault.Model, c.target.Scrub("openai: the model refuses: "+c.refusal.String()),
			"say it differently or use another --model")
	}
	if c.finish == "" && c.text.Len() == 0 && len(c.calls.slots) == 0 {
		return r, c.target.Malformed("the reply is empty")
	}
	calls, err := c.calls.parts(c.request)
	if err != nil {
		return r, c.target.Malformed("%v", err)
	}
	if c.finish == "tool_calls" && len(calls) == 0 {
		return r, c.target.Malformed("the reply announces tool calls and has none")
	}
	if c.reasoning.Len() > 0 || len(c.details.items) > 0 {
		data, err := json.Marshal(reasoningData{Field: c.field, Details: c.details.json()})
		if err != nil {
			return r, c.target.Malformed("reasoning details: %v", err)
		}
		kind := event.PartThink
		if c.reasoning.Len() == 0 {
			kind = event.PartOpaque
		}
		r.Parts = append(r.Parts, event.Part{Kind: kind, Text: c.reasoning.String(), Provider: Provider, Data: data})
	}
	if c.text.Len() > 0 {
		r.Parts = append(r.Parts, event.Part{Kind: event.PartText, Text: c.text.String()})
	}
	r.Parts = append(r.Parts, calls...)
	switch c.finish {
	case "length", "max_tokens":
		r.StopReason = model.StopLength
	case "stop", "tool_calls", "function_call", "":
		// Servers that say "stop" after calls are common.
		r.StopReason = model.StopEnd
		if len(calls) > 0 {
			r.StopReason = model.StopToolCalls
		}
	default:
		r.StopReason = c.finish
	}
	return r, nil
}

// callList assembles calls from deltas.
type callList struct{ slots []*slot }

type slot struct {
	index     int // as the server counts; -1 if it does not
	id, name  string
	arguments strings.Builder
	extra     json.RawMessage
}

// add takes in one delta and returns the tool's name when a call began.
func (l *callList) add(t toolCall) string {
	s, began := l.find(t)
	if s.id == "" || s.arguments.Len() == 0 && t.Function.Name == "" && t.ID != s.id {
		s.id += t.ID // ids split over chunks exist
	}
	if n := t.Function.Name; n != "" && n != s.name && s.arguments.Len() == 0 {
		s.name += n // so do names
	}
	if present(t.Extra) {
		s.extra = t.Extra
	}
	if raw := t.Function.Arguments; present(raw) {
		var piece string
		if json.Unmarshal(raw, &piece) == nil {
			s.arguments.WriteString(piece)
		} else {
			s.arguments.Write(raw) // an object instead of a string
		}
	}
	if began {
		return s.name
	}
	return ""
}

// find says which call a delta belongs to. A delta that brings both a new id
// and a name is a new call even under an index that is taken: some servers
// count every call as 0.
func (l *callList) find(t toolCall) (*slot, bool) {
	index := -1
	if t.Index != nil {
		index = *t.Index
	}
	for i := len(l.slots) - 1; i >= 0; i-- {
		s := l.slots[i]
		sameIndex := index >= 0 && s.index == index
		sameID := t.ID != "" && s.id == t.ID
		switch {
		case sameID && (index < 0 || sameIndex || s.index < 0):
			return s, false
		case sameIndex:
			if t.ID != "" && s.id != "" && t.Function.Name != "" || t.ID == "" && t.Function.Name != "" && s.whole() {
				return l.begin(index), true
			}
			return s, false
		}
	}
	if index < 0 && t.ID == "" && len(l.slots) > 0 {
		if last := l.slots[len(l.slots)-1]; t.Function.Name == "" || t.Function.Name == last.name && !last.whole() {
			return last, false
		}
	}
	return l.begin(index), true
}

func (l *callList) begin(index int) *slot {
	s := &slot{index: index}
	l.slots = append(l.slots, s)
	return s
}

// whole reports whether the arguments are complete, so that a further name
// starts another call.
func (s *slot) whole() bool {
	return s.arguments.Len() > 0 && json.Valid([]byte(s.arguments.String()))
}

// parts returns the calls in their order. Missing or repeated ids are made
// from the request's id and the place, so that they are the same on every
// reading of one reply.
func (l *callList) parts(request string) ([]event.Part, error) {
	seen := map[string]bool{}
	var out []event.Part
	for i, s := range l.slots {
		if s.name == "" {
			if s.arguments.Len() == 0 {
				continue // an empty placeholder
			}
			return nil, fmt.Errorf("tool call %d has no name", i)
		}
		p := event.Part{Kind: event.PartCall, CallID: s.id, Tool: s.name, Arguments: strings.ToValidUTF8(s.arguments.String(), "\ufffd")}
		if p.CallID == "" || seen[p.CallID] {
			sum := sha256.Sum256([]byte(request + "\x00" + strconv.Itoa(i) + "\x00" + p.CallID))
			p.CallID = "call_" + hex.EncodeToString(sum[:12])
		}
		seen[p.CallID] = true
		if len(s.extra) > 0 {
			data, err := json.Marshal(callData{Extra: s.extra})
			if err != nil {
				return nil, err
			}
			p.Provider, p.Data = Provider, data
		}
		out = append(out, p)
	}
	return out, nil
}

// detailList joins the pieces of reasoning_details by their index and type.
type detailList struct{ items []map[string]any }

func (l *detailList) add(raw json.RawMessage) {
	var d map[string]any
	if json.Unmarshal(raw, &d) != nil {
		return
	}
	index, counted := d["index"].(float64)
	kind, _ := d["type"].(string)
	for _, have := range l.items {
		haveIndex, haveCounted := have["index"].(float64)
		haveKind, _ := have["type"].(string)
		if !counted || !haveCounted || haveIndex != index || haveKind != kind {
			continue
		}
		for k, v := range d {
			old, isText := have[k].(string)
			piece, ok := v.(string)
			if isText && ok && (k == "text" || k == "summary" || k == "data") {
				have[k] = old + piece
			} else if v != nil {
				have[k] = v
			}
		}
		return
	}
	l.items = append(l.items, d)
}

func (l *detailList) json() json.RawMessage {
	if len(l.items) == 0 {
		return nil
	}
	b, err := json.Marshal(l.items)
	if err != nil {
		return nil
	}
	return b
}
