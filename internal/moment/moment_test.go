package moment_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"belay/internal/moment"
)

// instants are those that a fixed-width RFC 3339 text can hold: years 1 to
// 9999, without the very first microsecond, which is the standard library's
// "not set".
func instants() *rapid.Generator[moment.Time] {
	low, high := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	return rapid.Custom(func(t *rapid.T) moment.Time {
		return moment.Time(rapid.Int64Range(low.UnixMicro()+1, high.UnixMicro()).Draw(t, "microseconds"))
	})
}

func TestTextRoundTripAndOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := instants().Draw(t, "a"), instants().Draw(t, "b")
		for _, m := range []moment.Time{a, b} {
			var back moment.Time
			text, err := m.MarshalText()
			if err != nil {
				t.Fatal(err)
			}
			if err := back.UnmarshalText(text); err != nil || back != m {
				t.Fatalf("%d → %s → %d, %v", m, text, back, err)
			}
			if moment.Of(m.Std()) != m {
				t.Fatalf("%d does not survive the wall clock's form", m)
			}
		}
		if a != 0 && b != 0 && (a < b) != (a.String() < b.String()) {
			t.Fatalf("%d and %d are in another order than %s and %s", a, b, a, b)
		}
		if b.AddMS(a.SinceMS(b)) > a && a >= b || a.AddMS(7).SinceMS(a) != 7 {
			t.Fatalf("%d since %d is %d ms", a, b, a.SinceMS(b))
		}
	})
}

func TestZeroIsUnset(t *testing.T) {
	t.Parallel()
	var m moment.Time
	if !m.IsZero() || m.String() != "" || moment.Of(time.Time{}) != 0 {
		t.Error("the zero moment is not unset")
	}
	type holder struct {
		At moment.Time `json:"at,omitzero"`
	}
	if b, err := json.Marshal(holder{}); err != nil || string(b) != "{}" {
		t.Errorf("%s, %v", b, err)
	}
	var h holder
	if err := json.Unmarshal([]byte(`{"at":""}`), &h); err != nil || h.At != 0 {
		t.Errorf("%v, %v", h, err)
	}
}

func TestAnyRFC3339InstantIsRead(t *testing.T) {
	t.Parallel()
	want := moment.Of(time.Date(2026, 11, 30, 10, 0, 0, 250_000_000, time.UTC))
	for _, s := range []string{"2026-11-30T10:00:00.25Z", "2026-11-30T11:00:00.250000+01:00", "2026-11-30T10:00:00.250000999Z"} {
		var m moment.Time
		if err := m.UnmarshalText([]byte(s)); err != nil || m != want {
			t.Errorf("%s: %s, %v", s, m, err)
		}
	}
	for _, s := range []string{"yesterday", "2026-11-30", "1764496800", "2026-11-30 10:00:00Z"} {
		var m moment.Time
		if err := m.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q is read as %s", s, m)
		}
	}
	if got := moment.Of(time.Date(2026, 11, 30, 11, 0, 0, 0, time.FixedZone("", 3600))).String(); got != "2026-11-30T10:00:00.000000Z" {
		t.Error(got)
	}
}
