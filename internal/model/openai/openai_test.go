package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/modeltest"
	"belay/internal/model/openai"
)

func start(t *testing.T, answer func(modeltest.Request) modeltest.Answer) (*modeltest.Provider, *openai.Model) {
	t.Helper()
	p := modeltest.New(answer)
	t.Cleanup(p.Close)
	return p, connect(t, openai.Config{BaseURL: p.OpenAIBase(), Key: "sk-test-0123456789"})
}

func connect(t *testing.T, cfg openai.Config) *openai.Model {
	t.Helper()
	cfg.Name = "gpt-test"
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func always(a modeltest.Answer) func(modeltest.Request) modeltest.Answer {
	return func(modeltest.Request) modeltest.Answer { return a }
}

func ask() model.Request {
	return model.Request{System: "s", Messages: []model.Message{{Role: model.User, Text: "go"}}, State: "now", MaxOutput: 100, ID: "r1"}
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
		{Kind: event.PartThink, Text: "let me think"},
		{Kind: event.PartText, Text: "Reading 文件 now."},
		{Kind: event.PartCall, CallID: "call_a", Tool: "read_file", Arguments: `{"path":"a.go","limit":10}`},
		{Kind: event.PartCall, CallID: "call_b", Tool: "read_file", Arguments: `{"path":"ü.go"}`},
		{Kind: event.PartCall, CallID: "call_c", Tool: "finish", Arguments: `{}`},
	}, Usage: event.Usage{Input: 1000, CachedInput: 900, Output: 50, Reasoning: 20}}
}

func calls(parts []event.Part) (out []string, ids map[string]bool) {
	ids = map[string]bool{}
	for _, p := range parts {
		if p.Kind == event.PartCall {
			out = append(out, p.Tool+p.Arguments)
			ids[p.CallID] = true
		}
	}
	return out, ids
}

func TestEveryDialectIsUnderstood(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]modeltest.Dialect{
		"OpenAI":             {},
		"whole calls":        {WholeCalls: true},
		"no index":           {NoIndex: true},
		"no index, whole":    {NoIndex: true, WholeCalls: true},
		"zero index, whole":  {ZeroIndex: true, WholeCalls: true},
		"zero index":         {ZeroIndex: true},
		"no id":              {NoID: true},
		"no id, no index":    {NoID: true, NoIndex: true, WholeCalls: true},
		"zero index, no id":  {NoID: true, ZeroIndex: true, WholeCalls: true},
		"repeated id":        {RepeatID: true},
		"repeated, no index": {RepeatID: true, NoIndex: true},
		"object arguments":   {WholeCalls: true, ObjectArgs: true},
		"inline usage":       {InlineUsage: true},
		"no done":            {NoDone: true},
		"stop for calls":     {StopForCalls: true},
		"reasoning":          {Reasoning: true},
	} {
		for _, seed := range []uint64{0, 3, 4} {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				_, m := start(t, always(modeltest.Answer{Response: sample(), Dialect: d, Seed: seed}))
				resp, err := m.Send(context.Background(), ask(), nil)
				if err != nil {
					t.Fatal(err)
				}
				got, ids := calls(resp.Parts)
				want, wantIDs := calls(sample().Parts)
				if !reflect.DeepEqual(got, want) || len(ids) != 3 || ids[""] {
					t.Errorf("calls %q with ids %v", got, ids)
				}
				if !d.NoID && !reflect.DeepEqual(ids, wantIDs) {
					t.Errorf("ids %v, want %v", ids, wantIDs)
				}
				if resp.Parts[0].Text != "let me think" || resp.Parts[1].Text != "Reading 文件 now." || resp.StopReason != model.StopToolCalls {
					t.Errorf("%+v", resp)
				}
				if !resp.UsageKnown || resp.Usage != sample().Usage {
					t.Errorf("usage %v %+v", resp.UsageKnown, resp.Usage)
				}
			})
		}
	}
}

func TestMissingIdsAreTheSameOnEveryReading(t *testing.T) {
	t.Parallel()
	_, m := start(t, always(modeltest.Answer{Response: sample(), Dialect: modeltest.Dialect{NoID: true}}))
	one, err1 := m.Send(context.Background(), ask(), nil)
	two, err2 := m.Send(context.Background(), ask(), nil)
	other := ask()
	other.ID = "r2"
	three, err3 := m.Send(context.Background(), other, nil)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	if !reflect.DeepEqual(one.Parts, two.Parts) || one.Parts[2].CallID == three.Parts[2].CallID {
		t.Errorf("%v\n%v\n%v", one.Parts, two.Parts, three.Parts)
	}
}

func TestUsageThatIsNotToldIsNotKnown(t *testing.T) {
	t.Parallel()
	_, m := start(t, always(modeltest.Answer{Response: sample(), Dialect: modeltest.Dialect{NoUsage: true}}))
	if resp, err := m.Send(context.Background(), ask(), nil); err != nil || resp.UsageKnown {
		t.Errorf("%v %v", resp.UsageKnown, err)
	}
}

// A stream that ends anywhere before its finish reason is no response, and
// after it is a whole one: never something between.
func TestACutAtAnyByteIsEitherNothingOrWhole(t *testing.T) {
	t.Parallel()
	whole := 0
	short := model.Response{Parts: []event.Part{{Kind: event.PartText, Text: "hé"}, {Kind: event.PartCall, CallID: "c", Tool: "t", Arguments: `{"a":1}`}}}
	p, m := start(t, func(r modeltest.Request) modeltest.Answer {
		return modeltest.Answer{Response: short, CutAfter: r.Number, Reset: r.Number%5 == 0}
	})
	for n := 1; ; n++ {
		resp, err := m.Send(context.Background(), ask(), nil)
		switch got, _ := calls(resp.Parts); {
		case err == nil && len(got) == 1:
			whole++
		case kindOf(err) == fault.StreamCut && resp.Parts == nil && whole == 0:
		default:
			t.Fatalf("cut after %d bytes: %+v, %v", n, resp, err)
		}
		if whole > 40 {
			break
		}
	}
	if len(p.Requests()) < 1000 {
		t.Errorf("only %d cuts", len(p.Requests()))
	}
}

func TestMalformedStreamsAreNoResponse(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]struct {
		answer modeltest.Answer
		want   fault.Kind
	}{
		"junk":                  {modeltest.Answer{Response: sample(), Garbage: "{not json", GarbageAt: 3}, fault.MalformedReply},
		"wrong shape":           {modeltest.Answer{Response: sample(), Garbage: `{"choices":[{"delta":{"content":{"a":1}}}]}`, GarbageAt: 2}, fault.MalformedReply},
		"empty stream":          {modeltest.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: "data: [DONE]\n\n"}, fault.MalformedReply},
		"nothing at all":        {modeltest.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}, fault.StreamCut},
		"empty body":            {modeltest.Answer{Status: 200}, fault.StreamCut},
		"half an object":        {modeltest.Answer{Status: 200, Body: `{"choices":[{"message"`}, fault.StreamCut},
		"no object":             {modeltest.Answer{Status: 200, Body: `OK`}, fault.MalformedReply},
		"no choice":             {modeltest.Answer{Status: 200, Body: `{"choices":[]}`}, fault.MalformedReply},
		"a web page":            {modeltest.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<h1>Sign in</h1>"}, fault.MalformedReply},
		"calls that never come": {modeltest.Answer{Status: 200, Body: `{"choices":[{"message":{"content":"x"},"finish_reason":"tool_calls"}]}`}, fault.MalformedReply},
		"a call without name":   {modeltest.Answer{Status: 200, Body: `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`}, fault.MalformedReply},
		"error with 200":        {modeltest.Answer{Status: 200, Body: `{"error":{"message":"Rate limited","code":429}}`}, fault.RateLimited},
		"error in the stream":   {modeltest.Answer{Response: sample(), ErrorInStream: "server_error"}, fault.ServerError},
		"content filter":        {modeltest.Answer{Response: model.Response{Parts: []event.Part{{Kind: event.PartText, Text: "I"}}, StopReason: "content_filter"}}, fault.Refused},
		"refusal":               {modeltest.Answer{Status: 200, Body: `{"choices":[{"message":{"content":null,"refusal":"I cannot"},"finish_reason":"stop"}]}`}, fault.Refused},
		"finish with an error":  {modeltest.Answer{Status: 200, Body: `{"choices":[{"message":{"content":"x"},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}`}, fault.ServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, m := start(t, always(a.answer))
			resp, err := m.Send(context.Background(), ask(), nil)
			if kindOf(err) != a.want || resp.Parts != nil {
				t.Errorf("%+v, %v, want %s", resp, err, a.want)
			}
			if len(p.Requests()) != 1 {
				t.Errorf("%d requests for one Send", len(p.Requests()))
			}
		})
	}
}

func TestOddRepliesAreUnderstood(t *testing.T) {
	t.Parallel()
	sse := http.Header{"Content-Type": {"text/event-stream"}}
	for name, c := range map[string]struct {
		answer modeltest.Answer
		want   string
	}{
		"a stream that is not announced": {modeltest.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"}, "hi"},
		"done without a blank line":      {modeltest.Answer{Status: 200, Header: sse, Body: "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]"}, "hi"},
		"content as a list":              {modeltest.Answer{Status: 200, Body: `{"choices":[{"message":{"content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]},"finish_reason":"stop"}]}`}, "hi"},
		"an id and a name in pieces": {modeltest.Answer{Status: 200, Header: sse, Body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_","function":{"name":"read_"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"file"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"}, "call_ read_file {}"},
		"an id in two pieces": {modeltest.Answer{Status: 200, Header: sse, Body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_","function":{"name":"t"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"7"}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"}, "call_7 t {}"},
		"the legacy function call":         {modeltest.Answer{Status: 200, Body: `{"choices":[{"message":{"content":null,"function_call":{"name":"t","arguments":"{\"a\":1}"}},"finish_reason":"function_call"}]}`}, `t {"a":1}`},
		"a second choice nobody asked for": {modeltest.Answer{Status: 200, Body: `{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"},{"index":1,"message":{"content":"no"},"finish_reason":"stop"}]}`}, "hi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, m := start(t, always(c.answer))
			resp, err := m.Send(context.Background(), ask(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, p := range resp.Parts {
				got += p.Text
				if p.Kind == event.PartCall {
					got += strings.TrimSpace(p.CallID + " " + p.Tool + " " + p.Arguments)
				}
			}
			if !strings.HasSuffix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestSilenceEndsInATimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer modeltest.Answer
		cfg    openai.Config
	}{
		"no headers":    {modeltest.Answer{StallHeaders: true}, openai.Config{FirstByte: 30 * time.Millisecond, Idle: time.Hour}},
		"in mid-stream": {modeltest.Answer{Response: sample(), StallAfter: 300}, openai.Config{FirstByte: time.Hour, Idle: 30 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := modeltest.New(always(c.answer))
			t.Cleanup(p.Close)
			c.cfg.BaseURL = p.OpenAIBase()
			_, err := connect(t, c.cfg).Send(context.Background(), ask(), nil)
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != fault.Timeout || !f.Retryable || errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTheCallersDeadlineIsATimeoutToo(t *testing.T) {
	t.Parallel()
	_, m := start(t, always(modeltest.Answer{StallHeaders: true}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := m.Send(ctx, ask(), nil); kindOf(err) != fault.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestUnreachableServersAreNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, err = connect(t, openai.Config{BaseURL: "http://" + addr + "/v1"}).Send(context.Background(), ask(), nil)
	if kindOf(err) != fault.Network || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), openai.BaseVar) {
		t.Errorf("refused connection: %v", err)
	}
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	_, err = connect(t, openai.Config{BaseURL: tls.URL}).Send(context.Background(), ask(), nil)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Network || f.Retryable {
		t.Errorf("unknown certificate: %v", err)
	}
}

func TestAConnectionThatBreaksBeforeTheReplyIsRetryable(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	t.Cleanup(s.Close)
	_, err := connect(t, openai.Config{BaseURL: s.URL}).Send(context.Background(), ask(), nil)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Network || !f.Retryable || hits.Load() != 1 {
		t.Errorf("%v after %d requests", err, hits.Load())
	}
}

func TestARedirectNeverCarriesTheKeyAway(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Store(true) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 307, 308} {
		_, m := start(t, always(modeltest.Answer{Status: status, Header: http.Header{"Location": {other.URL + "/v1/chat/completions"}}}))
		_, err := m.Send(context.Background(), ask(), nil)
		if kindOf(err) != fault.BadRequest || !strings.Contains(err.Error(), other.URL) || !strings.Contains(err.Error(), openai.BaseVar) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if leaked.Load() {
		t.Error("the other host was asked")
	}
}

func TestConnectionsAreReusedAndTheProxyIsUsed(t *testing.T) {
	t.Parallel()
	p := modeltest.New(always(modeltest.Answer{Response: sample()}))
	t.Cleanup(p.Close)
	var conns, proxied atomic.Int32
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{FlushInterval: -1, Transport: &http.Transport{}, Rewrite: func(r *httputil.ProxyRequest) {
		proxied.Add(1)
		r.Out.URL.Scheme, r.Out.URL.Host = r.In.URL.Scheme, r.In.URL.Host
	}})
	proxy.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	proxy.Start()
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u)}}
	m := connect(t, openai.Config{BaseURL: p.OpenAIBase(), HTTP: client})
	for range 5 {
		if _, err := m.Send(context.Background(), ask(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if proxied.Load() != 5 || conns.Load() != 1 {
		t.Errorf("%d requests over the proxy on %d connections", proxied.Load(), conns.Load())
	}
}

func TestAServerThatKeepsTheStreamOpenAfterItsEndMarkIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	resp, err := connect(t, openai.Config{BaseURL: s.URL}).Send(context.Background(), ask(), nil)
	if err != nil || resp.Parts[0].Text != "hi" {
		t.Errorf("%+v %v", resp, err)
	}
}

func TestTheKeyIsSentAndNeverShown(t *testing.T) {
	t.Parallel()
	const key = "my-odd-key-without-a-prefix"
	p := modeltest.New(always(modeltest.Answer{Status: 401, Body: `{"error":{"message":"bad key ` + key + `"}}`}))
	t.Cleanup(p.Close)
	m := connect(t, openai.Config{BaseURL: p.OpenAIBase(), Key: " " + key + "\n"})
	_, err := m.Send(context.Background(), ask(), nil)
	if kindOf(err) != fault.BadCredentials || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), openai.KeyVar) {
		t.Errorf("%v", err)
	}
	if got := p.Requests()[0].Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("authorization %q", got)
	}
	if shown := fmt.Sprintf("%+v %#v", m, m); strings.Contains(shown, key) {
		t.Errorf("formatting the model shows the key: %s", shown)
	}
	body, _, err := m.Body(ask())
	if err != nil || strings.Contains(string(body), key) {
		t.Errorf("the key is in the body, %v", err)
	}
}

func TestConfigurationMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  openai.Config
		want string
	}{
		"no key for OpenAI": {openai.Config{Name: "x"}, openai.KeyVar},
		"no model":          {openai.Config{Key: "k"}, "--model"},
		"no URL":            {openai.Config{Name: "x", BaseURL: "localhost:11434"}, openai.BaseVar},
	} {
		if _, err := openai.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := openai.New(openai.Config{Name: "x", BaseURL: "http://localhost:11434/v1/"}); err != nil {
		t.Errorf("a local server needs no key: %v", err)
	}
}

func TestTheOutputLimitHasTheNameThatTheServerKnows(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"":                                     "max_completion_tokens",
		"https://eu.api.openai.com/v1":         "max_completion_tokens",
		"https://x.openai.azure.com/openai/v1": "max_completion_tokens",
		"http://localhost:11434/v1":            "max_tokens",
		"https://openrouter.ai/api/v1":         "max_tokens",
	} {
		body, _, err := connect(t, openai.Config{BaseURL: base, Key: "k"}).Body(ask())
		if err != nil || !strings.HasSuffix(string(body), `],"`+want+`":100}`) {
			t.Errorf("%q: %s %v", base, body, err)
		}
	}
}

func TestReasoningGoesBackWhereItBelongs(t *testing.T) {
	t.Parallel()
	details := `{"choices":[{"delta":{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","index":0,"text":"a"}]}}]}`
	more := `{"choices":[{"delta":{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","index":0,"text":"b","signature":"s"},{"type":"reasoning.encrypted","index":1,"data":"x"}]}}]}`
	call := `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"t","arguments":"{}"},"extra_content":{"google":{"thought_signature":"g"}}}]},"finish_reason":"tool_calls"}]}`
	_, m := start(t, always(modeltest.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: "data: " + details + "\n\ndata: " + more + "\n\ndata: " + call + "\n\ndata: [DONE]\n\n"}))
	resp, err := m.Send(context.Background(), ask(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := ask()
	r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Parts: resp.Parts},
		model.Message{Role: model.ToolRole, Results: []model.ToolResult{{CallID: "c", Text: "ok"}}})
	body, _, err := m.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []map[string]any `json:"messages"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	got := sent.Messages[2]
	want := []any{map[string]any{"type": "reasoning.text", "index": 0.0, "text": "ab", "signature": "s"}, map[string]any{"type": "reasoning.encrypted", "index": 1.0, "data": "x"}}
	if got["reasoning"] != "ab" || !reflect.DeepEqual(got["reasoning_details"], want) || !strings.Contains(string(body), `"extra_content":{"google":{"thought_signature":"g"}}`) {
		t.Errorf("sent back: %v", got)
	}
	body, _, err = connect(t, openai.Config{Key: "k"}).Body(r)
	if err != nil || strings.Contains(string(body), "reasoning") || strings.Contains(string(body), "extra_content") {
		t.Errorf("OpenAI itself would get fields it does not know: %s %v", body, err)
	}
}
