// Package moment holds instants as plain values.
//
// The core decides with values alone and may not read a clock, so it does not
// import package time at all. A moment.Time arrives with every input and in
// every event; this package formats and compares it and nothing else. Nothing
// here may ever call time.Now.
package moment

import (
	"fmt"
	"time"
)

// Time is an instant in microseconds since the Unix epoch, UTC. Zero means
// "not set".
type Time int64

// Of converts a wall-clock reading taken by the shell.
func Of(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMicro())
}

// Std converts back for timers and formatting in the shell.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// AddMS returns the instant ms milliseconds later.
func (t Time) AddMS(ms int64) Time { return t + Time(ms*1000) }

// SinceMS returns how many whole milliseconds t lies after u (negative when
// it lies before).
func (t Time) SinceMS(u Time) int64 { return int64(t-u) / 1000 }

// IsZero reports whether the instant is unset.
func (t Time) IsZero() bool { return t == 0 }

const layout = "2006-01-02T15:04:05.000000Z"

// String formats the instant as RFC 3339 with microseconds, or "" when unset.
func (t Time) String() string {
	if t == 0 {
		return ""
	}
	return t.Std().Format(layout)
}

// MarshalText writes the RFC 3339 form, fixed width so that text order is
// time order.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote, or any RFC 3339 instant.
func (t *Time) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = 0
		return nil
	}
	p, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("moment: %q is not an RFC 3339 instant: %w", b, err)
	}
	*t = Of(p)
	return nil
}
