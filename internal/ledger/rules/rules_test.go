package rules

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
)

func TestTheFenceOnlyGrowsAndOnlyByTakeovers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		row := ledger.Row{Goal: "g", Fence: 1}
		now := moment.Time(1_000_000)
		held := map[string]ledger.Ticket{}
		owner := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now = now.AddMS(rapid.Int64Range(0, 30).Draw(rt, "wait"))
			c := ledger.Claim{Goal: rapid.SampledFrom([]string{"", "g"}).Draw(rt, "goal"), Owner: owner.Draw(rt, "owner"),
				Lease: time.Duration(rapid.IntRange(1, 50).Draw(rt, "lease")) * time.Millisecond}
			if rapid.IntRange(0, 5).Draw(rt, "dead") == 0 {
				c.Evict = owner.Draw(rt, "evict")
			}
			before := row
			next, ticket, err := Take(row, c, now)
			if err != nil {
				if !errors.Is(err, ledger.ErrHeld) || next != before || before.LeaseUntil <= now {
					rt.Fatalf("refused %+v on %+v at %v: %v", c, before, now, err)
				}
				continue
			}
			row = next
			if want := before.Fence + map[bool]uint64{true: 1}[ticket.Takeover]; row.Fence != want || ticket.Fence != want {
				rt.Fatalf("fence %d after %d, takeover %v", row.Fence, before.Fence, ticket.Takeover)
			}
			if ticket.Takeover != (ticket.Previous != "") || ticket.Takeover && ticket.Previous != before.LeaseOwner {
				rt.Fatalf("ticket %+v taken from %+v", ticket, before)
			}
			// Whoever held it before and is not the owner that goes on is out.
			for o, old := range held {
				if ours := Ours(row, old) == nil; ours && o != c.Owner {
					rt.Fatalf("%s still holds %+v after %s took it", o, row, c.Owner)
				}
			}
			held[c.Owner] = ticket
		}
	})
}

func TestTheVerifierPassesWhatMatchesAndNothingElse(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("content "), 1000)
	ref := event.RefOf(content, "")
	if err := iotest.TestReader(NewVerifier(bytes.NewReader(content), nil, ref.SHA256, ref.Size), content); err != nil {
		t.Error(err)
	}
	altered := bytes.Clone(content)
	altered[4000] ^= 1
	for name, src := range map[string]io.Reader{
		"altered": bytes.NewReader(altered), "cut": bytes.NewReader(content[:7999]), "longer": bytes.NewReader(append(bytes.Clone(content), 'x')),
		"endless": iotest.OneByteReader(io.MultiReader(bytes.NewReader(content), bytes.NewReader(content))), "failing": iotest.ErrReader(errors.New("disk")),
		"late EOF, cut": iotest.DataErrReader(bytes.NewReader(content[:10])),
	} {
		if _, err := io.ReadAll(NewVerifier(src, nil, ref.SHA256, ref.Size)); !errors.Is(err, ErrAltered) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyTypedReferencesAreArtifactsOfARecord(t *testing.T) {
	t.Parallel()
	ref := event.RefOf([]byte("log"), "text/plain")
	type inner struct{ Refs map[string]*event.Ref }
	payload := struct {
		List  []inner
		Zero  event.Ref
		Bytes []byte
		Any   any
	}{List: []inner{{Refs: map[string]*event.Ref{"a": &ref, "none": nil}}}, Bytes: []byte(`{"sha256":"` + ref.SHA256 + `","size":3}`), Any: ref}
	var refs []event.Ref
	collectRefs(reflect.ValueOf(payload), &refs)
	if len(refs) != 2 || refs[0] != ref || refs[1] != ref {
		t.Errorf("found %v", refs)
	}
}
