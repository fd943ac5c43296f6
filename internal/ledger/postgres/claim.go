package postgres

import (
	"context"
	"time"

	"belay/internal/ledger"
	"belay/internal/ledger/rules"
	"belay/internal/moment"
)

const (
	// isFree is true for goals with no lease, or one that has ended or is its
	// owner's who is dead ($1). The clock stands in a subquery so that it is
	// read once, and may bound an index.
	isFree   = "(lease_owner = '' OR lease_until <= (SELECT @store_clock()) OR ($1::text <> '' AND lease_owner = $1))"
	isAwake  = "NOT ready AND wake_at > 0 AND wake_at <= (SELECT @store_clock())"
	byUrgent = " ORDER BY priority DESC, due, goal LIMIT 1"

	anyReady = "SELECT goal FROM (SELECT goal FROM @goals WHERE ready AND " + isFree + byUrgent + ") ready" +
		" UNION ALL SELECT goal FROM (SELECT goal FROM @goals WHERE " + isAwake + " AND " + isFree + " LIMIT 1) awake LIMIT 1"
	wakeUp = "UPDATE @goals SET ready = true, due = wake_at WHERE goal IN (SELECT goal FROM @goals WHERE " + isAwake + " FOR UPDATE SKIP LOCKED)"

	lockUrgent = "SELECT " + goalColumns + " FROM @goals WHERE ready AND " + isFree + byUrgent + " FOR UPDATE SKIP LOCKED"
	lockReady  = "SELECT " + goalColumns + " FROM @goals WHERE goal = $2 AND (ready OR " + isAwake + ") AND " + isFree + " FOR UPDATE"
)

// Claim implements ledger.Ledger. Claims are durable: on this store a holder
// outlives the server, and a server that forgot who holds a goal would give it
// away twice under one fence.
func (l *Ledger) Claim(ctx context.Context, c ledger.Claim) (ledger.Ticket, error) {
	if err := rules.CheckClaim(c); err != nil {
		return ledger.Ticket{}, err
	}
	if c.Goal != "" {
		if !storable(c.Goal) {
			return ledger.Ticket{}, notFound(c.Goal)
		}
		t, found, err := l.take(ctx, c, step{sql: lockGoal, args: []any{c.Goal}})
		if err == nil && !found {
			err = notFound(c.Goal)
		}
		return t, err
	}
	for {
		// Workers ask often and mostly in vain; a plain look costs the server
		// neither a transaction id nor a lock.
		var goal string
		found, err := l.queryRow(ctx, "claim", anyReady, []any{c.Evict}, &goal)
		if err == nil && !found {
			err = ledger.ErrNothing
		}
		if err != nil {
			return ledger.Ticket{}, err
		}
		t, found, err := l.take(ctx, c, step{sql: lockUrgent, args: []any{c.Evict}})
		if found || err != nil {
			return t, err
		}
		// Every free goal is locked for the moment by someone's append or
		// claim. "Nothing to claim" would be wrong: wait for one of them.
		t, found, err = l.take(ctx, c, step{sql: lockReady, args: []any{c.Evict, goal}})
		if found || err != nil {
			return t, err
		}
	}
}

// take locks a row with a statement and applies the claim to it; found is
// false when the statement finds none.
func (l *Ledger) take(ctx context.Context, c ledger.Claim, locked step) (ticket ledger.Ticket, found bool, err error) {
	// sent is what an earlier try may have committed.
	var sent ledger.Ticket
	err = l.write(ctx, "claim "+c.Goal, durable, func(ctx context.Context, t *tx) error {
		var row ledger.Row
		var now moment.Time
		if t.doubt {
			var old *ledger.Row
			if err := t.lock(ctx, sent.Goal, &old); err != nil {
				return err
			}
			if old != nil && old.LeaseOwner == sent.Owner && old.LeaseUntil == sent.Until && old.Fence >= sent.Fence {
				ticket, found = sent, true
				return nil
			}
		}
		locked.dest, locked.found = goalFields(&row), &found
		steps := []step{locked, {sql: selectClock, dest: []any{&now}}}
		if c.Goal == "" {
			steps = append([]step{{sql: wakeUp}}, steps...)
		}
		if err := t.run(ctx, steps...); err != nil || !found {
			return err
		}
		taken, tk, err := rules.Take(row, c, now)
		if err != nil {
			return refuse(err)
		}
		ticket, sent = tk, tk
		return t.commit(ctx, putLease(taken))
	})
	return ticket, found && err == nil, err
}

// putLease writes what a claim changes and leaves the goal's place.
func putLease(r ledger.Row) step {
	return step{sql: "UPDATE @goals SET fence = $2, lease_owner = $3, lease_until = $4 WHERE goal = $1",
		args: []any{r.Goal, int64(r.Fence), r.LeaseOwner, int64(r.LeaseUntil)}}
}

// Renew implements ledger.Ledger. It is durable for the same reason as Claim.
func (l *Ledger) Renew(ctx context.Context, tk ledger.Ticket, lease time.Duration) (ledger.Ticket, error) {
	if err := rules.CheckLease(lease); err != nil {
		return ledger.Ticket{}, err
	}
	if !storable(tk.Goal) {
		return ledger.Ticket{}, notFound(tk.Goal)
	}
	err := l.write(ctx, "renew the lease of goal "+tk.Goal, durable, func(ctx context.Context, t *tx) error {
		var row *ledger.Row
		var now moment.Time
		if err := t.lock(ctx, tk.Goal, &row, step{sql: selectClock, dest: []any{&now}}); err != nil {
			return err
		}
		if row == nil {
			return refuse(notFound(tk.Goal))
		}
		if err := rules.Ours(*row, tk); err != nil {
			return refuse(err)
		}
		row.LeaseUntil = rules.Until(now, lease)
		tk.Until = row.LeaseUntil
		return t.commit(ctx, putLease(*row))
	})
	if err != nil {
		return ledger.Ticket{}, err
	}
	return tk, nil
}

// Release implements ledger.Ledger. A release that the server's machine loses
// leaves a lease that ends by itself.
func (l *Ledger) Release(ctx context.Context, tk ledger.Ticket) error {
	if !storable(tk.Goal) || !storable(tk.Owner) {
		return nil
	}
	var freed int64
	err := l.write(ctx, "release goal "+tk.Goal, fleeting, func(ctx context.Context, t *tx) error {
		return t.commit(ctx, step{sql: "UPDATE @goals SET lease_owner = '', lease_until = 0 WHERE goal = $1 AND lease_owner = $2 AND lease_owner <> ''",
			args: []any{tk.Goal, tk.Owner}, count: &freed})
	})
	if err == nil && freed > 0 {
		l.hub.wake()
		l.sender.send(tk.Goal, true)
	}
	return err
}
