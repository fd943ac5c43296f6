package anthropic

import (
	"encoding/json"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// lookBack is how many blocks the provider surely looks back from a breakpoint
// for a cached prefix (it documents twenty).
const lookBack = 18

// builder writes one request.
type builder struct {
	b []byte
	// inUser says that the block list of a user message is open.
	inUser bool
	first  bool // no message was written yet
	blocks int  // content blocks so far
	// marks are the last blocks of the user messages so far, state left out.
	marks []mark
}

// mark is the place where a breakpoint can be put into a user message: before
// the brace that closes its last block. blocks counts the blocks up to its
// results; texts that join the message later must not change what is decided
// from it, or the bytes before would change too.
type mark struct{ at, blocks int }

// build writes the request; for a count the parts that the counting endpoint
// does not take are left out.
func (m *Model) build(r model.Request, count bool) ([]byte, int, error) {
	turns, err := wire.Turns(r.Messages, Provider)
	if err != nil {
		return nil, 0, err
	}
	w := &builder{b: append(make([]byte, 0, wire.SizeHint(r)), `{"model":`...), first: true}
	w.b = wire.AppendString(w.b, m.cfg.Name)
	if !count {
		w.b = append(w.b, `,"stream":true`...)
	}
	if len(m.cfg.Thinking) > 0 {
		if w.b, err = wire.AppendRaw(append(w.b, `,"thinking":`...), m.cfg.Thinking, "the thinking configuration"); err != nil {
			return nil, 0, fault.New(fault.BadRequest, fault.User, "anthropic: "+err.Error(), "correct the configuration of thinking")
		}
	}
	if err := w.prefix(r, m.cacheControl()); err != nil {
		return nil, 0, err
	}
	w.b = append(w.b, `,"messages":[`...)
	stable := len(w.b)
	for _, t := range turns {
		w.turn(t)
	}
	points := w.breakpoints()
	if len(points) > 0 {
		stable = points[0]
	}
	w.tail(r.State)
	w.insert(points, m.cacheControl())
	w.b = append(w.b, ']')
	if !count {
		limit := r.MaxOutput
		if limit <= 0 {
			limit = m.cfg.MaxOutput
		}
		if limit <= 0 {
			limit = defaultMaxOutput
		}
		w.b = strconv.AppendInt(append(w.b, `,"max_tokens":`...), limit, 10)
	}
	return append(w.b, '}'), stable, nil
}

func (m *Model) cacheControl() string {
	if m.cfg.CacheTTL != "" {
		return `,"cache_control":{"type":"ephemeral","ttl":` + string(wire.AppendString(nil, m.cfg.CacheTTL)) + `}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

// prefix writes tools and instructions with the breakpoint that covers both.
func (w *builder) prefix(r model.Request, cacheControl string) error {
	if len(r.Tools) > 0 {
		w.b = append(w.b, `,"tools":[`...)
		for i, t := range r.Tools {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.b = append(w.b, `{"name":`...)
			w.b = wire.AppendString(w.b, t.Name)
			w.b = append(w.b, `,"description":`...)
			w.b = wire.AppendString(w.b, t.Description)
			schema := t.Schema
			if len(schema) == 0 {
				schema = json.RawMessage(`{"type":"object"}`)
			}
			var err error
			if w.b, err = wire.AppendRaw(append(w.b, `,"input_schema":`...), schema, "the schema of tool "+t.Name); err != nil {
				return fault.New(fault.Internal, fault.Runtime, "anthropic: "+err.Error(), "correct the tool's schema")
			}
			if i == len(r.Tools)-1 && r.System == "" {
				w.b = append(w.b, cacheControl...)
			}
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, ']')
	}
	if strings.TrimSpace(r.System) != "" {
		w.b = append(w.b, `,"system":[{"type":"text","text":`...)
		w.b = wire.AppendString(w.b, r.System)
		w.b = append(append(w.b, cacheControl...), "}]"...)
	}
	return nil
}

func (w *builder) turn(t wire.Turn) {
	if t.Parts == nil {
		for _, text := range t.User {
			w.userBlock(`{"type":"text","text":`)
			w.b = wire.AppendString(w.b, text)
			w.closeUserBlock(false)
		}
		return
	}
	w.closeUser()
	w.open("assistant")
	for i, p := range t.Parts {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.assistantBlock(p)
	}
	w.b = append(w.b, "]}"...)
	for _, r := range t.Results {
		w.userBlock(`{"type":"tool_result","tool_use_id":`)
		w.b = wire.AppendString(w.b, r.CallID)
		w.b = append(w.b, `,"content":`...)
		text := r.Text
		if strings.TrimSpace(text) == "" {
			text = "(no output)" // an empty result is refused when it is an error
		}
		w.b = wire.AppendString(w.b, text)
		if r.Error {
			w.b = append(w.b, `,"is_error":true`...)
		}
		w.closeUserBlock(true)
	}
}

func (w *builder) assistantBlock(p event.Part) {
	w.blocks++
	switch p.Kind {
	case event.PartText:
		w.b = append(w.b, `{"type":"text","text":`...)
		w.b = append(wire.AppendString(w.b, p.Text), '}')
	case event.PartCall:
		w.b = append(w.b, `{"type":"tool_use","id":`...)
		w.b = wire.AppendString(w.b, p.CallID)
		w.b = append(w.b, `,"name":`...)
		w.b = wire.AppendString(w.b, p.Tool)
		w.b = append(w.b, `,"input":`...)
		w.b = append(append(w.b, p.Arguments...), '}')
	default:
		// Turns let only valid JSON through, which is all that can go wrong.
		if with, err := wire.AppendRaw(w.b, p.Data, "block"); err == nil {
			w.b = with
		}
	}
}

func (w *builder) open(role string) {
	if !w.first {
		w.b = append(w.b, ',')
	}
	w.first = false
	w.b = append(append(append(w.b, `{"role":"`...), role...), `","content":[`...)
}

func (w *builder) userBlock(begin string) {
	if w.inUser {
		w.b = append(w.b, ',')
	} else {
		w.open("user")
		w.inUser = true
		w.marks = append(w.marks, mark{})
	}
	w.b = append(w.b, begin...)
}

func (w *builder) closeUserBlock(result bool) {
	w.blocks++
	m := &w.marks[len(w.marks)-1]
	if m.at = len(w.b); result || m.blocks == 0 {
		m.blocks = w.blocks
	}
	w.b = append(w.b, '}')
}

func (w *builder) closeUser() {
	if w.inUser {
		w.b = append(w.b, "]}"...)
		w.inUser = false
	}
}

// breakpoints are the places for cache_control among the messages, in order.
func (w *builder) breakpoints() []int {
	n := len(w.marks)
	if n == 0 {
		return nil
	}
	last := w.marks[n-1]
	if n > 1 && last.blocks-w.marks[n-2].blocks > lookBack {
		return []int{w.marks[n-2].at, last.at}
	}
	return []int{last.at}
}

// tail writes the live state into the last user message, or begins one: the
// provider answers users only.
func (w *builder) tail(state string) {
	if strings.TrimSpace(state) == "" {
		if w.inUser {
			w.closeUser()
			return
		}
		state = wire.Continue
	}
	if w.inUser {
		w.b = append(w.b, ',')
	} else {
		w.open("user")
	}
	w.b = append(w.b, `{"type":"text","text":`...)
	w.b = append(wire.AppendString(w.b, state), "}]}"...)
}

// insert puts a text at each of the places, which are in order.
func (w *builder) insert(points []int, text string) {
	for i := len(points) - 1; i >= 0; i-- {
		at := points[i]
		w.b = append(w.b, text...)
		copy(w.b[at+len(text):], w.b[at:len(w.b)-len(text)])
		copy(w.b[at:], text)
	}
}
