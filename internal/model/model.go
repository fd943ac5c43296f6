// Package model is the port to language models: one neutral request and
// response, streamed deltas, usage, and errors sorted by kind. Each wire
// protocol is an adapter in a folder below.
//
// It must not know goals, tools' behaviour or the ledger. Retries are decided
// by the core; an adapter sends exactly one request.
package model

import (
	"context"
	"encoding/json"

	"belay/internal/event"
)

// Model sends requests to one named model.
type Model interface {
	// Info is known without a network call.
	Info() Info
	// Count estimates the input tokens of a request, without a network call, and
	// is never below the truth by more than Info().CountError.
	Count(ctx context.Context, r Request) (int64, error)
	// Send sends one request and returns the whole response. Errors are
	// *fault.Fault (through errors.As). A response cut in mid-stream is an
	// error; when the provider had told usage before the cut, it is in the
	// returned Response, which is otherwise empty. OnDelta, if set, is called
	// with each piece of text as it arrives, for live views only.
	Send(ctx context.Context, r Request, onDelta func(Delta)) (Response, error)
}

// Counter is a model whose provider counts a request when it is asked. That is a
// round trip: Info().Counts says whether it is offered.
type Counter interface {
	CountExactly(ctx context.Context, r Request) (int64, error)
}

// Bodier is a model whose requests have an exact byte form. The prompt code
// measures with it how much of a request the provider can have cached.
type Bodier interface {
	// Body returns the bytes that Send would put on the wire. The first stable
	// bytes do not depend on State, MaxOutput, ID or Attempt, and are a prefix
	// of every later request of the same conversation.
	Body(r Request) (body []byte, stable int, err error)
}

// Info describes a model.
type Info struct {
	// Provider is "openai", "anthropic" or "script"; Name the model's name.
	Provider, Name string
	// Window is the context window in tokens, MaxOutput the most output
	// tokens; 0 when unknown.
	Window, MaxOutput int64
	// Price is nil when unknown.
	Price *Price
	// CountError is the relative error of Count, e.g. 0.15.
	CountError float64
	// Counts says that the provider counts exactly when it is asked (Counter).
	Counts bool
}

// Price is in millionths of a US dollar per million tokens.
type Price struct {
	Input, CachedInput, CacheWrite, Output int64
	// Source says where the numbers are from, with a date.
	Source string
}

// Cost is the price of a usage in millionths of a US dollar, rounded up.
func (p Price) Cost(u event.Usage) int64 {
	plain := u.Input - u.CachedInput - u.CacheWrite
	if plain < 0 {
		plain = 0
	}
	n := plain*p.Input + u.CachedInput*p.CachedInput + u.CacheWrite*p.CacheWrite + u.Output*p.Output
	return (n + 999_999) / 1_000_000
}

// Request is one request. Every byte of it is stable from one request to the
// next up to the end of the conversation so far.
type Request struct {
	// System is the fixed prefix.
	System string
	Tools  []Tool
	// Messages alternate freely; an adapter merges neighbours of one role if
	// its wire demands it.
	Messages []Message
	// State is the live block at the end: it goes into the last user message,
	// after everything that must stay stable.
	State     string
	MaxOutput int64
	// ID is the request id of the ledger, for idempotency and logs.
	ID string
	// Attempt counts the tries of this request from 1; 0 means not told. No
	// adapter puts it on the wire: a script uses it to fail a number of times.
	Attempt int
}

// Tool is a tool as the model sees it.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments
}

// Role is who speaks.
type Role string

// The roles of messages. Tool results travel in User messages on some wires
// and in messages of their own on others; here they are their own role.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one message: text of the user, parts of the assistant, or the
// results of calls.
type Message struct {
	Role    Role
	Text    string       // User
	Parts   []event.Part // Assistant
	Results []ToolResult // ToolRole
}

// ToolResult answers one call.
type ToolResult struct {
	CallID string
	Tool   string
	Text   string
	// Error says that the call did not succeed.
	Error bool
}

// Delta is a piece of a response on its way.
type Delta struct {
	Text     string
	Thinking string
	Tool     string // the name of a call that begins
}

// Response is a whole response.
type Response struct {
	Model string
	Parts []event.Part
	// StopReason is one of the Stop constants or the provider's own word. A
	// refusal is no response: it is an error of kind refused.
	StopReason string
	Usage      event.Usage
	// UsageKnown says that the provider told the usage.
	UsageKnown bool
}

// The stop reasons that callers decide on.
const (
	StopEnd       = "end"
	StopToolCalls = "tool_calls"
	StopLength    = "length" // the output limit cut the response short
)
