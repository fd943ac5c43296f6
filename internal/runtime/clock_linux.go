package runtime

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime is a clock that only runs forward, at one speed, also while the
// machine sleeps: a lease runs out there as well.
func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(started)
	}
	return time.Duration(ts.Nano())
}

var started = time.Now()
