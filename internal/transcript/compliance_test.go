package transcript_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/modeltest"
	"belay/internal/transcript"
)

// think is reasoning as each provider leaves it behind.
func think(provider string) event.Part {
	switch provider {
	case "anthropic":
		return event.Part{Kind: event.PartThink, Text: "hm", Provider: provider, Data: json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"c2ln"}`)}
	case "openai":
		return event.Part{Kind: event.PartThink, Text: "hm", Provider: provider, Data: json.RawMessage(`{"field":"reasoning_content"}`)}
	}
	return event.Part{Kind: event.PartOpaque, Provider: provider, Data: json.RawMessage(`{"x":1}`)}
}

func responded(parts ...event.Part) event.ModelResponded { return event.ModelResponded{Parts: parts} }

func next(m string, taken ...uint64) event.ModelRequested {
	return event.ModelRequested{Model: m, Taken: taken}
}

// provider is a goal whose responses come from one provider.
func begun(m string) *ledger {
	return (&ledger{}).add("", event.GoalReceived{Version: 1, Spec: event.GoalSpec{Text: "fix it"}}, event.WorkspaceAttached{Root: "/w"}, next(m))
}

// many is a response with n calls of which each ends in its own way, in an
// order of its own.
func many(l *ledger, n int, id func(i int) string) *ledger {
	var parts []event.Part
	for i := range n {
		parts = append(parts, call(id(i), "read_file"))
	}
	l.add("", responded(parts...))
	for i := range n {
		l.add(fmt.Sprint("op", i+1), proposed(id(i), "read_file"))
	}
	for i := range n {
		k := (i*7 + 3) % n // 7 and these n have no common divisor
		op := fmt.Sprint("op", k+1)
		switch k % 4 {
		case 0:
			l.add(op, finished(event.Succeeded, output("ok")))
		case 1:
			l.add(op, rejected(fault.PolicyDenied, "no", ""))
		case 2:
			l.add(op, event.ApprovalDenied{Tool: "read_file"})
		}
	}
	return l
}

// compliance are histories that providers have refused from agents of all
// kinds, by what is awkward about them.
func compliance() map[string]*ledger {
	ok := finished(event.Succeeded, output("ok"))
	long := "functions.run_command:" + strings.Repeat("0", 60)
	both := func(a, b string) *ledger {
		l := begun(a+":x").add("", responded(think(a), say("I look."), call("toolu_"+strings.Repeat("v", 50), "read_file"), call("call|2", "run_command"))).
			add("op1", proposed("toolu_"+strings.Repeat("v", 50), "read_file"), ok).add("op2", proposed("call|2", "run_command"), rejected(fault.UserDenied, "no", ""))
		return l.add("", next(b+":y"), responded(think(b), call("toolu_"+strings.Repeat("v", 50), "read_file"))).add("op3", proposed("toolu_"+strings.Repeat("v", 50), "read_file"), ok).
			add("", next(a+":x"), responded(think(a), think(b), say("so")), next(b+":y"))
	}
	all := map[string]*ledger{
		"a batch that is interrupted":           begun("m").add("", responded(call("a", "t"), call("b", "t"), call("c", "t"))).add("op1", proposed("a", "t"), event.OperationStarted{Attempt: 1}, ok).add("op2", proposed("b", "t"), event.OperationStarted{Attempt: 1}, finished(event.OutcomeUnknown, event.Result{})).add("", next("m")),
		"a call that is denied":                 begun("m").add("", responded(call("a", "t"))).add("op1", proposed("a", "t"), event.ApprovalDenied{Tool: "t", Reason: "no"}).add("", next("m")),
		"the same id in every response":         begun("m").add("", responded(call("call_0", "t"))).add("op1", proposed("call_0", "t"), ok).add("", next("m"), responded(call("call_0", "t"))).add("op2", proposed("call_0", "t"), ok).add("", next("m")),
		"the same id twice in one response":     begun("m").add("", responded(call("x", "t"), call("x", "t"))).add("op1", proposed("x", "t"), ok).add("op2", proposed("x", "t"), ok).add("", next("m")),
		"no ids":                                begun("m").add("", responded(call("", "t"), call("", "u"))).add("op1", proposed("", "t"), ok).add("op2", proposed("", "u"), ok).add("", next("m")),
		"ids that differ behind the limit":      begun("m").add("", responded(call(long+"1", "t"), call(long+"2", "t"))).add("op1", proposed(long+"1", "t"), ok).add("op2", proposed(long+"2", "t"), ok).add("", next("m")),
		"an id that another one is cut to":      begun("m").add("", responded(call(long[:40], "t"), call(long, "t"), call(long[:38]+"_2", "t"))).add("op1", proposed(long[:40], "t"), ok).add("op2", proposed(long, "t"), ok).add("op3", proposed(long[:38]+"_2", "t"), ok).add("", next("m")),
		"text behind the calls":                 begun("m").add("", responded(call("a", "t"), say("and now I wait"))).add("op1", proposed("a", "t"), ok).add("", next("m")),
		"text between the calls":                begun("m").add("", responded(call("a", "t"), say("and"), call("b", "t"))).add("op1", proposed("a", "t"), ok).add("op2", proposed("b", "t"), ok).add("", next("m")),
		"empty text beside a call":              begun("m").add("", responded(say(""), call("a", "t"), say(" \n"))).add("op1", proposed("a", "t"), ok).add("", next("m")),
		"an unknown stop reason":                begun("m").add("", event.ModelResponded{Parts: []event.Part{say("half")}, StopReason: "pause_turn"}, next("m")),
		"cut off at the output limit":           begun("m").add("", event.ModelResponded{Parts: []event.Part{say("half"), call("a", "t")}, StopReason: model.StopLength}).add("op1", proposed("a", "t"), rejected(fault.InvalidArguments, "no JSON", "")).add("", next("m")),
		"a stream that was cut, then a message": begun("m").add("", event.ModelFailed{}, event.UserMessage{Mode: event.Steer, Text: "go on"}, next("m", 5), event.ModelFailed{}, next("m", 5), responded(say("yes")), next("m")),
		"steering between a call and its end":   begun("m").add("", responded(call("a", "t"), call("b", "t"))).add("op1", proposed("a", "t")).add("", event.UserMessage{Mode: event.Steer, Text: "wait"}).add("op2", proposed("b", "t"), ok).add("op1", ok).add("", event.UserMessage{Mode: event.Steer, Text: "no, go on"}, next("m", 6, 9)),
		"a compaction in the middle of a batch": begun("m").add("", responded(think("anthropic"), call("a", "t"), call("b", "t"))).add("op1", proposed("a", "t"), ok).add("op2", proposed("b", "t")).add("", event.ContextCompacted{Through: 3, Summary: event.Text{Head: "so far"}, Level: 1}).add("op2", ok).add("", next("m"), responded(say("x")), next("m")),
		"only reasoning, then only reasoning":   begun("m").add("", responded(think("anthropic")), next("m"), responded(think("openai")), next("m"), responded(think("elsewhere")), next("m")),
		"reasoning that is not signed":          begun("m").add("", responded(event.Part{Kind: event.PartThink, Text: "hm", Provider: "anthropic"}, call("a", "t"))).add("op1", proposed("a", "t"), ok).add("", next("m")),
		"from anthropic to openai and back":     both("anthropic", "openai"),
		"from openai to anthropic and back":     both("openai", "anthropic"),
		"hundreds of calls at once":             many(begun("m"), 330, func(i int) string { return fmt.Sprint("c", i) }).add("", next("m")),
		"hundreds of calls with one id":         many(begun("m"), 300, func(int) string { return "call_0" }).add("", next("m"), responded(say("ok")), next("m")),
	}
	for _, args := range []string{"", "{junk", "null", "[1]", `"text"`, `{"a":1}{"b":2}`, "{\"x\":\"\xff\"}", `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}"} {
		p := event.Part{Kind: event.PartCall, CallID: "a", Tool: "t", Arguments: args}
		all[fmt.Sprintf("arguments %.12q", args)] = begun("m").add("", responded(p)).add("op1", proposed("a", "t"), rejected(fault.InvalidArguments, "no", "")).add("", next("m"))
	}
	for _, name := range []string{"", "a b", "functions.read_file", strings.Repeat("n", 90), "文件"} {
		p := event.Part{Kind: event.PartCall, CallID: "a", Tool: name, Arguments: "{}"}
		all[fmt.Sprintf("the tool name %.12q", name)] = begun("m").add("", responded(p)).add("op1", proposed("a", name), rejected(fault.UnknownTool, "no", "")).add("", next("m"))
	}
	return all
}

// TestNoHistoryIsRefusedByAnAPI holds the bytes of both wires against what the
// real APIs refuse, written down apart from the adapters (package modeltest), at
// every length of every awkward ledger: a crash may come after any event.
func TestNoHistoryIsRefusedByAnAPI(t *testing.T) {
	t.Parallel()
	ws := map[string]model.Bodier{"anthropic": wires(t)[0], "openai": wires(t)[1]}
	histories := compliance()
	for name, l := range awkward() {
		histories[name] = l
	}
	for name, l := range histories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &transcript.Builder{}
			for n, e := range l.events {
				if b.Add(e); n < 2 || len(l.events) > 300 && n%50 != 0 && n < len(l.events)-3 {
					continue
				}
				ms := b.Messages(nil)
				if err := transcript.Check(ms); err != nil {
					t.Fatalf("after %d events: %v", n+1, err)
				}
				for wire, w := range ws {
					for _, state := range []string{"", "<state>\n</state>"} {
						body, _, err := w.Body(model.Request{System: "s", Messages: ms, State: state, MaxOutput: 100})
						if err == nil {
							err = modeltest.Refused(wire, body)
						}
						if err != nil {
							t.Fatalf("after %d events, on %s: %v\n%.3000s", n+1, wire, err, body)
						}
					}
				}
			}
		})
	}
}
