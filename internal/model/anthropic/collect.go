package anthropic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// streamEvent is one event of a stream. Which fields are set follows its type.
type streamEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *message        `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   delta           `json:"delta"`
	Usage   *usage          `json:"usage"`
}

type message struct {
	Type       string            `json:"type"`
	Model      string            `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Details    stopDetails       `json:"stop_details"`
	Usage      *usage            `json:"usage"`
}

type delta struct {
	Type        string      `json:"type"`
	Text        string      `json:"text"`
	PartialJSON string      `json:"partial_json"`
	Thinking    string      `json:"thinking"`
	Signature   string      `json:"signature"`
	StopReason  string      `json:"stop_reason"`
	Details     stopDetails `json:"stop_details"`
}

// stopDetails explains a refusal.
type stopDetails struct {
	Category    string `json:"category"`
	Explanation string `json:"explanation"`
}

// usage counts input without what came from or went into the cache.
type usage struct {
	Input      *int64 `json:"input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	Output     *int64 `json:"output_tokens"`
	Details    struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// merge takes in later figures: each is a running total.
func (u *usage) merge(later *usage) {
	for _, f := range []struct{ to, from **int64 }{{&u.Input, &later.Input}, {&u.CacheWrite, &later.CacheWrite},
		{&u.CacheRead, &later.CacheRead}, {&u.Output, &later.Output}} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	u.Details.Thinking = max(u.Details.Thinking, later.Details.Thinking)
}

func (u *usage) port() event.Usage {
	v := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return event.Usage{Input: v(u.Input) + v(u.CacheWrite) + v(u.CacheRead), CachedInput: v(u.CacheRead),
		CacheWrite: v(u.CacheWrite), Output: v(u.Output), Reasoning: u.Details.Thinking}
}

// block is one content block on its way.
type block struct {
	raw       json.RawMessage // as it began
	kind      string
	id, name  string
	text      strings.Builder // text or thinking
	signature strings.Builder
	input     strings.Builder
}

// collector puts a response together.
type collector struct {
	target     wire.Target
	own        bool
	onDelta    func(model.Delta)
	model      string
	blocks     []*block
	byIndex    map[int]*block
	stop       string
	details    stopDetails
	usage      usage
	usageKnown bool
}

// stream reads server-sent events up to message_stop.
func (c *collector) stream(body io.Reader) error {
	events := wire.NewEvents(body)
	c.byIndex = map[int]*block{}
	for {
		ev, err := events.Next()
		data := bytes.TrimSpace(ev.Data)
		if len(data) > 0 && (err == nil || json.Valid(data)) {
			whole, bad := c.event(data)
			if bad != nil || whole {
				return bad
			}
		}
		if err == nil {
			continue
		}
		var f *fault.Fault
		switch {
		case errors.Is(err, wire.ErrLineTooLong):
			return c.target.Malformed("%v", err)
		case errors.As(err, &f):
			return err
		}
		return c.target.Cut(err)
	}
}

// event takes in one event and reports whether it was the last.
func (c *collector) event(data []byte) (bool, error) {
	var e streamEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, c.target.Malformed("an event of the stream cannot be read (%v): %.200q", err, data)
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			c.model = e.Message.Model
			c.count(e.Message.Usage)
		}
	case "content_block_start":
		b, err := c.begin(e.Block)
		if err != nil {
			return false, err
		}
		c.byIndex[e.Index] = b
	case "content_block_delta":
		b := c.byIndex[e.Index]
		if b == nil {
			return false, c.target.Malformed("the stream continues block %d, which never began", e.Index)
		}
		c.extend(b, e.Delta)
	case "message_delta":
		if e.Delta.StopReason != "" {
			c.stop, c.details = e.Delta.StopReason, e.Delta.Details
		}
		c.count(e.Usage)
	case "message_stop":
		return true, nil
	case "error":
		return false, c.target.Classify(wire.ParseFailure(data))
	}
	return false, nil // ping, content_block_stop, and what later versions add
}

func (c *collector) count(u *usage) {
	if u != nil {
		c.usage.merge(u)
		c.usageKnown = true
	}
}

// begin starts a block from the object that announces it, or takes in a whole
// one.
func (c *collector) begin(raw json.RawMessage) (*block, error) {
	var o struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, c.target.Malformed("a content block cannot be read (%v): %.200q", err, raw)
	}
	b := &block{raw: bytes.Clone(raw), kind: o.Type, id: o.ID, name: o.Name}
	c.blocks = append(c.blocks, b)
	if o.Type == "tool_use" {
		c.onDelta(model.Delta{Tool: o.Name})
	}
	c.extend(b, delta{Text: o.Text, Thinking: o.Thinking, Signature: o.Signature})
	// A stream begins with an empty object and sends the input in pieces.
	if in := string(o.Input); in != "" && in != "null" && in != "{}" {
		b.input.WriteString(in)
	}
	return b, nil
}

func (c *collector) extend(b *block, d delta) {
	switch b.kind {
	case "text":
		if d.Text != "" {
			b.text.WriteString(d.Text)
			c.onDelta(model.Delta{Text: d.Text})
		}
	case "thinking":
		if d.Thinking != "" {
			b.text.WriteString(d.Thinking)
			c.onDelta(model.Delta{Thinking: d.Thinking})
		}
	}
	b.signature.WriteString(d.Signature)
	b.input.WriteString(d.PartialJSON)
}

// whole reads a reply that is no stream.
func (c *collector) whole(body io.Reader) error {
	all, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if isStream(all) {
		return c.stream(bytes.NewReader(all))
	}
	var m message
	if err := json.Unmarshal(all, &m); err != nil {
		if t := bytes.TrimSpace(all); !json.Valid(all) && (len(t) == 0 || t[0] == '{') {
			return c.target.Cut(io.ErrUnexpectedEOF)
		}
		return c.target.Malformed("the reply cannot be read (%v): %.200q", err, all)
	}
	if m.Type == "error" {
		return c.target.Classify(wire.ParseFailure(all))
	}
	if m.Type != "message" {
		return c.target.Malformed("the reply is no message: %.200q", all)
	}
	c.model, c.stop, c.details = m.Model, m.StopReason, m.Details
	c.count(m.Usage)
	for _, raw := range m.Content {
		if _, err := c.begin(raw); err != nil {
			return err
		}
	}
	return nil
}

// response is what came, once it came whole.
func (c *collector) response(request string) (model.Response, error) {
	r := model.Response{Model: c.model, Usage: c.usage.port(), UsageKnown: c.usageKnown}
	if c.stop == "refusal" {
		return r, fault.New(fault.Refused, fault.Model, c.target.Scrub("anthropic: the model refuses this content: "+c.said()),
			"say it differently or use another --model")
	}
	if c.stop == "" && len(c.blocks) == 0 {
		return r, c.target.Malformed("the reply is empty")
	}
	calls := 0
	seen := map[string]bool{}
	told := r // what an error may return: usage, and nothing that was said
	for i, b := range c.blocks {
		p := c.part(b)
		if p.Kind == event.PartCall {
			calls++
			if p.Tool == "" {
				return told, c.target.Malformed("tool call %d has no name", calls)
			}
			if p.CallID == "" || seen[p.CallID] {
				sum := sha256.Sum256([]byte(request + "\x00" + strconv.Itoa(i) + "\x00" + p.CallID))
				p.CallID = "toolu_" + hex.EncodeToString(sum[:12])
			}
			seen[p.CallID] = true
		}
		if p.Kind == event.PartText && p.Text == "" {
			continue
		}
		r.Parts = append(r.Parts, p)
	}
	if c.stop == "tool_use" && calls == 0 {
		return told, c.target.Malformed("the reply announces tool calls and has none")
	}
	switch c.stop {
	case "end_turn", "stop_sequence", "tool_use", "":
		r.StopReason = model.StopEnd
		if calls > 0 {
			r.StopReason = model.StopToolCalls
		}
	case "max_tokens", "model_context_window_exceeded":
		r.StopReason = model.StopLength
	default: // pause_turn, and what later versions add
		r.StopReason = c.stop
	}
	return r, nil
}

// said is why the model refuses, as far as the provider tells.
func (c *collector) said() string {
	why := c.details.Explanation
	for _, b := range c.blocks {
		if why == "" && b.kind == "text" {
			why = b.text.String()
		}
	}
	switch {
	case c.details.Category != "" && why != "":
		return c.details.Category + ": " + why
	case why == "" && c.details.Category == "":
		return "it gives no reason"
	}
	return c.details.Category + why
}

func (c *collector) part(b *block) event.Part {
	switch b.kind {
	case "text":
		return event.Part{Kind: event.PartText, Text: b.text.String()}
	case "tool_use":
		if b.input.Len() == 0 {
			b.input.WriteString("{}") // what the block began with
		}
		return event.Part{Kind: event.PartCall, CallID: b.id, Tool: b.name, Arguments: strings.ToValidUTF8(b.input.String(), "\ufffd")}
	case "thinking":
		p := event.Part{Kind: event.PartThink, Text: b.text.String(), Provider: Provider}
		// Anthropic refuses thinking without its signature; servers that sign
		// nothing want it back all the same.
		if b.signature.Len() > 0 || !c.own {
			data := append(wire.AppendString([]byte(`{"type":"thinking","thinking":`), p.Text), `,"signature":`...)
			p.Data = append(wire.AppendString(data, b.signature.String()), '}')
		}
		return p
	}
	return event.Part{Kind: event.PartOpaque, Provider: Provider, Data: b.opaque()}
}

// opaque is the block as it began, with the input that came after.
func (b *block) opaque() json.RawMessage {
	var o map[string]json.RawMessage
	if b.input.Len() > 0 && json.Valid([]byte(b.input.String())) && json.Unmarshal(b.raw, &o) == nil {
		o["input"] = json.RawMessage(b.input.String())
		if with, err := json.Marshal(o); err == nil {
			return with
		}
	}
	out, err := wire.AppendRaw(nil, b.raw, "block")
	if err != nil {
		return b.raw
	}
	return out
}
