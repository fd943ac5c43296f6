package compat

import (
	"context"
	"fmt"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/model/modeltest"
	"belay/internal/model/openai"
)

func TestTheOpenAISDKReadsEveryFieldOfOurRequests(t *testing.T) {
	t.Parallel()
	m, err := openai.New(openai.Config{Name: "gpt-test", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		body, _, err := m.Body(drawRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		var params sdk.ChatCompletionNewParams
		if err := params.UnmarshalJSON(body); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		again, err := params.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		// The SDK sets stream when it sends.
		if diff := difference(without(t, body, "stream"), without(t, again, "stream")); diff != "" {
			t.Fatalf("%s\nours: %s\nthe SDK's: %s", diff, body, again)
		}
	})
}

func TestTheOpenAISDKAndWeReadAStreamAlike(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		answer := modeltest.Answer{Response: response(seed), Seed: seed}
		p := modeltest.New(func(modeltest.Request) modeltest.Answer { return answer })
		ours, err := openai.New(openai.Config{Name: "gpt-test", Key: "k", BaseURL: p.OpenAIBase()})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := ours.Send(context.Background(), simpleRequest(), nil)
		if err != nil {
			t.Fatal(err)
		}

		client := sdk.NewClient(option.WithAPIKey("k"), option.WithBaseURL(p.OpenAIBase()), option.WithMaxRetries(0))
		stream := client.Chat.Completions.NewStreaming(context.Background(), sdk.ChatCompletionNewParams{Model: "gpt-test",
			Messages:      []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("go")},
			StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}})
		var acc sdk.ChatCompletionAccumulator
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Fatal("the SDK refuses a chunk")
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		msg := acc.Choices[0].Message
		theirs := "text " + msg.Content
		for _, c := range msg.ToolCalls {
			theirs += fmt.Sprintf("\ncall %s %s %s", c.ID, c.Function.Name, c.Function.Arguments)
		}
		u := acc.Usage
		theirs += fmt.Sprintf("\nusage %d %d %d %d", u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.CompletionTokens, u.CompletionTokensDetails.ReasoningTokens)
		mine := fmt.Sprintf("%s\nusage %d %d %d %d", spoken(resp), resp.Usage.Input, resp.Usage.CachedInput, resp.Usage.Output, resp.Usage.Reasoning)
		if mine != theirs {
			t.Errorf("seed %d\nours: %s\nthe SDK's: %s", seed, mine, theirs)
		}
		want := model.StopEnd
		if acc.Choices[0].FinishReason == "tool_calls" {
			want = model.StopToolCalls
		}
		if resp.StopReason != want {
			t.Errorf("seed %d: stop %s, the SDK says %s", seed, resp.StopReason, acc.Choices[0].FinishReason)
		}
		p.Close()
	}
}

func spoken(r model.Response) string {
	text, calls := "", ""
	for _, p := range r.Parts {
		switch p.Kind {
		case event.PartText:
			text += p.Text
		case event.PartCall:
			calls += fmt.Sprintf("\ncall %s %s %s", p.CallID, p.Tool, p.Arguments)
		}
	}
	return "text " + text + calls
}
