package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

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

const selectGoal = "SELECT " + goalColumns + " FROM @goals WHERE goal = $1"

// putGoalSQL writes a row, with its place among the goals to claim; onConflict
// says what becomes of a row that is there.
func putGoalSQL(onConflict string) string {
	columns := strings.Split(goalColumns+", ready, due", ",")
	values, set := make([]string, len(columns)), make([]string, 0, len(columns))
	for i, c := range columns {
		c = strings.TrimSpace(c)
		if values[i] = fmt.Sprintf("$%d", i+1); c != "goal" {
			set = append(set, c+" = excluded."+c)
		}
	}
	return "INSERT INTO @goals (" + goalColumns + ", ready, due) VALUES (" + strings.Join(values, ",") + ") ON CONFLICT (goal) DO " +
		strings.ReplaceAll(onConflict, "{set}", strings.Join(set, ", "))
}

var (
	upsertGoal = putGoalSQL("UPDATE SET {set}")
	insertGoal = putGoalSQL("NOTHING")
)

// putGoal writes a row under its lock. A sleeping goal is put among the ready
// ones by the claim that finds it awake.
func putGoal(r ledger.Row) step { return step{sql: upsertGoal, args: goalValues(r)} }

func goalValues(r ledger.Row) []any {
	return []any{r.Goal, text(r.Title), text(r.Repo), text(r.Status), text(r.WaitReason), text(r.PauseReason), r.Version, int64(r.Fence), r.Priority, r.Runnable,
		int64(r.WakeAt), int64(r.Head), int64(r.Created), int64(r.Updated), text(r.How), r.Steps, r.Tokens, r.CostMicros, text(r.Parent), r.LeaseOwner, int64(r.LeaseUntil),
		r.Runnable, int64(r.Updated)}
}

func notFound(goal string) error { return fmt.Errorf("goal %s: %w", goal, ledger.ErrNotFound) }

// Goal implements ledger.Ledger.
func (l *Ledger) Goal(ctx context.Context, goal string) (ledger.Row, error) {
	var r ledger.Row
	found, err := l.queryRow(ctx, "read goal "+goal, selectGoal, []any{goal}, goalFields(&r)...)
	if err == nil && !found {
		return ledger.Row{}, notFound(goal)
	}
	return r, err
}

// queryRow scans the one row of a query; found is false when there is none, or
// when the key that is asked for is none that a row could have.
func (l *Ledger) queryRow(ctx context.Context, op, sql string, args []any, dest ...any) (found bool, err error) {
	for _, a := range args {
		if s, ok := a.(string); ok && !storable(s) {
			return false, nil
		}
	}
	err = l.read(ctx, op, func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, l.q(sql), args...).Scan(dest...)
		if found = err == nil; err == pgx.ErrNoRows {
			return nil
		}
		return err
	})
	return found && err == nil, err
}

// Goals implements ledger.Ledger.
func (l *Ledger) Goals(ctx context.Context, f ledger.Filter) ([]ledger.Row, error) {
	where, args := []string{"true"}, []any{}
	arg := func(cond string, v any) {
		args = append(args, v)
		where = append(where, fmt.Sprintf(cond, len(args)))
	}
	if f.Prefix != "" {
		if !storable(f.Prefix) {
			return nil, nil
		}
		arg("starts_with(goal, $%d)", f.Prefix)
	}
	if f.Repo != "" {
		arg("repo = $%d", text(f.Repo))
	}
	if f.Parent != "" {
		arg("parent = $%d AND parent <> ''", text(f.Parent))
	}
	if len(f.Status) > 0 {
		statuses := make([]string, len(f.Status))
		for i, s := range f.Status {
			statuses[i] = text(s)
		}
		arg("status = ANY($%d)", statuses)
	}
	if f.Leased {
		where = append(where, "lease_owner <> ''")
	}
	limit := ""
	if f.Limit > 0 {
		limit = fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	var out []ledger.Row
	err := l.read(ctx, "list goals", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, l.q("SELECT "+goalColumns+" FROM @goals WHERE "+strings.Join(where, " AND ")+" ORDER BY created DESC, goal DESC"+limit), args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r ledger.Row, err error) {
			err = row.Scan(goalFields(&r)...)
			return r, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Rebuild implements ledger.Ledger.
func (l *Ledger) Rebuild(ctx context.Context, row ledger.Row) error {
	if !storable(row.Goal) {
		return notFound(row.Goal)
	}
	return l.write(ctx, "rebuild goal "+row.Goal, durable, func(ctx context.Context, t *tx) error {
		var old *ledger.Row
		var tail rules.Tail
		var first, now moment.Time
		var fence uint64
		err := t.lock(ctx, row.Goal, &old, step{sql: selectTail, args: []any{row.Goal}, dest: []any{&tail.Seq, &tail.Hash, &tail.Time}, found: new(bool)},
			step{sql: "SELECT coalesce(min(time), 0), coalesce(max(fence), 0) FROM @events WHERE goal = $1", args: []any{row.Goal}, dest: []any{&first, &fence}},
			step{sql: selectClock, dest: []any{&now}})
		if err != nil {
			return err
		}
		if tail.Seq == 0 {
			return refuse(fmt.Errorf("goal %s has no events: %w", row.Goal, ledger.ErrNotFound))
		}
		restored := rules.Restore(row, old, first, tail, fence, now)
		if old != nil {
			return t.commit(ctx, putGoal(restored))
		}
		// A row that is lost cannot be locked. If another process writes it
		// first, and perhaps appends, what was read here is out of date.
		var written int64
		if err := t.run(ctx, step{sql: insertGoal, args: goalValues(restored), count: &written}); err != nil {
			return err
		}
		if written == 0 {
			return errRaced
		}
		return t.commit(ctx)
	})
}

// Streams implements ledger.Ledger. The query hops from goal to goal over the
// index, whatever their length.
func (l *Ledger) Streams(ctx context.Context) ([]string, error) {
	var out []string
	err := l.read(ctx, "list streams", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, l.q(`WITH RECURSIVE hop AS (
			(SELECT goal FROM @events ORDER BY goal LIMIT 1)
			UNION ALL
			SELECT (SELECT e.goal FROM @events e WHERE e.goal > hop.goal ORDER BY e.goal LIMIT 1) FROM hop WHERE hop.goal IS NOT NULL)
			SELECT goal FROM hop WHERE goal IS NOT NULL ORDER BY goal`))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return out, err
}
