package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
)

// messages is the Messages wire.
type messages struct{ counting bool }

func (messages) name() string { return "anthropic" }

func (messages) authorized(h http.Header, key string) bool { return h.Get("X-Api-Key") == key }

type messagesRequest struct {
	Model     string          `json:"model"`
	Stream    bool            `json:"stream"`
	Thinking  json.RawMessage `json:"thinking"`
	MaxTokens *int64          `json:"max_tokens"`
	Tools     []struct {
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl *cacheControl   `json:"cache_control"`
	} `json:"tools"`
	System   []messageBlock `json:"system"`
	Messages []struct {
		Role    string         `json:"role"`
		Content []messageBlock `json:"content"`
	} `json:"messages"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

type messageBlock struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      string          `json:"content"`
	IsError      bool            `json:"is_error"`
	Thinking     *string         `json:"thinking"`
	Signature    string          `json:"signature"`
	Data         string          `json:"data"`
	CacheControl *cacheControl   `json:"cache_control"`
}

func (w messages) decode(r *Request) error {
	var q messagesRequest
	if err := strict(r.Body, &q); err != nil {
		return err
	}
	r.Model, r.stream = q.Model, q.Stream
	if r.Header.Get("Anthropic-Version") == "" {
		return errors.New("anthropic-version: header is required")
	}
	switch {
	case q.Model == "":
		return errors.New("model: field required")
	case len(q.Messages) == 0:
		return errors.New("messages: at least one message is required")
	case w.counting && (q.MaxTokens != nil || q.Stream):
		return errors.New("max_tokens, stream: extra inputs are not permitted")
	case !w.counting && (q.MaxTokens == nil || *q.MaxTokens <= 0):
		return errors.New("max_tokens: field required")
	}
	if q.MaxTokens != nil {
		r.Neutral.MaxOutput = *q.MaxTokens
	}
	points := 0
	mark := func(c *cacheControl) {
		if c != nil {
			points++
		}
	}
	for i, t := range q.Tools {
		if !validName.MatchString(t.Name) || !objectSchema(t.InputSchema) {
			return fmt.Errorf("tools.%d is invalid", i)
		}
		mark(t.CacheControl)
		r.Neutral.Tools = append(r.Neutral.Tools, model.Tool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	for i, b := range q.System {
		if b.Type != "text" || b.Text == nil || blank(*b.Text) {
			return fmt.Errorf("system.%d: text content blocks must be non-empty", i)
		}
		mark(b.CacheControl)
		r.Neutral.System += *b.Text
	}
	h := messagesHistory{seen: map[string]bool{}, mark: mark}
	for i, m := range q.Messages {
		if err := h.message(i, m.Role, m.Content); err != nil {
			return err
		}
	}
	r.Neutral.Messages = h.out
	if points > 4 {
		return fmt.Errorf("a maximum of 4 blocks with cache_control may be provided; found %d", points)
	}
	if q.Messages[len(q.Messages)-1].Role != "user" {
		return errors.New("this model does not support assistant message prefill: the conversation must end with a user message")
	}
	return nil
}

// messagesHistory checks the roles and the pairing of calls and results.
type messagesHistory struct {
	out  []model.Message
	role string
	open []string
	seen map[string]bool
	mark func(*cacheControl)
}

func (h *messagesHistory) message(i int, role string, content []messageBlock) error {
	at := fmt.Sprintf("messages.%d", i)
	switch {
	case i == 0 && role != "user":
		return fmt.Errorf("%s: first message must use the \"user\" role", at)
	case role == h.role:
		return fmt.Errorf("%s: roles must alternate", at)
	case role != "user" && role != "assistant":
		return fmt.Errorf("%s: unexpected role %q", at, role)
	case len(content) == 0:
		return fmt.Errorf("%s: all messages must have non-empty content", at)
	}
	h.role = role
	var err error
	if role == "assistant" {
		err = h.assistant(at, content)
	} else {
		err = h.user(at, content)
	}
	return err
}

func (h *messagesHistory) assistant(at string, content []messageBlock) error {
	var parts []event.Part
	for j, b := range content {
		switch b.Type {
		case "text":
			if b.Text == nil || blank(*b.Text) {
				return fmt.Errorf("%s.content.%d: text content blocks must be non-empty", at, j)
			}
			parts = append(parts, textParts(*b.Text)...)
		case "tool_use":
			if !validID.MatchString(b.ID) || h.seen[b.ID] || !validName.MatchString(b.Name) || !isObject(b.Input) {
				return fmt.Errorf("%s.content.%d: tool_use %q of %q: ids must be unique and match %s, input must be a dictionary", at, j, b.ID, b.Name, validID)
			}
			h.seen[b.ID] = true
			h.open = append(h.open, b.ID)
			parts = append(parts, event.Part{Kind: event.PartCall, CallID: b.ID, Tool: b.Name, Arguments: string(b.Input)})
		case "thinking":
			if b.Thinking == nil || b.Signature == "" || b.CacheControl != nil {
				return fmt.Errorf("%s.content.%d: thinking needs its signature and takes no cache_control", at, j)
			}
			parts = append(parts, event.Part{Kind: event.PartThink, Text: *b.Thinking, Provider: "anthropic"})
		case "redacted_thinking":
			if b.Data == "" || b.CacheControl != nil {
				return fmt.Errorf("%s.content.%d: redacted_thinking needs its data", at, j)
			}
		default:
			return fmt.Errorf("%s.content.%d: unexpected type %q", at, j, b.Type)
		}
		h.mark(b.CacheControl)
	}
	h.out = append(h.out, model.Message{Role: model.Assistant, Parts: parts})
	return nil
}

func (h *messagesHistory) user(at string, content []messageBlock) error {
	var results []model.ToolResult
	var texts []string
	for j, b := range content {
		h.mark(b.CacheControl)
		switch b.Type {
		case "tool_result":
			if len(texts) > 0 || len(h.open) == 0 || h.open[0] != b.ToolUseID {
				return fmt.Errorf("%s.content.%d: tool_result %q has no tool_use at its place in the previous message", at, j, b.ToolUseID)
			}
			if b.IsError && b.Content == "" {
				return fmt.Errorf("%s.content.%d: content cannot be empty if is_error is true", at, j)
			}
			h.open = h.open[1:]
			results = append(results, model.ToolResult{CallID: b.ToolUseID, Text: b.Content, Error: b.IsError})
		case "text":
			if b.Text == nil || blank(*b.Text) {
				return fmt.Errorf("%s.content.%d: text content blocks must be non-empty", at, j)
			}
			texts = append(texts, *b.Text)
		default:
			return fmt.Errorf("%s.content.%d: unexpected type %q", at, j, b.Type)
		}
	}
	if len(h.open) > 0 {
		return fmt.Errorf("%s: tool_use ids were found without tool_result blocks immediately after: %v", at, h.open)
	}
	if results != nil {
		h.out = append(h.out, model.Message{Role: model.ToolRole, Results: results})
	}
	if texts != nil {
		h.out = append(h.out, model.Message{Role: model.User, Text: strings.Join(texts, "\n\n")})
	}
	return nil
}

func (messages) errorObject(kind fault.Kind, status int, message string) string {
	name := "invalid_request_error"
	switch {
	case kind == fault.ContextOverflow && status == http.StatusRequestEntityTooLarge:
		name = "request_too_large"
	case kind == fault.ContextOverflow:
		message = "prompt is too long: 210000 tokens > 200000 maximum; " + message
	case kind == fault.Refused:
		message = "Output blocked by content filtering policy; " + message
	case kind == fault.UnknownModel:
		name, message = "not_found_error", "model: "+message
	case kind == fault.BadCredentials:
		name = "authentication_error"
	case kind == fault.RateLimited:
		name = "rate_limit_error"
	case kind == fault.Overloaded:
		name = "overloaded_error"
	case kind == fault.Timeout:
		name = "timeout_error"
	case status >= 500:
		name = "api_error"
	}
	return quote(map[string]any{"type": "error", "error": map[string]any{"type": name, "message": message}, "request_id": "req_1"})
}

func (messages) errorEvent(kind string) string {
	return "event: error\ndata: " + quote(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": "Overloaded"}}) + "\n\n"
}

func messagesStop(a Answer, calls bool) string {
	switch a.Response.StopReason {
	case model.StopLength:
		return "max_tokens"
	case "", model.StopEnd, model.StopToolCalls:
		if calls {
			return "tool_use"
		}
		return "end_turn"
	}
	return a.Response.StopReason
}

func messagesUsage(u event.Usage, output int64) map[string]any {
	return map[string]any{"input_tokens": u.Input - u.CachedInput - u.CacheWrite, "cache_creation_input_tokens": u.CacheWrite,
		"cache_read_input_tokens": u.CachedInput, "output_tokens": output}
}

// signature stands for the provider's own; the same thinking has the same one.
func signature(text string) string { return fmt.Sprintf("sig-%08x==", len(text)) }

func wholeBlock(p event.Part) map[string]any {
	switch p.Kind {
	case event.PartText:
		return map[string]any{"type": "text", "text": p.Text}
	case event.PartThink:
		return map[string]any{"type": "thinking", "thinking": p.Text, "signature": signature(p.Text)}
	case event.PartCall:
		input := json.RawMessage(p.Arguments)
		if !isObject(input) {
			input = json.RawMessage(`{}`) // the API parses the input itself
		}
		return map[string]any{"type": "tool_use", "id": p.CallID, "name": p.Tool, "input": input}
	}
	return map[string]any{"type": "redacted_thinking", "data": "b3BhcXVl"}
}

// answerParts leaves out what this wire cannot say.
func answerParts(a Answer) []event.Part {
	var out []event.Part
	for _, p := range a.Response.Parts {
		if p.Kind == event.PartOpaque && p.Provider != "anthropic" {
			continue
		}
		out = append(out, p)
	}
	return out
}

func (messages) whole(r Request, a Answer) string {
	content, calls := []any{}, false
	for _, p := range answerParts(a) {
		content = append(content, wholeBlock(p))
		calls = calls || p.Kind == event.PartCall
	}
	return quote(map[string]any{"id": fmt.Sprintf("msg_%d", r.Number), "type": "message", "role": "assistant", "model": r.Model,
		"content": content, "stop_reason": messagesStop(a, calls), "stop_sequence": nil, "usage": messagesUsage(a.Response.Usage, a.Response.Usage.Output)})
}

func (messages) events(r Request, a Answer, rng *rand.Rand) []string {
	var out []string
	emit := func(name string, o map[string]any) {
		o["type"] = name
		out = append(out, "event: "+name+"\ndata: "+quote(o)+"\n\n")
	}
	u := a.Response.Usage
	emit("message_start", map[string]any{"message": map[string]any{"id": fmt.Sprintf("msg_%d", r.Number), "type": "message", "role": "assistant",
		"model": r.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": messagesUsage(u, 1)}})
	emit("ping", map[string]any{})
	calls := false
	for i, p := range answerParts(a) {
		start, deltas := blockStream(p, rng, a.Seed != 0)
		emit("content_block_start", map[string]any{"index": i, "content_block": start})
		for _, d := range deltas {
			emit("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		emit("content_block_stop", map[string]any{"index": i})
		calls = calls || p.Kind == event.PartCall
	}
	emit("message_delta", map[string]any{"delta": map[string]any{"stop_reason": messagesStop(a, calls), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": u.Output}})
	emit("message_stop", map[string]any{})
	return out
}

func blockStream(p event.Part, rng *rand.Rand, seeded bool) (map[string]any, []map[string]any) {
	var deltas []map[string]any
	add := func(kind, field, text string) {
		for _, piece := range split(text, rng, seeded) {
			deltas = append(deltas, map[string]any{"type": kind, field: piece})
		}
	}
	switch p.Kind {
	case event.PartText:
		add("text_delta", "text", p.Text)
		return map[string]any{"type": "text", "text": ""}, deltas
	case event.PartThink:
		add("thinking_delta", "thinking", p.Text)
		add("signature_delta", "signature", signature(p.Text))
		return map[string]any{"type": "thinking", "thinking": "", "signature": ""}, deltas
	case event.PartCall:
		deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": ""})
		add("input_json_delta", "partial_json", p.Arguments)
		return map[string]any{"type": "tool_use", "id": p.CallID, "name": p.Tool, "input": map[string]any{}}, deltas
	}
	return wholeBlock(p), nil
}
