package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/prompt"
)

// Composer builds requests and remembers the last one, because what is sent
// must be, byte for byte, what was counted and announced.
type Composer struct {
	goal    *Goal
	head    uint64
	request model.Request
	tokens  int64
	base    int64 // the estimate of the request without its state block
	anchor  anchor
	last    []byte // the body of the request before, to measure the stable prefix
}

// NewComposer serves one driver; it is used by one effect at a time.
func NewComposer(g *Goal) *Composer { return &Composer{goal: g} }

// Compose builds the next request and counts it.
func (c *Composer) Compose(ctx context.Context, e core.Compose, conv Conversation) (core.Body, error) {
	req := prompt.Build(prompt.Input{State: conv.State, Messages: conv.Messages, Tools: prompt.Tools(c.goal.Tools(conv.State).All())})
	info := c.goal.Model.Info()
	b := core.Composed{Head: e.Head, Taken: e.Taken, Cut: conv.Cut, Window: info.Window, MaxOutput: info.MaxOutput}
	if info.Price != nil {
		// Writing to the cache may cost more than plain input: reserve for the dearer.
		b.InputPrice, b.OutputPrice, b.PriceKnown = max(info.Price.Input, info.Price.CacheWrite), info.Price.Output, true
	}
	extends := false
	if bodier, ok := c.goal.Model.(model.Bodier); ok {
		body, stable, err := bodier.Body(req)
		if err == nil {
			sum := sha256.Sum256(body)
			b.Digest, b.Bytes = hex.EncodeToString(sum[:]), int64(len(body))
			b.StableBytes = commonPrefix(c.last, body[:stable])
			extends = c.last != nil && b.StableBytes == int64(len(c.last))
			c.last = body[:stable:stable]
		}
	}
	tokens, err := c.count(ctx, req, conv.State, extends)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	b.Tokens = tokens
	c.head, c.request, c.tokens = e.Head, req, tokens
	return b, nil
}

func commonPrefix(a, b []byte) int64 {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return int64(i)
		}
	}
	return int64(n)
}

// Ask sends the request that was composed and announced.
func (c *Composer) Ask(ctx context.Context, s core.State, e core.Ask) (core.Body, error) {
	if c.head != e.Through {
		// The driver composes before it asks; only another process's request
		// could end here, and the core closes those when a ticket is claimed.
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.Interrupted, fault.Runtime, "the announced request is not the composed one", "").Retry()}, nil
	}
	req := c.request
	req.ID, req.MaxOutput, req.Attempt = c.goal.ID+"."+e.Request, e.MaxOutput, e.Attempt
	if e.Prose {
		req.State = prompt.Prose
		late, end := context.WithTimeout(ctx, proseTime)
		defer end()
		resp, err := c.goal.Model.Send(late, req, func(model.Delta) {})
		if err != nil {
			return c.replyFailed(ctx, e, resp, err)
		}
		return c.replied(s, e, resp, 0), nil
	}
	onDelta := func(model.Delta) {}
	if live := c.goal.Live; live != nil {
		shown := newDeltas(live, e.Request, c.goal.Secrets)
		defer shown.close()
		onDelta = shown.show
	}
	if c.goal.Symbols != nil {
		c.goal.Symbols.Poke() // while the model thinks, the machine has time
	}
	began := time.Now()
	failpoint.Hit(failpoint.AskBefore)
	resp, err := c.goal.Model.Send(ctx, req, onDelta)
	failpoint.Hit(failpoint.AskAfter)
	took := time.Since(began).Milliseconds()
	if err != nil {
		return c.replyFailed(ctx, e, resp, err)
	}
	return c.replied(s, e, resp, took), nil
}

// proseTime is how long the words that go with a compaction may take.
const proseTime = 2 * time.Minute

func (c *Composer) replied(s core.State, e core.Ask, resp model.Response, took int64) core.Body {
	usage := resp.Usage
	if resp.UsageKnown {
		c.told(usage.Input)
	} else {
		usage = event.Usage{Input: c.tokens, Output: min(outputEstimate(resp.Parts), e.MaxOutput)}
	}
	parts, held := cleanParts(c.goal.Secrets, resp.Parts)
	r := event.ModelResponded{Request: e.Request, Model: resp.Model, Parts: parts, StopReason: resp.StopReason,
		Usage: usage, CostMicros: c.cost(usage), DurationMS: took}
	return core.Replied{Request: e.Request, Response: r, Proposals: c.proposals(s, parts, held)}
}

func (c *Composer) cost(u event.Usage) int64 {
	if p := c.goal.Model.Info().Price; p != nil {
		return p.Cost(u)
	}
	return 0
}

// outputEstimate is an upper estimate of output tokens: three bytes each.
func outputEstimate(parts []event.Part) int64 {
	n := 0
	for _, p := range parts {
		n += len(p.Text) + len(p.Arguments) + len(p.Tool) + len(p.Data)
	}
	return int64(n/3 + 8)
}

func (c *Composer) replyFailed(ctx context.Context, e core.Ask, resp model.Response, err error) (core.Body, error) {
	f := asFault(err, fault.Network, fault.Provider)
	if ctx.Err() != nil {
		f = fault.New(fault.Superseded, fault.Runtime, "the request was given up: "+context.Cause(ctx).Error(), "")
	}
	b := core.ReplyFailed{Request: e.Request, Fault: *cleanedFault(c.goal.Secrets, f)}
	if resp.UsageKnown {
		b.Used = &event.Amount{Tokens: resp.Usage.Total(), CostMicros: c.cost(resp.Usage)}
	}
	return b, nil
}

// proposals describes each call of a response by its arguments alone. held are
// the calls with a secret in their arguments, by place.
func (c *Composer) proposals(s core.State, parts []event.Part, held map[int]string) []core.Proposal {
	var ps []core.Proposal
	for i, p := range parts {
		if p.Kind != event.PartCall {
			continue
		}
		pr := core.Proposal{CallID: p.CallID, Tool: p.Tool, Effect: event.Control, Args: json.RawMessage(p.Arguments)}
		t, err := c.goal.Tools(s).Lookup(p.Tool)
		if err != nil {
			pr.Fault = asFault(err, fault.UnknownTool, fault.Model)
			ps = append(ps, pr)
			continue
		}
		pr.Effect = t.Spec().Effect
		if kind, secret := held[i]; secret {
			pr.Fault = secretFault(kind)
			ps = append(ps, pr)
			continue
		}
		args, access, err := t.Describe(pr.Args)
		if err != nil {
			pr.Fault = asFault(err, fault.InvalidArguments, fault.Model)
		} else {
			pr.Args, pr.Access = args, access
		}
		ps = append(ps, pr)
	}
	return ps
}
