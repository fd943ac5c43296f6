//go:build linux

package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/sandbox"
)

// Conform is what every backend must leave as it is: results, output, the end
// of the whole tree on every path, and re-attachment. worker starts this test
// binary so that it calls Worker with the same backend.
func Conform(t *testing.T, b Backend, worker func() *exec.Cmd) {
	base := Base(t)
	run := func(name string, f func(t *testing.T, w *world)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newWorld(t, base, b))
		})
	}
	run("ResultsAndOutput", results)
	run("WhatCannotBeStartedIsAResultThatSaysWhy", startErrors)
	run("TheDeadlineEndsTheWholeTree", deadline)
	run("ACommandThatIsAskedToEndMayFinish", grace)
	run("WhatIsLeftMayFinishAndThenEnds", leftovers)
	run("AStopEndsTheTreeAndSaysWhy", stop)
	run("TheDeathOfTheShimEndsTheTree", func(t *testing.T, w *world) { shimDeath(t, w, b.Enclosed) })
	run("TheDeathOfTheWorkerEndsNothing", func(t *testing.T, w *world) { workerDeath(t, w, worker) })
	if b.Confined {
		run("ThePrivateTemporaryFolderIsPrivateAndGoes", temporary)
	}
	run("AGitRepositoryCanBeWorkedOn", git)
	run("TheFileNamesOfAPlanModeWorkspaceCanBeRead", reading)
}

func results(t *testing.T, w *world) {
	for script, want := range map[string]int{"echo hello; echo oops >&2; exit 3": 3, "kill -9 $$": 137, "true": 0, "echo $HOME > f; cat f": 0} {
		c := w.command(script)
		c.Key = fmt.Sprintf("r.%d.%d", len(script), want)
		if res, out := w.run(c); res.ExitCode != want || res.SpawnError != "" {
			t.Errorf("%s: %+v %q, want %d", script, res, out, want)
		} else if want == 3 && out != "hello\noops\n" {
			t.Errorf("%s: output %q", script, out)
		}
	}
}

func startErrors(t *testing.T, w *world) {
	c := w.command("")
	c.Argv = []string{"no-such-program"}
	if res, out := w.run(c); !strings.Contains(res.SpawnError, "no-such-program") {
		t.Errorf("%+v %q", res, out)
	}
	c.Key, c.Argv, c.Dir = "attempt.2", []string{"true"}, filepath.Join(w.repo, "gone")
	if res, out := w.run(c); res.SpawnError == "" {
		t.Errorf("%+v %q", res, out)
	}
}

// tree starts processes that do not want to end.
const (
	marked = `(trap '' TERM; while :; do sleep 1; done) &
setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 &
`
	tree = marked + `(setsid env -i sleep 301 >/dev/null 2>&1 &)
echo up
`
)

// left are the processes that still carry a marker of this world.
func (w *world) left() []string {
	procs, _ := os.ReadDir("/proc")
	var out []string
	for _, p := range procs {
		env, err := os.ReadFile("/proc/" + p.Name() + "/environ")
		if err != nil {
			continue
		}
		cwd, _ := os.Readlink("/proc/" + p.Name() + "/cwd")
		if strings.Contains(string(env), "W="+w.repo+"\x00") || cwd == w.repo {
			out = append(out, p.Name()+" "+strings.ReplaceAll(content("/proc/"+p.Name()+"/cmdline"), "\x00", " "))
		}
	}
	return out
}

func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if left = w.left(); len(left) == 0 {
			return
		}
	}
	t.Errorf("still running: %v", left)
}

func deadline(t *testing.T, w *world) {
	c := w.command(tree + "wait; sleep 300")
	c.Timeout = 500 * time.Millisecond
	begin := time.Now()
	res, out := w.run(c)
	if !res.TimedOut || !strings.HasPrefix(out, "up\n") || time.Since(begin) > 20*time.Second {
		t.Errorf("%+v %q after %v", res, out, time.Since(begin))
	}
	w.nothingLeft(t)
}

func grace(t *testing.T, w *world) {
	c := w.command(`trap 'echo cleaning; sleep 0.2; echo clean; exit 5' TERM; echo up; while :; do sleep 0.05; done`)
	c.Grace = 30 * time.Second
	p := w.start(c)
	w.says(p, "up\n") // its trap is set
	w.must(p.Stop(context.Background(), "enough"))
	if res, out := w.end(context.Background(), p); res.Stopped != "enough" || res.ExitCode != 5 || !strings.Contains(out, "clean\n") {
		t.Errorf("%+v %q", res, out)
	}
}

func leftovers(t *testing.T, w *world) {
	c := w.command(`(sleep 0.05; echo late) & echo done`)
	if res, out := w.run(c); res.ExitCode != 0 || out != "done\nlate\n" {
		t.Errorf("what finishes right after the command was cut: %+v %q", res, out)
	}
	c = w.command(tree + "exit 4")
	c.Key = "attempt.2"
	begin := time.Now()
	if res, out := w.run(c); res.ExitCode != 4 || !strings.HasPrefix(out, "up\n") || time.Since(begin) > 20*time.Second {
		t.Errorf("%+v %q after %v", res, out, time.Since(begin))
	}
	w.nothingLeft(t)
}

func (w *world) start(c sandbox.Command) sandbox.Process {
	w.t.Helper()
	p, err := w.box.Start(context.Background(), c)
	w.must(err)
	return p
}

// says waits until the command has printed something.
func (w *world) says(p sandbox.Process, text string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	f := &finder{text: text, found: cancel}
	_ = p.Follow(ctx, f)
	if !strings.Contains(f.got, text) {
		w.t.Fatalf("the command never said %q: %q", text, f.got)
	}
}

type finder struct {
	got, text string
	found     func()
}

func (f *finder) Write(b []byte) (int, error) {
	if f.got += string(b); strings.Contains(f.got, f.text) {
		f.found()
	}
	return len(b), nil
}

func stop(t *testing.T, w *world) {
	ctx := context.Background()
	p := w.start(w.command(tree + "wait; sleep 300"))
	w.says(p, "up\n")
	w.must(p.Stop(ctx, "the budget is spent"))
	if res, _ := w.end(ctx, p); res.Stopped != "the budget is spent" {
		t.Errorf("%+v", res)
	}
	w.nothingLeft(t)
}

// shimDeath kills the shim. A process that has also emptied its environment is
// then only found where something else knows it.
func shimDeath(t *testing.T, w *world, enclosed bool) {
	script := marked + "echo up; sleep 300"
	if enclosed {
		script = tree + "sleep 300"
	}
	p := w.start(w.command(script))
	w.says(p, "up\n")
	var id struct {
		Pid int `json:"pid"`
	}
	w.must(json.Unmarshal([]byte(content(filepath.Join(w.state, "spool", "attempt.1", "shim.json"))), &id))
	shim, err := os.FindProcess(id.Pid)
	w.must(err)
	w.must(shim.Kill())
	if _, err := p.Wait(context.Background()); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("%v", err)
	}
	w.nothingLeft(t)
}

// The environment of a worker process.
const (
	envState   = "BELAY_TEST_WORKER_STATE"
	envCommand = "BELAY_TEST_WORKER_COMMAND"
	envBackend = "BELAY_TEST_WORKER_BACKEND"
)

// Worker makes this process a worker that starts one command and then only
// lives, if it was started as one.
func Worker(backends ...Backend) {
	state := os.Getenv(envState)
	if state == "" {
		return
	}
	err := func() error {
		var c sandbox.Command
		if err := json.Unmarshal([]byte(os.Getenv(envCommand)), &c); err != nil {
			return err
		}
		for _, b := range backends {
			if b.ID != os.Getenv(envBackend) {
				continue
			}
			box, err := b.Open(state)
			if err != nil {
				return err
			}
			_, err = box.Start(context.Background(), c)
			return err
		}
		return errors.New("no such backend")
	}()
	fmt.Println("started", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func workerDeath(t *testing.T, w *world, worker func() *exec.Cmd) {
	signal := filepath.Join(w.repo, "go")
	c := w.command(`echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended; exit 6`)
	b, err := json.Marshal(c)
	w.must(err)
	cmd := worker()
	cmd.Env = append(os.Environ(), append(cmd.Env, envState+"="+w.state, envCommand+"="+string(b))...)
	out, err := cmd.StdoutPipe()
	w.must(err)
	_, err = cmd.StdinPipe()
	w.must(err)
	w.must(cmd.Start())
	line := make([]byte, 200)
	n, _ := out.Read(line)
	if string(line[:n]) != "started <nil>\n" {
		t.Fatalf("the worker says %q", line[:n])
	}
	w.must(cmd.Process.Kill())
	_ = cmd.Wait()
	p, err := w.box.Attach(context.Background(), c.Key)
	w.must(err)
	w.must(os.WriteFile(signal, nil, 0o600))
	if res, out := w.end(context.Background(), p); res.ExitCode != 6 || out != "begun\nended\n" {
		t.Errorf("%+v %q", res, out)
	}
}

// WorkerEnv names the backend for a worker process.
func WorkerEnv(b Backend) string { return envBackend + "=" + b.ID }

func temporary(t *testing.T, w *world) {
	c := w.command(`set -e; echo x > $TMPDIR/mine; mktemp; ls -A $TMPDIR | wc -l; mkdir $TMPDIR/closed; echo y > $TMPDIR/closed/f; chmod 500 $TMPDIR/closed; echo $TMPDIR`)
	res, out := w.run(c)
	if res.ExitCode != 0 {
		t.Errorf("%+v %q", res, out)
	}
	scratch := filepath.Join(w.state, "spool", c.Key, "scratch")
	for deadline := time.Now().Add(10 * time.Second); exists(scratch); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the private temporary folder stays")
		}
	}
}

func git(t *testing.T, w *world) {
	repo := filepath.Join(w.repo, "real")
	w.must(os.Mkdir(repo, 0o755))
	script := `set -e; git init -q; git config user.name t; git config user.email t@t`
	setup := exec.Command("sh", "-c", script)
	setup.Dir = repo
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	c := w.command(`set -e; echo a > f; git add f; git commit -qm one; git checkout -qb side; echo b >> f; git commit -qam two
git checkout -q -; git merge -q side; git stash list; git gc -q; git log --oneline | wc -l`)
	c.Dir, c.Workspace = repo, repo
	if res, out := w.run(c); res.ExitCode != 0 || strings.TrimSpace(out) != "2" {
		t.Errorf("%+v %q", res, out)
	}
}

func reading(t *testing.T, w *world) {
	c := w.command(`cat kept && ls -a | wc -l && find . -name config | wc -l`)
	c.ReadOnly = true
	if res, out := w.run(c); res.ExitCode != 0 || !strings.HasPrefix(out, "kept\n") {
		t.Errorf("%+v %q", res, out)
	}
}
