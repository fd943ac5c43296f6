package script

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
)

func mustParse(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func kindOf(err error) fault.Kind {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

// play runs a goal the way the runtime does: a new instance for every request,
// as after a crash, and the whole history with each.
func play(t *testing.T, s *Script, steps int, answer func(call event.Part) string) []model.Message {
	t.Helper()
	history := []model.Message{{Role: model.User, Text: "fix it"}}
	for range steps {
		resp, err := New(s, "").Send(context.Background(), model.Request{Messages: history}, nil)
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, model.Message{Role: model.Assistant, Parts: resp.Parts})
		var results []model.ToolResult
		for _, p := range resp.Parts {
			if p.Kind == event.PartCall {
				results = append(results, model.ToolResult{CallID: p.CallID, Tool: p.Tool, Text: answer(p)})
			}
		}
		if results == nil {
			history = append(history, model.Message{Role: model.User, Text: "go on"})
		} else {
			history = append(history, model.Message{Role: model.ToolRole, Results: results})
		}
	}
	return history
}

func texts(history []model.Message) string {
	var out []string
	for _, m := range history {
		for _, p := range m.Parts {
			switch p.Kind {
			case event.PartText:
				out = append(out, p.Text)
			case event.PartCall:
				out = append(out, p.Tool+p.Arguments)
			}
		}
	}
	return strings.Join(out, " | ")
}

const threeSteps = `
name: three
steps:
  - text: one
    calls: [{tool: read_file, args: {path: a.go, limit: 3}}]
  - text: again
    repeat: 2
  - calls: [{tool: finish, raw: "{junk"}]
then: over
`

func TestTheNextStepIsReadOffTheRequestAlone(t *testing.T) {
	t.Parallel()
	history := play(t, mustParse(t, threeSteps), 6, func(event.Part) string { return "ok" })
	want := `one | read_file{"limit":3,"path":"a.go"} | again | again | finish{junk | over | over`
	if got := texts(history); got != want {
		t.Errorf("played\n%s\nwant\n%s", got, want)
	}
}

func TestWithoutMarkersAssistantMessagesAreCounted(t *testing.T) {
	t.Parallel()
	s := mustParse(t, threeSteps)
	history := play(t, s, 3, func(event.Part) string { return "ok" })
	for i, m := range history {
		var kept []event.Part
		for _, p := range m.Parts {
			if p.Kind != event.PartOpaque {
				kept = append(kept, p)
			}
		}
		history[i].Parts = kept
	}
	resp, err := New(s, "").Send(context.Background(), model.Request{Messages: history}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Parts[0].Tool != "finish" || resp.StopReason != model.StopToolCalls {
		t.Errorf("step 4 is %+v", resp)
	}
}

func TestAWhenStepComesBetweenAndTheOrderGoesOn(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
steps:
  - text: first
  - when: {last_user_contains: ["hurry"]}
    text: hurrying
  - text: second
`)
	ask := func(history []model.Message) (model.Message, string) {
		resp, err := New(s, "").Send(context.Background(), model.Request{Messages: history}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return model.Message{Role: model.Assistant, Parts: resp.Parts}, resp.Parts[0].Text
	}
	history := []model.Message{{Role: model.User, Text: "go"}}
	var got []string
	for _, say := range []string{"hurry up", "now go on", "and then"} {
		m, text := ask(history)
		got = append(got, text)
		history = append(history, m, model.Message{Role: model.User, Text: say})
	}
	if want := "first hurrying second"; strings.Join(got, " ") != want {
		t.Errorf("played %v, want %s", got, want)
	}
}

func TestAFailedExpectationShowsWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
steps:
  - name: look
    expect:
      contains: ["fix it", "/tests? failed/"]
      not_contains: ["forbidden"]
      last_result_contains: [exit]
      tool_names: [run_test]
    text: x
`)
	_, err := New(s, "").Send(context.Background(), model.Request{System: "forbidden",
		Messages: []model.Message{{Role: model.User, Text: "fix it"}}}, nil)
	if kindOf(err) != fault.BadRequest {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"step 1 (look)", `"/tests? failed/"`, `contains "forbidden"`, `last result does not contain "exit"`, `tool "run_test"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), `"fix it"`) {
		t.Errorf("a condition that holds is reported: %v", err)
	}
}

func TestFaultsAreInjectedForTheFirstAttemptsOnly(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
steps:
  - fail: {kind: rate_limited, message: slow down, retry_after_ms: 1500, times: 2}
    text: fine
`)
	for _, told := range []bool{true, false} {
		m := New(s, "")
		for attempt := 1; attempt <= 3; attempt++ {
			r := model.Request{Messages: []model.Message{{Role: model.User, Text: "x"}}, State: strings.Repeat("tick ", attempt)}
			if told {
				r.Attempt = attempt
				m = New(s, "") // a new process at each attempt
			}
			resp, err := m.Send(context.Background(), r, nil)
			var f *fault.Fault
			switch {
			case attempt < 3 && (!errors.As(err, &f) || f.Kind != fault.RateLimited || f.RetryAfterMS != 1500 || !f.Retryable):
				t.Errorf("told %v attempt %d: %v", told, attempt, err)
			case attempt == 3 && (err != nil || resp.Parts[0].Text != "fine"):
				t.Errorf("told %v attempt 3: %v %v", told, resp, err)
			}
		}
	}
}

func TestAStatusBecomesTheFaultThatTheRealWireGives(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]fault.Kind{401: fault.BadCredentials, 413: fault.ContextOverflow, 429: fault.RateLimited, 529: fault.Overloaded, 400: fault.BadRequest} {
		s := mustParse(t, "steps: [{fail: {status: "+jsonOf(status)+"}}]")
		_, err := New(s, "").Send(context.Background(), model.Request{Messages: []model.Message{{Role: model.User, Text: "x"}}}, nil)
		if kindOf(err) != want {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func jsonOf(v any) string { b, _ := json.Marshal(v); return string(b) }

func TestACutTellsItsUsageAndOnlyHappensOnce(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
steps:
  - cut: true
    text: half of this
    usage: {input: 10, output: 5}
`)
	m := New(s, "")
	r := model.Request{Messages: []model.Message{{Role: model.User, Text: "x"}}}
	shown := ""
	resp, err := m.Send(context.Background(), r, func(d model.Delta) { shown += d.Text })
	if kindOf(err) != fault.StreamCut || !resp.UsageKnown || resp.Usage.Total() != 15 || resp.Parts != nil || shown != "half o" {
		t.Errorf("cut: %+v %v, shown %q", resp, err, shown)
	}
	if resp, err = m.Send(context.Background(), r, nil); err != nil || resp.Parts[0].Text != "half of this" {
		t.Errorf("after the cut: %+v %v", resp, err)
	}
}

func TestPlaceholdersTakeWhatOnlyTheRunKnows(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
steps:
  - calls: [{tool: run_test}]
  - calls: [{tool: update_todos, args: {todos: [{evidence: "${/op_id: (op_[0-9]+)/}"}]}}]
  - text: "${/never there/}"
`)
	history := play(t, s, 2, func(p event.Part) string { return "op_id: op_" + jsonOf(len(p.Tool)) })
	if got := texts(history); !strings.Contains(got, `{"todos":[{"evidence":"op_8"}]}`) {
		t.Errorf("played %s", got)
	}
	_, err := New(s, "").Send(context.Background(), model.Request{Messages: history}, nil)
	if kindOf(err) != fault.BadRequest || !strings.Contains(err.Error(), "never there") {
		t.Errorf("no match: %v", err)
	}
}

func TestBlockingEndsWithTheFileOrWithTheContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "go")
	s := mustParse(t, "steps: [{block_until_file: "+path+", text: on}]")
	r := model.Request{Messages: []model.Message{{Role: model.User, Text: "x"}}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := New(s, "").Send(ctx, r, nil)
		ended <- err
	}()
	cancel()
	if err := <-ended; kindOf(err) != fault.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(s, "").Send(context.Background(), r, nil); err != nil {
		t.Error(err)
	}
	slow := mustParse(t, "steps: [{delay_ms: 3600000, text: late}]")
	short, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	if _, err := New(slow, "").Send(short, r, nil); kindOf(err) != fault.Timeout {
		t.Errorf("deadline: %v", err)
	}
}

func TestABrokenFileNamesTheLineOrTheStep(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"steps:\n  - text: a\n    expects: {}\n":                "line 3",
		"steps: [{text: a}]\nthen: {txt: b}\n":                  "txt",
		"steps: []":                                             "no steps",
		"steps: [{calls: [{args: {}}]}]":                        "names no tool",
		"steps: [{fail: {kind: tired}}]":                        "tired",
		"steps: [{expect: {contains: [\"/(/\"]}}]":              "step 1",
		"steps: [{text: \"${/(/}\"}]":                           "step 1",
		"steps: [{calls: [{tool: x, raw: y, args: {a: 1}}]}]":   "both args and raw",
		"steps: [{text: a, repeat: -1}]":                        "negative",
		"steps:\n  - text: a\n    text: b\n":                    "line 3",
		"steps: [{text: a}]\nprice: {input: 1, per_token: 2}\n": "per_token",
	} {
		_, err := Parse([]byte(text))
		if kindOf(err) != fault.BadRequest || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); kindOf(err) != fault.BadRequest {
		t.Errorf("missing file: %v", err)
	}
}

func TestThePriceIsKnownOnlyWhenTheFileSaysSo(t *testing.T) {
	t.Parallel()
	if p := New(mustParse(t, "steps: [{text: a}]"), "").Info().Price; p != nil {
		t.Errorf("price %+v", p)
	}
	p := New(mustParse(t, "price: {input: 1.25, output: 10}\nsteps: [{text: a}]"), "").Info().Price
	if p == nil || p.Input != 1_250_000 || p.Output != 10_000_000 {
		t.Errorf("price %+v", p)
	}
}

func TestAHistoryThatRealProvidersRefuseIsRefused(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "steps: [{text: a}]")
	_, err := New(s, "").Send(context.Background(), model.Request{Messages: []model.Message{{Role: model.User, Text: "x"},
		{Role: model.Assistant, Parts: []event.Part{{Kind: event.PartCall, CallID: "c1", Tool: "t"}}}}}, nil)
	if kindOf(err) != fault.Internal || !strings.Contains(err.Error(), `"c1"`) {
		t.Errorf("got %v", err)
	}
}

func TestTheStableBytesDoNotDependOnState(t *testing.T) {
	t.Parallel()
	m := New(mustParse(t, "steps: [{text: a}]"), "")
	r := model.Request{System: "s", Messages: []model.Message{{Role: model.User, Text: "x"}}, State: "one"}
	a, stable, err := m.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	r.State = "two"
	b, _, _ := m.Body(r)
	if string(a[:stable]) != string(b[:stable]) || string(a) == string(b) {
		t.Errorf("%q and %q, stable %d", a, b, stable)
	}
}
