package modeltest

import (
	"encoding/json"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/model"
)

// Histories draws conversations as the ledger can hold them, step by step:
// each step is what one request adds. Every call has its result before the
// step ends, in any order and with messages between; ids, names, arguments and
// texts are what models and providers really write, junk included.
func Histories() *rapid.Generator[[][]model.Message] {
	return rapid.SliceOfN(steps(), 1, 8)
}

func steps() *rapid.Generator[[]model.Message] {
	return rapid.Custom(func(t *rapid.T) []model.Message {
		var out []model.Message
		if rapid.IntRange(0, 3).Draw(t, "user first") == 0 {
			out = append(out, user(t))
		}
		parts, results := assistant(t)
		if len(parts) > 0 {
			out = append(out, model.Message{Role: model.Assistant, Parts: parts})
		}
		if len(results) > 1 {
			results = rapid.Permutation(results).Draw(t, "order")
		}
		for len(results) > 0 {
			n := rapid.IntRange(1, len(results)).Draw(t, "together")
			if rapid.IntRange(0, 3).Draw(t, "steer between") == 0 {
				out = append(out, user(t))
			}
			out = append(out, model.Message{Role: model.ToolRole, Results: results[:n:n]})
			results = results[n:]
		}
		for rapid.IntRange(0, 2).Draw(t, "user after") == 0 {
			out = append(out, user(t))
		}
		return out
	})
}

func user(t *rapid.T) model.Message { return model.Message{Role: model.User, Text: text(t)} }

func text(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", " \n", "fix it", "a \"quoted\" \\ text\n\twith <tags> & 文字 🙂\u2028", "bad \xff\xc3 bytes", "\x00\x1b[31m"}),
		rapid.StringN(0, 20, -1),
	).Draw(t, "text")
}

func assistant(t *rapid.T) ([]event.Part, []model.ToolResult) {
	var parts []event.Part
	var results []model.ToolResult
	// More than twenty calls make the cache breakpoints move differently.
	n := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 24)).Draw(t, "parts")
	used := map[string]bool{}
	for range n {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			parts = append(parts, event.Part{Kind: event.PartText, Text: text(t)})
		case 1:
			parts = append(parts, reasoning(t))
		default:
			// Ids may come again in a later response, as some servers do.
			id := rapid.SampledFrom([]string{"call_0", "call_1", "c.2", "c/2", "ünï", "functions.read_file:0", "", "a", "b", "c", "d", "e", "f", "g",
				"0123456789012345678901234567890123456789012345678901234567890123456789"}).Draw(t, "id")
			if used[id] {
				continue
			}
			used[id] = true
			tool := rapid.SampledFrom([]string{"read_file", "run_command", "functions.read_file", "no such tool", ""}).Draw(t, "tool")
			args := rapid.SampledFrom([]string{`{"path":"a"}`, `{ "b": [1, 2],  "c": "<&>" }`, "", "{junk", "null", "[1]", `"text"`, `{"a":1}{"b":2}`, "{\"x\":\"\xff\"}", `{"a":"` + "\u2028" + `"}`}).Draw(t, "args")
			parts = append(parts, event.Part{Kind: event.PartCall, CallID: id, Tool: tool, Arguments: args})
			results = append(results, model.ToolResult{CallID: id, Tool: tool, Text: text(t), Error: rapid.Bool().Draw(t, "error")})
		}
	}
	return parts, results
}

func reasoning(t *rapid.T) event.Part {
	return rapid.SampledFrom([]event.Part{
		{Kind: event.PartThink, Text: "hm", Provider: "anthropic", Data: json.RawMessage(`{"type":"thinking","thinking":"hm <b>","signature":"c2ln"}`)},
		{Kind: event.PartOpaque, Provider: "anthropic", Data: json.RawMessage(`{ "type": "redacted_thinking", "data": "eA==" }`)},
		{Kind: event.PartThink, Text: "hm", Provider: "openai", Data: json.RawMessage(`{"field":"reasoning_content"}`)},
		{Kind: event.PartOpaque, Provider: "openai", Data: json.RawMessage(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"eA=="}]}`)},
		{Kind: event.PartThink, Text: "unsigned", Provider: "anthropic"},
		{Kind: event.PartOpaque, Provider: "elsewhere", Data: json.RawMessage(`{"x":1}`)},
		{Kind: event.PartOpaque, Provider: "anthropic"},
	}).Draw(t, "reasoning")
}
