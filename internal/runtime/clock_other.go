//go:build !linux

package runtime

import "time"

var started = time.Now()

// uptime is a clock that only runs forward, at one speed.
func uptime() time.Duration { return time.Since(started) }
