package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"belay/internal/cli"
	"belay/internal/core"
	"belay/internal/event"
)

// TestAWaitingGoalIsClaimedByEventAndNotByPoll: a worker on PostgreSQL that
// looks for goals once an hour takes a new one, and goes on after a question and
// after an approval, as soon as other processes have said so; also when the
// connection on which it hears of that was cut in between.
func TestAWaitingGoalIsClaimedByEventAndNotByPoll(t *testing.T) {
	t.Parallel()
	w, server := onPostgres(t, toy())
	ctx, stop := context.WithCancel(context.Background())
	s, done, err := open(ctx, cli.OpenOptions{State: filepath.Join(w.dir, "state"), DB: server.DSN()})
	if err != nil {
		t.Fatal(err)
	}
	s.Poll = time.Hour
	ended := make(chan error, 1)
	go func() { ended <- s.Work(ctx, 2, func(goal string, err error) { t.Logf("%s: %v", goal, err) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	})
	model := w.script("steps:\n" + stepRead + stepCall("ask_user", map[string]any{"question": "Which name?"}) + stepFix + stepTest + stepDone)
	goal := goalLine(w.must(0, "run", "repair code.txt", "--model", model, "--test", "sh check.sh", "--plan", "never", "--queue"))
	w.told(goal, "the question", func(s core.Snapshot) bool { return s.WaitReason == event.WaitUserInput && s.Turn == "" })
	w.must(0, "say", goal, "call it x")
	w.told(goal, "the question about the edit", func(s core.Snapshot) bool { return len(s.PendingApprovals) == 1 && s.Turn == "" })
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var cut int
	if err := conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").Scan(&cut); err != nil || cut == 0 {
		t.Fatalf("%d listening connections were cut: %v", cut, err)
	}
	w.must(0, "approve", goal)
	w.told(goal, "the end, or the question about the tests", func(s core.Snapshot) bool {
		if len(s.PendingApprovals) == 1 && s.Turn == "" {
			w.must(0, "approve", goal)
		}
		return s.Status == "completed"
	})
}
