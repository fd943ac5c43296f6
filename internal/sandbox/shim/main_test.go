//go:build linux

package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"belay/internal/sandbox"
)

// The test binary is also the worker that gets killed: it starts one command
// and then does nothing but live.
const (
	envWorkerState   = "BELAY_TEST_WORKER_STATE"
	envWorkerCommand = "BELAY_TEST_WORKER_COMMAND"
)

func TestMain(m *testing.M) {
	if state := os.Getenv(envWorkerState); state != "" {
		os.Exit(worker(state, os.Getenv(envWorkerCommand)))
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func worker(state, command string) int {
	var c sandbox.Command
	if err := json.Unmarshal([]byte(command), &c); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	s, err := New(state, Options{Name: "none"})
	if err == nil {
		_, err = s.Start(context.Background(), c)
	}
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	fmt.Println("started")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// startWorker runs a worker process that has started the command.
func startWorker(t *testing.T, state string, c sandbox.Command) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	w := exec.Command("/proc/self/exe")
	w.Env = append(os.Environ(), envWorkerState+"="+state, envWorkerCommand+"="+string(b))
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	line := make([]byte, 200)
	n, _ := out.Read(line)
	if got := strings.TrimSpace(string(line[:n])); got != "started" {
		t.Fatalf("the worker says %q", got)
	}
	return w
}

func kill(t *testing.T, w *exec.Cmd) {
	t.Helper()
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.Wait()
}

// newSandbox returns a sandbox of its own; at the end of the test no process
// of any of its commands may be left.
func newSandbox(t testing.TB) *Sandbox {
	t.Helper()
	return sandboxAt(t, t.TempDir())
}

func sandboxAt(t testing.TB, state string) *Sandbox {
	t.Helper()
	s, err := New(state, Options{Name: "none", Describe: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		keys, _ := s.Running(context.Background())
		for _, k := range keys {
			if p, err := s.Attach(context.Background(), k); err == nil {
				_ = p.Stop(context.Background(), "end of test")
				_, _ = p.Wait(context.Background())
			}
		}
		entries, _ := os.ReadDir(s.spool)
		for _, e := range entries {
			if sp, err := s.record(e.Name()).spec(); err == nil {
				ids = append(ids, sp.ID)
			}
		}
		for _, id := range ids {
			if left := marked(id); len(left) > 0 {
				t.Errorf("processes of attempt %s are left: %v", id, left)
			}
		}
	})
	return s
}

// marked are the living processes that carry a record's marker.
func marked(id string) []int {
	var pids []int
	for _, p := range allProcesses() {
		if !p.zombie && carries(p.pid, []byte(EnvAttemptID+"="+id)) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func shell(key, text string) sandbox.Command {
	return sandbox.Command{Key: key, Shell: text, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}}
}

func start(t testing.TB, s *Sandbox, c sandbox.Command) *process {
	t.Helper()
	p, err := s.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*process)
}

// patience is far above anything that should happen: a hang fails, a slow
// machine does not.
const patience = 30 * time.Second

func wait(t testing.TB, p sandbox.Process) sandbox.Result {
	t.Helper()
	res, err := waitErr(t, p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func waitErr(t testing.TB, p sandbox.Process) (sandbox.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := p.Wait(ctx)
	if ctx.Err() != nil {
		t.Fatalf("waiting for %s hangs", p.Key())
	}
	return res, err
}

func output(t testing.TB, p sandbox.Process) string {
	t.Helper()
	r, err := p.Output()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func run(t testing.TB, s *Sandbox, c sandbox.Command) (sandbox.Result, string) {
	t.Helper()
	p := start(t, s, c)
	res := wait(t, p)
	return res, output(t, p)
}

// until follows the output until it holds the text, and returns what came.
func until(t testing.TB, p sandbox.Process, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w := &watchFor{text: text, found: cancel}
	err := p.Follow(ctx, w)
	if got := w.String(); strings.Contains(got, text) {
		return got
	}
	t.Fatalf("output %q never held %q (%v)", w.String(), text, err)
	return ""
}

type watchFor struct {
	mu    sync.Mutex
	got   bytes.Buffer
	text  string
	found func()
}

func (w *watchFor) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got.Write(b)
	if strings.Contains(w.got.String(), w.text) {
		w.found()
	}
	return len(b), nil
}

func (w *watchFor) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.String()
}

// eventually polls for what the system tells nobody by an event.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

func exists(pid int) bool {
	st, err := readStat(pid)
	return err == nil && !st.zombie
}

// pidIn reads "NAME=pid" from output.
func pidIn(t testing.TB, out, name string) int {
	t.Helper()
	for line := range strings.SplitSeq(out, "\n") {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			pid, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no %s= in %q", name, out)
	return 0
}

// lines counts the lines that an effect left in a file.
func lines(t testing.TB, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

func effectFile(t testing.TB) string { return filepath.Join(t.TempDir(), "effects") }
