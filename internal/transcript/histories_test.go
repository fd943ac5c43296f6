package transcript_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/anthropic"
	"belay/internal/model/openai"
	"belay/internal/transcript"
)

// wires are the two adapters: what they refuse to write, a provider refuses to
// read.
func wires(t *testing.T) []model.Bodier {
	t.Helper()
	a, err := anthropic.New(anthropic.Config{Name: "m", BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := openai.New(openai.Config{Name: "m", BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return []model.Bodier{a, o}
}

func say(text string) event.Part { return event.Part{Kind: event.PartText, Text: text} }

func call(id, tool string) event.Part {
	return event.Part{Kind: event.PartCall, CallID: id, Tool: tool, Arguments: `{"path":"a"}`}
}

func goal() *ledger {
	return (&ledger{}).add("", event.GoalReceived{Version: 1, Spec: event.GoalSpec{Text: "fix it"}},
		event.WorkspaceAttached{Root: "/w"}, event.ModelRequested{Request: "r1", Model: "m"})
}

func proposed(id, tool string) event.OperationProposed {
	return event.OperationProposed{Tool: tool, CallID: id, Request: "r1", Arguments: json.RawMessage("{}"), Effect: event.Read}
}

// awkward are ledgers as crashes, people, providers and damage make them.
func awkward() map[string]*ledger {
	ok := finished(event.Succeeded, output("ok"))
	next := event.ModelRequested{Request: "r2", Model: "m"}
	return map[string]*ledger{
		"only a goal":                    (&ledger{}).add("", event.GoalReceived{Version: 1, Spec: event.GoalSpec{Text: "fix it"}}),
		"a goal without text":            (&ledger{}).add("", event.GoalReceived{Version: 1}),
		"no goal at all":                 (&ledger{}).add("", event.ModelRequested{Model: "m"}, event.ModelResponded{Parts: []event.Part{call("c", "t")}}),
		"a damaged goal":                 (&ledger{}).add("", event.Damaged{Type: event.TypeGoalReceived, Reason: "x"}, event.UserMessage{Text: "hello"}),
		"a request in flight":            goal(),
		"a call received":                goal().add("", event.ModelResponded{Parts: []event.Part{call("c", "t")}}),
		"a call running":                 goal().add("", event.ModelResponded{Parts: []event.Part{call("c", "t")}}).add("op1", proposed("c", "t"), event.OperationStarted{Attempt: 1}),
		"three calls, one ended":         goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t"), call("b", "t"), call("c", "t")}}).add("op1", proposed("a", "t")).add("op2", proposed("b", "t")).add("op3", proposed("c", "t")).add("op2", ok),
		"results in another order":       goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t"), call("b", "u")}}).add("op1", proposed("a", "t")).add("op2", proposed("b", "u")).add("op2", ok).add("op1", ok).add("", next),
		"one id for every call":          goal().add("", event.ModelResponded{Parts: []event.Part{call("x", "t"), call("x", "t"), call("x", "t")}}).add("op1", proposed("x", "t")).add("op2", proposed("x", "t")).add("op3", proposed("x", "t")).add("op3", ok).add("", next),
		"ids and names that are junk":    goal().add("", event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "a/b\xff", Tool: "no such tool", Arguments: "{junk"}, {Kind: event.PartCall}}}).add("op1", proposed("a/b\xff", "no such tool"), rejected(fault.UnknownTool, "no", "")).add("", next),
		"a call nobody proposed":         goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t"), call("b", "t")}}).add("op1", proposed("a", "t"), ok).add("", next),
		"an operation nobody called":     goal().add("", event.ModelResponded{Parts: []event.Part{say("hm")}}).add("op1", proposed("zzz", "t"), ok).add("", next),
		"a result for nothing":           goal().add("op9", ok).add("", event.ModelFailed{}, next),
		"two outcomes":                   goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t")}}).add("op1", proposed("a", "t"), finished(event.OutcomeUnknown, event.Result{}), event.OperationReconciled{Retry: true}, ok).add("", next),
		"an outcome after the request":   goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t")}}).add("op1", proposed("a", "t")).add("", next).add("op1", ok).add("", event.ModelFailed{}),
		"nothing said":                   goal().add("", event.ModelResponded{}, next),
		"only thinking":                  goal().add("", event.ModelResponded{Parts: []event.Part{{Kind: event.PartThink, Text: "hm", Provider: "anthropic", Data: json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"x"}`)}}}, next),
		"blank text":                     goal().add("", event.ModelResponded{Parts: []event.Part{say(" \n")}}, next),
		"blank output":                   goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t")}}).add("op1", proposed("a", "t"), finished(event.Succeeded, output(" \n\t"))).add("", next),
		"output that is no text":         goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t")}}).add("op1", proposed("a", "t"), finished(event.Succeeded, output("\x00\xff\xfe\x1b[31m"))).add("", next),
		"two responses to one request":   goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t")}}, event.ModelResponded{Parts: []event.Part{say("again")}}, next),
		"messages between the results":   goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t"), call("b", "t")}}).add("op1", proposed("a", "t")).add("op2", proposed("b", "t")).add("op1", ok).add("", event.UserMessage{Mode: event.Steer, Text: "wait"}).add("op2", ok).add("", event.ModelRequested{Model: "m", Taken: []uint64{8}}),
		"a message taken twice":          goal().add("", event.ModelFailed{}, event.UserMessage{Text: "hi"}, event.ModelRequested{Model: "m", Taken: []uint64{5}}, event.ModelFailed{}, event.ModelRequested{Model: "m", Taken: []uint64{5}}),
		"a message that is not there":    goal().add("", event.ModelFailed{}, event.ModelRequested{Model: "m", Taken: []uint64{77}}),
		"compacted at once":              goal().add("", event.ModelFailed{}, event.ContextCompacted{Through: 4, Summary: event.Text{Head: "so far"}}, next),
		"compacted with nothing":         goal().add("", event.ModelResponded{Parts: []event.Part{say("x")}}, event.ContextCompacted{Through: 4}, next),
		"compacted among open calls":     goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t"), call("b", "t")}}).add("op1", proposed("a", "t"), ok).add("", event.ContextCompacted{Through: 6, Summary: event.Text{Head: "so far"}}, next),
		"compacted twice":                goal().add("", event.ModelResponded{Parts: []event.Part{say("x")}}, event.ContextCompacted{Through: 4, Summary: event.Text{Head: "one"}}, event.ContextCompacted{Through: 5, Summary: event.Text{Head: "two"}}, next),
		"compacted in mid-exchange":      goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "t")}}).add("op1", proposed("a", "t"), ok).add("", next, event.ModelResponded{Parts: []event.Part{say("x")}}, event.ContextCompacted{Through: 5, Summary: event.Text{Head: "cut between a call and its result"}}),
		"reasoning too large to go back": goal().add("", event.ModelResponded{Parts: []event.Part{{Kind: event.PartOpaque, Provider: "openai", Data: json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)}}}, event.ContextCompacted{Through: 4, Summary: event.Text{Head: "s"}}, next),
		"an unknown event":               goal().add("", event.Unknown{Type: "goal_teleported", Raw: json.RawMessage("{}")}, event.ModelFailed{}, next),
	}
}

func TestAwkwardHistoriesAreValidOnBothWires(t *testing.T) {
	t.Parallel()
	ws := wires(t)
	for name, l := range awkward() {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= len(l.events); n++ {
				ms := transcript.Rebuild(l.events[:n]).Messages(nil)
				if err := transcript.Check(ms); err != nil {
					t.Fatalf("after %d events: %v\n%s", n, err, js(ms))
				}
				for _, w := range ws {
					if _, _, err := w.Body(model.Request{System: "s", Messages: ms, State: "state"}); err != nil {
						t.Fatalf("after %d events, %T: %v", n, w, err)
					}
				}
			}
		})
	}
}

// TestTheStablePartOfARequestBeginsTheNextOne is the same rule in bytes.
func TestTheStablePartOfARequestBeginsTheNextOne(t *testing.T) {
	t.Parallel()
	ws := wires(t)
	for seed := range uint64(20) {
		s := newSim(t, 1000+seed)
		for _, w := range ws {
			var before []byte
			for i, r := range s.requests {
				body, stable, err := w.Body(model.Request{System: "s", Messages: r.messages, State: fmt.Sprint("state ", i)})
				if err != nil {
					t.Fatalf("%T: %v", w, err)
				}
				if i > 0 && !compacted(s.events[s.requests[i-1].seq:r.seq]) && !strings.HasPrefix(string(body), string(before)) {
					t.Fatalf("seed %d, %T: request %d does not begin with the stable part of the one before:\n%s\n%s", 1000+seed, w, i, before, body)
				}
				before = body[:stable]
			}
		}
	}
}

func TestAGoalGoesOnWithTheOtherProvider(t *testing.T) {
	t.Parallel()
	think := event.Part{Kind: event.PartThink, Text: "hm", Provider: "anthropic", Data: json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"c2ln"}`)}
	l := goal().add("", event.ModelResponded{Parts: []event.Part{think, call("toolu_1", "read_file")}}).
		add("op1", proposed("toolu_1", "read_file"), finished(event.Succeeded, output("ok"))).
		add("", event.ModelRequested{Request: "r2", Model: "openai:x"}, event.ModelResponded{Parts: []event.Part{call("call_0", "read_file")}}).
		add("op2", proposed("call_0", "read_file"), finished(event.Succeeded, output("ok"))).
		add("", event.ModelRequested{Request: "r3", Model: "anthropic:y"})
	ms := l.messages()
	if err := transcript.Check(ms); err != nil {
		t.Fatal(err)
	}
	for i, w := range wires(t) {
		body, _, err := w.Body(model.Request{Messages: ms})
		if err != nil {
			t.Fatal(err)
		}
		if signed := strings.Contains(string(body), "c2ln"); signed != (i == 0) {
			t.Errorf("%T: the signed thinking is there: %t", w, signed)
		}
	}
}

func TestCheckFindsWhatAProviderRefuses(t *testing.T) {
	t.Parallel()
	u := model.Message{Role: model.User, Text: "hi"}
	a := model.Message{Role: model.Assistant, Parts: []event.Part{call("a", "t"), call("b", "t")}}
	r := func(ids ...string) model.Message {
		m := model.Message{Role: model.ToolRole}
		for _, id := range ids {
			m.Results = append(m.Results, model.ToolResult{CallID: id, Tool: "t", Text: "x"})
		}
		return m
	}
	text := model.Message{Role: model.Assistant, Parts: []event.Part{say("x")}}
	bad := map[string][]model.Message{
		"nothing":              nil,
		"begins with a reply":  {text, u},
		"ends with a reply":    {u, text},
		"a missing result":     {u, a, r("a")},
		"a result too many":    {u, a, r("a", "b", "b")},
		"another order":        {u, a, r("b", "a")},
		"no results":           {u, a, u},
		"calls at the end":     {u, a},
		"results for nothing":  {u, r("a")},
		"results twice":        {u, a, r("a", "b"), r("a", "b")},
		"an empty result":      {u, a, {Role: model.ToolRole, Results: []model.ToolResult{{CallID: "a", Tool: "t", Text: "x"}, {CallID: "b", Tool: "t"}}}},
		"an empty message":     {u, {Role: model.User, Text: " "}},
		"an empty reply":       {u, {Role: model.Assistant}, u},
		"a reply to a reply":   {u, text, text, u},
		"nobody's message":     {u, {Role: "system", Text: "x"}},
		"a result of another":  {u, a, {Role: model.ToolRole, Results: []model.ToolResult{{CallID: "a", Tool: "t", Text: "x"}, {CallID: "b", Tool: "u", Text: "x"}}}},
		"a text among results": {u, a, {Role: model.ToolRole, Text: "x", Results: r("a", "b").Results}},
	}
	for name, ms := range bad {
		if transcript.Check(ms) == nil {
			t.Errorf("%s is taken for valid", name)
		}
	}
	if err := transcript.Check([]model.Message{u, a, r("a", "b"), u, text, u}); err != nil {
		t.Error(err)
	}
}

func TestACompactionKeepsWhatTheModelHasNotSeen(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("line of a long file\n", 2000)
	l := goal().add("", event.ModelResponded{Parts: []event.Part{call("a", "read_file")}}).
		add("op1", proposed("a", "read_file"), finished(event.Succeeded, output("seen result"))).
		add("", event.ModelRequested{Request: "r2", Model: "m"},
			event.ModelResponded{Parts: []event.Part{call("b", "read_file"), {Kind: event.PartCall, CallID: "c", Tool: "write_file", Arguments: `{"content":"` + strings.Repeat("y", 40<<10) + `"}`}}}).
		add("op2", proposed("b", "read_file"), finished(event.Succeeded, output(big+"THE END"))).
		add("op3", proposed("c", "write_file"), finished(event.Succeeded, output("written"))).
		add("", event.UserMessage{Mode: event.Steer, Text: "sentinel"}, event.GoalRevised{Version: 2, Spec: event.GoalSpec{Text: "fix it well"}})
	head := uint64(len(l.events))
	l.add("", event.ContextCompacted{Through: head, Summary: event.Text{Head: "what happened so far"}})
	ms := transcript.Rebuild(l.events).Messages([]uint64{head - 1})
	if err := transcript.Check(ms); err != nil {
		t.Fatal(err)
	}
	all, size := js(ms), 0
	for _, want := range []string{"fix it well", "what happened so far", "op2: succeeded", "THE END", "op3: succeeded", "[user] sentinel", "bytes left out"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is gone", want)
		}
	}
	if strings.Contains(all, "seen result") || !strings.Contains(ms[0].Text, "fix it well") || !strings.Contains(ms[2].Text, "what happened so far") {
		t.Errorf("not the goal, the workspace and the summary first: %s", all)
	}
	if size = len(all); size > 3*transcript.MaxUnseen {
		t.Errorf("%d bytes are left", size)
	}
	// Once the model has answered, a next compaction drops it all.
	l.add("", event.ModelRequested{Request: "r3", Model: "m", Taken: []uint64{head - 1}}, event.ModelResponded{Parts: []event.Part{say("go")}},
		event.ContextCompacted{Through: head + 3, Summary: event.Text{Head: "later"}})
	all = js(l.messages())
	for _, gone := range []string{"what happened so far", "op2", "sentinel"} {
		if strings.Contains(all, gone) {
			t.Errorf("%q is still there", gone)
		}
	}
}

func TestAnOversizedResultIsShortenedWithItsAddress(t *testing.T) {
	t.Parallel()
	whole := event.Ref{SHA256: strings.Repeat("cd", 32), Size: 5 << 20}
	text := event.Text{Head: "HEAD\n" + strings.Repeat("文字 and more\n", 20_000) + "TAIL", Whole: whole}
	l := asked("run_command").add("op1", finished(event.Succeeded, event.Result{Output: text}))
	got := l.result(t)
	if len(got) > transcript.MaxResult+1024 || !strings.Contains(got, "HEAD") || !strings.Contains(got, "TAIL") || !strings.Contains(got, "artifact:"+whole.SHA256) {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
	var tools []string
	for range 60 {
		tools = append(tools, "run_command")
	}
	l = asked(tools...)
	for i := range tools {
		l.add(fmt.Sprint("op", i+1), finished(event.Succeeded, event.Result{Output: text}))
	}
	ms := l.messages()
	if n := len(js(ms)); n > transcript.MaxExchange*3/2 {
		t.Errorf("one response brought %d bytes", n)
	}
}

func TestMessagesDoesNotChangeTheBuilder(t *testing.T) {
	t.Parallel()
	l := goal().add("", event.ModelFailed{}, event.UserMessage{Text: "one"}, event.UserMessage{Text: "two"})
	b := transcript.Rebuild(l.events)
	without := b.Messages(nil)
	with := b.Messages([]uint64{6})
	if len(with) != len(without)+1 || with[len(with)-1].Text != "[user] two" {
		t.Errorf("%s", js(with))
	}
	if again := b.Messages(nil); !reflect.DeepEqual(again, without) || b.Through() != 6 {
		t.Error("asking changed the answer")
	}
	b.Add(l.events[5])
	if again := b.Messages(nil); !reflect.DeepEqual(again, without) {
		t.Error("an event that was added before changed the answer")
	}
	if (&transcript.Builder{}).Messages(nil) != nil {
		t.Error("messages of nothing")
	}
}

func TestWhileARequestIsOpenItsMessagesStand(t *testing.T) {
	t.Parallel()
	l := goal()
	sent := l.messages()
	l.add("", event.UserMessage{Mode: event.Steer, Text: "news"}, event.RepoStateMutated{By: "external"})
	seq := uint64(len(l.events) - 1)
	if got := transcript.Rebuild(l.events).Messages([]uint64{seq}); !reflect.DeepEqual(got, sent) {
		t.Errorf("what came meanwhile is in the open request: %s", js(got))
	}
	l.add("", event.ModelFailed{})
	if got := transcript.Rebuild(l.events).Messages([]uint64{seq}); len(got) != len(sent)+2 {
		t.Errorf("what came meanwhile is not in the next one: %s", js(got))
	}
}
