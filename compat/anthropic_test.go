package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/model/anthropic"
	"belay/internal/model/modeltest"
)

func TestTheAnthropicSDKReadsEveryFieldOfOurRequests(t *testing.T) {
	t.Parallel()
	m, err := anthropic.New(anthropic.Config{Name: "claude-test", Key: "k", Thinking: json.RawMessage(`{"type":"adaptive"}`), CacheTTL: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		body, _, err := m.Body(drawRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		var params sdk.MessageNewParams
		if err := params.UnmarshalJSON(body); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		again, err := params.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if diff := difference(stringResults(without(t, body, "stream")), stringResults(without(t, again, "stream"))); diff != "" {
			t.Fatalf("%s\nours: %s\nthe SDK's: %s", diff, body, again)
		}
	})
}

func TestTheAnthropicSDKAndWeReadAStreamAlike(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		answer := modeltest.Answer{Response: response(seed), Seed: seed}
		p := modeltest.New(func(modeltest.Request) modeltest.Answer { return answer })
		ours, err := anthropic.New(anthropic.Config{Name: "claude-test", Key: "k", BaseURL: p.AnthropicBase()})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := ours.Send(context.Background(), simpleRequest(), nil)
		if err != nil {
			t.Fatal(err)
		}

		client := sdk.NewClient(option.WithAPIKey("k"), option.WithBaseURL(p.AnthropicBase()), option.WithMaxRetries(0))
		stream := client.Messages.NewStreaming(context.Background(), sdk.MessageNewParams{Model: "claude-test", MaxTokens: 100,
			Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("go"))}})
		var acc sdk.Message
		for stream.Next() {
			if err := acc.Accumulate(stream.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		theirs := ""
		for _, b := range acc.Content {
			switch b.Type {
			case "text":
				theirs += "\ntext " + b.Text
			case "thinking":
				theirs += "\nthinking " + b.Thinking + " " + b.Signature
			case "tool_use":
				theirs += fmt.Sprintf("\ncall %s %s %s", b.ID, b.Name, b.Input)
			}
		}
		u := acc.Usage
		theirs += fmt.Sprintf("\nusage %d %d %d %d", u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)
		mine := ""
		for _, part := range resp.Parts {
			switch part.Kind {
			case event.PartText:
				mine += "\ntext " + part.Text
			case event.PartThink:
				var block struct{ Signature string }
				if err := json.Unmarshal(part.Data, &block); err != nil {
					t.Fatal(err)
				}
				mine += "\nthinking " + part.Text + " " + block.Signature
			case event.PartCall:
				mine += fmt.Sprintf("\ncall %s %s %s", part.CallID, part.Tool, part.Arguments)
			}
		}
		mine += fmt.Sprintf("\nusage %d %d %d %d", resp.Usage.Input, resp.Usage.CachedInput, resp.Usage.CacheWrite, resp.Usage.Output)
		if mine != theirs {
			t.Errorf("seed %d\nours: %s\nthe SDK's: %s", seed, mine, theirs)
		}
		p.Close()
	}
}

// stringResults undoes what the SDK does to the content of tool results: it
// knows only lists of blocks, and the API takes a string for one text block.
func stringResults(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = stringResults(v[i])
		}
	case map[string]any:
		if v["type"] == "tool_result" {
			if list, ok := v["content"].([]any); ok && len(list) == 1 {
				if block, ok := list[0].(map[string]any); ok && block["type"] == "text" {
					v["content"] = block["text"]
				}
			}
		}
		for k := range v {
			v[k] = stringResults(v[k])
		}
	}
	return v
}
