package ledgertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/ledger"
)

var appendTests = map[string]func(*testing.T, Store){
	"what is appended is read back by another handle":           appendReadBack,
	"seq starts at 1 and has no gap; read pages by after,limit": appendPages,
	"a moved head is a conflict and changes nothing":            appendConflict,
	"the fence is checked before the head":                      appendFenceFirst,
	"a taken goal id is refused whatever the fence":             appendExists,
	"an unknown goal is not found":                              appendNotFound,
	"events, row and artifacts are stored all or none":          appendAllOrNone,
	"a caller's mistake is refused and changes nothing":         appendInvalid,
	"durable and soft appends mix":                              appendDurability,
	"time never runs backwards in a stream":                     appendClockSetBack,
	"each hash continues the chain over appends and handles":    appendChain,
	"large payloads spill into artifacts and come back whole":   appendSpill,
	"unknown types and versions keep their bytes":               appendUnknown,
	"the row keeps its lease and creation time over appends":    appendRow,
	"an ended context appends nothing":                          appendEndedContext,
	"a closed handle says so":                                   appendClosed,
	"copied events keep their times and make the same chain":    appendCopied,
	"any history of appends is gapless and refusals leave none": appendHistory,
}

func appendReadBack(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	e := Message("hello")
	e.Op, e.Cause, e.Fence = "op-7", "cause-9", 3
	before := must(a.Now(background(t)))(t)
	in := must(a.Append(background(t), ledger.Append{Goal: "g", Events: []event.Event{e}, Row: RowOf("g")}))(t)
	out := must(b.Read(background(t), "g", 0, 0))(t)
	if !reflect.DeepEqual(in, out) {
		t.Fatalf("appended %+v\nread     %+v", in, out)
	}
	got := out[0]
	if got.Time < before || got.Hash == "" || got.Seq != 1 {
		t.Fatalf("seq, time or hash not set: %+v", got)
	}
	e.Goal, e.Seq, e.Time, e.Hash = "g", got.Seq, got.Time, got.Hash
	if !reflect.DeepEqual(e, got) {
		t.Fatalf("the ledger changed the event: %+v, was %+v", got, e)
	}
}

func appendPages(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 7)
	add(t, l, "g", 7, Message("8"), Message("9"))
	for _, c := range []struct {
		after       uint64
		limit, n    int
		first, last uint64
	}{{0, 0, 9, 1, 9}, {0, 3, 3, 1, 3}, {3, 3, 3, 4, 6}, {6, 100, 3, 7, 9}, {9, 5, 0, 0, 0}, {50, 0, 0, 0, 0}, {8, -1, 1, 9, 9}} {
		got := must(l.Read(background(t), "g", c.after, c.limit))(t)
		if len(got) != c.n || c.n > 0 && (got[0].Seq != c.first || got[c.n-1].Seq != c.last) {
			t.Errorf("Read(after %d, limit %d) = %v", c.after, c.limit, texts(got))
		}
	}
	if got, err := l.Read(background(t), "nobody", 0, 0); err != nil || len(got) != 0 {
		t.Errorf("Read of an unknown goal = %v, %v", got, err)
	}
	CheckChain(t, l, "g", 9)
}

func appendConflict(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 2)
	for _, head := range []uint64{1, 3} {
		_, err := b.Append(background(t), ledger.Append{Goal: "g", Head: head, Fence: 1, Events: []event.Event{Message("x")}, Row: RowOf("g")})
		if !errors.Is(err, ledger.ErrConflict) {
			t.Errorf("append at head %d: %v", head, err)
		}
	}
	CheckChain(t, a, "g", 2)
	add(t, b, "g", 2, Message("3"))
	CheckChain(t, a, "g", 3)
}

func appendFenceFirst(t *testing.T, s Store) {
	l := s.Open(t)
	row := RowOf("g")
	row.Fence = 5
	create(t, l, row, 2)
	try := func(head, fence uint64) error {
		row := RowOf("g")
		row.Fence = fence
		_, err := l.Append(background(t), ledger.Append{Goal: "g", Head: head, Fence: fence, Events: []event.Event{Message("x")}, Row: row})
		return err
	}
	for _, c := range []struct {
		head, fence uint64
		want        error
	}{{2, 4, ledger.ErrFenced}, {1, 4, ledger.ErrFenced}, {2, 6, ledger.ErrFenced}, {1, 5, ledger.ErrConflict}, {2, 5, nil}} {
		if err := try(c.head, c.fence); !errors.Is(err, c.want) {
			t.Errorf("append at head %d with fence %d: %v, want %v", c.head, c.fence, err, c.want)
		}
	}
	CheckChain(t, l, "g", 3)
}

func appendExists(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	for _, fence := range []uint64{0, 1, 2} {
		row := RowOf("g")
		row.Fence = max(1, fence)
		_, err := l.Append(background(t), ledger.Append{Goal: "g", Fence: fence, Events: []event.Event{Message("x")}, Row: row})
		if !errors.Is(err, ledger.ErrExists) {
			t.Errorf("creating a taken goal with fence %d: %v", fence, err)
		}
	}
	s.DropRow(t, "g")
	if _, err := l.Append(background(t), ledger.Append{Goal: "g", Events: []event.Event{Message("x")}, Row: RowOf("g")}); !errors.Is(err, ledger.ErrExists) {
		t.Errorf("creating a goal whose row was lost: %v", err)
	}
}

func appendNotFound(t *testing.T, s Store) {
	l := s.Open(t)
	if _, err := l.Append(background(t), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{Message("x")}, Row: RowOf("g")}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("append: %v", err)
	}
	if _, err := l.Goal(background(t), "g"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("goal: %v", err)
	}
	if _, err := l.Audit(background(t), "g"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("audit: %v", err)
	}
	if _, err := l.Claim(background(t), ledger.Claim{Goal: "g", Owner: "w", Lease: time.Minute}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("claim: %v", err)
	}
}

func appendAllOrNone(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	before := must(l.Goal(background(t), "g"))(t)
	art := event.NewArtifact([]byte("log of a command"), "text/plain")
	row := RowOf("g")
	row.Status, row.Title = "completed", "changed"
	a := ledger.Append{Goal: "g", Head: 7, Fence: 1, Row: row, Artifacts: []event.Artifact{art},
		Events: []event.Event{Message("2"), Message(long(20_000))}}
	spill := event.RefOf(must(json.Marshal(a.Events[1].Payload))(t), "")
	if _, err := l.Append(background(t), a); !errors.Is(err, ledger.ErrConflict) {
		t.Fatalf("append: %v", err)
	}
	if after := must(l.Goal(background(t), "g"))(t); after != before {
		t.Errorf("a refused append changed the row to %+v", after)
	}
	for _, sha := range []string{art.SHA256, spill.SHA256} {
		if _, err := l.OpenArtifact(background(t), sha); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a refused append left artifact %s: %v", sha, err)
		}
	}
	CheckChain(t, l, "g", 1)
	a.Head = 1
	must(l.Append(background(t), a))(t)
	got := must(l.Goal(background(t), "g"))(t)
	if got.Status != "completed" || got.Title != "changed" || got.Head != 3 {
		t.Errorf("row after the append: %+v", got)
	}
	if b := readArtifact(t, l, art.SHA256); !bytes.Equal(b, art.Content) {
		t.Errorf("artifact reads %q", b)
	}
	readArtifact(t, l, spill.SHA256)
	CheckChain(t, l, "g", 3)
}

func appendInvalid(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	good := func() ledger.Append {
		return ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{Message("x")}, Row: RowOf("g")}
	}
	cases := map[string]func(*ledger.Append){
		"no goal":                 func(a *ledger.Append) { a.Goal, a.Row.Goal = "", "" },
		"no event":                func(a *ledger.Append) { a.Events = nil },
		"event of another goal":   func(a *ledger.Append) { a.Events[0].Goal = "h" },
		"event without id":        func(a *ledger.Append) { a.Events[0].ID = "" },
		"event without payload":   func(a *ledger.Append) { a.Events[0].Payload = nil },
		"payload of another type": func(a *ledger.Append) { a.Events[0].Type = event.TypeGoalPaused },
		"row of another goal":     func(a *ledger.Append) { a.Row.Goal = "h" },
		"row that lowers the fence": func(a *ledger.Append) {
			a.Row.Fence = 0
		},
		"artifact with other content": func(a *ledger.Append) {
			art := event.NewArtifact([]byte("one"), "")
			art.Content = []byte("two")
			a.Artifacts = []event.Artifact{art}
		},
	}
	for name, spoil := range cases {
		a := good()
		spoil(&a)
		if _, err := l.Append(background(t), a); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	CheckChain(t, l, "g", 1)
}

func appendDurability(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	for i := range 20 {
		l := []ledger.Ledger{a, b}[i%2]
		must(l.Append(background(t), ledger.Append{Goal: "g", Head: uint64(i) + 1, Fence: 1, Durable: i%3 == 0,
			Events: []event.Event{Message("x")}, Row: RowOf("g")}))(t)
		if got := must([]ledger.Ledger{b, a}[i%2].Goal(background(t), "g"))(t); got.Head != uint64(i)+2 {
			t.Fatalf("another handle sees head %d after append %d", got.Head, i)
		}
	}
	CheckChain(t, b, "g", 21)
}

func appendClockSetBack(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	for i, d := range []time.Duration{time.Hour, -2 * time.Hour, 30 * time.Minute, -time.Hour} {
		s.Skew(d)
		add(t, l, "g", uint64(i)+1, Message("x"))
	}
	CheckChain(t, l, "g", 5)
	row := must(l.Goal(background(t), "g"))(t)
	events := must(l.Read(background(t), "g", 0, 0))(t)
	if row.Created != events[0].Time || row.Updated != events[4].Time {
		t.Errorf("row %v..%v, events %v..%v", row.Created, row.Updated, events[0].Time, events[4].Time)
	}
	if events[4].Time != events[1].Time {
		t.Errorf("a clock set back stops time at the last event; got %v after %v", events[4].Time, events[1].Time)
	}
}

func appendChain(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	all := Create(t, a, "g", 3)
	all = append(all, add(t, b, "g", 3, Message("4"), Message(long(30_000)))...)
	all = append(all, add(t, a, "g", 5, Message("6"))...)
	prev := event.Genesis
	for _, e := range all {
		r, _, err := event.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if want := event.Chain(prev, r); e.Hash != want {
			t.Fatalf("seq %d has hash %s, want %s", e.Seq, e.Hash, want)
		}
		prev = e.Hash
	}
	if got := must(a.Audit(background(t), "g"))(t); got.Head != prev || got.Events != 6 || got.Broken != nil {
		t.Errorf("audit: %+v", got)
	}
}

func appendSpill(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	var in []event.Event
	for _, n := range []int{0, event.SpillThreshold - 200, event.SpillThreshold - 20, event.SpillThreshold, event.SpillThreshold + 1, 100_000, 700_000} {
		in = append(in, Message(long(n)))
	}
	// The same large payload twice is one artifact.
	in = append(in, Message(long(100_000)))
	out := must(a.Append(background(t), ledger.Append{Goal: "g", Events: in, Row: RowOf("g")}))(t)
	got := must(b.Read(background(t), "g", 0, 0))(t)
	if !reflect.DeepEqual(out, got) {
		t.Fatal("a large payload did not come back as it was appended")
	}
	CheckChain(t, b, "g", uint64(len(in)))
}

func appendUnknown(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	raws := []string{
		`{"b" : 1, "a":[1.0, 2e3, 10000000000000000001],  "html":"<&>", "dup":1,"dup":2}`,
		`"` + long0(20_000) + `"`,
		`null`,
	}
	var in []event.Event
	for i, raw := range raws {
		p := event.Unknown{Type: "from_the_future", Version: 7 + i, Raw: json.RawMessage(raw)}
		e := Of(p)
		e.Version = p.Version
		in = append(in, e)
	}
	known := Message("in a newer version")
	known.Version = 900
	known.Payload = event.Unknown{Type: known.Type, Version: 900, Raw: json.RawMessage(`{"shape": "new"}`)}
	in = append(in, known)
	must(a.Append(background(t), ledger.Append{Goal: "g", Events: in, Row: RowOf("g")}))(t)
	for i, e := range must(b.Read(background(t), "g", 0, 0))(t) {
		want := in[i].Payload.(event.Unknown)
		got, ok := e.Payload.(event.Unknown)
		if !ok || got.Type != want.Type || e.Version != want.Version || !bytes.Equal(got.Raw, want.Raw) {
			t.Errorf("event %d came back as %T version %d", i, e.Payload, e.Version)
		}
	}
	CheckChain(t, b, "g", uint64(len(in)))
}

func long0(n int) string { return string(bytes.Repeat([]byte("x"), n)) }

func appendRow(t *testing.T, s Store) {
	l := s.Open(t)
	row := ledger.Row{Goal: "g", Title: "Titel ü", Repo: "/r", Status: "active", WaitReason: "approval", PauseReason: "user", Version: 3,
		Fence: 4, Priority: -2, Runnable: true, WakeAt: 99, How: "judged", Steps: 1, Tokens: 2, CostMicros: 3, LeaseOwner: "forged", LeaseUntil: 1 << 60}
	e := create(t, l, row, 2)
	want := row
	want.Head, want.Created, want.Updated, want.LeaseOwner, want.LeaseUntil = 2, e[0].Time, e[1].Time, "", 0
	if got := must(l.Goal(background(t), "g"))(t); got != want {
		t.Fatalf("row  %+v\nwant %+v", got, want)
	}
	ticket := must(l.Claim(background(t), ledger.Claim{Goal: "g", Owner: "w1", Lease: time.Minute}))(t)
	s.Skew(time.Second)
	row.Status, row.Runnable = "paused", false
	e2 := must(l.Append(background(t), ledger.Append{Goal: "g", Head: 2, Fence: 4, Events: []event.Event{Message("x")}, Row: row}))(t)
	want.Status, want.Runnable, want.Head, want.Updated, want.LeaseOwner, want.LeaseUntil = "paused", false, 3, e2[0].Time, "w1", ticket.Until
	if got := must(l.Goal(background(t), "g"))(t); got != want {
		t.Fatalf("row  %+v\nwant %+v", got, want)
	}
}

func appendEndedContext(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Append(ctx, ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{Message("x")}, Row: RowOf("g")}); !errors.Is(err, context.Canceled) {
		t.Errorf("append with an ended context: %v", err)
	}
	CheckChain(t, l, "g", 1)
}

func appendClosed(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, err := a.Append(background(t), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{Message("x")}, Row: RowOf("g")}); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err := a.Read(background(t), "g", 0, 0); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	CheckChain(t, b, "g", 1)
}

// appendHistory plays random appends, right and wrong ones, against a model
// of three numbers.
func appendHistory(t *testing.T, s Store) {
	handles := []ledger.Ledger{s.Open(t), s.Open(t)}
	rapid.Check(t, func(rt *rapid.T) {
		goal := NewID()
		var head, fence uint64
		for range rapid.IntRange(1, 12).Draw(rt, "appends") {
			l := rapid.SampledFrom(handles).Draw(rt, "handle")
			a := ledger.Append{Goal: goal, Row: RowOf(goal), Durable: rapid.IntRange(0, 9).Draw(rt, "durable") == 0}
			a.Head = rapid.SampledFrom([]uint64{head, head, head, head + 1, max(1, head) - 1}).Draw(rt, "head")
			a.Fence = rapid.SampledFrom([]uint64{fence, fence, fence, fence + 1, max(1, fence) - 1}).Draw(rt, "fence")
			a.Row.Fence = a.Fence + rapid.Uint64Range(0, 2).Draw(rt, "raise")
			for range rapid.IntRange(1, 4).Draw(rt, "events") {
				a.Events = append(a.Events, Message(long(rapid.SampledFrom([]int{10, 10, 10, 9000}).Draw(rt, "size"))))
			}
			var want error
			switch {
			case head == 0 && a.Head == 0:
			case head == 0:
				want = ledger.ErrNotFound
			case a.Head == 0:
				want = ledger.ErrExists
			case a.Fence != fence:
				want = ledger.ErrFenced
			case a.Head != head:
				want = ledger.ErrConflict
			}
			got, err := l.Append(context.Background(), a)
			if !errors.Is(err, want) || (want == nil) != (err == nil) {
				rt.Fatalf("append at head %d fence %d on head %d fence %d: %v, want %v", a.Head, a.Fence, head, fence, err, want)
			}
			if err == nil {
				if got[0].Seq != head+1 {
					rt.Fatalf("first seq %d after head %d", got[0].Seq, head)
				}
				head, fence = head+uint64(len(a.Events)), a.Row.Fence
			}
			if head > 0 {
				row, err := handles[0].Goal(context.Background(), goal)
				if err != nil || row.Head != head || row.Fence != fence {
					rt.Fatalf("row %+v, %v; want head %d fence %d", row, err, head, fence)
				}
			}
		}
		if head > 0 {
			CheckChain(t, handles[1], goal, head)
		}
	})
}

// appendCopied takes a goal from one store to another, byte for byte.
func appendCopied(t *testing.T, s Store) {
	a := s.Open(t)
	Create(t, a, "g", 5)
	big := Message(string(bytes.Repeat([]byte("x"), 3*event.SpillThreshold)))
	must(a.Append(background(t), ledger.Append{Goal: "g", Head: 5, Fence: must(a.Goal(background(t), "g"))(t).Fence, Events: []event.Event{big}, Row: RowOf("g")}))(t)
	records := must(a.Records(background(t), "g", 0, 0))(t)
	if some := must(a.Records(background(t), "g", 2, 2))(t); len(records) != 6 || len(some) != 2 || some[0].Record.Seq != 3 {
		t.Fatalf("%d records, then %+v", len(records), some)
	}
	copies := must(a.Read(background(t), "g", 0, 0))(t)
	for i := range copies {
		copies[i].Goal = ""
	}
	row := RowOf("copy")
	got := must(a.Append(background(t), ledger.Append{Goal: "copy", Events: append(copies, Message("new")), Copied: len(copies), Row: row}))(t)
	for i, e := range got[:6] {
		if e.Time != records[i].Record.Time || e.ID != records[i].Record.ID {
			t.Errorf("event %d is %+v", i+1, e)
		}
	}
	if got[6].Time < got[5].Time {
		t.Error("time runs backwards behind the copies")
	}
	if audit := must(a.Audit(background(t), "copy"))(t); audit.Broken != nil || audit.Events != 7 {
		t.Errorf("%+v", audit)
	}
	if r := must(a.Goal(background(t), "copy"))(t); r.Created != records[0].Record.Time {
		t.Errorf("created %d, not %d", r.Created, records[0].Record.Time)
	}
	copies[3].Time = copies[2].Time - 1
	if _, err := a.Append(background(t), ledger.Append{Goal: "copy2", Events: copies, Copied: len(copies), Row: RowOf("copy2")}); err == nil {
		t.Error("a copy whose time runs backwards was taken")
	}
}
