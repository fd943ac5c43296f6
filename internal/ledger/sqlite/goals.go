package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"belay/internal/ledger"
	"belay/internal/ledger/rules"
	"belay/internal/moment"
)

const goalColumns = `goal, title, repo, status, wait_reason, pause_reason, version, fence, priority, runnable, wake_at,
	head, created, updated, how, steps, tokens, cost_micros, parent, lease_owner, lease_until`

func goalFields(r *ledger.Row) []any {
	return []any{&r.Goal, &r.Title, &r.Repo, &r.Status, &r.WaitReason, &r.PauseReason, &r.Version, &r.Fence, &r.Priority, &r.Runnable,
		&r.WakeAt, &r.Head, &r.Created, &r.Updated, &r.How, &r.Steps, &r.Tokens, &r.CostMicros, &r.Parent, &r.LeaseOwner, &r.LeaseUntil}
}

const selectGoal = "SELECT " + goalColumns + " FROM goals WHERE goal = ?"

// goal reads a row in a transaction, nil when there is none.
func (t *tx) goal(id string) (*ledger.Row, error) {
	var r ledger.Row
	found, err := t.row(selectGoal, []any{id}, goalFields(&r)...)
	if !found || err != nil {
		return nil, err
	}
	return &r, nil
}

// An upsert, not a replacement: that would write every index anew, also where
// nothing changed.
var putGoalQuery = func() string {
	columns := strings.Split(goalColumns+", ready, due", ",")
	set := make([]string, 0, len(columns))
	for i, c := range columns {
		c = strings.TrimSpace(c)
		if columns[i] = "?"; c != "goal" {
			set = append(set, c+" = excluded."+c)
		}
	}
	return "INSERT INTO goals (" + goalColumns + ", ready, due) VALUES (" + strings.Join(columns, ",") +
		") ON CONFLICT (goal) DO UPDATE SET " + strings.Join(set, ", ")
}()

// putGoal writes a row, and with it its place among the goals to claim. A
// sleeping goal is put among the ready ones by the claim that finds it awake.
func (t *tx) putGoal(r ledger.Row) error {
	return t.exec(putGoalQuery,
		r.Goal, r.Title, r.Repo, r.Status, r.WaitReason, r.PauseReason, r.Version, int64(r.Fence), r.Priority, r.Runnable, int64(r.WakeAt),
		int64(r.Head), int64(r.Created), int64(r.Updated), r.How, r.Steps, r.Tokens, r.CostMicros, r.Parent, r.LeaseOwner, int64(r.LeaseUntil),
		r.Runnable, int64(r.Updated))
}

// putLease writes what a claim changes and leaves the goal's place.
func (t *tx) putLease(r ledger.Row) error {
	return t.exec("UPDATE goals SET fence = ?, lease_owner = ?, lease_until = ? WHERE goal = ?",
		int64(r.Fence), r.LeaseOwner, int64(r.LeaseUntil), r.Goal)
}

func notFound(goal string) error { return fmt.Errorf("goal %s: %w", goal, ledger.ErrNotFound) }

// Goal implements ledger.Ledger.
func (l *Ledger) Goal(ctx context.Context, goal string) (ledger.Row, error) {
	var r ledger.Row
	found, err := l.queryRow(ctx, selectGoal, []any{goal}, goalFields(&r)...)
	if err == nil && !found {
		return r, notFound(goal)
	}
	return r, l.wrap("read goal "+goal, err)
}

// Goals implements ledger.Ledger.
func (l *Ledger) Goals(ctx context.Context, f ledger.Filter) ([]ledger.Row, error) {
	where, args := []string{"1"}, []any{}
	if f.Prefix != "" {
		// Not LIKE: it folds case and has wildcards.
		where, args = append(where, "substr(goal, 1, ?) = ?"), append(args, len([]rune(f.Prefix)), f.Prefix)
	}
	if f.Repo != "" {
		where, args = append(where, "repo = ?"), append(args, f.Repo)
	}
	if f.Parent != "" {
		where, args = append(where, "parent = ? AND parent <> ''"), append(args, f.Parent)
	}
	if len(f.Status) > 0 {
		where = append(where, "status IN (?"+strings.Repeat(",?", len(f.Status)-1)+")")
		for _, s := range f.Status {
			args = append(args, s)
		}
	}
	if f.Leased {
		where = append(where, "lease_owner <> ''")
	}
	limit := -1
	if f.Limit > 0 {
		limit = f.Limit
	}
	if l.isClosed() {
		return nil, ledger.ErrClosed
	}
	rows, err := l.readDB.QueryContext(ctx, "SELECT "+goalColumns+" FROM goals WHERE "+strings.Join(where, " AND ")+
		" ORDER BY created DESC, goal DESC LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, l.wrap("list goals", err)
	}
	defer rows.Close()
	var out []ledger.Row
	for rows.Next() {
		var r ledger.Row
		if err := rows.Scan(goalFields(&r)...); err != nil {
			return nil, l.wrap("list goals", err)
		}
		out = append(out, r)
	}
	return out, l.wrap("list goals", rows.Err())
}

// The goals that a search may find: those with no lease, or one that has ended
// or is its owner's who is dead. Parameters: now, evict, evict.
const isFree = "(lease_owner = '' OR lease_until <= ? OR (? <> '' AND lease_owner = ?))"

// Claim implements ledger.Ledger. A claim need not outlive a power failure:
// every holder on this machine ends with it.
func (l *Ledger) Claim(ctx context.Context, c ledger.Claim) (ledger.Ticket, error) {
	if err := rules.CheckClaim(c); err != nil {
		return ledger.Ticket{}, err
	}
	if c.Goal == "" {
		// Workers ask often and mostly in vain; that must not cost the others
		// the write lock.
		if any, err := l.anyReady(ctx, c); err != nil || !any {
			if err == nil {
				err = ledger.ErrNothing
			}
			return ledger.Ticket{}, err
		}
	}
	var ticket ledger.Ticket
	err := l.writer.write(ctx, false, func(t *tx) error {
		now := l.now()
		goal := c.Goal
		if goal == "" {
			var err error
			if goal, err = t.mostUrgent(c, now); err != nil {
				return err
			}
		}
		row, err := t.goal(goal)
		if err != nil {
			return err
		}
		if row == nil {
			return notFound(goal)
		}
		taken, tk, err := rules.Take(*row, c, now)
		if err != nil {
			return err
		}
		ticket = tk
		return t.putLease(taken)
	})
	if err != nil {
		return ledger.Ticket{}, err
	}
	return ticket, nil
}

func (l *Ledger) anyReady(ctx context.Context, c ledger.Claim) (bool, error) {
	now := int64(l.now())
	var one int
	found, err := l.queryRow(ctx, "SELECT 1 FROM goals WHERE ready = 1 AND "+isFree+
		" UNION ALL SELECT 1 FROM goals WHERE ready = 0 AND wake_at > 0 AND wake_at <= ? AND "+isFree+" LIMIT 1",
		[]any{now, c.Evict, c.Evict, now, now, c.Evict, c.Evict}, &one)
	return found, l.wrap("claim", err)
}

func (t *tx) mostUrgent(c ledger.Claim, now moment.Time) (string, error) {
	err := t.exec("UPDATE goals SET ready = 1, due = wake_at WHERE ready = 0 AND wake_at > 0 AND wake_at <= ?", int64(now))
	if err != nil {
		return "", err
	}
	var goal string
	found, err := t.row("SELECT goal FROM goals WHERE ready = 1 AND "+isFree+" ORDER BY priority DESC, due, goal LIMIT 1",
		[]any{int64(now), c.Evict, c.Evict}, &goal)
	if err == nil && !found {
		err = ledger.ErrNothing
	}
	return goal, err
}

// Renew implements ledger.Ledger.
func (l *Ledger) Renew(ctx context.Context, tk ledger.Ticket, lease time.Duration) (ledger.Ticket, error) {
	if err := rules.CheckLease(lease); err != nil {
		return ledger.Ticket{}, err
	}
	err := l.writer.write(ctx, false, func(t *tx) error {
		row, err := t.goal(tk.Goal)
		if err != nil {
			return err
		}
		if row == nil {
			return notFound(tk.Goal)
		}
		if err := rules.Ours(*row, tk); err != nil {
			return err
		}
		row.LeaseUntil = rules.Until(l.now(), lease)
		tk.Until = row.LeaseUntil
		return t.putLease(*row)
	})
	if err != nil {
		return ledger.Ticket{}, err
	}
	return tk, nil
}

// Release implements ledger.Ledger.
func (l *Ledger) Release(ctx context.Context, tk ledger.Ticket) error {
	return l.writer.write(ctx, false, func(t *tx) error {
		return t.exec("UPDATE goals SET lease_owner = '', lease_until = 0 WHERE goal = ? AND lease_owner = ?", tk.Goal, tk.Owner)
	})
}

// Rebuild implements ledger.Ledger.
func (l *Ledger) Rebuild(ctx context.Context, row ledger.Row) error {
	return l.writer.write(ctx, true, func(t *tx) error {
		tail, err := t.tail(row.Goal)
		if err != nil {
			return err
		}
		if tail.Seq == 0 {
			return fmt.Errorf("goal %s has no events: %w", row.Goal, ledger.ErrNotFound)
		}
		old, err := t.goal(row.Goal)
		if err != nil {
			return err
		}
		var first moment.Time
		var fence uint64
		if _, err := t.row("SELECT min(time), max(fence) FROM events WHERE goal = ?", []any{row.Goal}, &first, &fence); err != nil {
			return err
		}
		return t.putGoal(rules.Restore(row, old, first, tail, fence, l.now()))
	})
}

// Streams implements ledger.Ledger. The query hops from goal to goal over the
// index, whatever their length.
func (l *Ledger) Streams(ctx context.Context) ([]string, error) {
	rows, err := l.query(ctx, `WITH RECURSIVE hop (goal) AS (
		SELECT min(goal) FROM events
		UNION ALL
		SELECT (SELECT min(goal) FROM events WHERE events.goal > hop.goal) FROM hop WHERE hop.goal IS NOT NULL)
		SELECT goal FROM hop WHERE goal IS NOT NULL ORDER BY goal`)
	if err != nil {
		return nil, l.wrap("list streams", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s sql.NullString
		if err := rows.Scan(&s); err != nil {
			return nil, l.wrap("list streams", err)
		}
		out = append(out, s.String)
	}
	return out, l.wrap("list streams", rows.Err())
}
