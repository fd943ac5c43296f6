package rules

import (
	"errors"
	"fmt"
	"time"

	"belay/internal/ledger"
	"belay/internal/moment"
)

// CheckClaim refuses a claim that could not be held or told apart.
func CheckClaim(c ledger.Claim) error {
	if c.Owner == "" || c.Owner == ledger.RebuiltOwner {
		return errors.New("ledger: a claim needs an owner")
	}
	return CheckLease(c.Lease)
}

// CheckLease refuses a lease that would be over before it began.
func CheckLease(d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("ledger: a lease of %v is too short; the least is 1ms", d)
	}
	return nil
}

// Until is the end of a lease that begins now.
func Until(now moment.Time, lease time.Duration) moment.Time {
	return now + moment.Time(lease.Microseconds())
}

// Take applies a claim to one goal's row and returns the row and the ticket,
// or ErrHeld. Taking the goal from an owner whose lease has ended, or who is
// known to be dead, raises the fence by one: whatever that owner still does is
// refused.
func Take(row ledger.Row, c ledger.Claim, now moment.Time) (ledger.Row, ledger.Ticket, error) {
	t := ledger.Ticket{Goal: row.Goal, Owner: c.Owner, Until: Until(now, c.Lease)}
	switch {
	case row.LeaseOwner == "":
	case row.LeaseOwner == c.Owner && c.Goal != "":
	case Held(row, c, now):
		return row, ledger.Ticket{}, fmt.Errorf("goal %s: worker %s until %s: %w", row.Goal, row.LeaseOwner, row.LeaseUntil, ledger.ErrHeld)
	default:
		t.Takeover, t.Previous = true, row.LeaseOwner
		row.Fence++
	}
	t.Fence = row.Fence
	row.LeaseOwner, row.LeaseUntil = c.Owner, t.Until
	return row, t, nil
}

// Held reports whether a live lease keeps the search for the most urgent goal
// away from this one.
func Held(row ledger.Row, c ledger.Claim, now moment.Time) bool {
	return row.LeaseOwner != "" && row.LeaseUntil > now && (c.Evict == "" || row.LeaseOwner != c.Evict)
}

// Ready reports whether the goal may be advanced now, and since when: that is
// the order among goals of one priority.
func Ready(row ledger.Row, now moment.Time) (due moment.Time, ready bool) {
	if row.Runnable {
		return row.Updated, true
	}
	return row.WakeAt, !row.WakeAt.IsZero() && row.WakeAt <= now
}

// Ours reports whether a ticket still is the right to advance the goal.
func Ours(row ledger.Row, t ledger.Ticket) error {
	switch {
	case row.LeaseOwner != t.Owner:
		return fmt.Errorf("goal %s is with worker %q now: %w", t.Goal, row.LeaseOwner, ledger.ErrFenced)
	case row.Fence != t.Fence:
		return fmt.Errorf("goal %s has fence %d, the ticket has %d: %w", t.Goal, row.Fence, t.Fence, ledger.ErrFenced)
	}
	return nil
}
