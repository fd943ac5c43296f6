package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belay/internal/cli"
	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/sqlite"
	"belay/internal/model"
	"belay/internal/moment"
	"belay/internal/runtime"
	"belay/internal/service"
)

// BenchmarkStep is belay's own time for one step: from the model's last byte
// to the next request, with SQLite on disk. The model is a script that takes
// modelTime to answer, which is not counted: real models take much longer, and
// what belay gets ready meanwhile (the next idle shim) is meant to be ready.
// "read" reads a small file; "command" runs the shell builtin true under the
// shim, unconfined, "confined" the same in the sandbox that is chosen here.
func BenchmarkStep(b *testing.B) {
	const command = `{tool: run_command, args: {command: "true"}}`
	for name, c := range map[string][2]string{
		"read":     {"{tool: read_file, args: {path: a.txt}}", "none"},
		"command":  {command, "none"},
		"confined": {command, "auto"},
	} {
		b.Run(name, func(b *testing.B) { benchSteps(b, c[0], c[1]) })
	}
}

func benchSteps(b *testing.B, call, box string) {
	dir := b.TempDir()
	repo := filepath.Join(dir, "repo")
	write(b, filepath.Join(repo, "a.txt"), "hello\n")
	file := filepath.Join(dir, "script.yaml")
	write(b, file, fmt.Sprintf("price: {input: 0, output: 0}\nsteps:\n  - {text: ok, calls: [%s], delay_ms: %d, repeat: %d}\n", call, modelTime.Milliseconds(), b.N))
	s, done, err := open(context.Background(), cli.OpenOptions{State: filepath.Join(dir, "state")})
	if err != nil {
		b.Fatal(err)
	}
	defer done()
	count := &commits{Ledger: s.Ledger}
	s.Ledger = count
	started, err := s.Start(context.Background(), service.StartRequest{Repo: repo, Spec: event.GoalSpec{Text: "measure"},
		Settings: event.Settings{Model: "script:" + file, Plan: event.PlanNever, Approve: event.ApproveAuto, StepsPerTurn: 1 << 40, SameError: 1 << 40, Patience: 100, Sandbox: box}})
	if err != nil {
		b.Fatal(err)
	}
	clock := &stepClock{}
	b.ResetTimer()
	_, err = s.Attend(context.Background(), started.Goal, service.AttendOptions{OnEvent: clock.event, Live: clock})
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	if len(clock.took) < b.N {
		b.Fatalf("%d steps of %d", len(clock.took), b.N)
	}
	slices.Sort(clock.took)
	b.ReportMetric(float64(clock.took[len(clock.took)/2].Microseconds())/1000, "ms/step-median")
	b.ReportMetric(float64(clock.took[len(clock.took)*9/10].Microseconds())/1000, "ms/step-p90")
	durable := 0
	for _, a := range count.list {
		if a.Durable {
			durable++
		}
	}
	b.ReportMetric(float64(durable)/float64(b.N), "durable-commits/step") // the goal's few others included
	b.ReportMetric(0, "ns/op")
}

const modelTime = 40 * time.Millisecond

// stepClock measures from a response's last byte to the next announced
// request.
type stepClock struct {
	mu   sync.Mutex
	last time.Time
	took []time.Duration
}

func (c *stepClock) Delta(string, model.Delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
}

func (c *stepClock) Output(string, []byte) {}

func (c *stepClock) event(e event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := e.Payload.(event.ModelRequested); ok && !c.last.IsZero() {
		c.took = append(c.took, time.Since(c.last))
	}
}

// BenchmarkOpen is the time to open a goal of n events: from nothing in memory
// to the snapshot.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			dir := b.TempDir()
			goal := longGoal(b, dir, n)
			b.ResetTimer()
			for range b.N {
				s, done, err := open(context.Background(), cli.OpenOptions{State: dir})
				if err != nil {
					b.Fatal(err)
				}
				snap, err := s.Snapshot(context.Background(), goal)
				if err != nil || snap.Head < uint64(n) {
					b.Fatal(err, snap.Head)
				}
				if err := done(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/open")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// longGoal writes a goal of at least n events through the core, with the state
// caches that a driver would have left.
func longGoal(tb testing.TB, dir string, n int) string {
	ctx := context.Background()
	l, err := sqlite.Open(ctx, dir, sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	goal := "longgoal"
	var s core.State
	now := moment.Of(time.Now())
	var seed byte
	step := func(fence uint64, by event.Actor, body core.Body) {
		seed++
		now = now.AddMS(1)
		in := core.Input{Now: now, By: by, Fence: fence, Body: body, Seed: [16]byte{seed, byte(s.Head), byte(s.Head >> 8), byte(s.Head >> 16)}}
		r, err := core.Step(s, in)
		if err != nil {
			tb.Fatal(err)
		}
		es, err := l.Append(ctx, ledger.Append{Goal: goal, Head: s.Head, Fence: s.Fence, Events: r.Events, Row: core.Row(r.State)})
		if err != nil {
			tb.Fatal(err)
		}
		s = core.Fold(s, es)
	}
	step(0, event.ActorUser, core.Start{Goal: goal, Repo: "/r", Spec: event.GoalSpec{Text: "long"},
		Settings: event.Settings{Model: "script:x", Plan: event.PlanNever, StepsPerTurn: 1 << 40}})
	w := event.Worker("w")
	step(1, w, core.Claimed{Worker: "w"})
	step(1, w, core.Attached{Workspace: event.WorkspaceAttached{Root: "/r", Tree: "t", Sandbox: "none"}})
	for i := 0; int(s.Head) < n; i++ {
		step(1, w, core.Composed{Head: s.Head, Tokens: 10})
		args := json.RawMessage(fmt.Sprintf(`{"path":"f%d"}`, i%500))
		step(1, w, core.Replied{Request: s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: fmt.Sprint("c", i), Tool: "read_file", Arguments: string(args)}}},
			Proposals: []core.Proposal{{CallID: fmt.Sprint("c", i), Tool: "read_file", Effect: event.Read, Args: args, Access: event.Access{Reads: []string{"f"}}}}})
		o := s.Open[0]
		step(1, w, core.Ended{Op: o.ID, Attempt: 1, Outcome: event.Succeeded, Result: event.Result{
			Output: event.Text{Head: fmt.Sprintf("text %d\n", i) + strings.Repeat("line of output\n", 20)}, Seen: []event.FileSeen{{Path: fmt.Sprint("f", i%500), Hash: fmt.Sprint("h", i)}}}})
	}
	runtime.Cache(ctx, l, s)
	if s.Status != lifecycle.Active {
		tb.Fatal(s.Status, s.HandOff)
	}
	return goal
}

// BenchmarkDemo is the whole demo of the built binary: time to the first
// request, time in total, and the peak memory of the runtime itself.
func BenchmarkDemo(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "belay")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var peak, request float64
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		c := exec.Command(bin, "demo", "--json")
		first := &firstRequest{began: began}
		c.Stdout = first
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		first.pid = c.Process.Pid
		if err := c.Wait(); err != nil {
			b.Fatal(err)
		}
		peak = max(peak, first.peakMB)
		request += float64(first.after.Microseconds()) / 1000
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/demo")
	b.ReportMetric(request/float64(b.N), "ms-to-first-request")
	b.ReportMetric(peak, "MB-peak")
	b.ReportMetric(0, "ns/op")
}

// firstRequest notes when the first request was announced.
type firstRequest struct {
	began time.Time
	after time.Duration
	buf   bytes.Buffer
	pid   int
	// peakMB is the process's own high-water mark, read with each line it
	// prints: what wait reports would count the Go tools that the demo runs.
	peakMB float64
}

func (f *firstRequest) Write(p []byte) (int, error) {
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
				f.peakMB = max(f.peakMB, n/1024)
			}
		}
	}
	if f.after == 0 {
		f.buf.Write(p)
		if bytes.Contains(f.buf.Bytes(), []byte(`"model_requested"`)) {
			f.after = time.Since(f.began)
			f.buf.Reset()
		}
	}
	return len(p), nil
}

func write(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}
