package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
)

// Run is the conformance suite of the port. start makes a model that plays a
// script (the YAML of package script): behind a real wire, a provider that
// plays it.
func Run(t *testing.T, start func(t *testing.T, yaml string) model.Model) {
	rules := []struct {
		name string
		test func(*testing.T, func(t *testing.T, yaml string) model.Model)
	}{
		{"InfoNamesTheModel", infoNamesTheModel},
		{"AResponseComesBackWhole", responseComesBackWhole},
		{"DeltasAreThePiecesOfTheResponse", deltasAreThePieces},
		{"ResponsesCanBeSentBack", responsesCanBeSentBack},
		{"EveryErrorIsAFaultOfItsKind", everyErrorIsAFault},
		{"ACutStreamIsNoResponse", cutStreamIsNoResponse},
		{"ACancelledRequestEnds", cancelledRequestEnds},
		{"CallsAndResultsMustMatch", callsAndResultsMustMatch},
		{"TheCountGrowsWithTheRequest", countGrows},
		{"EveryHistoryIsAcceptedAndItsPrefixStable", historiesAreAccepted},
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			rule.test(t, start)
		})
	}
}

type starter = func(t *testing.T, yaml string) model.Model

func infoNamesTheModel(t *testing.T, start starter) {
	info := start(t, "steps: [{text: a}]").Info()
	if info.Provider == "" || info.Name == "" || info.CountError <= 0 {
		t.Errorf("%+v", info)
	}
}

func ask(text string) model.Request {
	return model.Request{System: "You are careful.", Messages: []model.Message{{Role: model.User, Text: text}},
		State: "budget: 3 steps", MaxOutput: 500, ID: "req-1", Attempt: 1,
		Tools: []model.Tool{{Name: "read_file", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}}
}

const aResponse = `
steps:
  - thinking: "First I look.\n"
    text: "Ich schaue nach: 文件 \"a\" 🙂\t<tag> & more\u2028end"
    calls:
      - {tool: read_file, args: {path: "a \"b\" <c>\n\u00e9 文"}}
      - {tool: read_file, args: {}}
    usage: {input: 120, cached_input: 100, output: 30}
  - text: cut by the limit
    stop: length
`

func responseComesBackWhole(t *testing.T, start starter) {
	m := start(t, aResponse)
	resp, err := m.Send(context.Background(), ask("go"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	var args []string
	ids := map[string]bool{}
	for _, p := range resp.Parts {
		switch p.Kind {
		case event.PartText:
			text += p.Text
		case event.PartCall:
			var o struct{ Path string }
			if err := json.Unmarshal([]byte(p.Arguments), &o); err != nil || p.Tool != "read_file" {
				t.Errorf("call %+v: %v", p, err)
			}
			args = append(args, o.Path)
			ids[p.CallID] = true
		}
	}
	if want := "Ich schaue nach: 文件 \"a\" 🙂\t<tag> & more\u2028end"; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	if !reflect.DeepEqual(args, []string{"a \"b\" <c>\n\u00e9 文", ""}) || len(ids) != 2 || ids[""] {
		t.Errorf("arguments %q, ids %v", args, ids)
	}
	if resp.StopReason != model.StopToolCalls || !resp.UsageKnown || resp.Usage.Input != 120 || resp.Usage.CachedInput != 100 || resp.Usage.Output != 30 {
		t.Errorf("stop %q, usage %v %+v", resp.StopReason, resp.UsageKnown, resp.Usage)
	}
	next := ask("go")
	next.Messages = append(next.Messages, follow(resp)...)
	if resp, err = m.Send(context.Background(), next, nil); err != nil || resp.StopReason != model.StopLength {
		t.Errorf("second step: %q, %v", resp.StopReason, err)
	}
}

// follow is a response and the results of its calls, as a history goes on.
func follow(resp model.Response) []model.Message {
	out := []model.Message{{Role: model.Assistant, Parts: resp.Parts}}
	var results []model.ToolResult
	for _, p := range resp.Parts {
		if p.Kind == event.PartCall {
			results = append(results, model.ToolResult{CallID: p.CallID, Tool: p.Tool, Text: "done", Error: len(results) > 0})
		}
	}
	if results == nil {
		return append(out, model.Message{Role: model.User, Text: "go on"})
	}
	return append(out, model.Message{Role: model.ToolRole, Results: results})
}

func deltasAreThePieces(t *testing.T, start starter) {
	var text, thinking string
	var tools []string
	resp, err := start(t, aResponse).Send(context.Background(), ask("go"), func(d model.Delta) {
		text, thinking = text+d.Text, thinking+d.Thinking
		if d.Tool != "" {
			tools = append(tools, d.Tool)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range resp.Parts {
		if p.Kind == event.PartText && p.Text != text || p.Kind == event.PartThink && p.Text != thinking {
			t.Errorf("%s %q, deltas %q and %q", p.Kind, p.Text, text, thinking)
		}
	}
	if text == "" || !reflect.DeepEqual(tools, []string{"read_file", "read_file"}) {
		t.Errorf("text %q, tools %v", text, tools)
	}
}

func responsesCanBeSentBack(t *testing.T, start starter) {
	m := start(t, `
steps:
  - {thinking: hm, text: "one ", calls: [{tool: read_file, args: {path: a}}], repeat: 3}
  - {text: two, repeat: 2}
then: over
`)
	r := ask("go")
	for i := range 6 {
		resp, err := m.Send(context.Background(), r, nil)
		if err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
		r.Messages = append(r.Messages, follow(resp)...)
		r.State = fmt.Sprintf("step %d", i)
		if i == 5 && resp.Parts[0].Text != "over" {
			t.Errorf("request 6 got %+v", resp.Parts)
		}
		// What the ledger brings back must be as good as what came.
		var again []model.Message
		b, err := json.Marshal(r.Messages)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if body, ok := m.(model.Bodier); ok {
			one, _, err1 := body.Body(r)
			two, _, err2 := body.Body(model.Request{System: r.System, Tools: r.Tools, Messages: again, State: r.State, MaxOutput: r.MaxOutput})
			if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
				t.Errorf("the bytes differ after a trip through the ledger:\n%s\n%s (%v, %v)", one, two, err1, err2)
			}
		}
		r.Messages = again
	}
}

func everyErrorIsAFault(t *testing.T, start starter) {
	for kind, retryable := range map[fault.Kind]bool{fault.Overloaded: true, fault.RateLimited: true, fault.ServerError: true, fault.Timeout: true,
		fault.BadCredentials: false, fault.BadRequest: false, fault.ContextOverflow: false, fault.UnknownModel: false, fault.Refused: false} {
		m := start(t, fmt.Sprintf("steps: [{fail: {kind: %s, message: as the script says, retry_after_ms: 1200, times: -1}}]", kind))
		resp, err := m.Send(context.Background(), ask("go"), nil)
		var f *fault.Fault
		if !errors.As(err, &f) {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if f.Kind != kind || f.Retryable != retryable || f.Blame == "" || f.Signature == "" || f.SuggestedAction == "" {
			t.Errorf("%s came as %+v", kind, f)
		}
		if retryable && f.RetryAfterMS != 1200 {
			t.Errorf("%s: retry after %d ms", kind, f.RetryAfterMS)
		}
		if resp.Parts != nil {
			t.Errorf("%s came with parts", kind)
		}
	}
}

func cutStreamIsNoResponse(t *testing.T, start starter) {
	resp, err := start(t, `steps: [{text: "a long sentence that is never finished", calls: [{tool: read_file}], cut: true}]`).
		Send(context.Background(), ask("go"), nil)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.StreamCut || !f.Retryable {
		t.Errorf("%v", err)
	}
	if resp.Parts != nil || resp.StopReason != "" {
		t.Errorf("a cut stream gave %+v", resp)
	}
}

func cancelledRequestEnds(t *testing.T, start starter) {
	m := start(t, "steps: [{text: late, delay_ms: 3600000}]")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := m.Send(ctx, ask("go"), nil)
		ended <- err
	}()
	cancel()
	err := <-ended
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func callsAndResultsMustMatch(t *testing.T, start starter) {
	m := start(t, "steps: [{text: a}]")
	call := model.Message{Role: model.Assistant, Parts: []event.Part{{Kind: event.PartCall, CallID: "c1", Tool: "read_file"}}}
	result := func(id string) model.Message {
		return model.Message{Role: model.ToolRole, Results: []model.ToolResult{{CallID: id, Tool: "read_file", Text: "x"}}}
	}
	for name, tail := range map[string][]model.Message{
		"no result":        {call},
		"another's result": {call, result("c2")},
		"two results":      {call, result("c1"), result("c1")},
		"result first":     {result("c1"), call},
	} {
		r := ask("go")
		r.Messages = append(r.Messages, tail...)
		_, err := m.Send(context.Background(), r, nil)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Blame != fault.Runtime || f.Retryable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func countGrows(t *testing.T, start starter) {
	m := start(t, "steps: [{text: a}]")
	last := int64(0)
	for _, words := range []int{1, 10, 1000, 100_000} {
		n, err := m.Count(context.Background(), ask(strings.Repeat("word ", words)))
		if err != nil || n <= last || n < int64(words) {
			t.Errorf("%d words count %d after %d, %v", words, n, last, err)
		}
		last = n
	}
}

// historiesAreAccepted grows random histories and checks at every length that
// the provider accepts them and that what was stable before is still there.
func historiesAreAccepted(t *testing.T, start starter) {
	m := start(t, "steps: [{when: {contains: [\"/(?s).*/\"]}, text: fine}]")
	body, ok := m.(model.Bodier)
	if !ok {
		t.Fatal("the model has no byte form of its requests")
	}
	rapid.Check(t, func(t *rapid.T) {
		history := Histories().Draw(t, "history")
		var before []byte
		for n := 1; n <= len(history); n++ {
			r := ask("the goal")
			for _, step := range history[:n] {
				r.Messages = append(r.Messages, step...)
			}
			r.State = rapid.SampledFrom([]string{"", "state", "plan: \"x\"\n\n\\n"}).Draw(t, "state")
			r.MaxOutput = rapid.Int64Range(1, 9000).Draw(t, "limit")
			r.ID = rapid.StringN(0, 8, -1).Draw(t, "id")
			b, stable, err := body.Body(r)
			if err != nil {
				t.Fatal(err)
			}
			if stable < 0 || stable > len(b) || !bytes.HasPrefix(b, before) {
				t.Fatalf("request %d does not begin with what was stable before (%d bytes):\n%s\n%s", n, stable, before, b)
			}
			before = bytes.Clone(b[:stable])
			r.State, r.MaxOutput = "another state", 77
			if other, s, err := body.Body(r); err != nil || s != stable || !bytes.HasPrefix(other, before) {
				t.Fatalf("the stable bytes depend on the state: %d and %d, %v", stable, s, err)
			}
			if n == len(history) {
				if _, err := m.Send(context.Background(), r, nil); err != nil {
					t.Fatalf("refused: %v\n%s", err, b)
				}
			}
		}
	})
}
