package main

import (
	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// A strategy says what a request sends of a conversation.
type strategy struct {
	name string
	of   func(whole, view []model.Message, room int64) []model.Message
}

// strategies are belay's own view and what it is compared with. Those that keep
// to a window get all of it but the room for an answer.
var strategies = []strategy{
	{"belay", func(_, view []model.Message, _ int64) []model.Message { return view }},
	{"whole history", func(whole, _ []model.Message, _ int64) []model.Message { return whole }},
	{"last 10 results", func(whole, _ []model.Message, room int64) []model.Message {
		return truncated(lastResults(whole, 10), room)
	}},
	{"truncation", func(whole, _ []model.Message, room int64) []model.Message { return truncated(whole, room) }},
}

// lastResults leaves out the text of all results but the last n.
func lastResults(ms []model.Message, n int) []model.Message {
	out := append([]model.Message(nil), ms...)
	for i := len(out) - 1; i >= 0; i-- {
		if out[i].Role != model.ToolRole {
			continue
		}
		if n--; n >= 0 {
			continue
		}
		results := append([]model.ToolResult(nil), out[i].Results...)
		for k := range results {
			results[k].Text = "[old output left out]"
		}
		out[i].Results = results
	}
	return out
}

// truncated leaves out the oldest exchanges behind the goal until the rest
// fits.
func truncated(ms []model.Message, room int64) []model.Message {
	const head = 2 // the goal, and where the work takes place
	if len(ms) <= head {
		return ms
	}
	room -= tokens(ms[:head])
	at := len(ms)
	for i := len(ms) - 1; i >= head; i-- {
		if room -= tokens(ms[i : i+1]); room < 0 {
			break
		}
		if ms[i].Role == model.Assistant {
			at = i
		}
	}
	if at == len(ms) || room >= 0 {
		return ms
	}
	return append(append([]model.Message(nil), ms[:head]...), ms[at:]...)
}

func tokens(ms []model.Message) int64 {
	n := wire.Estimate(model.Request{Messages: ms})
	return n + int64(float64(n)*wire.EstimateError)
}

// text is everything that a conversation shows.
func text(ms []model.Message, state string) string {
	n := len(state)
	for _, m := range ms {
		n += len(m.Text) + 64
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Arguments) + 2
		}
		for _, r := range m.Results {
			n += len(r.Text) + 2
		}
	}
	b := make([]byte, 0, n)
	add := func(s string) { b = append(append(b, s...), '\n') }
	for _, m := range ms {
		add(m.Text)
		for _, p := range m.Parts {
			if p.Kind == event.PartCall {
				add(p.Arguments)
			} else {
				add(p.Text)
			}
		}
		for _, r := range m.Results {
			add(r.Text)
		}
	}
	add(state)
	return string(b)
}
