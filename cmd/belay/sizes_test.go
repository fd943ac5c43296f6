package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/cli"
	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/postgres/pgtest"
	"belay/internal/service"
)

// envSizes asks for the full size of the size tests (make sizes).
const envSizes = "BELAY_SIZES"

// TestManyWorkersAndGoalsOnOnePostgreSQL: workers of many processes share out
// many goals; some processes are killed on the way. Read off the ledger: no
// event is lost, no goal was ever with two workers, every goal completed once.
func TestManyWorkersAndGoalsOnOnePostgreSQL(t *testing.T) {
	t.Parallel()
	processes, parallel, goals, kills := 4, 2, 60, 3
	limit := patience
	if os.Getenv(envSizes) != "" {
		processes, parallel, goals, kills, limit = 16, 4, 1000, 24, 20*time.Minute
	}
	w := newWorld(t, nil)
	server := pgtest.Start(t, pgtest.Options{Fsync: true, Settings: []string{"max_connections=300"}})
	w.env = append(w.env, envDB+"="+server.DSN())
	s, done, err := open(context.Background(), cli.OpenOptions{State: filepath.Join(w.dir, "state"), DB: server.DSN()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = done() })
	w.put(filepath.Join(w.dir, "model.yaml"), "steps:\n  - {calls: [{tool: read_file, args: {path: code.txt}}]}\n"+
		"  - {calls: [{tool: file_patch, args: {path: code.txt, old_string: broken, new_string: fixed}}]}\n  - {text: done}\n")
	began := time.Now()
	for i := range goals {
		repo := filepath.Join(w.dir, fmt.Sprintf("repo%d", i))
		w.put(filepath.Join(repo, "code.txt"), "broken\n")
		if _, err := s.Start(context.Background(), service.StartRequest{Repo: repo, Spec: event.GoalSpec{Text: "repair"},
			Settings: event.Settings{Model: "script:" + filepath.Join(w.dir, "model.yaml"), Plan: event.PlanNever, Approve: event.ApproveAuto,
				AcceptUnverified: true, Sandbox: "none"}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d goals recorded in %s", goals, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	var workers []*process
	for range processes {
		workers = append(workers, w.worker("--parallel", fmt.Sprint(parallel)))
	}
	killed := 0
	for late := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		rows, err := s.Ledger.Goals(context.Background(), ledger.Filter{Status: []string{string(lifecycle.Completed)}})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == goals {
			break
		}
		if len(rows) > goals*(killed+1)/(kills+1) {
			i := killed % processes
			workers[i].kill()
			workers[i].wait()
			workers[i] = w.worker("--parallel", fmt.Sprint(parallel))
			killed++
		}
		if time.Now().After(late) {
			t.Fatalf("%d of %d goals are completed", len(rows), goals)
		}
	}
	took := time.Since(began)
	for _, p := range workers {
		p.kill()
		p.wait()
	}
	var h history
	rows, err := s.Ledger.Goals(context.Background(), ledger.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		h.check(t, s.Ledger, r)
		if got, err := os.ReadFile(filepath.Join(r.Repo, "code.txt")); err != nil || string(got) != "fixed\n" {
			t.Errorf("goal %s left %q, %v", r.Goal, got, err)
		}
	}
	if len(rows) != goals || killed < kills {
		t.Errorf("%d goals, %d kills", len(rows), killed)
	}
	t.Logf("%d workers in %d processes, %d goals, %d kills -9: %s, %.1f goals/s; %d events, %d turns by %d workers, %d take-overs, %d responses",
		processes*parallel, processes, goals, killed, took.Round(time.Millisecond), float64(goals)/took.Seconds(), h.events, h.turns, len(h.workers), h.takeovers, h.responses)
}

// history is what the ledger says of who held what, over many goals.
type history struct {
	events, turns, takeovers, responses int
	workers                             map[string]string // worker to goal
}

// check reads one goal's stream as a history of claims. A claim shows as a
// turn_started; while a turn is open, no other worker may act on the goal but to
// record, late, what it had begun.
func (h *history) check(t *testing.T, l ledger.Ledger, row ledger.Row) {
	t.Helper()
	if h.workers == nil {
		h.workers = map[string]string{}
	}
	a, err := l.Audit(context.Background(), row.Goal)
	if err != nil || a.Broken != nil {
		t.Errorf("goal %s: %+v %v", row.Goal, a.Broken, err)
	}
	es, err := l.Read(context.Background(), row.Goal, 0, 0)
	if err != nil || uint64(len(es)) != row.Head || a.Events != row.Head {
		t.Errorf("goal %s: %d events read, %d audited, head %d: %v", row.Goal, len(es), a.Events, row.Head, err)
	}
	if s := core.Fold(core.State{}, es); s.Refuse != "" || s.Status != lifecycle.Completed || s.Turn != nil || len(s.InDoubt) != 0 {
		t.Errorf("goal %s folds to %s: %s", row.Goal, s.Status, s.Refuse)
	}
	holder, fence, turn, completed := "", uint64(0), uint64(0), 0
	for i, e := range es {
		if e.Seq != uint64(i+1) || e.Fence < fence {
			t.Errorf("goal %s: event %d has seq %d and fence %d after %d", row.Goal, i+1, e.Seq, e.Fence, fence)
		}
		switch p := e.Payload.(type) {
		case event.TurnStarted:
			if holder != "" {
				t.Errorf("goal %s: %s got it at %d while %s had it", row.Goal, p.Worker, e.Seq, holder)
			}
			if of, used := h.workers[p.Worker]; used && of != row.Goal {
				t.Errorf("worker %s had %s and %s: a name is for one claim", p.Worker, of, row.Goal)
			}
			if p.Takeover {
				h.takeovers++
				if e.Fence <= turn {
					t.Errorf("goal %s: the take-over at %d did not raise the fence %d", row.Goal, e.Seq, turn)
				}
			}
			turn = e.Fence
			h.workers[p.Worker], holder = row.Goal, p.Worker
			h.turns++
		case event.TurnEnded:
			holder = ""
		case event.ModelResponded:
			h.responses++
		case event.GoalCompleted:
			completed++
		}
		if by, ok := strings.CutPrefix(string(e.Actor), "worker:"); ok && holder != "" && by != holder {
			f, late := e.Payload.(event.OperationFinished)
			if _, settled := e.Payload.(event.OperationReconciled); !settled && !(late && f.Late) {
				t.Errorf("goal %s: %s recorded %s at %d while %s had it", row.Goal, by, e.Type, e.Seq, holder)
			}
		}
		fence = e.Fence
	}
	if completed != 1 {
		t.Errorf("goal %s completed %d times", row.Goal, completed)
	}
	h.events += len(es)
}
