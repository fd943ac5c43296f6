package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belay/internal/cli"
	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/sqlite"
	"belay/internal/moment"
	"belay/internal/runtime"
	"belay/internal/service"
	"belay/internal/workspace/local"
)

// BenchmarkTakeOver is the time from the death of a worker, by kill -9 and with
// the default lease, to the first turn of a worker that runs already: of one
// that died on the same machine, and of one on another machine, which nobody
// here can know to be dead.
func BenchmarkTakeOver(b *testing.B) {
	for _, where := range []string{"same-machine", "other-machine"} {
		b.Run(where, func(b *testing.B) {
			var total time.Duration
			for range b.N {
				w := newWorld(b, toy())
				goal := w.queue(w.script("steps:\n  - {text: late, delay_ms: 600000}\n"))
				var began time.Time
				if where == "same-machine" {
					first := w.worker()
					w.told(goal, "a request", func(s core.Snapshot) bool { return s.Turn != "" })
					second := w.worker()
					second.settled()
					began = time.Now()
					first.kill()
				} else {
					s, done, err := open(context.Background(), cli.OpenOptions{State: filepath.Join(w.dir, "state")})
					if err != nil {
						b.Fatal(err)
					}
					if _, err := s.Ledger.Claim(context.Background(), ledger.Claim{Goal: goal, Owner: "elsewhere/boot/1/1/1", Lease: runtime.DefaultLease}); err != nil {
						b.Fatal(err)
					}
					if err := done(); err != nil {
						b.Fatal(err)
					}
					began = time.Now()
					w.worker()
				}
				w.told(goal, "a take-over", func(core.Snapshot) bool {
					ts := of[event.TurnStarted](b, w.eventsOf(goal))
					return len(ts) > 0 && ts[len(ts)-1].Takeover
				})
				total += time.Since(began)
			}
			b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/take-over")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// settled waits until a worker says that it works.
func (p *process) settled() {
	waitFor(p.w.t, "the worker", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		return err == nil
	})
}

// BenchmarkResume is the time from nothing in memory to the next model request
// of a goal with 20,000 events and 100 MB of artifacts.
func BenchmarkResume(b *testing.B) {
	dir := b.TempDir()
	repo := filepath.Join(dir, "repo")
	for i := range 200 {
		write(b, filepath.Join(repo, fmt.Sprintf("d%d/f%d.txt", i%10, i)), strings.Repeat("text\n", 200))
	}
	write(b, filepath.Join(dir, "model.yaml"), "steps:\n  - {text: late, delay_ms: 600000}\nthen: {text: late, delay_ms: 600000}\n")
	goal := heavyGoal(b, dir, repo, 20_000, 100<<20)
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		s, done, err := open(context.Background(), cli.OpenOptions{State: filepath.Join(dir, "state")})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		snap, err := s.Snapshot(ctx, goal)
		if err != nil {
			b.Fatal(err)
		}
		var once sync.Once
		_, err = s.Attend(ctx, goal, service.AttendOptions{After: snap.Head, OnEvent: func(e event.Event) {
			if e.Type == event.TypeModelRequested {
				once.Do(func() { took = append(took, time.Since(began)); stop() })
			}
		}})
		if ctx.Err() == nil {
			b.Fatal("it came to rest: ", err)
		}
		if err := done(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/resume-median")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/resume-max")
	b.ReportMetric(0, "ns/op")
}

// heavyGoal writes a goal through the core: commands with long output, and the
// conversation compacted now and then, as a driver would.
func heavyGoal(b *testing.B, dir, repo string, events int, artifacts int64) string {
	ctx := context.Background()
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		b.Fatal(err)
	}
	l, err := sqlite.Open(ctx, state, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	ws, err := local.Open(ctx, repo, local.Options{State: filepath.Join(state, "workspaces")})
	if err != nil {
		b.Fatal(err)
	}
	tree, err := ws.Observe(ctx)
	if err != nil {
		b.Fatal(err)
	}
	ws.Close()
	const goal = "heavygoal"
	var s core.State
	rng := rand.New(rand.NewPCG(1, 2))
	chunk := make([]byte, artifacts/int64(events/7))
	step := func(body core.Body) {
		by := event.Worker("w")
		in := core.Input{Now: moment.Of(time.Now()), By: by, Fence: 1, Body: body}
		if _, start := body.(core.Start); start {
			in.By, in.Fence = event.ActorUser, 0
		}
		for i := range in.Seed {
			in.Seed[i] = byte(rng.Uint32())
		}
		r, err := core.Step(s, in)
		if err != nil {
			b.Fatal(err)
		}
		es, err := l.Append(ctx, ledger.Append{Goal: goal, Head: s.Head, Fence: s.Fence, Events: r.Events, Row: core.Row(r.State)})
		if err != nil {
			b.Fatal(err)
		}
		s = core.Fold(s, es)
	}
	step(core.Start{Goal: goal, Repo: repo, Spec: event.GoalSpec{Text: "heavy"},
		Settings: event.Settings{Model: "script:" + filepath.Join(dir, "model.yaml"), Plan: event.PlanNever, Approve: event.ApproveAuto, Sandbox: "none", StepsPerTurn: 1 << 40}})
	step(core.Claimed{Worker: "w"})
	step(core.Attached{Workspace: event.WorkspaceAttached{Root: repo, Tree: tree, Sandbox: "none"}})
	for i := 0; int(s.Head) < events; i++ {
		if i%200 == 199 {
			step(core.Composed{Head: s.Mark, Tokens: 900, Window: 1000}) // compacts
		}
		step(core.Composed{Head: s.Mark, Tokens: 10})
		args := json.RawMessage(fmt.Sprintf(`{"path":"d%d/f%d.txt"}`, i%10, i%200))
		step(core.Replied{Request: s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: fmt.Sprint("c", i), Tool: "read_file", Arguments: string(args)}}},
			Proposals: []core.Proposal{{CallID: fmt.Sprint("c", i), Tool: "read_file", Effect: event.Read, Args: args, Access: event.Access{Reads: []string{"d"}}}}})
		for j := range chunk {
			chunk[j] = byte(rng.Uint32())
		}
		ref, err := l.PutArtifact(ctx, strings.NewReader(string(chunk)), "application/octet-stream")
		if err != nil {
			b.Fatal(err)
		}
		step(core.Ended{Op: s.Open[0].ID, Attempt: 1, Outcome: event.Succeeded, Result: event.Result{
			Output: event.Text{Head: fmt.Sprintf("text %d\n", i) + strings.Repeat("line of output\n", 40), Whole: ref, Cut: true}}})
	}
	step(core.Released{Detail: "the setup ends"})
	runtime.Cache(ctx, l, s)
	return goal
}

// commits counts the commits that wait for the disk.
type commits struct {
	ledger.Ledger
	mu   sync.Mutex
	list []ledger.Append
}

func (c *commits) Append(ctx context.Context, a ledger.Append) ([]event.Event, error) {
	c.mu.Lock()
	c.list = append(c.list, a)
	c.mu.Unlock()
	return c.Ledger.Append(ctx, a)
}

// TestDurableCommitsPerStep holds the durability budget: of a step that only
// reads one commit waits for the disk, of one with a side effect two. A step
// goes from one announced request to the next.
func TestDurableCommitsPerStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call string
		most int
	}{
		"read":    {"{tool: read_file, args: {path: a.txt}}", 1},
		"reads":   {"{tool: read_file, args: {path: a.txt}}, {tool: list_files, args: {}}, {tool: search_text, args: {pattern: hello}}", 1},
		"command": {`{tool: run_command, args: {command: "true"}}`, 2},
		"write":   {`{tool: write_file, args: {path: "b.txt", content: "x\n"}}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			repo := filepath.Join(dir, "repo")
			write(t, filepath.Join(repo, "a.txt"), "hello\n")
			steps := "steps:\n"
			for i := range 6 {
				steps += "  - {calls: [" + strings.ReplaceAll(strings.ReplaceAll(c.call, "b.txt", fmt.Sprintf("b%d.txt", i)), `"true"`, fmt.Sprintf(`"true %d"`, i)) + "]}\n"
			}
			write(t, filepath.Join(dir, "model.yaml"), steps+"  - {text: done}\n")
			s, done, err := open(context.Background(), cli.OpenOptions{State: filepath.Join(dir, "state"), DB: "sqlite"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = done() }()
			count := &commits{Ledger: s.Ledger}
			s.Ledger = count
			goal, err := s.Start(context.Background(), service.StartRequest{Repo: repo, Spec: event.GoalSpec{Text: "measure"},
				Settings: event.Settings{Model: "script:" + filepath.Join(dir, "model.yaml"), Plan: event.PlanNever, Approve: event.ApproveAuto, AcceptUnverified: true, Sandbox: "none"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Attend(context.Background(), goal.Goal, service.AttendOptions{}); err != nil {
				t.Fatal(err)
			}
			var perStep []int
			for _, a := range count.list {
				if slices.ContainsFunc(a.Events, func(e event.Event) bool { return e.Type == event.TypeModelRequested }) {
					perStep = append(perStep, 0)
				}
				if len(perStep) > 0 && a.Durable {
					perStep[len(perStep)-1]++
				}
			}
			if len(perStep) != 7 {
				t.Fatalf("%d steps", len(perStep))
			}
			for i, n := range perStep[:6] {
				if n > c.most {
					t.Errorf("step %d: %d durable commits, the budget is %d", i+1, n, c.most)
				}
			}
			t.Logf("durable commits of each step: %v", perStep[:6])
		})
	}
}
