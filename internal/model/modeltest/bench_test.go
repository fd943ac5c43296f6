package modeltest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/model/anthropic"
	"belay/internal/model/openai"
)

// long is a conversation of n steps with results of 4 KB.
func long(n int) model.Request {
	r := model.Request{System: strings.Repeat("be careful. ", 500), Messages: []model.Message{{Role: model.User, Text: "the goal"}}, State: "state", MaxOutput: 4000}
	text := strings.Repeat("\tfor i := range items { fmt.Println(\"item\", i) }\n", 80)
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Parts: []event.Part{{Kind: event.PartCall, CallID: id, Tool: "read_file", Arguments: `{"path":"a.go"}`}}},
			model.Message{Role: model.ToolRole, Results: []model.ToolResult{{CallID: id, Tool: "read_file", Text: text}}})
	}
	return r
}

// BenchmarkRequest is our own time for one request of 200 steps (0.8 MB):
// building its bytes, and estimating its tokens.
func BenchmarkRequest(b *testing.B) {
	r := long(200)
	oa, err := openai.New(openai.Config{Name: "m", Key: "k"})
	if err != nil {
		b.Fatal(err)
	}
	an, err := anthropic.New(anthropic.Config{Name: "m", Key: "k"})
	if err != nil {
		b.Fatal(err)
	}
	for name, m := range map[string]interface {
		model.Model
		model.Bodier
	}{"openai": oa, "anthropic": an} {
		b.Run(name+"/body", func(b *testing.B) {
			for b.Loop() {
				body, _, err := m.Body(r)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(body)))
			}
		})
		b.Run(name+"/count", func(b *testing.B) {
			for b.Loop() {
				if _, err := m.Count(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
