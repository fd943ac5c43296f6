//go:build linux

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belay/internal/sandbox"
	"belay/internal/sandbox/environ"
)

func TestResultSaysHowTheCommandEnded(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	dir := t.TempDir()
	for i, c := range []struct {
		name   string
		edit   func(*sandbox.Command)
		text   string
		exit   int
		signal string
		out    string
	}{
		{name: "success", text: "echo hello", out: "hello\n"},
		{name: "failure", text: "echo no >&2; exit 3", exit: 3, out: "no\n"},
		{name: "both streams in order", text: "echo a; echo b >&2; echo c", out: "a\nb\nc\n"},
		{name: "signal", text: "kill -SEGV $$", exit: 139, signal: "SIGSEGV"},
		{name: "exit status of a pipe is the last one's", text: "false | true"},
		{name: "argv is not read by a shell", edit: func(c *sandbox.Command) { c.Argv = []string{"echo", "$HOME", "a  b;"} }, out: "$HOME a  b;\n"},
		{name: "working directory", edit: func(c *sandbox.Command) { c.Dir = dir }, text: "pwd -P", out: realPath(t, dir) + "\n"},
		{name: "relative program", edit: func(c *sandbox.Command) { c.Dir = "/bin"; c.Argv = []string{"./echo", "x"} }, out: "x\n"},
		{name: "no terminal", text: "test -t 0 -o -t 1 -o -t 2 || (: </dev/tty) 2>/dev/null || echo none", out: "none\n"},
		{name: "binary output", text: `printf 'a\000b\377'`, out: "a\x00b\xff"},
		{name: "no shell start-up file", edit: func(c *sandbox.Command) { c.Env = append(c.Env, "BASH_ENV=", "ENV=") }, text: "echo $-", out: "hBc\n"},
	} {
		cmd := shell(fmt.Sprintf("end.%d", i), c.text)
		if c.edit != nil {
			c.edit(&cmd)
		}
		res, out := run(t, s, cmd)
		if res.ExitCode != c.exit || res.Signal != c.signal || out != c.out || res.SpawnError != "" || res.TimedOut || res.Stopped != "" {
			t.Errorf("%s: %+v with output %q, want exit %d signal %q output %q", c.name, res, out, c.exit, c.signal, c.out)
		}
		if res.Output != int64(len(out)) || res.Dropped != 0 || res.Survivors != 0 || res.Duration <= 0 || res.MaxRSS <= 0 {
			t.Errorf("%s: the numbers do not fit: %+v", c.name, res)
		}
	}
}

func realPath(t *testing.T, p string) string {
	t.Helper()
	r, err := filepath.EvalSymlinks(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNothingButTheGivenEnvironmentReachesTheCommand(t *testing.T) {
	t.Setenv("BELAY_TEST_LEAK", "leaked")
	s := newSandbox(t)
	c := sandbox.Command{Key: "env", Argv: []string{"/usr/bin/env"}, Dir: "/", Env: []string{"A=1", "B=x=y"}}
	_, out := run(t, s, c)
	sp, err := s.record("env").spec()
	if err != nil {
		t.Fatal(err)
	}
	if want := "A=1\nB=x=y\nBELAY_ATTEMPT=env\nBELAY_ATTEMPT_ID=" + sp.ID + "\n"; out != want {
		t.Errorf("environment is %q, want %q", out, want)
	}
}

func TestWhatCannotBeStartedIsAResultThatSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	program(t, script, "#!/no/such/interpreter\n")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		cmd  sandbox.Command
		want string
	}{
		{sandbox.Command{Argv: []string{"no-such-program"}, Dir: "/"}, "not in the command's PATH"},
		{sandbox.Command{Argv: []string{"/no/such/program"}, Dir: "/"}, "no such file"},
		{sandbox.Command{Argv: []string{plain}, Dir: "/"}, "not an executable file"},
		{sandbox.Command{Argv: []string{script}, Dir: "/"}, "interpreter"},
		{sandbox.Command{Shell: "true", Dir: "/no/such/dir"}, "working directory"},
		{sandbox.Command{Shell: "true", Dir: plain}, "not a directory"},
		{sandbox.Command{Shell: ": " + strings.Repeat("x", 1<<18), Dir: "/"}, "write the text to a file"},
		{sandbox.Command{Argv: []string{script}, Dir: "/", MaxFileSize: 1 << 20}, "interpreter"},
	} {
		c.cmd.Key, c.cmd.Env = fmt.Sprintf("spawn.%d", i), []string{"PATH=/usr/bin:/bin"}
		res, out := run(t, s, c.cmd)
		if !strings.Contains(res.SpawnError, c.want) || res.ExitCode != -1 || out != "" {
			t.Errorf("%v: %+v, want a spawn error with %q", c.cmd.Argv, res, c.want)
		}
	}
}

func TestBadCommandsAreRefusedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	good := shell("k", "true")
	for what, edit := range map[string]func(*sandbox.Command){
		"empty key":          func(c *sandbox.Command) { c.Key = "" },
		"key with slash":     func(c *sandbox.Command) { c.Key = "a/b" },
		"key with dots":      func(c *sandbox.Command) { c.Key = ".." },
		"hidden key":         func(c *sandbox.Command) { c.Key = ".new-x" },
		"long key":           func(c *sandbox.Command) { c.Key = strings.Repeat("k", 201) },
		"key with newline":   func(c *sandbox.Command) { c.Key = "a\nb" },
		"nothing to run":     func(c *sandbox.Command) { c.Shell = "" },
		"empty program":      func(c *sandbox.Command) { c.Argv = []string{""} },
		"NUL in text":        func(c *sandbox.Command) { c.Shell = "echo \x00" },
		"relative directory": func(c *sandbox.Command) { c.Dir = "x" },
		"negative timeout":   func(c *sandbox.Command) { c.Timeout = -1 },
		"bad environment":    func(c *sandbox.Command) { c.Env = []string{"NOVALUE"} },
	} {
		c := good
		edit(&c)
		if _, err := s.Start(context.Background(), c); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	failing := s.options
	failing.Confine = func(sandbox.Command) (Launch, error) { return Launch{}, errors.New("cannot hold") }
	other := &Sandbox{options: failing, spool: s.spool, boot: s.boot}
	if _, err := other.Start(context.Background(), good); err == nil || !strings.Contains(err.Error(), "cannot hold") {
		t.Errorf("a backend that cannot confine: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Start(ctx, good); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled start: %v", err)
	}
	entries, err := os.ReadDir(s.spool)
	if err != nil || len(entries) != 0 {
		t.Errorf("refused commands left %v in the spool (%v)", entries, err)
	}
}

func TestConfineDecidesWhatReallyStarts(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.options.Confine = func(c sandbox.Command) (Launch, error) {
		l, err := Plain(c)
		l.Argv = append([]string{"env", "HELD=yes"}, l.Argv...)
		return l, err
	}
	if _, out := run(t, s, shell("k", "echo $HELD")); out != "yes\n" {
		t.Errorf("output %q", out)
	}
}

func TestLimitsHoldForTheCommandFromItsFirstInstruction(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	c := shell("shown", "ulimit -Hf -Ht -Hv -Hu; ulimit -Sc")
	c.MaxFileSize, c.MaxCPU, c.MaxMemory, c.MaxProcesses = 1<<20, 1500*time.Millisecond, 1<<30, 500
	res, out := run(t, s, c)
	for _, want := range []string{"1024\n", " 3\n", "1048576\n", " 500\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s (%+v)", want, out, res)
		}
	}
	big := filepath.Join(t.TempDir(), "big")
	c = shell("size", "exec head -c 3000000 /dev/zero > "+big)
	c.MaxFileSize = 1 << 20
	if res, _ = run(t, s, c); res.Signal != "SIGXFSZ" {
		t.Errorf("file size limit: %+v", res)
	}
	if st, err := os.Stat(big); err != nil || st.Size() != 1<<20 {
		t.Errorf("file size limit: %v %v", st, err)
	}
	c = shell("cpu", "while :; do :; done")
	c.MaxCPU = time.Second
	if res, _ = run(t, s, c); res.Signal != "SIGXCPU" && res.Signal != "SIGKILL" || res.CPU < 500*time.Millisecond {
		t.Errorf("CPU limit: %+v", res)
	}
}

func TestProgramsThatWaitForAPersonDoNotHang(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	repo := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.pager=less"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q")
	for i := range 60 {
		git("commit", "-q", "--allow-empty", "-m", fmt.Sprintf("commit %d", i))
	}
	env := environ.Environment(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.pager", "GIT_CONFIG_VALUE_0=less")
	for i, c := range []struct {
		text string
		exit int
		out  string
	}{
		{"cat", 0, ""},
		{"read x; echo got $?", 0, "got 1"},
		{"git log --oneline | wc -l; git log", 0, "commit 0"},
		{"git -c user.name=t -c user.email=t@t commit --allow-empty", 1, "empty commit message"},
		{"python3 -c 'input()'", 1, "EOFError"},
	} {
		cmd := sandbox.Command{Key: fmt.Sprintf("prompt.%d", i), Shell: c.text, Dir: repo, Env: env, Timeout: patience / 2}
		res, out := run(t, s, cmd)
		if res.TimedOut || res.ExitCode != c.exit || !strings.Contains(out, c.out) {
			t.Errorf("%s: %+v %.300q", c.text, res, out)
		}
	}
}

func TestFollowCopiesEverythingAsItComes(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if out, err := exec.Command("mkfifo", gate).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	p := start(t, s, shell("k", "echo first; read x <"+gate+"; echo second"))
	if got := until(t, p, "first\n"); got != "first\n" {
		t.Errorf("before the gate opened: %q", got)
	}
	if got := output(t, p); got != "first\n" {
		t.Errorf("Output of a running command is %q", got)
	}
	all := make(chan string, 1)
	go func() {
		var b strings.Builder
		if err := p.Follow(context.Background(), &b); err != nil {
			b.WriteString(err.Error())
		}
		all <- b.String()
	}()
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got := <-all; got != "first\nsecond\n" {
		t.Errorf("Follow gave %q", got)
	}
	wait(t, p)
	if got := until(t, p, "second\n"); got != "first\nsecond\n" {
		t.Errorf("Follow after the end gave %q", got)
	}
}

func TestWaitEndsWithItsContextAndTheCommandGoesOn(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	p := start(t, s, shell("k", "sleep 600"))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait: %v", err)
	}
	if keys, err := s.Running(context.Background()); err != nil || len(keys) != 1 {
		t.Fatalf("Running: %v %v", keys, err)
	}
	if err := p.Stop(context.Background(), "enough"); err != nil {
		t.Fatal(err)
	}
	if res := wait(t, p); res.Stopped != "enough" || res.Signal != "SIGTERM" {
		t.Errorf("%+v", res)
	}
}

// program writes a file that is to be run. No process is started meanwhile: it
// would inherit the open file, and what has it open for writing makes it busy.
func program(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
