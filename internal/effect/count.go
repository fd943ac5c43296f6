package effect

import (
	"context"
	"time"

	"belay/internal/core"
	"belay/internal/model"
)

const (
	// countTime is how long the provider may take to count; a request is not
	// held up for a better number.
	countTime = 5 * time.Second
	// exactShare is by how much a provider's own count may be wrong: it is
	// documented as an estimate where it is offered.
	exactShare = 0.02
)

// anchor is a request whose size the provider itself has told: by its usage,
// or because it was asked to count. What comes after it is estimated.
type anchor struct {
	tokens int64 // the provider's number for all of it
	base   int64 // the estimate of it without its state block
}

// count is an upper bound of a request's input tokens: the estimate with all of
// its error, or what the provider told of the request before and the estimate
// of what is new, whichever is less. The provider is asked only when the answer
// decides whether the conversation is compacted.
func (c *Composer) count(ctx context.Context, req model.Request, s core.State, extends bool) (int64, error) {
	m, info := c.goal.Model, c.goal.Model.Info()
	live := model.Request{State: req.State}
	settled := req
	settled.State = ""
	base, err := m.Count(ctx, settled)
	if err != nil {
		return 0, err
	}
	state, err := m.Count(ctx, live)
	if err != nil {
		return 0, err
	}
	upper := func(n int64) int64 { return n + int64(float64(n)*info.CountError) }
	n := upper(base + state)
	if a := c.anchor; extends && a.tokens > 0 && base >= a.base {
		n = min(n, a.tokens+upper(base-a.base)+upper(state))
	}
	c.base = base
	counter, ok := m.(model.Counter)
	if !ok || !info.Counts || !core.Deciding(s, info.Window, n) {
		return n, nil
	}
	asking, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	exact, err := counter.CountExactly(asking, req)
	if err != nil || exact <= 0 {
		return n, ctx.Err() // the estimate stands
	}
	exact += int64(float64(exact) * exactShare)
	c.anchor = anchor{tokens: exact, base: base}
	return min(n, exact), nil
}

// told notes what the provider told of the request that it has answered. A
// number far below the estimate is a server's that counts in another way.
func (c *Composer) told(input int64) {
	if input >= c.base/4 {
		c.anchor = anchor{tokens: input, base: c.base}
	}
}
