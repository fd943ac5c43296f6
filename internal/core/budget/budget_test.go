package budget_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/budget"
	"belay/internal/event"
	"belay/internal/moment"
)

// exceeded names a limit that used and reserved amounts together exceed.
func exceeded(l budget.Ledger) string {
	sum := l.Used
	for _, a := range l.Reserved {
		sum = event.Amount{Turns: sum.Turns + a.Turns, Steps: sum.Steps + a.Steps, Tokens: sum.Tokens + a.Tokens,
			CostMicros: sum.CostMicros + a.CostMicros, ToolMS: sum.ToolMS + a.ToolMS}
	}
	for name, p := range map[string][2]int64{"turns": {sum.Turns, l.Limits.Turns}, "steps": {sum.Steps, l.Limits.Steps},
		"tokens": {sum.Tokens, l.Limits.Tokens}, "cost": {sum.CostMicros, l.Limits.CostMicros}, "tool": {sum.ToolMS, l.Limits.ToolMS}} {
		if p[1] > 0 && p[0] > p[1] {
			return fmt.Sprintf("%s: %d of %d", name, p[0], p[1])
		}
	}
	return ""
}

func limits(t *rapid.T) event.Limits {
	some := func(name string, high int64) int64 {
		if rapid.Bool().Draw(t, "no "+name) {
			return 0
		}
		return rapid.Int64Range(1, high).Draw(t, name)
	}
	l := event.Limits{Amount: event.Amount{Turns: some("turns", 5), Steps: some("steps", 20), Tokens: some("tokens", 60_000),
		CostMicros: some("cost", 2_000_000), ToolMS: some("tool", 10_000)}}
	if rapid.Bool().Draw(t, "a deadline") {
		l.Deadline = moment.Time(rapid.Int64Range(1, 100).Draw(t, "deadline"))
	}
	return l
}

func drawAsk(t *rapid.T) budget.Ask {
	return budget.Ask{Input: rapid.Int64Range(0, 20_000).Draw(t, "input"), MaxOutput: rapid.Int64Range(1, 10_000).Draw(t, "max output"),
		InputPrice:  rapid.SampledFrom([]int64{0, 1, 150_000, 3_000_000, 15_000_000}).Draw(t, "input price"),
		OutputPrice: rapid.SampledFrom([]int64{0, 1, 600_000, 15_000_000, 75_000_000}).Draw(t, "output price"),
		PriceKnown:  rapid.IntRange(0, 4).Draw(t, "price known") > 0}
}

// shop spends from one account in every order that requests, commands, crashes
// and people can bring about.
type shop struct {
	l   budget.Ledger
	n   int
	now moment.Time
}

func (x *shop) someReservation(t *rapid.T) string {
	names := []string{""}
	for i := range x.n + 1 {
		if _, ok := x.l.Reserved[fmt.Sprint("r", i)]; ok {
			names = append(names, fmt.Sprint("r", i))
		}
	}
	return rapid.SampledFrom(names).Draw(t, "reservation")
}

func (x *shop) request(t *rapid.T) {
	ask := drawAsk(t)
	reserved, out, short := x.l.Fit(ask, x.now)
	if short != "" {
		if reserved != (event.Amount{}) || out != 0 {
			t.Fatalf("refused for %s, but %+v and %d are to be reserved", short, reserved, out)
		}
		return
	}
	x.n++
	x.l.Reserve(fmt.Sprint("r", x.n), reserved)
}

func (x *shop) command(t *rapid.T) {
	a := event.Amount{ToolMS: rapid.Int64Range(1, 5_000).Draw(t, "ms"), Turns: rapid.Int64Range(0, 1).Draw(t, "turns")}
	if x.l.Short(a, x.now) == "" {
		x.n++
		x.l.Reserve(fmt.Sprint("r", x.n), a)
	}
}

func (x *shop) settle(t *rapid.T) {
	name := x.someReservation(t)
	a := x.l.Reserved[name]
	used := event.Amount{Turns: a.Turns, Steps: a.Steps, Tokens: rapid.Int64Range(0, a.Tokens).Draw(t, "tokens"),
		CostMicros: rapid.Int64Range(0, a.CostMicros).Draw(t, "cost"), ToolMS: rapid.Int64Range(0, a.ToolMS).Draw(t, "ms")}
	before := x.l.Used
	x.l.Settle(name, used)
	if _, held := x.l.Reserved[name]; held || x.l.Used != budget.Add(before, used) {
		t.Fatalf("settling %s at %+v gave %+v", name, used, x.l.Used)
	}
}

func (x *shop) crash(t *rapid.T) {
	name := x.someReservation(t)
	want := budget.Add(x.l.Used, x.l.Reserved[name])
	x.l.SettleFull(name)
	if _, held := x.l.Reserved[name]; held || x.l.Used != want {
		t.Fatalf("%s settles to %+v, want the whole reservation: %+v", name, x.l.Used, want)
	}
	raw, err := json.Marshal(x.l)
	if err != nil {
		t.Fatal(err)
	}
	var back budget.Ledger
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	x.l = back.Clone()
}

func (x *shop) extend(t *rapid.T) {
	more := x.l.Clone()
	more.Limits = limits(t)
	if exceeded(more) == "" {
		x.l = more
	}
}

func (x *shop) later(t *rapid.T) { x.now += moment.Time(rapid.Int64Range(0, 30).Draw(t, "later")) }

func (x *shop) check(t *rapid.T) {
	if over := exceeded(x.l); over != "" {
		t.Fatalf("%s: used %+v, reserved %+v", over, x.l.Used, x.l.Reserved)
	}
	left := x.l.Left()
	if x.l.Short(left, 0) != "" {
		t.Fatalf("what is left, %+v, does not fit", left)
	}
	if x.l.Limits.Steps > 0 && x.l.Short(event.Amount{Steps: left.Steps + 1}, 0) != "steps" {
		t.Fatalf("more than the %d steps that are left fit", left.Steps)
	}
}

func TestUsedAndReservedNeverExceedALimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := &shop{l: budget.Ledger{Limits: limits(t)}.Clone()}
		t.Repeat(map[string]func(*rapid.T){"request": x.request, "command": x.command, "settle": x.settle,
			"crash": x.crash, "extend": x.extend, "later": x.later, "": x.check})
	})
}

// price is the exact cost of a request, rounded up, without machine integers.
func price(a budget.Ask, out int64) int64 {
	n := new(big.Int).Add(new(big.Int).Mul(big.NewInt(a.Input), big.NewInt(a.InputPrice)), new(big.Int).Mul(big.NewInt(out), big.NewInt(a.OutputPrice)))
	n.Add(n, big.NewInt(999_999))
	return n.Div(n, big.NewInt(1_000_000)).Int64()
}

// What Fit reserves is the most that the request can cost, it fits, the output
// is never more than wished and never less than an answer needs, and a request
// that could have been sent is not refused.
func TestFitReservesTheMostThatARequestCanCost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := budget.Ledger{Limits: limits(t)}.Clone()
		l.Used = event.Amount{Steps: rapid.Int64Range(0, 20).Draw(t, "steps used"), Tokens: rapid.Int64Range(0, 60_000).Draw(t, "tokens used"),
			CostMicros: rapid.Int64Range(0, 2_000_000).Draw(t, "cost used")}
		now := moment.Time(rapid.Int64Range(0, 120).Draw(t, "now"))
		a := drawAsk(t)
		least := min(budget.MinOutput, a.MaxOutput)
		fits := func(out int64) bool {
			want := event.Amount{Steps: 1, Tokens: a.Input + out}
			if a.PriceKnown {
				want.CostMicros = price(a, out)
			} else if l.Limits.CostMicros > 0 {
				return false
			}
			return l.Short(want, now) == ""
		}
		got, out, short := l.Fit(a, now)
		if short != "" {
			if fits(least) {
				t.Fatalf("refused for %s, but %d tokens of output fit", short, least)
			}
			return
		}
		want := event.Amount{Steps: 1, Tokens: a.Input + out}
		if a.PriceKnown {
			want.CostMicros = price(a, out)
		}
		switch {
		case got != want:
			t.Fatalf("reserves %+v, it can cost %+v", got, want)
		case out < least || out > a.MaxOutput:
			t.Fatalf("output limit %d, wished %d", out, a.MaxOutput)
		case !fits(out):
			t.Fatalf("%d tokens of output do not fit", out)
		case out < a.MaxOutput && fits(out+1):
			t.Fatalf("the output shrank to %d, but one more fits", out)
		}
	})
}

func TestAHugeBudgetDoesNotOverflow(t *testing.T) {
	t.Parallel()
	l := budget.Ledger{Limits: event.Limits{Amount: event.Amount{CostMicros: 1 << 60, Tokens: 1 << 60}}}.Clone()
	a := budget.Ask{Input: 2_000_000, MaxOutput: 128_000, InputPrice: 150_000_000, OutputPrice: 600_000_000, PriceKnown: true}
	got, out, short := l.Fit(a, 0)
	if short != "" || out != a.MaxOutput || got.CostMicros != price(a, out) {
		t.Fatalf("%+v, %d, %q", got, out, short)
	}
}

func TestWhatIsShortIsNamed(t *testing.T) {
	t.Parallel()
	one := event.Amount{Turns: 1, Steps: 1, Tokens: 1, CostMicros: 1, ToolMS: 1}
	for want, l := range map[string]event.Limits{
		"":             {Amount: event.Amount{Turns: 2, Steps: 2, Tokens: 2, CostMicros: 2, ToolMS: 2}, Deadline: 11},
		"turns":        {Amount: event.Amount{Turns: 1}},
		"steps":        {Amount: event.Amount{Steps: 1}},
		"tokens":       {Amount: event.Amount{Tokens: 1}},
		"cost":         {Amount: event.Amount{CostMicros: 1}},
		"tool seconds": {Amount: event.Amount{ToolMS: 1}},
		"deadline":     {Deadline: 10},
	} {
		b := budget.Ledger{Limits: l, Used: one}
		if got := b.Short(one, 10); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}

// A provider that used more than was counted is charged in full: the overrun
// shows, and nothing is left for the next request.
func TestAnOverrunIsShownAndStopsTheNextRequest(t *testing.T) {
	t.Parallel()
	l := budget.Ledger{Limits: event.Limits{Amount: event.Amount{Tokens: 10_000}}}.Clone()
	r, out, short := l.Fit(budget.Ask{Input: 5_000, MaxOutput: 8_000}, 0)
	if short != "" || out != 5_000 {
		t.Fatalf("%d, %q", out, short)
	}
	l.Reserve("r1", r)
	l.Settle("r1", event.Amount{Steps: 1, Tokens: 11_000})
	if l.Used.Tokens != 11_000 || l.Left().Tokens != 0 {
		t.Fatalf("used %d, left %d", l.Used.Tokens, l.Left().Tokens)
	}
	if _, _, short := l.Fit(budget.Ask{Input: 1, MaxOutput: 300}, 0); short != "tokens" {
		t.Fatalf("the next request is short of %q", short)
	}
}

func TestWithoutALimitNothingIsShort(t *testing.T) {
	t.Parallel()
	l := budget.Ledger{Used: event.Amount{Tokens: 1 << 50, CostMicros: 1 << 50}}.Clone()
	if left := l.Left(); left.Tokens != budget.Unlimited || left.ToolMS != budget.Unlimited {
		t.Fatalf("%+v", left)
	}
	if _, out, short := l.Fit(budget.Ask{Input: 1 << 30, MaxOutput: 1 << 20}, 1<<60); short != "" || out != 1<<20 {
		t.Fatalf("%d, %q", out, short)
	}
}
