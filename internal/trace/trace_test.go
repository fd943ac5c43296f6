package trace

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
)

const secret = "WORDS-OF-SOMEBODY"

// goals draws the events of a goal: in any order that a ledger could have, and
// in many that it could not, because a projection must not stumble.
func goals(t *rapid.T) []event.Event {
	var es []event.Event
	at := moment.Time(1_700_000_000_000_000)
	turns, ops, requests := 0, 0, 0
	turn := ""
	add := func(op string, p event.Payload) {
		at += moment.Time(rapid.Int64Range(0, 5_000_000).Draw(t, "pause"))
		es = append(es, event.Event{Goal: "g1", Seq: uint64(len(es) + 1), ID: fmt.Sprint("e", len(es)), Type: p.EventType(), Time: at, Turn: turn, Op: op, Payload: p})
	}
	bad := *fault.New(fault.ExitStatus, fault.Model, secret, secret)
	add("", event.GoalReceived{Spec: event.GoalSpec{Text: secret}, Settings: event.Settings{Model: "anthropic:claude"}, Parent: rapid.SampledFrom([]string{"", "g0"}).Draw(t, "parent")})
	op := func() string { return fmt.Sprint("op", rapid.IntRange(1, ops+1).Draw(t, "op")) }
	for range rapid.IntRange(0, 60).Draw(t, "n") {
		switch rapid.IntRange(0, 15).Draw(t, "kind") {
		case 0:
			turns++
			turn = fmt.Sprint("t", turns)
			add("", event.TurnStarted{Worker: "w", Place: rapid.SampledFrom([]string{"here", "there"}).Draw(t, "place"), Takeover: rapid.Bool().Draw(t, "takeover")})
		case 1:
			add("", event.TurnEnded{Reason: rapid.SampledFrom([]event.StopReason{event.StopFinished, event.StopSuperseded, event.StopFailed}).Draw(t, "stop")})
			turn = ""
		case 2:
			requests++
			add("", event.ModelRequested{Request: fmt.Sprint("r", requests), Model: "anthropic:claude", Attempt: 1, MaxOutput: 100})
		case 3:
			add("", event.ModelResponded{Request: fmt.Sprint("r", requests), Usage: event.Usage{Input: 10, Output: 3}, Parts: []event.Part{{Kind: event.PartText, Text: secret},
				{Kind: event.PartCall, Tool: "read_file", Arguments: `{"path":"` + secret + `"}`}, {Kind: event.PartCall, Arguments: "not JSON"}}})
		case 4:
			add("", event.ModelFailed{Request: fmt.Sprint("r", requests), Fault: bad})
		case 5, 6:
			ops++
			add(fmt.Sprint("op", ops), event.OperationProposed{Tool: "run_command", Effect: event.Supervised, Arguments: json.RawMessage(`{"command":"` + secret + `"}`)})
		case 7:
			add(op(), event.ApprovalRequested{Why: []string{secret}})
		case 8:
			add(op(), event.ApprovalGranted{By: event.ActorUser})
		case 9, 10:
			add(op(), event.OperationStarted{Attempt: 1})
		case 11, 12:
			add(op(), event.OperationFinished{Tool: "run_command", Outcome: rapid.SampledFrom([]event.Outcome{event.Succeeded, event.Failed, event.OutcomeUnknown}).Draw(t, "outcome"),
				Result: event.Result{Output: event.Text{Head: secret}, Fault: &bad, Command: &event.CommandResult{ExitCode: 1}}})
		case 13:
			add("", event.GoalWaiting{Reason: event.WaitApproval, Detail: secret})
		case 14:
			add("", event.GoalWoken{Reason: event.WaitApproval})
		case 15:
			add("", event.UserMessage{Mode: event.Message, Text: secret})
		}
	}
	if rapid.Bool().Draw(t, "ends") {
		add("", event.GoalCompleted{How: event.Verified, Version: 1})
		add("", event.TurnEnded{Reason: event.StopFinished})
	}
	return es
}

func project(f *Fold, es []event.Event) []Span {
	var out []Span
	for _, e := range es {
		out = append(out, f.Take(e)...)
	}
	return out
}

func TestSpansAreWellFormedWhateverALedgerHolds(t *testing.T) {
	hex := regexp.MustCompile(`^[0-9a-f]+$`)
	rapid.Check(t, func(t *rapid.T) {
		es := goals(t)
		spans := project(&Fold{}, es)
		seen := map[string]bool{}
		for _, s := range spans {
			if len(s.Trace) != 32 || len(s.ID) != 16 || !hex.MatchString(s.Trace+s.ID) || s.Trace != TraceID("g1") {
				t.Fatalf("ids: %+v", s)
			}
			if seen[s.ID] {
				t.Fatalf("two spans have the id of %+v", s)
			}
			seen[s.ID] = true
			if s.Start > s.End || s.Start < es[0].Time || s.End > es[len(es)-1].Time || s.Name == "" {
				t.Fatalf("times: %+v", s)
			}
			for _, m := range s.Marks {
				if m.At < s.Start || m.At > s.End {
					t.Fatalf("a mark outside of its span: %+v", s)
				}
			}
			if root := s.ID == SpanID("g1", ofGoal, ""); root != (s.Parent == "") {
				t.Fatalf("parent: %+v", s)
			}
		}
		if strings.Contains(fmt.Sprintf("%+v", spans), secret) {
			t.Fatalf("content is told that nobody asked for: %+v", spans)
		}
	})
}

// TestAProjectionGoesOnAfterACrash: whoever reads a ledger anew tells the same of
// what comes later as one who had read it all along.
func TestAProjectionGoesOnAfterACrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := goals(t)
		cut := rapid.IntRange(0, len(es)).Draw(t, "cut")
		whole := fmt.Sprintf("%+v", project(&Fold{Content: true}, es))
		before := project(&Fold{Content: true}, es[:cut])
		again := &Fold{Content: true}
		project(again, es[:cut])
		if got := fmt.Sprintf("%+v", append(before, project(again, es[cut:])...)); got != whole {
			t.Fatalf("got  %s\nwant %s", got, whole)
		}
	})
}

func TestAGoalIsATraceInTheWordsOfTheConventions(t *testing.T) {
	t.Parallel()
	at := moment.Time(0)
	var es []event.Event
	add := func(op string, p event.Payload) {
		at += 1_000_000
		es = append(es, event.Event{Goal: "g1", Seq: uint64(len(es) + 1), ID: fmt.Sprint("e", len(es)), Type: p.EventType(), Time: at, Turn: "t1", Op: op, Payload: p})
	}
	add("", event.GoalReceived{Spec: event.GoalSpec{Text: "mend it"}, Settings: event.Settings{Model: "anthropic:claude"}})
	add("", event.TurnStarted{Worker: "w", Place: "here"})
	add("", event.ModelRequested{Request: "r1", Model: "anthropic:claude", Attempt: 1, MaxOutput: 100})
	add("", event.ModelResponded{Request: "r1", Model: "claude-5", StopReason: "tool_use", Usage: event.Usage{Input: 40, CachedInput: 30, Output: 5}, CostMicros: 9,
		Parts: []event.Part{{Kind: event.PartCall, CallID: "c1", Tool: "file_patch", Arguments: `{"path":"a"}`}}})
	add("op1", event.OperationProposed{Tool: "file_patch", CallID: "c1", Effect: event.Verifiable, Arguments: json.RawMessage(`{"path":"a"}`)})
	add("op1", event.ApprovalRequested{})
	add("", event.GoalWaiting{Reason: event.WaitApproval})
	add("op1", event.ApprovalGranted{By: event.ActorUser})
	add("", event.GoalWoken{Reason: event.WaitApproval})
	add("op1", event.OperationStarted{Attempt: 1})
	add("op1", event.OperationFinished{Tool: "file_patch", Outcome: event.Failed, Result: event.Result{Fault: fault.New(fault.StaleEdit, fault.Model, "changed", "")}})
	add("", event.GoalCompleted{How: event.Verified})
	add("", event.TurnEnded{Reason: event.StopFinished})
	var got []string
	for _, s := range project(&Fold{Content: true}, es) {
		attrs := map[string]any{}
		for _, a := range s.Attrs {
			attrs[a.Key] = a.Value
		}
		parent := map[string]string{"": "", SpanID("g1", ofGoal, ""): "goal", SpanID("g1", ofTurn, "t1"): "turn"}[s.Parent]
		got = append(got, fmt.Sprintf("%s|%d|%s|%d-%d|%s|%s|%v", s.Name, s.Kind, parent, s.Start/1_000_000, s.End/1_000_000, s.Error, s.Place, attrs))
	}
	want := []string{
		"chat claude|3|turn|3-4||here|map[belay.cost_micros:9 belay.request.attempt:1 belay.request.id:r1 gen_ai.conversation.id:g1 gen_ai.operation.name:chat " +
			`gen_ai.output.messages:[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"file_patch","arguments":{"path":"a"}}],"finish_reason":"tool_use"}] ` +
			"gen_ai.provider.name:anthropic gen_ai.request.max_tokens:100 gen_ai.request.model:claude gen_ai.response.finish_reasons:[tool_use] gen_ai.response.model:claude-5 " +
			"gen_ai.usage.cache_creation.input_tokens:0 gen_ai.usage.cache_read.input_tokens:30 gen_ai.usage.input_tokens:40 gen_ai.usage.output_tokens:5]",
		"wait approval|1|goal|7-9||here|map[belay.wait.reason:approval gen_ai.conversation.id:g1]",
		"execute_tool file_patch|1|turn|6-11|" + string(fault.StaleEdit) + "|here|map[belay.op.asked:true belay.op.attempts:1 belay.op.effect:verifiable belay.op.id:op1 belay.op.outcome:failed gen_ai.conversation.id:g1 " +
			`gen_ai.operation.name:execute_tool gen_ai.tool.call.arguments:{"path":"a"} gen_ai.tool.call.id:c1 gen_ai.tool.call.result: gen_ai.tool.name:file_patch gen_ai.tool.type:function]`,
		"invoke_workflow goal|1||1-12||here|map[belay.cost_micros:9 belay.goal.completed_how:verified belay.goal.status:completed belay.steps:1 gen_ai.conversation.id:g1 " +
			`gen_ai.input.messages:[{"role":"user","parts":[{"type":"text","content":"mend it"}]}] gen_ai.operation.name:invoke_workflow gen_ai.provider.name:anthropic gen_ai.request.model:claude ` +
			"gen_ai.usage.input_tokens:40 gen_ai.usage.output_tokens:5 gen_ai.workflow.name:goal]",
		"invoke_agent belay|1|goal|2-13||here|map[belay.turn.id:t1 belay.turn.stop_reason:finished gen_ai.agent.name:belay gen_ai.conversation.id:g1 gen_ai.operation.name:invoke_agent gen_ai.provider.name:anthropic gen_ai.request.model:claude]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
