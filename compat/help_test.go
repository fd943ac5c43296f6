package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/model/modeltest"
)

func simpleRequest() model.Request {
	return model.Request{Messages: []model.Message{{Role: model.User, Text: "go"}}, MaxOutput: 100, ID: "r"}
}

// drawRequest is a request over a history as the ledger can hold it.
func drawRequest(t *rapid.T) model.Request {
	r := model.Request{System: "You are careful.", State: rapid.SampledFrom([]string{"", "plan: \"x\"\n<b>"}).Draw(t, "state"),
		MaxOutput: rapid.Int64Range(1, 1<<20).Draw(t, "limit"), Messages: []model.Message{{Role: model.User, Text: "the goal"}},
		Tools: []model.Tool{{Name: "read_file", Description: "Reads a file.",
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)}}}
	for _, step := range modeltest.Histories().Draw(t, "history") {
		r.Messages = append(r.Messages, step...)
	}
	return r
}

// response is a random response, the same for the same seed.
func response(seed uint64) model.Response {
	rng := rand.New(rand.NewPCG(seed, 3))
	words := func() string {
		var b strings.Builder
		for range rng.IntN(30) {
			b.WriteString([]string{"word ", "文字", "\n", "\"quoted\" ", "🙂", "<tag> & ", "\\n", "\u2028", "é"}[rng.IntN(9)])
		}
		return b.String()
	}
	var r model.Response
	if rng.IntN(2) == 0 {
		r.Parts = append(r.Parts, event.Part{Kind: event.PartThink, Text: "hm " + words()})
	}
	if rng.IntN(4) > 0 {
		r.Parts = append(r.Parts, event.Part{Kind: event.PartText, Text: "say " + words()})
	}
	for i := range rng.IntN(4) {
		args, err := json.Marshal(map[string]any{"path": words(), "limit": rng.IntN(100)})
		if err != nil {
			panic(err)
		}
		r.Parts = append(r.Parts, event.Part{Kind: event.PartCall, CallID: fmt.Sprintf("call_%d", i), Tool: "read_file", Arguments: string(args)})
	}
	if len(r.Parts) == 0 {
		r.Parts = []event.Part{{Kind: event.PartText, Text: "nothing"}}
	}
	r.Usage = event.Usage{Input: 1000 + rng.Int64N(1000), CachedInput: rng.Int64N(900), Output: rng.Int64N(500)}
	return r
}

// without decodes JSON and leaves a field out.
func without(t *rapid.T, raw []byte, field string) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o map[string]any
	if err := dec.Decode(&o); err != nil {
		t.Fatal(err)
	}
	delete(o, field)
	dropNulls(o)
	return o
}

// dropNulls takes out fields that are null: the SDK leaves them out, and both
// mean the same.
func dropNulls(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			dropNulls(x)
		}
	case map[string]any:
		for k, x := range v {
			if x == nil {
				delete(v, k)
			}
			dropNulls(x)
		}
	}
}

// difference names the first place where two JSON values differ.
func difference(a, b any) string { return differ("", a, b) }

func differ(at string, a, b any) string {
	ma, okA := a.(map[string]any)
	mb, okB := b.(map[string]any)
	if okA && okB {
		for k := range ma {
			if _, ok := mb[k]; !ok {
				return at + "." + k + " is lost"
			}
			if d := differ(at+"."+k, ma[k], mb[k]); d != "" {
				return d
			}
		}
		for k := range mb {
			if _, ok := ma[k]; !ok {
				return at + "." + k + " is new"
			}
		}
		return ""
	}
	la, okA := a.([]any)
	lb, okB := b.([]any)
	if okA && okB && len(la) == len(lb) {
		for i := range la {
			if d := differ(fmt.Sprintf("%s[%d]", at, i), la[i], lb[i]); d != "" {
				return d
			}
		}
		return ""
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Sprintf("%s: %v became %v", at, a, b)
	}
	return ""
}
