package approval_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/approval"
	"belay/internal/event"
)

// book drives the real book beside a list of everything that was ever said.
type book struct {
	b approval.Book
	// asked is the pending intent of an operation; granted what it may still
	// use; denied what was refused for good.
	asked   map[string]string
	granted map[string]string
	denied  map[string]bool
	order   []string
}

var (
	ops  = []string{"op1", "op2", "op3"}
	hash = []string{"h1", "h2"}
)

func draw(t *rapid.T) (op, h string) {
	return rapid.SampledFrom(ops).Draw(t, "op"), rapid.SampledFrom(hash).Draw(t, "hash")
}

func (x *book) drop(op string) {
	delete(x.asked, op)
	delete(x.granted, op)
	var kept []string
	for _, o := range x.order {
		if o != op {
			kept = append(kept, o)
		}
	}
	x.order = kept
}

func (x *book) ask(t *rapid.T) {
	op, h := draw(t)
	x.b.Ask(approval.Pending{Op: op, Intent: event.Intent{Hash: h}})
	x.drop(op)
	x.asked[op] = h
	x.order = append(x.order, op)
}

func (x *book) grant(t *rapid.T) {
	op, h := draw(t)
	want := x.asked[op] == h
	if got := x.b.Grant(op, h); got != want {
		t.Fatalf("grant %s %s: %t, want %t", op, h, got, want)
	}
	if want {
		x.drop(op)
		x.granted[op] = h
	}
}

func (x *book) use(t *rapid.T) {
	op, h := draw(t)
	want := x.granted[op] == h
	if got := x.b.Use(op, h); got != want {
		t.Fatalf("use %s %s: %t, want %t", op, h, got, want)
	}
	if want {
		delete(x.granted, op)
		if x.b.Use(op, h) {
			t.Fatalf("the grant of %s for %s was used twice", op, h)
		}
	}
}

func (x *book) deny(t *rapid.T) {
	op, h := draw(t)
	x.b.Deny(op, h, rapid.SampledFrom([]string{"", "no"}).Draw(t, "reason"))
	x.drop(op)
	x.denied[h] = true
}

func (x *book) withdraw(t *rapid.T) {
	op, _ := draw(t)
	x.b.Withdraw(op)
	x.drop(op)
}

func (x *book) copyAndCache(t *rapid.T) {
	c := x.b.Clone()
	c.Ask(approval.Pending{Op: "other", Intent: event.Intent{Hash: "h1"}})
	c.Deny("other", "only in the copy", "")
	c.Grant("op1", "h1")
	c.Use("op1", "h1")
	if _, in := x.b.WasDenied("only in the copy"); in {
		t.Fatal("a change of the copy reached the original")
	}
	raw, err := json.Marshal(x.b)
	if err != nil {
		t.Fatal(err)
	}
	var back approval.Book
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	x.b = back.Clone()
}

func (x *book) check(t *rapid.T) {
	var pending []string
	for _, p := range x.b.Pending {
		pending = append(pending, p.Op)
		if x.asked[p.Op] != p.Intent.Hash {
			t.Fatalf("%s asks about %s, not %s", p.Op, p.Intent.Hash, x.asked[p.Op])
		}
	}
	if !reflect.DeepEqual(pending, x.order) {
		t.Fatalf("pending %v, asked in the order %v", pending, x.order)
	}
	for _, h := range hash {
		why, denied := x.b.WasDenied(h)
		if denied != x.denied[h] {
			t.Fatalf("%s denied: %t", h, denied)
		}
		if denied && why == "" {
			t.Fatalf("%s was denied without a reason to tell", h)
		}
	}
}

// An approval answers one exact intent and is used once; a denial sticks; a
// question asked anew makes the old answer void; copies share nothing.
func TestTheBookIsWhatWasSaid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b approval.Book
		x := &book{b: b.Clone(), asked: map[string]string{}, granted: map[string]string{}, denied: map[string]bool{}}
		t.Repeat(map[string]func(*rapid.T){"ask": x.ask, "grant": x.grant, "use": x.use, "deny": x.deny,
			"withdraw": x.withdraw, "copy": x.copyAndCache, "": x.check})
	})
}
