package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v4"

	"belay/internal/core"
	"belay/internal/event"
)

// The tests of this package run the built program: the test binary, started
// under the name belay, is belay with everything wired as main wires it. What
// they cannot see from outside (standard output, exit codes, files, requests
// at a provider), they do not look at.

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"belay": main}) }

// patience bounds every wait for something that must come. It is generous
// because it is only spent by a test that fails.
const patience = 90 * time.Second

// world is a repository, a state directory and an environment of their own.
type world struct {
	t    testing.TB
	dir  string // of everything
	repo string
	cwd  string // where belay runs; the repository, if it is empty
	env  []string
	id   string // of the only goal, once it was asked for
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, repo: filepath.Join(dir, "repo")}
	w.env = environment(dir)
	for _, d := range []string{w.repo, filepath.Join(dir, "home")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		w.put(filepath.Join(w.repo, name), content)
	}
	return w
}

// environment is what belay sees: nothing of the person who runs the tests but
// the tools and Go's build cache.
func environment(dir string) []string {
	return []string{
		"PATH=" + toolPath(), "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + os.TempDir(), "BELAY_STATE=" + filepath.Join(dir, "state"),
		"BELAY_CONFIG=" + filepath.Join(dir, "config"), "GOCACHE=" + goEnv("GOCACHE"), "GOPATH=" + goEnv("GOPATH"), "GOFLAGS=-buildvcs=false",
		"GOPROXY=off", "GOTOOLCHAIN=local", "LANG=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1",
		// Commands of these tests leave their marks beside the repository, where
		// no sandbox lets them; sandbox_test.go takes this out.
		"BELAY_SANDBOX=none",
		// The live view has tests of its own.
		"BELAY_PLAIN=1",
		// Under the race detector every process would sleep a second at its end.
		"GORACE=atexit_sleep_ms=0",
	}
}

var goEnvs = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOPATH").Output()
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	if err != nil {
		panic("go env: " + err.Error())
	}
	return m
})

func goEnv(key string) string { return goEnvs()[key] }

// toolPath is the search path with the real python in front: a version manager
// in its place would look for its settings in a home that is not there.
var toolPath = sync.OnceValue(func() string {
	path := os.Getenv("PATH")
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err == nil {
		path = filepath.Dir(strings.TrimSpace(string(out))) + ":" + path
		first, _, _ := strings.Cut(os.Getenv("PATH"), ":") // belay itself stays first
		path = first + ":" + path
	}
	return path
})

func (w *world) put(path, content string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.repo, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// script writes a model's script and returns the value of --model.
func (w *world) script(steps string) string {
	w.t.Helper()
	var check any
	if err := yaml.Unmarshal([]byte(steps), &check); err != nil {
		w.t.Fatalf("the test's own script: %v\n%s", err, steps)
	}
	path := filepath.Join(w.dir, "model.yaml")
	w.put(path, steps)
	return "script:" + path
}

// result is how one run of belay ended.
type result struct {
	args     []string
	code     int
	out, err string
}

func (r result) String() string {
	return fmt.Sprintf("belay %s: exit %d\n--- stdout\n%s\n--- stderr\n%s", strings.Join(r.args, " "), r.code, r.out, r.err)
}

// belay runs the program to its end.
func (w *world) belay(args ...string) result {
	w.t.Helper()
	return w.start(args...).wait()
}

// must is belay with the exit code it has to have.
func (w *world) must(code int, args ...string) result {
	w.t.Helper()
	r := w.belay(args...)
	if r.code != code {
		w.t.Fatalf("want exit %d: %v", code, r)
	}
	return r
}

// process is a belay that runs.
type process struct {
	w    *world
	args []string
	cmd  *exec.Cmd
	mu   sync.Mutex
	more *sync.Cond
	out  []string
	// partial is the line that has no end yet.
	partial string
	over    bool // standard output has ended
	err     bytes.Buffer
	done    chan struct{} // closed when it has been waited for
	code    int
}

func (w *world) start(args ...string) *process {
	w.t.Helper()
	return w.startWith(nil, args...)
}

// startWith starts with a standard input, which may be nil for none.
func (w *world) startWith(stdin *os.File, args ...string) *process {
	w.t.Helper()
	// A pipe of our own, because a background worker may keep it open.
	r, wr, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.launch(stdin, wr, r, args)
}

// attach starts with a terminal as standard input and output.
func (w *world) attach(tty *terminal, args ...string) *process {
	w.t.Helper()
	return w.launch(tty.slave, tty.slave, tty.master, args)
}

// launch starts with a standard output that is written to and read from.
func (w *world) launch(stdin, stdout, shown *os.File, args []string) *process {
	w.t.Helper()
	p := &process{w: w, args: args, cmd: exec.Command("belay", args...), done: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = cmp.Or(w.cwd, w.repo), w.env, stdout, &p.err
	if stdin != nil {
		p.cmd.Stdin = stdin
	}
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	stdout.Close()
	go p.scan(shown)
	go func() {
		err := p.cmd.Wait()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			p.code = exit.ExitCode()
		case err != nil:
			p.code = -2
		}
		close(p.done)
	}()
	w.t.Cleanup(func() {
		p.kill()
		<-p.done
		if w.t.Failed() {
			w.t.Logf("belay %s ended with %d and said\n%s", strings.Join(args, " "), p.code, p.err.String())
		}
	})
	return p
}

// scan collects what is printed: whole lines, and the line that is not ended
// yet as partial.
func (p *process) scan(r io.ReadCloser) {
	defer r.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		p.mu.Lock()
		for line := range strings.Lines(p.partial + string(buf[:n])) {
			if p.partial = line; strings.HasSuffix(line, "\n") {
				p.out, p.partial = append(p.out, line), ""
			}
		}
		if err != nil {
			p.over = true
			if p.partial != "" {
				p.out, p.partial = append(p.out, p.partial), ""
			}
		}
		p.mu.Unlock()
		p.more.Broadcast()
		if err != nil {
			return
		}
	}
}

// prompt waits for an unfinished line that ends in text.
func (p *process) prompt(text string) {
	p.w.t.Helper()
	late := time.AfterFunc(patience, func() { p.kill(); p.more.Broadcast() })
	defer late.Stop()
	p.mu.Lock()
	for !p.over && !strings.HasSuffix(p.partial, text) {
		p.more.Wait()
	}
	over := p.over
	p.mu.Unlock()
	if over {
		p.w.t.Fatalf("no prompt %q came: %v", text, p.wait())
	}
}

// await returns the first line of standard output that matches.
func (p *process) await(pattern string) string {
	p.w.t.Helper()
	line, ok := p.find(regexp.MustCompile(pattern))
	if !ok {
		p.w.t.Fatalf("no line that matches %q came\n%v", pattern, p.wait())
	}
	return line
}

// find waits for a line; false means that the output ended without one.
func (p *process) find(re *regexp.Regexp) (string, bool) {
	late := time.AfterFunc(patience, func() { p.kill(); p.more.Broadcast() })
	defer late.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; ; i++ {
		for i >= len(p.out) {
			if p.over {
				return "", false
			}
			p.more.Wait()
		}
		if re.MatchString(p.out[i]) {
			return p.out[i], true
		}
	}
}

// kill ends the process as kill -9 does, and nothing else.
func (p *process) kill() { _ = p.cmd.Process.Signal(syscall.SIGKILL) }

// wait waits for the end and for the last byte of output.
func (p *process) wait() result {
	p.w.t.Helper()
	late := time.AfterFunc(patience, func() {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // says what it was doing
		time.AfterFunc(5*time.Second, p.kill)
	})
	<-p.done
	if !late.Stop() {
		p.w.t.Errorf("belay %s did not end within %s", strings.Join(p.args, " "), patience)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over {
		p.more.Wait()
	}
	return result{args: p.args, code: p.code, out: strings.Join(p.out, ""), err: p.err.String()}
}

// goal is the id of the only goal of this world.
func (w *world) goal() string {
	w.t.Helper()
	if w.id == "" {
		w.id = w.listed()
	}
	return w.id
}

// listed is the id of the only goal in the list.
func (w *world) listed() string {
	w.t.Helper()
	var rows []struct {
		Goal string `json:"goal"`
	}
	r := w.must(0, "goals", "--json")
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) != 1 {
		w.t.Fatalf("%d goals, want one: %v %v", len(rows), err, r)
	}
	return rows[0].Goal
}

// record is an event as the program prints it.
type record struct {
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id"`
	Type    event.Type      `json:"type"`
	Op      string          `json:"op_id"`
	Actor   event.Actor     `json:"actor"`
	Fence   uint64          `json:"fence"`
	Hash    string          `json:"hash"`
	Payload json.RawMessage `json:"payload"`
}

// events are the events of the only goal.
func (w *world) events() []record {
	w.t.Helper()
	return decodeEvents(w.t, w.must(0, "events", w.goal()).out)
}

func decodeEvents(t testing.TB, text string) []record {
	t.Helper()
	var es []record
	for line := range strings.Lines(text) {
		var e record
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("a line of events: %v\n%s", err, line)
		}
		if e.Seq != uint64(len(es)+1) {
			t.Fatalf("seq %d after %d", e.Seq, len(es))
		}
		es = append(es, e)
	}
	return es
}

func (w *world) snapshot() core.Snapshot {
	w.t.Helper()
	var s core.Snapshot
	r := w.must(0, "show", w.goal(), "--json")
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		w.t.Fatalf("%v: %v", err, r)
	}
	return s
}

// timeline is the goal as timeline names it, without details.
func (w *world) timeline() []string {
	w.t.Helper()
	var names []string
	for line := range strings.Lines(w.must(0, "timeline", w.goal(), "--json").out) {
		var e core.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.t.Fatalf("%v: %s", err, line)
		}
		names = append(names, e.Name)
	}
	return names
}

// of picks the payloads of one type.
func of[P event.Payload](t testing.TB, es []record) []P {
	t.Helper()
	var ps []P
	for _, e := range es {
		var p P
		if e.Type != p.EventType() {
			continue
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatalf("payload of event %d: %v", e.Seq, err)
		}
		ps = append(ps, p)
	}
	return ps
}

// inOrder checks that names come in this order, others between them.
func inOrder(t testing.TB, got []string, want ...string) {
	t.Helper()
	i := 0
	for _, name := range got {
		if i < len(want) && name == want[i] {
			i++
		}
	}
	if i < len(want) {
		t.Errorf("%q does not come, in its place, in\n%s", want[i], strings.Join(got, "\n"))
	}
}

// count says how often a name occurs.
func count(got []string, name string) int {
	n := 0
	for _, g := range got {
		if g == name {
			n++
		}
	}
	return n
}

// git runs git in the repository with a name of its own.
func (w *world) git(args ...string) string {
	w.t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	c.Dir, c.Env = w.repo, w.env
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// tree is every file under a directory with its mode and content.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		m[rel] = info.Mode().String() + " " + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sameTree compares trees but for some paths.
func sameTree(t testing.TB, what string, before, after map[string]string, but ...string) {
	t.Helper()
	for _, b := range but {
		delete(before, b)
		delete(after, b)
	}
	for name, v := range before {
		switch now, ok := after[name]; {
		case !ok:
			t.Errorf("%s: %s is gone", what, name)
		case now != v:
			t.Errorf("%s: %s changed\nfrom %.300q\nto   %.300q", what, name, v, now)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s: %s is new", what, name)
		}
	}
}

// The smallest repository with a bug, and a check that speaks like a test
// runner, so that a test needs no compiler.
const checkScript = `if grep -q fixed code.txt; then
	echo "1 passed in 0.01s"
else
	echo "FAILED test_code.py::test_code - not fixed"
	echo "1 failed in 0.01s"
	exit 1
fi
`

func toy() map[string]string {
	return map[string]string{"code.txt": "broken\n", "check.sh": checkScript}
}

// The steps of a script that repairs the toy.
const (
	stepRead  = "  - {calls: [{tool: read_file, args: {path: code.txt}}]}\n"
	stepFix   = "  - {calls: [{tool: file_patch, args: {path: code.txt, old_string: broken, new_string: fixed}}]}\n"
	stepBreak = "  - {calls: [{tool: file_patch, args: {path: code.txt, old_string: fixed, new_string: broken}}]}\n"
	stepTest  = "  - {calls: [{tool: run_test, args: {}}]}\n"
	stepDone  = "  - {text: It is done, calls: [{tool: finish, args: {summary: all tests pass}}]}\n"
)

const repair = "steps:\n" + stepRead + stepFix + stepTest + stepDone

// runToy are the flags under which a toy goal needs nobody.
func runToy(model string, more ...string) []string {
	return append([]string{"run", "repair code.txt", "--model", model, "--test", "sh check.sh", "--plan", "never", "--approve", "auto"}, more...)
}

// step is a step of a script with one call.
func stepCall(tool string, args map[string]any) string {
	b, err := json.Marshal(map[string]any{"calls": []any{map[string]any{"tool": tool, "args": args}}})
	if err != nil {
		panic(err)
	}
	return "  - " + string(b) + "\n"
}

// command is a step that runs a command.
func stepCommand(command string) string {
	return stepCall("run_command", map[string]any{"command": command})
}

// readAt reads a file beside the repository.
func (w *world) readAt(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(b)
}
