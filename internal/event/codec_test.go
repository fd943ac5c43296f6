package event_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/moment"
)

// store keeps artifacts like a ledger does.
type store map[string][]byte

func (s store) fetch(r event.Ref) ([]byte, error) {
	b, ok := s[r.SHA256]
	if !ok {
		return nil, errors.New("no artifact " + r.SHA256)
	}
	return b, nil
}

func roundTrip(e event.Event) (event.Event, event.Record, *event.Artifact, error) {
	r, a, err := event.Encode(e)
	if err != nil {
		return event.Event{}, r, a, err
	}
	arts := store{}
	if a != nil {
		arts[a.SHA256] = a.Content
	}
	return event.Decode(r, e.Hash, arts.fetch), r, a, nil
}

func TestEveryTypeSurvivesItsRecord(t *testing.T) {
	t.Parallel()
	for _, typ := range event.Types() {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				f := filler{pick: func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }}
				e := f.event(f.payload(typ))
				back, r, a, err := roundTrip(e)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(back, e) {
					t.Fatalf("came back as\n%+v\nwas\n%+v", back, e)
				}
				if (a != nil) != r.Spilled {
					t.Fatal("spilled without an artifact, or the other way round")
				}
				again, _, err := event.Encode(back)
				if err != nil || !bytes.Equal(again.Canonical(), r.Canonical()) {
					t.Fatalf("its second record has other bytes (%v)", err)
				}
			})
		})
	}
}

// An event of a newer binary keeps its bytes and its version, whatever they
// are, and is told apart.
func TestAnUnknownTypeOrVersionIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"b":1,"a":2}`, `{"a" : 1e400,  "a":2}`, `"text"`, `null`, `[ ]`, `{"n":12345678901234567890}`, "{}\n"} {
		for _, r := range []event.Record{
			{Type: "goal_transcended", Version: 3, Seq: 4, Payload: []byte(raw)},
			{Type: event.TypeGoalPaused, Version: event.CurrentVersion(event.TypeGoalPaused) + 1, Payload: []byte(raw)},
			{Type: event.TypeGoalPaused, Version: 0, Payload: []byte(raw)},
		} {
			e := event.Decode(r, "h", nil)
			if _, ok := e.Payload.(event.Unknown); !ok || e.Version != r.Version || e.Payload.EventType() != r.Type {
				t.Fatalf("%s version %d is read as %T of version %d", r.Type, r.Version, e.Payload, e.Version)
			}
			back, a, err := event.Encode(e)
			if err != nil || a != nil || !reflect.DeepEqual(back, r) {
				t.Errorf("%s becomes %s (%v)", raw, back.Payload, err)
			}
		}
	}
}

func TestALargeUnknownPayloadIsKeptToo(t *testing.T) {
	t.Parallel()
	e := event.Event{Type: "goal_transcended", Version: 3, Payload: event.Unknown{Type: "goal_transcended", Version: 3,
		Raw: []byte(`{"x":"` + strings.Repeat("y", event.SpillThreshold) + `"}`)}}
	back, r, _, err := roundTrip(e)
	if err != nil || !r.Spilled || !reflect.DeepEqual(back, e) {
		t.Fatalf("%v, spilled=%t", err, r.Spilled)
	}
}

func TestWhatCannotBeReadIsDamagedAndNothingElse(t *testing.T) {
	t.Parallel()
	large, a, err := event.Encode(event.Event{Type: event.TypeUserMessage, Version: 1, Payload: event.UserMessage{Text: strings.Repeat("x", 2*event.SpillThreshold)}})
	if err != nil || a == nil {
		t.Fatal(err)
	}
	other := bytes.Clone(a.Content)
	other[20]++
	for name, c := range map[string]struct {
		r    event.Record
		arts store
		word string
	}{
		"cut short":             {event.Record{Payload: []byte(`{"mode":"mess`)}, nil, "unexpected end"},
		"another shape":         {event.Record{Payload: []byte(`{"mode":{"a":1}}`)}, nil, "mode"},
		"a list":                {event.Record{Payload: []byte(`[1]`)}, nil, "array"},
		"no bytes":              {event.Record{Payload: nil}, nil, "unexpected end"},
		"no artifact":           {event.Record{Spilled: true, Payload: large.Payload}, store{}, "no artifact"},
		"the artifact is other": {event.Record{Spilled: true, Payload: large.Payload}, store{a.SHA256: other}, "other content"},
		"the spill is damaged":  {event.Record{Spilled: true, Payload: []byte(`{"artifact":`)}, store{}, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.r
			r.Goal, r.Seq, r.Type, r.Version = "g", 7, event.TypeUserMessage, 1
			e := event.Decode(r, "h", c.arts.fetch)
			d, ok := e.Payload.(event.Damaged)
			if !ok || !strings.Contains(d.Reason, c.word) {
				t.Fatalf("%T %v, want damaged with a word of %q", e.Payload, e.Payload, c.word)
			}
			if e.Goal != "g" || e.Seq != 7 || e.Type != event.TypeUserMessage || e.Payload.EventType() != event.TypeUserMessage {
				t.Errorf("the place is lost: %+v", e)
			}
		})
	}
}

func TestAPayloadOverTheThresholdBecomesAnArtifact(t *testing.T) {
	t.Parallel()
	frame := len(`{"mode":"message","text":""}`)
	for _, n := range []int{0, event.SpillThreshold - frame - 1, event.SpillThreshold - frame, event.SpillThreshold - frame + 1, 4 * event.SpillThreshold} {
		e := event.Event{Type: event.TypeUserMessage, Version: 1, Payload: event.UserMessage{Mode: event.Message, Text: strings.Repeat("x", n)}}
		back, r, a, err := roundTrip(e)
		if err != nil || !reflect.DeepEqual(back, e) {
			t.Fatalf("%d: %v", n, err)
		}
		if want := n+frame > event.SpillThreshold; r.Spilled != want || (a != nil) != want {
			t.Errorf("a payload of %d bytes: spilled=%t", n+frame, r.Spilled)
		}
		if len(r.Payload) > event.SpillThreshold {
			t.Errorf("the record keeps %d bytes", len(r.Payload))
		}
		if a != nil && (a.Ref != event.RefOf(a.Content, a.Media) || a.Size != int64(n+frame)) {
			t.Errorf("the artifact is %+v", a.Ref)
		}
	}
}

// A head that ends in the middle of a letter must not make a record that no
// JSON reader takes.
func TestTheHeadOfASpilledPayloadIsText(t *testing.T) {
	t.Parallel()
	for shift := range 4 {
		e := event.Event{Type: event.TypeUserMessage, Version: 1, Payload: event.UserMessage{Text: strings.Repeat("x", shift) + strings.Repeat("漢", event.SpillThreshold)}}
		back, r, _, err := roundTrip(e)
		if err != nil || !json.Valid(r.Payload) || !reflect.DeepEqual(back, e) {
			t.Fatalf("shift %d: %v", shift, err)
		}
	}
}

func TestAnEventSaysWhatItCarries(t *testing.T) {
	t.Parallel()
	for _, e := range []event.Event{
		{Type: event.TypeGoalPaused},
		{Type: event.TypeGoalPaused, Payload: event.GoalResumed{}},
		{Type: event.TypeDecisionRecorded, Payload: event.OperationProposed{}},
	} {
		if _, _, err := event.Encode(e); err == nil {
			t.Errorf("%s with %T is encoded", e.Type, e.Payload)
		}
	}
}

// Whatever byte of a stored record is flipped, the hash of its link changes,
// and so does every hash behind it.
func TestTheChainShowsAnyFlippedByte(t *testing.T) {
	t.Parallel()
	types := event.Types()
	rapid.Check(t, func(t *rapid.T) {
		f := filler{pick: func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }}
		typ := rapid.SampledFrom(types).Draw(t, "type")
		r, _, err := event.Encode(f.event(f.payload(typ)))
		if err != nil {
			t.Fatal(err)
		}
		prev := event.Chain(event.Genesis, event.Record{Seq: 1})
		whole := event.Chain(prev, r)
		bit := byte(1) << rapid.IntRange(0, 7).Draw(t, "bit")

		damaged := r
		damaged.Payload = bytes.Clone(r.Payload)
		damaged.Payload[rapid.IntRange(0, len(r.Payload)-1).Draw(t, "at")] ^= bit
		if event.Chain(prev, damaged) == whole {
			t.Fatal("a flipped byte of the payload does not show")
		}
		v := reflect.ValueOf(&damaged).Elem()
		damaged = r
		field := rapid.IntRange(0, v.NumField()-1).Draw(t, "field")
		switch fv := v.Field(field); fv.Kind() {
		case reflect.String:
			fv.SetString(fv.String() + "x")
		case reflect.Uint64:
			fv.SetUint(fv.Uint() ^ uint64(bit))
		case reflect.Int, reflect.Int64:
			fv.SetInt(fv.Int() ^ int64(bit))
		case reflect.Bool:
			fv.SetBool(!fv.Bool())
		default:
			fv.SetBytes(append(bytes.Clone(r.Payload), ' '))
		}
		if event.Chain(prev, damaged) == whole {
			t.Fatalf("a change of %s does not show", v.Type().Field(field).Name)
		}
		if event.Chain(event.Chain(event.Genesis, event.Record{Seq: 2}), r) == whole {
			t.Fatal("the hash does not depend on the link before")
		}
	})
}

// Two records that differ only in where the envelope ends and the payload
// begins must not look alike.
func TestTheFrameOfThePayloadIsPartOfTheHash(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOf(rapid.Byte()).Draw(t, "a")
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		if !bytes.Equal(a, b) && bytes.Equal(event.Record{Payload: a}.Canonical(), event.Record{Payload: b}.Canonical()) {
			t.Fatal("two payloads have one canonical form")
		}
	})
}

func TestIDsAreUUIDv7AndTheirOrderIsThatOfTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var seed, seed2 [16]byte
		copy(seed[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "seed"))
		copy(seed2[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "seed2"))
		now := moment.Time(rapid.Int64Range(0, 1<<48*1000-1).Draw(t, "now"))
		n := rapid.IntRange(0, 100).Draw(t, "n")
		id := event.NewID(now, seed, n)
		raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		if err != nil || len(raw) != 16 || len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
			t.Fatalf("%q is no UUID", id)
		}
		if raw[6]>>4 != 7 || raw[8]>>6 != 0b10 {
			t.Fatalf("%s has version %d and variant %b", id, raw[6]>>4, raw[8]>>6)
		}
		ms := int64(raw[0])<<40 | int64(raw[1])<<32 | int64(raw[2])<<24 | int64(raw[3])<<16 | int64(raw[4])<<8 | int64(raw[5])
		if ms != int64(now)/1000 {
			t.Fatalf("%s says %d ms, it was %d", id, ms, int64(now)/1000)
		}
		if event.NewID(now, seed, n) != id {
			t.Fatal("the same values give two ids")
		}
		if event.NewID(now, seed, n+1) == id || seed != seed2 && event.NewID(now, seed2, n) == id {
			t.Fatal("another counter or seed gives the same id")
		}
		if now/1000 < (1<<48)-1 && event.NewID(now+1000, seed2, n) <= id {
			t.Fatal("a later id sorts before an earlier one")
		}
	})
}

func TestARefNamesItsContent(t *testing.T) {
	t.Parallel()
	a := event.NewArtifact([]byte("abc"), "text/plain")
	if a.SHA256 != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" || a.Size != 3 || a.IsZero() {
		t.Errorf("%+v", a.Ref)
	}
	if !(event.Ref{}).IsZero() {
		t.Error("a reference to nothing is not zero")
	}
}
