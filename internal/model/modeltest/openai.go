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

// openAI is the Chat Completions wire.
type openAI struct{}

func (openAI) name() string { return "openai" }

func (openAI) authorized(h http.Header, key string) bool {
	return h.Get("Authorization") == "Bearer "+key
}

type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Messages            []chatMessage `json:"messages"`
	MaxTokens           *int64        `json:"max_tokens"`
	MaxCompletionTokens *int64        `json:"max_completion_tokens"`
}

type chatMessage struct {
	Role       string   `json:"role"`
	Content    *string  `json:"content"`
	ToolCallID string   `json:"tool_call_id"`
	ToolCalls  []chatTC `json:"tool_calls"`
	// What servers other than OpenAI's own take back.
	ReasoningContent string          `json:"reasoning_content"`
	Reasoning        string          `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
}

type chatTC struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Extra    json.RawMessage `json:"extra_content"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (openAI) decode(r *Request) error {
	var c chatRequest
	if err := strict(r.Body, &c); err != nil {
		return err
	}
	r.Model, r.stream = c.Model, c.Stream
	switch {
	case c.Model == "":
		return errors.New("you must provide a model parameter")
	case len(c.Messages) == 0:
		return errors.New("messages: too short")
	case c.StreamOptions != nil && !c.Stream:
		return errors.New("stream_options is only allowed with stream")
	case c.MaxTokens != nil && c.MaxCompletionTokens != nil:
		return errors.New("max_tokens and max_completion_tokens exclude each other")
	case c.Tools != nil && len(c.Tools) == 0:
		return errors.New("tools: too short")
	}
	for _, limit := range []*int64{c.MaxTokens, c.MaxCompletionTokens} {
		if limit != nil {
			if *limit <= 0 {
				return errors.New("the output limit must be positive")
			}
			r.Neutral.MaxOutput = *limit
		}
	}
	for i, t := range c.Tools {
		f := t.Function
		if t.Type != "function" || !validName.MatchString(f.Name) || f.Parameters != nil && !objectSchema(f.Parameters) {
			return fmt.Errorf("tools[%d] is invalid", i)
		}
		r.Neutral.Tools = append(r.Neutral.Tools, model.Tool{Name: f.Name, Description: f.Description, Schema: f.Parameters})
	}
	return chatHistory(c.Messages, r)
}

// chatHistory checks the pairing of calls and results and translates back.
func chatHistory(list []chatMessage, r *Request) error {
	var open []string // call ids that wait for their result, in order
	seen := map[string]bool{}
	for i, m := range list {
		at := fmt.Sprintf("messages[%d]", i)
		if len(open) > 0 && m.Role != "tool" {
			return fmt.Errorf("%s: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; missing %v", at, open)
		}
		if m.Content == nil && (m.Role != "assistant" || len(m.ToolCalls) == 0) {
			return fmt.Errorf("%s.content: expected a string, got null", at)
		}
		if m.Content != nil && *m.Content == "" {
			return fmt.Errorf("%s.content is empty", at)
		}
		switch m.Role {
		case "system":
			if i > 0 {
				return fmt.Errorf("%s: system is not first", at)
			}
			r.Neutral.System = *m.Content
		case "user":
			if i > 0 && list[i-1].Role == "user" {
				return fmt.Errorf("%s: two user messages in a row", at)
			}
			r.Neutral.Messages = append(r.Neutral.Messages, model.Message{Role: model.User, Text: *m.Content})
		case "assistant":
			parts, err := chatParts(m, at, seen, &open)
			if err != nil {
				return err
			}
			r.Neutral.Messages = append(r.Neutral.Messages, model.Message{Role: model.Assistant, Parts: parts})
		case "tool":
			if len(open) == 0 || open[0] != m.ToolCallID {
				return fmt.Errorf("%s: tool_call_id %q answers no call, or not in order (open: %v)", at, m.ToolCallID, open)
			}
			open = open[1:]
			text, failed := strings.CutPrefix(*m.Content, "ERROR: ")
			res := model.ToolResult{CallID: m.ToolCallID, Text: text, Error: failed}
			r.Neutral.Messages = append(r.Neutral.Messages, model.Message{Role: model.ToolRole, Results: []model.ToolResult{res}})
		default:
			return fmt.Errorf("%s: role %q", at, m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the last message has tool calls without results: %v", open)
	}
	if list[len(list)-1].Role == "assistant" || list[len(list)-1].Role == "system" {
		return errors.New("the last message must be a user's or a tool's")
	}
	return nil
}

func chatParts(m chatMessage, at string, seen map[string]bool, open *[]string) ([]event.Part, error) {
	var parts []event.Part
	if m.Content != nil {
		parts = textParts(*m.Content)
	}
	if len(m.ToolCalls) > 128 {
		return nil, fmt.Errorf("%s.tool_calls: array too long. Expected an array with maximum length 128, but got an array with length %d instead", at, len(m.ToolCalls))
	}
	for j, t := range m.ToolCalls {
		switch {
		case t.Type != "function" || !validName.MatchString(t.Function.Name):
			return nil, fmt.Errorf("%s.tool_calls[%d].function.name %q does not match %s", at, j, t.Function.Name, validName)
		case t.ID == "" || len(t.ID) > 40 || seen[t.ID]:
			return nil, fmt.Errorf("%s.tool_calls[%d].id %q is empty, too long or used before", at, j, t.ID)
		case !isObject(json.RawMessage(t.Function.Arguments)):
			return nil, fmt.Errorf("%s.tool_calls[%d].function.arguments are no JSON object", at, j)
		}
		seen[t.ID] = true
		*open = append(*open, t.ID)
		parts = append(parts, event.Part{Kind: event.PartCall, CallID: t.ID, Tool: t.Function.Name, Arguments: t.Function.Arguments})
	}
	return parts, nil
}

func (openAI) errorObject(kind fault.Kind, status int, message string) string {
	kindName, code := "invalid_request_error", any(nil)
	switch kind {
	case fault.ContextOverflow:
		code = "context_length_exceeded"
	case fault.RateLimited:
		kindName, code = "requests", "rate_limit_exceeded"
	case fault.BadCredentials:
		code = "invalid_api_key"
	case fault.UnknownModel:
		code = "model_not_found"
	case fault.Refused:
		code = "content_filter"
	}
	if status >= 500 {
		kindName = "server_error"
	}
	return quote(map[string]any{"error": map[string]any{"message": message, "type": kindName, "param": nil, "code": code}})
}

func (openAI) errorEvent(kind string) string {
	return "data: " + quote(map[string]any{"error": map[string]any{"message": "the server had an error", "type": kind, "code": nil}}) + "\n\n"
}

func chatUsage(u event.Usage) map[string]any {
	return map[string]any{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Total(),
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.CachedInput},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning}}
}

func chatFinish(a Answer, calls bool) string {
	switch {
	case a.Response.StopReason == model.StopLength:
		return "length"
	case a.Response.StopReason == "content_filter":
		return "content_filter"
	case calls && !a.Dialect.StopForCalls:
		return "tool_calls"
	}
	return "stop"
}

func reasoningField(a Answer) string {
	if a.Dialect.Reasoning {
		return "reasoning"
	}
	return "reasoning_content"
}

func chatHead(object string, r Request) map[string]any {
	return map[string]any{"id": fmt.Sprintf("chatcmpl-%d", r.Number), "object": object, "created": 1790000000, "model": r.Model}
}

func (openAI) whole(r Request, a Answer) string {
	msg := map[string]any{"role": "assistant", "content": nil}
	var calls []any
	for _, p := range a.Response.Parts {
		switch p.Kind {
		case event.PartText:
			msg["content"] = p.Text
		case event.PartThink:
			msg[reasoningField(a)] = p.Text
		case event.PartCall:
			calls = append(calls, map[string]any{"id": p.CallID, "type": "function", "function": map[string]any{"name": p.Tool, "arguments": p.Arguments}})
		}
	}
	if calls != nil {
		msg["tool_calls"] = calls
	}
	o := chatHead("chat.completion", r)
	o["choices"] = []any{map[string]any{"index": 0, "message": msg, "finish_reason": chatFinish(a, calls != nil), "logprobs": nil}}
	if !a.Dialect.NoUsage {
		o["usage"] = chatUsage(a.Response.Usage)
	}
	return quote(o)
}

func (openAI) events(r Request, a Answer, rng *rand.Rand) []string {
	d, seeded := a.Dialect, a.Seed != 0
	var out []string
	emit := func(choices []any, usage any) {
		o := chatHead("chat.completion.chunk", r)
		o["choices"] = choices
		switch {
		case d.NoUsage:
		case d.InlineUsage:
			o["usage"] = chatUsage(a.Response.Usage)
		default:
			o["usage"] = usage
		}
		out = append(out, "data: "+quote(o)+"\n\n")
	}
	delta := func(v map[string]any) { emit([]any{map[string]any{"index": 0, "delta": v, "finish_reason": nil}}, nil) }
	delta(map[string]any{"role": "assistant", "content": ""})
	calls := 0
	for _, p := range a.Response.Parts {
		switch p.Kind {
		case event.PartText:
			for _, piece := range split(p.Text, rng, seeded) {
				delta(map[string]any{"content": piece})
			}
		case event.PartThink:
			for _, piece := range split(p.Text, rng, seeded) {
				delta(map[string]any{reasoningField(a): piece})
			}
		case event.PartCall:
			for _, c := range chatCallDeltas(p, calls, d, rng, seeded) {
				delta(map[string]any{"tool_calls": []any{c}})
			}
			calls++
		}
		if seeded && rng.IntN(3) == 0 {
			out = append(out, ": keep-alive\n\n")
		}
	}
	emit([]any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": chatFinish(a, calls > 0)}}, nil)
	if !d.NoUsage && !d.InlineUsage {
		emit([]any{}, chatUsage(a.Response.Usage))
	}
	if !d.NoDone {
		out = append(out, "data: [DONE]\n\n")
	}
	return out
}

func chatCallDeltas(p event.Part, index int, d Dialect, rng *rand.Rand, seeded bool) []map[string]any {
	base := func(full bool, args any) map[string]any {
		fn := map[string]any{"arguments": args}
		c := map[string]any{"function": fn}
		if !d.NoIndex {
			c["index"] = index
			if d.ZeroIndex {
				c["index"] = 0
			}
		}
		if full || d.RepeatID {
			fn["name"] = p.Tool
			c["type"] = "function"
			if !d.NoID {
				c["id"] = p.CallID
			}
		}
		return c
	}
	if d.WholeCalls {
		if d.ObjectArgs && isObject(json.RawMessage(p.Arguments)) {
			return []map[string]any{base(true, json.RawMessage(p.Arguments))}
		}
		return []map[string]any{base(true, p.Arguments)}
	}
	out := []map[string]any{base(true, "")}
	for _, piece := range split(p.Arguments, rng, seeded) {
		out = append(out, base(false, piece))
	}
	return out
}
