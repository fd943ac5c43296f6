package ledgertest

import (
	"bytes"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/ledger"
)

var auditTests = map[string]func(*testing.T, Store){
	"a whole chain holds, and the audit names its head":          auditHolds,
	"any altered record is named":                                auditNames,
	"a lost tail is noticed":                                     auditTail,
	"a missing or altered artifact is a break":                   auditArtifact,
	"damage to one goal leaves the others whole":                 auditOthers,
	"a damaged record reads as damaged, the rest stays readable": auditReadable,
}

func auditHolds(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	events := Create(t, a, "g", 5)
	got := must(b.Audit(background(t), "g"))(t)
	if want := (ledger.Audit{Goal: "g", Events: 5, Head: events[4].Hash}); got != want {
		t.Errorf("audit %+v, want %+v", got, want)
	}
}

func auditNames(t *testing.T, s Store) {
	l := s.Open(t)
	for _, d := range []Damage{FlipPayload, BreakPayload, ChangeActor, ChangeHash, RemoveRecord} {
		for _, seq := range []uint64{1, 3, 5} {
			goal := NewID()
			events := Create(t, l, goal, 6)
			s.Damage(t, goal, seq, d)
			want := events[seq-1]
			if d == RemoveRecord {
				// What is named is the record that no longer follows.
				want = events[seq]
			}
			got := must(l.Audit(background(t), goal))(t)
			if got.Broken == nil || got.Broken.Seq != want.Seq || got.Broken.ID != want.ID || got.Broken.Type != want.Type || got.Broken.Reason == "" {
				t.Errorf("%s at seq %d: %+v, want the break at seq %d", d, seq, got.Broken, want.Seq)
			} else if got.Events != seq-1 {
				t.Errorf("%s at seq %d: %d events hold", d, seq, got.Events)
			}
		}
	}
}

func auditTail(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 3)
	s.Damage(t, "g", 3, RemoveRecord)
	if got := must(l.Audit(background(t), "g"))(t); got.Broken == nil || got.Broken.Seq != 3 {
		t.Errorf("audit %+v", got.Broken)
	}
}

func auditArtifact(t *testing.T, s Store) {
	l := s.Open(t)
	spoil := map[string]func(testing.TB, string){"altered": s.AlterArtifact, "missing": s.DropArtifact}
	for name, f := range spoil {
		// A spilled payload, and an artifact that a payload refers to.
		goal := NewID()
		out := Create(t, l, goal, 1)
		log := event.NewArtifact([]byte("ok   belay 0.01s, run for "+goal), "text/plain")
		tested := Of(event.TestCompleted{Log: log.Ref})
		must(l.Append(background(t), ledger.Append{Goal: goal, Head: 1, Fence: 1, Events: []event.Event{tested}, Artifacts: []event.Artifact{log}, Row: RowOf(goal)}))(t)
		big := add(t, l, goal, 2, Message(goal+long(50_000)))
		CheckChain(t, l, goal, 3)
		r, spill, err := event.Encode(big[0])
		if err != nil || !r.Spilled {
			t.Fatalf("the payload did not spill: %v", err)
		}
		f(t, spill.SHA256)
		got := must(l.Audit(background(t), goal))(t)
		if got.Broken == nil || got.Broken.Seq != 3 || got.Broken.ID != big[0].ID || !strings.Contains(got.Broken.Reason, spill.SHA256) {
			t.Errorf("%s spilled payload: %+v", name, got.Broken)
		}
		f(t, log.SHA256)
		got = must(l.Audit(background(t), goal))(t)
		if got.Broken == nil || got.Broken.Seq != 2 || got.Broken.ID == out[0].ID || !strings.Contains(got.Broken.Reason, log.SHA256) {
			t.Errorf("%s log: %+v", name, got.Broken)
		}
		if e := must(l.Read(background(t), goal, 2, 0))(t); len(e) != 1 || !isDamaged(e[0]) {
			t.Errorf("%s spilled payload reads as %+v", name, e)
		}
	}
}

func isDamaged(e event.Event) bool {
	_, ok := e.Payload.(event.Damaged)
	return ok
}

func auditOthers(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 3)
	Create(t, l, "h", 3)
	s.Damage(t, "g", 2, FlipPayload)
	CheckChain(t, l, "h", 3)
}

func auditReadable(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	whole := Create(t, a, "g", 6)
	s.Damage(t, "g", 2, BreakPayload)
	s.Damage(t, "g", 4, RemoveRecord)
	for _, l := range []ledger.Ledger{a, b, s.Open(t)} {
		got := must(l.Read(background(t), "g", 0, 0))(t)
		if len(got) != 6 {
			t.Fatalf("read %d events, want 6: %v", len(got), texts(got))
		}
		for i, e := range got {
			if e.Seq != uint64(i)+1 {
				t.Errorf("event %d has seq %d", i, e.Seq)
			}
			if damaged := e.Seq == 2 || e.Seq == 4; damaged != isDamaged(e) {
				t.Errorf("seq %d reads as %T", e.Seq, e.Payload)
			} else if !damaged && !bytes.Equal([]byte(texts(got[i : i+1])[0]), []byte(texts(whole[i : i+1])[0])) {
				t.Errorf("seq %d reads as %v", e.Seq, texts(got[i:i+1]))
			}
		}
		if got := must(l.Read(background(t), "g", 3, 2))(t); len(got) != 2 || got[0].Seq != 4 || got[1].Seq != 5 {
			t.Errorf("a page from a lost record on has %v", texts(got))
		}
	}
	f := follow(t, b, "g", 0)
	f.expect(t, 1, 2, 3, 4, 5, 6, 0)
}
