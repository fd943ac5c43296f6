package ledgertest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
)

var listTests = map[string]func(*testing.T, Store){
	"the events of an operation are found wherever they are":    listOperation,
	"goals are listed newest first and filtered":                listGoals,
	"the goals that a goal has started are listed by it":        listChildren,
	"a goal whose row is lost is in Streams and can be rebuilt": listRebuild,
	"rebuilding never lowers the fence or frees a held goal":    listRebuildFence,
	"a cache is kept, replaced and read back":                   listCache,
}

func ids(rows []ledger.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Goal)
	}
	return out
}

func listGoals(t *testing.T, s Store) {
	l := s.Open(t)
	if got := must(l.Goals(background(t), ledger.Filter{}))(t); len(got) != 0 {
		t.Errorf("an empty store lists %v", ids(got))
	}
	for i, g := range []struct{ id, repo, status string }{
		{"aa1", "/r1", "active"}, {"ab%", "/r2", "paused"}, {"ab_x", "/r1", "completed"}, {"b", "/r1", "active"}, {"AB2", "/r2", "failed"},
	} {
		row := RowOf(g.id)
		row.Repo, row.Status = g.repo, g.status
		create(t, l, row, i+1)
		s.Skew(time.Second)
	}
	// A later event does not make a goal newer.
	row := RowOf("aa1")
	row.Repo = "/r1"
	must(l.Append(background(t), ledger.Append{Goal: "aa1", Head: 1, Fence: 1, Events: []event.Event{Message("x")}, Row: row}))(t)
	for _, c := range []struct {
		f    ledger.Filter
		want []string
	}{
		{ledger.Filter{}, []string{"AB2", "b", "ab_x", "ab%", "aa1"}},
		{ledger.Filter{Limit: 2}, []string{"AB2", "b"}},
		{ledger.Filter{Prefix: "ab"}, []string{"ab_x", "ab%"}},
		{ledger.Filter{Prefix: "ab_"}, []string{"ab_x"}},
		{ledger.Filter{Prefix: "ab%"}, []string{"ab%"}},
		{ledger.Filter{Prefix: "aa1"}, []string{"aa1"}},
		{ledger.Filter{Prefix: "aa11"}, nil},
		{ledger.Filter{Repo: "/r1"}, []string{"b", "ab_x", "aa1"}},
		{ledger.Filter{Status: []string{"active", "failed"}}, []string{"AB2", "b", "aa1"}},
		{ledger.Filter{Repo: "/r1", Status: []string{"active"}, Prefix: "a", Limit: 5}, []string{"aa1"}},
		{ledger.Filter{Status: []string{"no such"}}, nil},
	} {
		if got := ids(must(l.Goals(background(t), c.f))(t)); !slices.Equal(got, c.want) {
			t.Errorf("Goals(%+v) = %q, want %q", c.f, got, c.want)
		}
	}
	must(l.Claim(background(t), ledger.Claim{Goal: "b", Owner: "w", Lease: time.Second}))(t)
	s.Skew(time.Minute) // the name of the owner stays
	if got := ids(must(l.Goals(background(t), ledger.Filter{Leased: true}))(t)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("somebody's name stands at %q", got)
	}
	if got := must(l.Goals(background(t), ledger.Filter{Prefix: "b"}))(t)[0]; got != must(l.Goal(background(t), "b"))(t) {
		t.Errorf("the list has another row than Goal: %+v", got)
	}
}

// listChildren: whose child a goal is stands in its row, survives claims,
// appends and the loss of the row, and lists it.
func listChildren(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	for _, g := range []struct{ id, parent string }{{"p", ""}, {"c1", "p"}, {"c2", "p"}, {"g1", "c1"}, {"q", ""}} {
		row := RowOf(g.id)
		row.Parent = g.parent
		create(t, a, row, 1)
		s.Skew(time.Second)
	}
	claim(t, b, ledger.Claim{Goal: "c1", Owner: "w"})
	row := RowOf("c2")
	row.Parent, row.Status = "p", "completed"
	must(b.Append(background(t), ledger.Append{Goal: "c2", Head: 1, Fence: 1, Events: []event.Event{Message("x")}, Row: row}))(t)
	for _, c := range []struct {
		f    ledger.Filter
		want []string
	}{
		{ledger.Filter{Parent: "p"}, []string{"c2", "c1"}}, {ledger.Filter{Parent: "c1"}, []string{"g1"}}, {ledger.Filter{Parent: "q"}, nil},
		{ledger.Filter{Parent: "p", Status: []string{"completed"}}, []string{"c2"}}, {ledger.Filter{Parent: "no such"}, nil},
	} {
		if got := ids(must(a.Goals(background(t), c.f))(t)); !slices.Equal(got, c.want) {
			t.Errorf("Goals(%+v) = %q, want %q", c.f, got, c.want)
		}
	}
	s.DropRow(t, "g1")
	row = RowOf("g1")
	row.Parent = "c1"
	if err := b.Rebuild(background(t), row); err != nil {
		t.Fatal(err)
	}
	if got := must(a.Goals(background(t), ledger.Filter{Parent: "c1"}))(t); len(got) != 1 || got[0].Parent != "c1" {
		t.Errorf("after a rebuild: %+v", got)
	}
}

func listRebuild(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 4)
	Create(t, a, "h", 1)
	if err := a.SaveCache(background(t), "nobody", ledger.Cache{Seq: 1, Blob: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	whole := must(a.Goal(background(t), "g"))(t)
	s.DropRow(t, "g")
	if _, err := b.Goal(background(t), "g"); !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("the row was not dropped: %v", err)
	}
	if got := must(b.Streams(background(t)))(t); !slices.Equal(got, []string{"g", "h"}) {
		t.Fatalf("streams %v", got)
	}
	if got := must(b.Read(background(t), "g", 0, 0))(t); len(got) != 4 {
		t.Errorf("%d events without a row", len(got))
	}
	if _, err := b.Append(background(t), ledger.Append{Goal: "g", Head: 4, Fence: 1, Events: []event.Event{Message("x")}, Row: RowOf("g")}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("append without a row: %v", err)
	}
	if err := b.Rebuild(background(t), RowOf("g")); err != nil {
		t.Fatal(err)
	}
	got := must(a.Goal(background(t), "g"))(t)
	if got.LeaseOwner != ledger.RebuiltOwner {
		t.Errorf("lease of a rebuilt row: %+v", got)
	}
	got.LeaseOwner, got.LeaseUntil = "", 0
	if got != whole {
		t.Errorf("rebuilt %+v\nwas     %+v", got, whole)
	}
	// Whoever held it before is not known, so the next holder fences it off.
	if tk := claim(t, a, ledger.Claim{Goal: "g", Owner: "w"}); !tk.Takeover || tk.Fence != 2 {
		t.Errorf("ticket %+v", tk)
	}
	row := RowOf("g")
	row.Fence = 2
	must(a.Append(background(t), ledger.Append{Goal: "g", Head: 4, Fence: 2, Events: []event.Event{Message("5")}, Row: row}))(t)
	CheckChain(t, b, "g", 5)
	if err := a.Rebuild(background(t), RowOf("nobody")); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("rebuilding a goal without events: %v", err)
	}
}

func listRebuildFence(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	e := Message("raises the fence")
	e.Fence = 3
	row := RowOf("g")
	row.Fence = 3
	must(l.Append(background(t), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{e}, Row: row}))(t)
	claim(t, l, ledger.Claim{Goal: "g", Owner: "w1"})
	claim(t, l, ledger.Claim{Goal: "g", Owner: "w2", Evict: "w1"})
	low := RowOf("g")
	low.Title = "rebuilt"
	if err := l.Rebuild(background(t), low); err != nil {
		t.Fatal(err)
	}
	if got := must(l.Goal(background(t), "g"))(t); got.Fence != 4 || got.LeaseOwner != "w2" || got.Title != "rebuilt" || got.Head != 2 {
		t.Errorf("rebuilt over a row: %+v", got)
	}
	s.DropRow(t, "g")
	if err := l.Rebuild(background(t), low); err != nil {
		t.Fatal(err)
	}
	if got := must(l.Goal(background(t), "g"))(t); got.Fence != 3 {
		t.Errorf("rebuilt from events: %+v", got)
	}
}

func listCache(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	if _, err := a.LoadCache(background(t), "g"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("load before save: %v", err)
	}
	var saved []ledger.Cache
	for i, c := range []struct {
		save ledger.Cache
		want int
	}{
		{ledger.Cache{Seq: 10, Schema: 1, Blob: []byte("ten")}, 0},
		{ledger.Cache{Seq: 300, Schema: 1, Blob: noise(500_000)}, 1},
		{ledger.Cache{Seq: 200, Schema: 1, Blob: []byte("late and older")}, 1},
		{ledger.Cache{Seq: 300, Schema: 1, Blob: []byte(long(100_000))}, 3},
		{ledger.Cache{Seq: 100, Schema: 2, Blob: []byte("another schema")}, 4},
		{ledger.Cache{Seq: 101, Schema: 2, Blob: []byte{}}, 5},
	} {
		saved = append(saved, c.save)
		if err := a.SaveCache(background(t), "g", c.save); err != nil {
			t.Fatal(err)
		}
		got, want := must(b.LoadCache(background(t), "g"))(t), saved[c.want]
		if got.Seq != want.Seq || got.Schema != want.Schema || !bytes.Equal(got.Blob, want.Blob) {
			t.Errorf("after save %d: seq %d schema %d with %d bytes, want save %d", i, got.Seq, got.Schema, len(got.Blob), c.want)
		}
	}
	if _, err := b.LoadCache(background(t), "g2"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("load of another goal: %v", err)
	}
}

func listOperation(t *testing.T, s Store) {
	l := s.Open(t)
	f, ok := l.(ledger.Finder)
	if !ok {
		return // a store need not be one
	}
	var es []event.Event
	for i := range 40 {
		e := Message("x")
		e.Op = []string{"op1", "", "op10", "op2"}[i%4]
		es = append(es, e)
	}
	must(l.Append(background(t), ledger.Append{Goal: "g", Events: es, Row: RowOf("g")}))(t)
	must(l.Append(background(t), ledger.Append{Goal: "h", Events: es[:4], Row: RowOf("h")}))(t)
	for op, want := range map[string][]uint64{"op1": {1, 5, 9, 13, 17, 21, 25, 29, 33, 37}, "op10": {3, 7, 11, 15, 19, 23, 27, 31, 35, 39}, "op3": nil, "": nil, "op": nil} {
		if got := must(f.OpSeqs(background(t), "g", op))(t); !slices.Equal(got, want) {
			t.Errorf("operation %q: %v, want %v", op, got, want)
		}
	}
	if got := must(f.OpSeqs(background(t), "h", "op1"))(t); !slices.Equal(got, []uint64{1}) {
		t.Errorf("of another goal: %v", got)
	}
	if got := must(f.OpSeqs(background(t), "nobody", "op1"))(t); len(got) != 0 {
		t.Errorf("of no goal: %v", got)
	}
}
