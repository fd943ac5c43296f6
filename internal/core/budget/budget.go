// Package budget reserves before it spends: the sum of reservations and
// settled use never exceeds a limit.
//
// It must not know what is bought. A reservation is named by its holder (a
// request or an operation) and settles to what was really used, which is never
// taken as more than was reserved for a bounded dimension without being shown.
package budget

import (
	"belay/internal/event"
	"belay/internal/moment"
)

// Ledger is the account of one goal.
type Ledger struct {
	Limits   event.Limits            `json:"limits,omitzero"`
	Used     event.Amount            `json:"used,omitzero"`
	Reserved map[string]event.Amount `json:"reserved,omitempty"`
}

// Clone copies the account so that the copy can be changed.
func (l Ledger) Clone() Ledger {
	r := make(map[string]event.Amount, len(l.Reserved))
	for k, v := range l.Reserved {
		r[k] = v
	}
	l.Reserved = r
	return l
}

// Add sums two amounts.
func Add(a, b event.Amount) event.Amount {
	return event.Amount{Turns: a.Turns + b.Turns, Steps: a.Steps + b.Steps, Tokens: a.Tokens + b.Tokens,
		CostMicros: a.CostMicros + b.CostMicros, ToolMS: a.ToolMS + b.ToolMS}
}

// Held is the sum of the open reservations.
func (l Ledger) Held() event.Amount {
	var sum event.Amount
	for _, a := range l.Reserved {
		sum = Add(sum, a)
	}
	return sum
}

// Unlimited marks a dimension without a limit in Left.
const Unlimited = int64(1) << 62

// Left is what can still be reserved, Unlimited where there is no limit.
func (l Ledger) Left() event.Amount {
	gone := Add(l.Used, l.Held())
	left := func(limit, used int64) int64 {
		if limit == 0 {
			return Unlimited
		}
		return max(limit-used, 0)
	}
	return event.Amount{
		Turns:      left(l.Limits.Turns, gone.Turns),
		Steps:      left(l.Limits.Steps, gone.Steps),
		Tokens:     left(l.Limits.Tokens, gone.Tokens),
		CostMicros: left(l.Limits.CostMicros, gone.CostMicros),
		ToolMS:     left(l.Limits.ToolMS, gone.ToolMS),
	}
}

// Short names the first dimension in which want does not fit, or "".
func (l Ledger) Short(want event.Amount, now moment.Time) string {
	left := l.Left()
	switch {
	case !l.Limits.Deadline.IsZero() && now >= l.Limits.Deadline:
		return "deadline"
	case want.Turns > left.Turns:
		return "turns"
	case want.Steps > left.Steps:
		return "steps"
	case want.Tokens > left.Tokens:
		return "tokens"
	case want.CostMicros > left.CostMicros:
		return "cost"
	case want.ToolMS > left.ToolMS:
		return "tool seconds"
	}
	return ""
}

// Reserve books an amount under a name. Replaying the ledger must succeed
// whatever the limits were, so the check is Short's, before the event.
func (l *Ledger) Reserve(name string, a event.Amount) { l.Reserved[name] = a }

// Settle replaces a reservation by what was used.
func (l *Ledger) Settle(name string, used event.Amount) {
	delete(l.Reserved, name)
	l.Used = Add(l.Used, used)
}

// SettleFull settles a reservation at its full amount: nobody knows what was
// really used.
func (l *Ledger) SettleFull(name string) event.Amount {
	a := l.Reserved[name]
	l.Settle(name, a)
	return a
}

// MinOutput is the fewest output tokens that a request is sent for: less is no
// answer but would still cost the whole input.
const MinOutput = 256

// Ask is the reservation of one request.
type Ask struct {
	// Input is the counted input, an upper bound, in tokens.
	Input int64
	// MaxOutput is the output limit one would like.
	MaxOutput int64
	// InputPrice and OutputPrice are in millionths of a US dollar per million
	// tokens; PriceKnown says that they are real.
	InputPrice, OutputPrice int64
	PriceKnown              bool
}

const million = 1_000_000

// mostMicros is more than any one request costs; a larger budget is treated as
// this in sums that would overflow.
const mostMicros = Unlimited / million

// Fit shrinks the output limit until the request fits into what is left. It
// returns the reservation and the output limit, or the dimension that is
// exhausted.
func (l Ledger) Fit(a Ask, now moment.Time) (event.Amount, int64, string) {
	out := a.MaxOutput
	left := l.Left()
	if l.Limits.Tokens > 0 {
		out = min(out, left.Tokens-a.Input)
	}
	if l.Limits.CostMicros > 0 {
		if !a.PriceKnown {
			return event.Amount{}, 0, "cost"
		}
		// Prices are per million tokens, so money is compared in millionths of
		// what it is kept in.
		room := min(left.CostMicros, mostMicros)*million - a.Input*a.InputPrice
		if room < 0 {
			return event.Amount{}, 0, "cost"
		}
		if a.OutputPrice > 0 {
			out = min(out, room/a.OutputPrice)
		}
	}
	if least := min(MinOutput, a.MaxOutput); out < least {
		if l.Limits.Tokens > 0 && left.Tokens-a.Input < least {
			return event.Amount{}, 0, "tokens"
		}
		return event.Amount{}, 0, "cost"
	}
	want := event.Amount{Steps: 1, Tokens: a.Input + out}
	if a.PriceKnown {
		want.CostMicros = (a.Input*a.InputPrice + out*a.OutputPrice + million - 1) / million
	}
	if d := l.Short(want, now); d != "" {
		return event.Amount{}, 0, d
	}
	return want, out, ""
}
