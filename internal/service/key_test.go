package service

import (
	"testing"
	"time"

	"belay/internal/moment"
)

func TestHowFarBackAKeyIsLookedFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	day := now.Add(-keyLife)
	for _, c := range []struct {
		name        string
		since, want time.Time
	}{
		{"a key that does not tell", time.Time{}, day},
		{"one made just now", now, now.Add(-clockSkew)},
		{"one made an hour ago", now.Add(-time.Hour), now.Add(-time.Hour - clockSkew)},
		{"one by a clock a little ahead", now.Add(10 * time.Minute), now.Add(10*time.Minute - clockSkew)},
		{"one by a clock that cannot be right", now.Add(time.Hour), day},
		{"one older than keys live", now.Add(-48 * time.Hour), day},
	} {
		if got := (&Key{Since: c.since}).oldest(now); got != moment.Of(c.want) {
			t.Errorf("%s: back to %s, want %s", c.name, got, moment.Of(c.want))
		}
	}
}
