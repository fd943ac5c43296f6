package builtin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/sandbox"
	"belay/internal/sandbox/none"
	"belay/internal/tool"
	"belay/internal/tool/builtin"
)

func TestACommandTellsItsEndInPlainWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"sub/x": "y\n"})
	r := w.ok("run_command", obj{"command": "pwd; cat x", "dir": "sub"})
	w.says(r, "exit code 0 after ", w.root+"/sub\ny\n")
	if r.Command == nil || r.Command.ExitCode != 0 || w.artifact(r.Command.Output) != w.root+"/sub\ny\n" || r.Test != nil || r.Output.Cut {
		t.Errorf("%+v", r.Result)
	}
	r = w.refused(fault.ExitStatus, "run_command", obj{"command": "echo oops >&2; exit 3"}, "exit code 3")
	w.says(r, "exit code 3", "oops\n")
	w.says(w.ok("run_command", obj{"command": "true"}), "(no output)")
	r = w.refused(fault.ExitStatus, "run_command", obj{"command": "kill -SEGV $$"}, "signal")
	if r.Command.Signal == "" || r.outcome != event.Failed {
		t.Errorf("%+v", r.Command)
	}
	w.refused(fault.ExitStatus, "run_command", obj{"command": "no-such-program-here"}, "127")
}

// FIELD P2: a time limit is real, and says so.
func TestATimeLimitEndsTheCommandAndKeepsItsOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	start := time.Now()
	r := w.refused(fault.TimedOut, "run_command", obj{"command": "echo begun; sleep 600", "timeout_s": 1}, "time limit of 1 s", "timeout_s")
	w.says(r, "timed out", "begun\n")
	if took := time.Since(start); took > 20*time.Second || !r.Command.TimedOut {
		t.Errorf("took %v, %+v", took, r.Command)
	}
}

func TestTimeLimitsAreByClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, c := range []struct {
		tool string
		args obj
		want time.Duration
	}{
		{"run_command", obj{"command": "true"}, 2 * time.Minute}, {"run_test", obj{"command": "true"}, 15 * time.Minute},
		{"run_command", obj{"command": "true", "timeout_s": 3600}, time.Hour},
	} {
		if r := w.run(c.tool, c.args); r.prepared.Timeout != c.want {
			t.Errorf("%s %v: %v", c.tool, c.args, r.prepared.Timeout)
		}
	}
}

func TestABudgetThatRunsOutShortensTheTimeLimitAndNeverLengthensIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tl, c := w.call("run_command", obj{"command": "sleep 600"})
	c.TimeoutMS = 500
	o, r, err := tl.(tool.Runner).Run(t.Context(), w.env, c)
	if err != nil || o != event.Failed || r.Fault.Kind != fault.TimedOut || !strings.Contains(r.Fault.Message, "0.5 s") {
		t.Errorf("%s, %v, %v", o, r.Fault, err)
	}
	tl, c = w.call("run_command", obj{"command": "true", "timeout_s": 5})
	c.TimeoutMS = 3_600_000
	if p, err := tl.(tool.Preparer).Prepare(t.Context(), w.env, c); err != nil || p.Timeout != 5*time.Second {
		t.Errorf("%+v, %v", p, err)
	}
}

// FIELD P4: huge output stays out of the context, and whole in an artifact.
func TestHugeOutputIsShownAsHeadAndTailAndKeptWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.ok("run_command", obj{"command": `seq 1 200000; printf '\033[31mred\033[0m\377\n'`})
	w.says(r, "\n1\n2\n", "\n200000\nred\uFFFD\n", "left out; read_file or search_text with path artifact:"+r.Command.Output.SHA256)
	if len(r.Output.Head) > 12<<10 || !r.Output.Cut || r.Output.Whole != r.Command.Output {
		t.Errorf("%d bytes, cut %v", len(r.Output.Head), r.Output.Cut)
	}
	whole := w.artifact(r.Command.Output)
	if !strings.HasSuffix(whole, "200000\n\x1b[31mred\x1b[0m\xff\n") || int64(len(whole)) != r.Command.Output.Size {
		t.Errorf("%d bytes are kept", len(whole))
	}
	// The reference works as input of other tools (FIELD I7).
	ref := "artifact:" + r.Command.Output.SHA256
	w.says(w.ok("read_file", obj{"path": ref, "offset": 100000, "limit": 2}), "100000→100000\n100001→100001\n", "of 200001")
	w.says(w.ok("search_text", obj{"pattern": "^19999[0-9]$", "path": ref}), ":199990:199990\n", "[10 matching lines")
	r = w.ok("run_command", obj{"command": `for i in $(seq 1 20000); do printf '\r%d of 20000' $i; done; echo; echo done`})
	w.says(r, "\n20000 of 20000\ndone\n")
	if len(r.Output.Head) > 200 {
		t.Errorf("progress is shown in %d bytes", len(r.Output.Head))
	}
}

func TestMemoryStaysBoundedWhateverACommandPrints(t *testing.T) {
	w := newWorld(t, nil)
	store := &discard{}
	w.env.Artifacts = store
	var peak uint64
	store.each = func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
	r := w.ok("run_command", obj{"command": "yes 'a line of output that goes on and on' | head -c 20000000"})
	if store.n != 20_000_000 || r.Command.Output.Size != store.n || len(r.Output.Head) > 12<<10 {
		t.Errorf("kept %d, shown %d", store.n, len(r.Output.Head))
	}
	if peak > 16<<20 {
		t.Errorf("the heap grew to %d MiB", peak>>20)
	}
}

// discard is an artifact store that keeps nothing and looks at memory on the
// way, so that what is measured is the tool and not the store.
type discard struct {
	n    int64
	each func()
}

func (d *discard) PutArtifact(_ context.Context, r io.Reader, media string) (event.Ref, error) {
	buf := make([]byte, 1<<20)
	for {
		n, err := r.Read(buf)
		d.n += int64(n)
		d.each()
		if err == io.EOF {
			return event.Ref{SHA256: strings.Repeat("0", 64), Size: d.n, Media: media}, nil
		}
		if err != nil {
			return event.Ref{}, err
		}
	}
}

func (d *discard) OpenArtifact(context.Context, string) (io.ReadCloser, error) {
	return nil, errors.New("nothing is kept here")
}

func TestTestsAreCountedAndAnEmptyRunIsNoEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"test_x.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): self.assertEqual(1, 2)\n"})
	r := w.refused(fault.ExitStatus, "run_test", obj{"command": "python3 -m unittest"})
	w.says(r, "tests (unittest): 1 passed, 1 failed, 0 skipped; failing: test_b")
	if r.Test == nil || r.Test.Passed != 1 || r.Test.Failed != 1 || len(r.Test.Failing) != 1 {
		t.Errorf("%+v", r.Test)
	}
	// A pipe masks the exit code, not the report.
	r = w.ok("run_test", obj{"command": "python3 -m unittest 2>&1 | tail -20"})
	w.says(r, "1 failed", "masks the exit status")
	if r.Test.Failed != 1 {
		t.Errorf("%+v", r.Test)
	}
	r = w.ok("run_test", obj{"command": "python3 -m unittest -k nothing_here || true"})
	w.says(r, "no test was executed")
	r = w.ok("run_test", obj{"command": "echo all tests pass"})
	w.says(r, "no known test report")
	if r.Test == nil || r.Test.Runner != "" || r.Test.Executed() != 0 {
		t.Errorf("%+v", r.Test)
	}
	if r := w.run("run_command", obj{"command": "python3 -m unittest"}); r.Test == nil || r.Test.Passed != 1 {
		t.Errorf("a test run by run_command: %+v", r.Test)
	}
}

func TestRunTestFallsBackOnTheGoalsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refused(fault.InvalidArguments, "run_test", obj{}, `"command"`, "no test command")
	w.env.TestCommand = "echo '--- PASS: TestX (0.00s)'"
	if r := w.ok("run_test", obj{}); r.Test.Passed != 1 || !strings.Contains(r.prepared.Preview, "TestX") {
		t.Errorf("%+v", r.Test)
	}
	w.reg = builtin.New(builtin.Config{Roots: []string{w.root}, TestCommand: w.env.TestCommand})
	_, c := w.call("run_test", obj{})
	if !strings.Contains(string(c.Args), "TestX") {
		t.Errorf("normalised to %s", c.Args)
	}
}

func TestAFailureHasTheSameSignatureWhereverAndWheneverItHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a/.keep": "", "b/.keep": ""})
	fail := func(dir, what string) string {
		return w.refused(fault.ExitStatus, "run_command", obj{"dir": dir, "command": "date +%s%N; echo " + dir + "; echo \"$PWD/x.go:" + fmt.Sprint(len(dir)+10) + ": undefined: " + what + "\"; exit 1"}).Fault.Signature
	}
	if one, two := fail("a", "foo"), fail("b", "foo"); one != two || one == "" {
		t.Errorf("signatures %q and %q", one, two)
	}
	if one, two := fail("a", "foo"), fail("a", "bar"); one == two {
		t.Error("two different errors have one signature")
	}
}

func TestDirectoriesAreConfined(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"file": "", "real/x": ""})
	for link, to := range map[string]string{"out": t.TempDir(), "in": "real"} {
		if err := os.Symlink(to, filepath.Join(w.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.refused(fault.Outside, "run_command", obj{"command": "pwd", "dir": "out"})
	w.refused(fault.NotFound, "run_command", obj{"command": "pwd", "dir": "nowhere"}, "nowhere")
	w.refused(fault.NotFound, "run_command", obj{"command": "pwd", "dir": "file"}, "not a folder")
	w.says(w.ok("run_command", obj{"command": "pwd", "dir": "in"}), w.root+"/real\n")
}

func TestPrepareSaysWhatDecidesWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"sub/run.sh": "echo hi\n", "conf": "x\n", "in.txt": "y\n", "unnamed": "z\n"})
	prepare := func(command string) tool.Prepared {
		tl, c := w.call("run_command", obj{"command": command, "dir": "sub"})
		p, err := tl.(tool.Preparer).Prepare(t.Context(), w.env, c)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return p
	}
	p := prepare(`FOO=1 bash ./run.sh --config=../conf < ../in.txt > ../out.txt && bash -c 'cat ../conf'`)
	var names []string
	for _, f := range p.Inputs {
		names = append(names, f.Path)
		if f.Base != event.RefOf([]byte(w.get(f.Path)), "").SHA256 {
			t.Errorf("%s has the hash %s", f.Path, f.Base)
		}
	}
	if !slices.Equal(names, []string{"conf", "in.txt", "sub/run.sh"}) {
		t.Errorf("inputs %v", names)
	}
	if p.Dir != w.root+"/sub" || !strings.Contains(p.Preview, "in sub\n$ FOO=1 bash") || !slices.ContainsFunc(p.Env, func(s string) bool { return strings.HasPrefix(s, "PATH=") }) ||
		slices.Contains(p.Env, "TERM=dumb") {
		t.Errorf("%+v", p)
	}
	for command, want := range map[string]bool{
		"ls": false, "rm -rf build": true, "git status": false, "git -C . reset --hard": true, "git reset HEAD x": false, "git checkout -- .": true,
		"git checkout -b new": false, "git stash": true, "git stash list": false, "git clean -fd": true, "git clean -n": false, "echo rm": false,
		"ls && git push --force": true, "find . -name x -delete": true, "find . | xargs rm": true, "sudo rm x": true, "bash -c 'rm x'": true,
		"bash -lc 'git reset --hard'": true, "eval \"rm x\"": true, "(cd x; git restore .)": true, "echo $(git clean -fdx)": true, "git push origin main": false,
		"git commit --amend": true, "'": false,
	} {
		if got := prepare(command).Destructive; got != want {
			t.Errorf("%s: destructive %v", command, got)
		}
	}
}

// pipe is a fifo in the workspace by which a test holds a command, and hears
// of it, without waiting for time to pass.
func (w *world) pipe(name string) string {
	w.t.Helper()
	p := filepath.Join(w.root, name)
	if out, err := execute("mkfifo", p); err != nil {
		w.t.Fatalf("mkfifo: %v %s", err, out)
	}
	return p
}

// interrupt starts a command that reports on one fifo and then waits on
// another, takes the runtime away in the middle, and returns the call and a
// function that lets the command go on.
func (w *world) interrupt(after string) (tool.Prober, tool.Call, func()) {
	w.t.Helper()
	up, down := w.pipe("up"), w.pipe("down")
	tl, c := w.call("run_command", obj{"command": "echo before; echo x > up; read x < down; " + after})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() {
		o, _, err := tl.(tool.Runner).Run(ctx, w.env, c)
		if err == nil {
			err = fmt.Errorf("an interrupted run has the outcome %s", o)
		}
		done <- err
	}()
	if _, err := os.ReadFile(up); err != nil { // returns when the command is there
		w.t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		w.t.Fatalf("Run: %v", err)
	}
	return tl.(tool.Prober), c, func() {
		if err := os.WriteFile(down, []byte("go\n"), 0o600); err != nil {
			w.t.Error(err)
		}
	}
}

func TestAnInterruptedCommandRunsOnAndIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tl, c, release := w.interrupt("echo after; exit 7")
	// Another worker, with a sandbox of its own on the same spool.
	sb, err := none.New(w.state)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	w.env.Sandbox = sb
	var live lockedBuffer
	w.env.Progress = &live
	go release()
	f, err := tl.Probe(t.Context(), w.env, c)
	if err != nil || f.What != tool.FoundFinished || f.Outcome != event.Failed || f.Result.Command.ExitCode != 7 {
		t.Fatalf("%+v, %v", f, err)
	}
	if got := w.artifact(f.Result.Command.Output); got != "before\nafter\n" || live.String() != got {
		t.Errorf("output %q, live %q", got, live.String())
	}
	// Once ended, it is found as often as asked.
	if f, err := tl.Probe(t.Context(), w.env, c); err != nil || f.What != tool.FoundFinished || f.Result.Command.ExitCode != 7 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAProbeIsInterruptedLikeARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tl, c, release := w.interrupt("true")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tl.Probe(ctx, w.env, c); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	release()
	if f, err := tl.Probe(t.Context(), w.env, c); err != nil || f.What != tool.FoundFinished {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestACommandThatNeverStartedIsFoundSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tl, c := w.call("run_command", obj{"command": "true"})
	if f, err := tl.(tool.Prober).Probe(t.Context(), w.env, c); err != nil || f.What != tool.FoundNever {
		t.Errorf("%+v, %v", f, err)
	}
}

// A shim that was killed leaves nobody who knows.
func TestACommandWhoseShimIsGoneIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tl, c, _ := w.interrupt("true")
	p, err := w.env.Sandbox.Attach(t.Context(), c.Key())
	if err != nil {
		t.Fatal(err)
	}
	killShim(t, p)
	if _, err := p.Wait(t.Context()); !errors.Is(err, sandbox.ErrGone) {
		t.Fatalf("Wait: %v", err)
	}
	f, err := tl.Probe(t.Context(), w.env, c)
	if err != nil || f.What != tool.FoundUnknown || !strings.Contains(f.Detail, "without a result") {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAStoppedCommandIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tl, c, _ := w.interrupt("true")
	p, err := w.env.Sandbox.Attach(t.Context(), c.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context(), "the goal was cancelled"); err != nil {
		t.Fatal(err)
	}
	f, err := tl.Probe(t.Context(), w.env, c)
	if err != nil || f.Outcome != event.Cancelled || f.Result.Fault.Kind != fault.Cancelled || !strings.Contains(f.Result.Output.Head, "the goal was cancelled") {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestOutputIsShownLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var live lockedBuffer
	w.env.Progress = &live
	w.ok("run_command", obj{"command": "echo one; echo two"})
	if live.String() != "one\ntwo\n" {
		t.Errorf("%q", live.String())
	}
}

func TestAStoreThatFailsIsNoOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.env.Artifacts = brokenStore{}
	tl, c := w.call("run_command", obj{"command": "echo x"})
	if o, _, err := tl.(tool.Runner).Run(t.Context(), w.env, c); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%s, %v", o, err)
	}
}

type brokenStore struct{}

func (brokenStore) PutArtifact(context.Context, io.Reader, string) (event.Ref, error) {
	return event.Ref{}, errors.New("disk full")
}

func (brokenStore) OpenArtifact(context.Context, string) (io.ReadCloser, error) {
	return nil, errors.New("disk full")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The sandbox reaches what the recorded intent says, whatever the arguments ask
// for; and a model whose command found no network is told how to ask.
func TestTheNetworkIsTheIntentsAndItsAbsenceIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	box := &noting{Sandbox: w.env.Sandbox}
	w.env.Sandbox = box
	for _, c := range []struct{ asked, intent, want string }{{"full", "", "none"}, {"full", "full", "full"}, {"none", "loopback", "loopback"}, {"full", "lan", "none"}} {
		tl, call := w.call("run_command", obj{"command": "true", "network": c.asked, "reason": "to see"})
		call.Intent.Network = c.intent
		if _, _, err := tl.(tool.Runner).Run(t.Context(), w.env, call); err != nil {
			t.Fatal(err)
		}
		if box.last.Network != c.want {
			t.Errorf("asked for %s, intent %q: the sandbox was told %q", c.asked, c.intent, box.last.Network)
		}
	}
	r := w.refused(fault.ExitStatus, "run_command", obj{"command": "printf 'curl: (6) Could not res'; sleep 0.01; echo 'olve host: x'; exit 6"}, "exit code 6")
	w.says(r, "network: full and a reason")
	if r := w.refused(fault.ExitStatus, "run_command", obj{"command": "exit 6"}, "exit code 6"); strings.Contains(r.Output.Head, "network") {
		t.Error(r.Output.Head)
	}
	if r := w.run("run_command", obj{"command": "true", "network": "full", "reason": "to fetch"}); !strings.Contains(r.prepared.Preview, "(full): to fetch") {
		t.Error(r.prepared.Preview)
	}
}

// noting remembers what the sandbox was told.
type noting struct {
	sandbox.Sandbox
	last sandbox.Command
}

func (n *noting) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	n.last = c
	return n.Sandbox.Start(ctx, c)
}
