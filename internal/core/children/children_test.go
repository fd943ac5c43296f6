package children_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/budget"
	"belay/internal/core/children"
	"belay/internal/event"
	"belay/internal/moment"
	"belay/internal/policy"
)

func amount(t *rapid.T, label string, most int64) event.Amount {
	n := rapid.Int64Range(0, most)
	return event.Amount{Turns: n.Draw(t, label+" turns"), Steps: n.Draw(t, label+" steps"), Tokens: n.Draw(t, label+" tokens"),
		CostMicros: n.Draw(t, label+" cost"), ToolMS: n.Draw(t, label+" tool ms")}
}

func dimensions(a event.Amount) []int64 {
	return []int64{a.Turns, a.Steps, a.Tokens, a.CostMicros, a.ToolMS}
}

// However shares are carved, children end and limits are set, the sum of what
// is used and what is reserved stays within the parent's limits, in every
// dimension: the parent's own account is kept by the budget machine.
func TestTheSumOfSharesNeverExceedsTheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := budget.Ledger{Limits: event.Limits{Amount: amount(t, "limit", 1000)}, Reserved: map[string]event.Amount{}}
		var book children.Book
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			open := book.Open()
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what < 2:
				w := children.Wish{Percent: rapid.Int64Range(0, 120).Draw(t, "percent")}
				if rapid.Bool().Draw(t, "absolute") {
					w.Limits.Amount = amount(t, "wish", 400)
				}
				share, reserved, short := children.Carve(l.Limits, l.Left(), w, 0)
				if short != "" {
					if share != (event.Limits{}) || reserved != (event.Amount{}) {
						t.Fatal("what does not fit reserves something")
					}
					continue
				}
				for d, n := range dimensions(reserved) {
					if s := dimensions(share.Amount)[d]; s != n || s == 0 && dimensions(l.Limits.Amount)[d] > 0 {
						t.Fatalf("dimension %d: a share of %d with %d reserved, the parent's limit is %d", d, s, n, dimensions(l.Limits.Amount)[d])
					}
				}
				op := "op" + string(rune('a'+i))
				c := children.Child{Goal: children.ID("g", op), Op: op, Share: share, Reserved: reserved}
				var err error
				if book, err = book.Reserve(c); err != nil {
					t.Fatal(err)
				}
				if book, err = book.Start(c.Goal); err != nil {
					t.Fatal(err)
				}
				l.Reserve(c.Goal, reserved)
			case what == 2 && len(open) > 0:
				c := open[rapid.IntRange(0, len(open)-1).Draw(t, "who")]
				var used event.Amount
				for d, to := range []*int64{&used.Turns, &used.Steps, &used.Tokens, &used.CostMicros, &used.ToolMS} {
					most := dimensions(c.Share.Amount)[d]
					if most == 0 {
						most = 50 // it has no limit there, and neither has its parent
					}
					*to = rapid.Int64Range(0, most).Draw(t, "used")
				}
				book, _ = book.End(c.Goal, event.ChildEnded{Child: c.Goal, Used: used})
				l.Settle(c.Goal, used)
			default:
				next := event.Limits{Amount: amount(t, "new limit", 2000)}
				after := l.Clone()
				after.Limits = next
				if book.Unbounded(next) == "" && within(after) {
					l.Limits = next
				}
			}
			if !within(l) {
				t.Fatalf("used %+v and held %+v of %+v", l.Used, l.Held(), l.Limits)
			}
		}
	})
}

func within(l budget.Ledger) bool {
	gone := budget.Add(l.Used, l.Held())
	for d, limit := range dimensions(l.Limits.Amount) {
		if limit > 0 && dimensions(gone)[d] > limit {
			return false
		}
	}
	return true
}

// Whatever a model or a person wishes for a child, nothing that its parent's
// policy asks about or denies is answered more mildly for the child, its gate
// is no more open, and its sandbox is the same.
func TestAChildMayDoAtMostWhatItsParentMay(t *testing.T) {
	t.Parallel()
	rank := map[policy.Decision]int{policy.Allow: 0, policy.Ask: 1, policy.Deny: 2}
	answers := map[event.ApproveMode]int{event.ApproveAuto: 0, "": 1, event.ApproveAsk: 1, event.ApproveNever: 2}
	gates := map[event.PlanMode]int{event.PlanNever: 0, "": 1, event.PlanAuto: 1, event.PlanAlways: 2}
	approve := rapid.SampledFrom([]event.ApproveMode{"", event.ApproveAsk, event.ApproveAuto, event.ApproveNever})
	plan := rapid.SampledFrom([]event.PlanMode{"", event.PlanAuto, event.PlanAlways, event.PlanNever})
	rule := rapid.Custom(func(t *rapid.T) event.Rule {
		r := event.Rule{ID: rapid.StringMatching(`[a-z]{3}`).Draw(t, "id"), Decision: rapid.SampledFrom([]string{"allow", "ask", "deny"}).Draw(t, "decision")}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			r.Command = rapid.SampledFrom([]string{"git status", "make", "rm -rf build", "curl"}).Draw(t, "command")
		case 1:
			r.Tool, r.Path = "write", rapid.SampledFrom([]string{"**", "src/**", "go.mod"}).Draw(t, "path")
		default:
			r.Tool = rapid.SampledFrom([]string{"write_file", "run_command", "git_push", "delegate"}).Draw(t, "tool")
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		parent := event.Settings{Approve: approve.Draw(t, "approve"), Plan: plan.Draw(t, "plan"), Rules: rapid.SliceOfN(rule, 0, 6).Draw(t, "rules"),
			Sandbox: rapid.SampledFrom([]string{"none", "bwrap", "landlock"}).Draw(t, "sandbox"), Protected: []string{"/state/**"},
			ReadOnly: rapid.Bool().Draw(t, "read only"), ApprovalTimeoutMS: rapid.Int64Range(0, 9).Draw(t, "time-out")}
		gate := rapid.Bool().Draw(t, "gate")
		child := children.Narrow(parent, gate, rapid.Bool().Draw(t, "wish read only"), approve.Draw(t, "wish approve"), plan.Draw(t, "wish plan"))
		if answers[child.Approve] < answers[parent.Approve] || gates[child.Plan] < gates[parent.Plan] || (parent.ReadOnly || gate) && !child.ReadOnly {
			t.Fatalf("wider: %+v of %+v (gate %t)", child, parent, gate)
		}
		if same := children.Narrow(parent, false, false, "", ""); same.Approve != parent.Approve || same.Plan != parent.Plan || same.ReadOnly != parent.ReadOnly {
			t.Fatalf("nothing is wished for, and it is other: %+v of %+v", same, parent)
		}
		if child.Sandbox != parent.Sandbox || !slices.Equal(child.Protected, parent.Protected) || child.ApprovalTimeoutMS != parent.ApprovalTimeoutMS {
			t.Fatalf("other bounds: %+v of %+v", child, parent)
		}
		of := func(s event.Settings) policy.Config {
			return policy.Config{Rules: s.Rules, Root: "/w", Protected: s.Protected, TestCommands: []string{"make check"}}
		}
		for _, a := range []struct {
			tool   string
			effect event.EffectClass
			access event.Access
		}{
			{"write_file", event.Verifiable, event.Access{Writes: []string{"src/a.go"}}}, {"write_file", event.Verifiable, event.Access{Writes: []string{"go.mod"}}},
			{"run_command", event.Supervised, event.Access{Command: "git status && make"}}, {"run_command", event.Supervised, event.Access{Command: "rm -rf build"}},
			{"run_command", event.Supervised, event.Access{Command: "curl https://example.com"}}, {"git_push", event.Keyed, event.Access{Remote: "origin"}},
			{"delegate", event.Control, event.Access{}}, {"run_test", event.Supervised, event.Access{Command: "make check", Test: true}},
		} {
			was, is := policy.Judge(of(parent), a.tool, a.effect, a.access), policy.Judge(of(child), a.tool, a.effect, a.access)
			if rank[is.Decision] < rank[was.Decision] {
				t.Fatalf("%s %+v: %s for the parent, %s for the child", a.tool, a.access, was.Decision, is.Decision)
			}
		}
	})
}

// A child is reserved, started and ended once each, in this order; an order is
// owed until it, or a later one, was told.
func TestAChildEndsOnceAndOwesWhatItWasNotTold(t *testing.T) {
	t.Parallel()
	c := children.Child{Goal: children.ID("g", "op1"), Op: "op1"}
	book, err := children.Book{}.Reserve(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.Reserve(c); err == nil {
		t.Error("it is reserved twice")
	}
	if _, err := book.End(c.Goal, event.ChildEnded{}); err == nil {
		t.Error("it ends before it is started")
	}
	before := book
	if book, err = book.Start(c.Goal); err != nil || before[0].Phase != children.Reserved {
		t.Errorf("starting it: %v; the book before says %s", err, before[0].Phase)
	}
	book = book.Command(children.Order{What: event.OrderPause, Seq: 9}).Command(children.Order{What: event.OrderResume, Seq: 12})
	if book, err = book.Tell(c.Goal, 9); err != nil || !book[0].Owes() {
		t.Errorf("told an older order it owes nothing (%v)", err)
	}
	if book, err = book.Tell(c.Goal, 12); err != nil || book[0].Owes() {
		t.Errorf("told the latest order it still owes one (%v)", err)
	}
	if book, err = book.End(c.Goal, event.ChildEnded{Status: "failed"}); err != nil || book[0].Open() {
		t.Errorf("it does not end: %v", err)
	}
	if _, err := book.End(c.Goal, event.ChildEnded{}); err == nil {
		t.Error("it ends twice")
	}
	if book.Command(children.Order{What: event.OrderCancel, Seq: 20})[0].Owes() {
		t.Error("what has ended is owed an order")
	}
	if children.ID("g", "op1") != c.Goal || children.ID("g", "op2") == c.Goal || children.ID("h", "op1") == c.Goal {
		t.Error("the id does not follow from the parent and the operation alone")
	}
}

// The deadline of a child is never later than its parent's, and one that has
// passed gives no share.
func TestADeadlineIsInheritedAndOnlyShortened(t *testing.T) {
	t.Parallel()
	parent := event.Limits{Deadline: 1000}
	for wish, want := range map[moment.Time]moment.Time{0: 1000, 500: 500, 2000: 1000} {
		share, _, short := children.Carve(parent, event.Amount{}, children.Wish{Limits: event.Limits{Deadline: wish}}, 10)
		if short != "" || share.Deadline != want {
			t.Errorf("a wish for %d gives %d (%q), want %d", wish, share.Deadline, short, want)
		}
	}
	if _, _, short := children.Carve(parent, event.Amount{}, children.Wish{}, 1000); short != "deadline" {
		t.Errorf("past the deadline the wish is short of %q", short)
	}
}

// The bounds say no where they are meant to.
func TestBoundsOnNumberAndDepth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s     event.Settings
		depth int
		want  bool
	}{{event.Settings{}, 0, true}, {event.Settings{}, 1, true}, {event.Settings{}, 2, false}, {event.Settings{MaxChildren: -1}, 0, false},
		{event.Settings{ChildDepth: 1}, 1, false}, {event.Settings{ChildDepth: 3}, 2, true}} {
		if got := children.Allowed(c.s, c.depth); got != c.want {
			t.Errorf("%+v at depth %d: %t", c.s, c.depth, got)
		}
	}
	share := event.Limits{Amount: event.Amount{Steps: 10}, Deadline: 100}
	for limits, want := range map[event.Limits]string{
		{Amount: event.Amount{Steps: 10}, Deadline: 100}: "", {Amount: event.Amount{Steps: 5, Tokens: 3}, Deadline: 90}: "",
		{Amount: event.Amount{Steps: 11}, Deadline: 100}: "steps", {Deadline: 100}: "steps", {Amount: event.Amount{Steps: 10}}: "deadline"} {
		if got := children.Within(limits, share); got != want {
			t.Errorf("%+v within %+v: %q, want %q", limits, share, got, want)
		}
	}
}
