package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/anthropic"
	"belay/internal/model/modeltest"
)

func start(t *testing.T, answer func(modeltest.Request) modeltest.Answer) (*modeltest.Provider, *anthropic.Model) {
	t.Helper()
	p := modeltest.New(answer)
	t.Cleanup(p.Close)
	return p, connect(t, anthropic.Config{BaseURL: p.AnthropicBase(), Key: "sk-ant-test-0123456789"})
}

func connect(t *testing.T, cfg anthropic.Config) *anthropic.Model {
	t.Helper()
	cfg.Name = "claude-test"
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func always(a modeltest.Answer) func(modeltest.Request) modeltest.Answer {
	return func(modeltest.Request) modeltest.Answer { return a }
}

func ask() model.Request {
	return model.Request{System: "s", Messages: []model.Message{{Role: model.User, Text: "go"}}, State: "now", MaxOutput: 100, ID: "r1",
		Tools: []model.Tool{{Name: "t", Schema: json.RawMessage(`{ "type": "object" }`)}}}
}

func kindOf(err error) fault.Kind {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

func sample() model.Response {
	return model.Response{Parts: []event.Part{
		{Kind: event.PartThink, Text: "let me <think>"},
		{Kind: event.PartOpaque, Provider: "anthropic"},
		{Kind: event.PartText, Text: "Reading 文件 now."},
		{Kind: event.PartCall, CallID: "toolu_a", Tool: "t", Arguments: `{"path":"a.go","limit":10}`},
		{Kind: event.PartCall, CallID: "toolu_b", Tool: "t", Arguments: `{}`},
	}, Usage: event.Usage{Input: 1000, CachedInput: 900, CacheWrite: 60, Output: 50}}
}

func TestAStreamComesBackInItsBlocks(t *testing.T) {
	t.Parallel()
	for _, a := range []modeltest.Answer{{}, {Seed: 5}, {Seed: 6, LineEnd: "\r\n"}, {Whole: true}} {
		a.Response = sample()
		_, m := start(t, always(a))
		resp, err := m.Send(context.Background(), ask(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []event.PartKind
		for _, p := range resp.Parts {
			kinds = append(kinds, p.Kind)
		}
		if want := []event.PartKind{event.PartThink, event.PartOpaque, event.PartText, event.PartCall, event.PartCall}; !reflect.DeepEqual(kinds, want) {
			t.Fatalf("parts %v", kinds)
		}
		if resp.Parts[3].Arguments != `{"path":"a.go","limit":10}` && !a.Whole || resp.Parts[4].Arguments != "{}" || resp.StopReason != model.StopToolCalls {
			t.Errorf("%+v", resp)
		}
		if !resp.UsageKnown || resp.Usage != sample().Usage {
			t.Errorf("usage %+v", resp.Usage)
		}
	}
}

func TestThinkingGoesBackUnchangedAndInItsPlace(t *testing.T) {
	t.Parallel()
	p, m := start(t, always(modeltest.Answer{Response: sample(), Seed: 3}))
	resp, err := m.Send(context.Background(), ask(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := ask()
	r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Parts: resp.Parts}, model.Message{Role: model.ToolRole,
		Results: []model.ToolResult{{CallID: "toolu_b", Error: true}, {CallID: "toolu_a", Text: "ok"}}})
	if _, err := m.Send(context.Background(), r, nil); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []struct{ Content []map[string]any }
	}
	if err := json.Unmarshal(p.Requests()[1].Body, &sent); err != nil {
		t.Fatal(err)
	}
	got := sent.Messages[1].Content
	if got[0]["type"] != "thinking" || got[0]["thinking"] != "let me <think>" || !strings.HasPrefix(fmt.Sprint(got[0]["signature"]), "sig-") ||
		got[1]["type"] != "redacted_thinking" || got[1]["data"] != "b3BhcXVl" || got[2]["type"] != "text" {
		t.Errorf("sent back: %v", got)
	}
	results := sent.Messages[2].Content
	if results[0]["tool_use_id"] != "toolu_a" || results[1]["tool_use_id"] != "toolu_b" || results[1]["is_error"] != true || results[1]["content"] == "" {
		t.Errorf("results: %v", results)
	}
}

func TestUnsignedThinkingIsNotSentToAnthropicItself(t *testing.T) {
	t.Parallel()
	body := `{"type":"message","model":"m","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"x"}],"stop_reason":"end_turn"}`
	_, m := start(t, always(modeltest.Answer{Status: 200, Body: body}))
	resp, err := m.Send(context.Background(), ask(), nil)
	if err != nil || resp.Parts[0].Data == nil || resp.UsageKnown {
		t.Errorf("a server that signs nothing wants it back: %+v %v", resp, err)
	}
}

func TestBreakpointsStandWhereTheNextRequestFindsThem(t *testing.T) {
	t.Parallel()
	p, m := start(t, always(modeltest.Answer{Response: model.Response{Parts: []event.Part{{Kind: event.PartText, Text: "x"}}}}))
	r := ask()
	for _, n := range []int{1, 25, 2} { // calls in each response
		if _, err := m.Send(context.Background(), r, nil); err != nil {
			t.Fatal(err)
		}
		var calls []event.Part
		var results []model.ToolResult
		for i := range n {
			id := fmt.Sprintf("toolu_%d_%d", len(r.Messages), i)
			calls = append(calls, event.Part{Kind: event.PartCall, CallID: id, Tool: "t"})
			results = append(results, model.ToolResult{CallID: id, Text: "r"})
		}
		r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Parts: calls}, model.Message{Role: model.ToolRole, Results: results})
	}
	if _, err := m.Send(context.Background(), r, nil); err != nil {
		t.Fatal(err)
	}
	type place struct{ message, block int }
	var before []place
	for i, req := range p.Requests() {
		var sent struct {
			System   []map[string]any
			Messages []struct{ Content []map[string]any }
		}
		if err := json.Unmarshal(req.Body, &sent); err != nil {
			t.Fatal(err)
		}
		if sent.System[0]["cache_control"] == nil {
			t.Errorf("request %d: no breakpoint on the instructions", i+1)
		}
		var points []place
		for mi, msg := range sent.Messages {
			for bi, b := range msg.Content {
				if b["cache_control"] != nil {
					points = append(points, place{mi, bi})
				}
			}
		}
		last := sent.Messages[len(sent.Messages)-1].Content
		if want := (place{len(sent.Messages) - 1, len(last) - 2}); len(points) == 0 || points[len(points)-1] != want {
			t.Errorf("request %d: breakpoints %v, want the last at %v, before the state", i+1, points, want)
		}
		far := i == 2 // the response before it had 25 calls and results
		if far != (len(points) == 2) || far && points[0] != before[len(before)-1] {
			t.Errorf("request %d: breakpoints %v after %v", i+1, points, before)
		}
		before = points
	}
}

func TestACutAtAnyByteIsNoResponse(t *testing.T) {
	t.Parallel()
	short := model.Response{Parts: []event.Part{{Kind: event.PartText, Text: "hé"}, {Kind: event.PartCall, CallID: "c", Tool: "t", Arguments: `{"a":1}`}},
		Usage: event.Usage{Input: 7, Output: 9}}
	known, whole := 0, 0
	_, m := start(t, func(r modeltest.Request) modeltest.Answer {
		return modeltest.Answer{Response: short, CutAfter: r.Number, Reset: r.Number%5 == 0}
	})
	for n := 1; whole < 3; n++ {
		resp, err := m.Send(context.Background(), ask(), nil)
		switch {
		case err == nil && len(resp.Parts) == 2:
			whole++
		case kindOf(err) == fault.StreamCut && resp.Parts == nil && whole == 0 && n < 5000:
			if resp.UsageKnown && resp.Usage.Input == 7 {
				known++
			}
		default:
			t.Fatalf("cut after %d bytes: %+v, %v", n, resp, err)
		}
	}
	if known < 100 {
		t.Errorf("the usage told before a cut was kept only %d times", known)
	}
}

func TestStopReasonsAndErrors(t *testing.T) {
	t.Parallel()
	text := []event.Part{{Kind: event.PartText, Text: "x"}}
	sse := http.Header{"Content-Type": {"text/event-stream"}}
	for name, c := range map[string]struct {
		answer modeltest.Answer
		stop   string
		kind   fault.Kind
	}{
		"end":                      {modeltest.Answer{Response: model.Response{Parts: text}}, model.StopEnd, ""},
		"limit":                    {modeltest.Answer{Response: model.Response{Parts: text, StopReason: model.StopLength}}, model.StopLength, ""},
		"window":                   {modeltest.Answer{Response: model.Response{Parts: text, StopReason: "model_context_window_exceeded"}}, model.StopLength, ""},
		"pause":                    {modeltest.Answer{Response: model.Response{Parts: text, StopReason: "pause_turn"}}, "pause_turn", ""},
		"refusal":                  {modeltest.Answer{Response: model.Response{Parts: text, StopReason: "refusal"}}, "", fault.Refused},
		"overloaded in the stream": {modeltest.Answer{Response: model.Response{Parts: text}, ErrorInStream: "overloaded_error"}, "", fault.Overloaded},
		"junk in the stream":       {modeltest.Answer{Response: model.Response{Parts: text}, Garbage: "{no", GarbageAt: 2}, "", fault.MalformedReply},
		"a block that never began": {modeltest.Answer{Response: model.Response{Parts: text}, Garbage: `{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"y"}}`, GarbageAt: 3}, "", fault.MalformedReply},
		"an event of the future":   {modeltest.Answer{Response: model.Response{Parts: text}, Garbage: `{"type":"content_block_hint","index":9}`, GarbageAt: 3}, model.StopEnd, ""},
		"overloaded":               {modeltest.Answer{Fault: fault.New(fault.Overloaded, fault.Provider, "busy", "")}, "", fault.Overloaded},
		"no message":               {modeltest.Answer{Status: 200, Body: `{"object":"list"}`}, "", fault.MalformedReply},
		"nothing":                  {modeltest.Answer{Status: 200, Header: sse}, "", fault.StreamCut},
		"half an object":           {modeltest.Answer{Status: 200, Body: `{"type":"message","con`}, "", fault.StreamCut},
		"an error with 200":        {modeltest.Answer{Status: 200, Body: `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`}, "", fault.RateLimited},
		"announced calls":          {modeltest.Answer{Response: model.Response{Parts: text, StopReason: "tool_use"}}, "", fault.MalformedReply},
		"only a start":             {modeltest.Answer{Status: 200, Header: sse, Body: "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n"}, "", fault.MalformedReply},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, m := start(t, always(c.answer))
			resp, err := m.Send(context.Background(), ask(), nil)
			if kindOf(err) != c.kind || resp.StopReason != c.stop || err != nil && resp.Parts != nil {
				t.Errorf("%+v, %v", resp, err)
			}
			if n := len(p.Requests()); n != 1 {
				t.Errorf("%d requests for one Send", n)
			}
		})
	}
}

func TestARefusalSaysWhatTheProviderExplains(t *testing.T) {
	t.Parallel()
	stream := `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"I"}}

data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"looks like an exploit"}},"usage":{"output_tokens":4}}

data: {"type":"message_stop"}

`
	whole := `{"type":"message","content":[],"stop_reason":"refusal","stop_details":{"category":"bio","explanation":null},"usage":{"output_tokens":4}}`
	for want, a := range map[string]modeltest.Answer{
		"cyber: looks like an exploit": {Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: stream},
		"content: bio":                 {Status: 200, Body: whole},
	} {
		_, m := start(t, always(a))
		resp, err := m.Send(context.Background(), ask(), nil)
		if kindOf(err) != fault.Refused || !strings.Contains(err.Error(), want) || resp.Parts != nil || resp.Usage.Output != 4 {
			t.Errorf("%+v, %v, want %q", resp, err, want)
		}
	}
}

func TestABlockOfAnUnknownTypeIsKeptAndSentBack(t *testing.T) {
	t.Parallel()
	stream := `data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web","input":{}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"x"}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}

data: {"type":"message_stop"}

`
	_, m := start(t, always(modeltest.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: stream}))
	resp, err := m.Send(context.Background(), ask(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := ask()
	r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Parts: resp.Parts})
	body, _, err := m.Body(r)
	if err != nil || !strings.Contains(string(body), `{"id":"s","input":{"q":1},"name":"web","type":"server_tool_use"},{"type":"text","text":"x"}`) {
		t.Errorf("%s %v", body, err)
	}
}

func TestTheServerCountsWhenItIsAsked(t *testing.T) {
	t.Parallel()
	p, _ := start(t, always(modeltest.Answer{}))
	m := connect(t, anthropic.Config{BaseURL: p.AnthropicBase(), Key: "k", CountEndpoint: true})
	n, err := m.CountExactly(context.Background(), ask())
	if err != nil || !m.Info().Counts || n != int64(len(p.Requests()[0].Body)/4) || p.Requests()[0].Path != "/v1/messages/count_tokens" {
		t.Errorf("%d %v", n, err)
	}
	m = connect(t, anthropic.Config{BaseURL: p.AnthropicBase(), Key: "k"})
	guess, err := m.Count(context.Background(), ask())
	if err != nil || m.Info().Counts || guess <= 0 || len(p.Requests()) != 1 {
		t.Errorf("%d %v after %d requests", guess, err, len(p.Requests()))
	}
}

func TestConfigurationIsSentAndMistakesAreNamed(t *testing.T) {
	t.Parallel()
	p, _ := start(t, always(modeltest.Answer{Response: sample()}))
	m := connect(t, anthropic.Config{BaseURL: p.AnthropicBase() + "/v1/", Key: "k", Beta: []string{"a", "b"}, CacheTTL: "1h",
		Thinking: json.RawMessage(`{ "type": "adaptive" }`), MaxOutput: 4000, Idle: time.Minute})
	r := ask()
	r.MaxOutput = 0
	if _, err := m.Send(context.Background(), r, nil); err != nil {
		t.Fatal(err)
	}
	got := p.Requests()[0]
	if got.Header.Get("X-Api-Key") != "k" || got.Header.Get("Anthropic-Beta") != "a,b" || got.Header.Get("Anthropic-Version") != anthropic.Version {
		t.Errorf("%v", got.Header)
	}
	for _, want := range []string{`"thinking":{"type":"adaptive"}`, `"cache_control":{"type":"ephemeral","ttl":"1h"}`, `"max_tokens":4000}`} {
		if !strings.Contains(string(got.Body), want) {
			t.Errorf("%s is not in %s", want, got.Body)
		}
	}
	for want, cfg := range map[string]anthropic.Config{anthropic.KeyVar: {Name: "x"}, "--model": {Key: "k"}, anthropic.BaseVar: {Name: "x", BaseURL: "::"}} {
		if _, err := anthropic.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if shown := fmt.Sprintf("%+v %#v", m, m); strings.Contains(shown, `"k"`) || strings.Contains(shown, "Secret:k") {
		t.Errorf("formatting the model shows the key: %s", shown)
	}
}
