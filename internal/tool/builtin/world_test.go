package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger/memory"
	"belay/internal/sandbox"
	"belay/internal/sandbox/none"
	"belay/internal/sandbox/shim"
	"belay/internal/tool"
	"belay/internal/tool/builtin"
	"belay/internal/workspace/local"
)

// world is a real workspace with a real sandbox and artifact store, and what
// a goal's driver keeps of them: which contents the model knows.
type world struct {
	t    testing.TB
	root string
	env  tool.Env
	reg  *builtin.Registry
	seen map[string]string
	ops  int
	// state is where the sandbox has its spool.
	state string
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, seen: map[string]string{}, state: t.TempDir()}
	for p, c := range files {
		w.put(p, c)
	}
	ws, err := local.Open(t.Context(), root, local.Options{State: t.TempDir(), Lock: true, Goal: "g"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := none.New(w.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close(); sb.Close() })
	w.env = tool.Env{Workspace: ws, Sandbox: sb, Artifacts: memory.New(memory.Options{}),
		BaseEnv: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TERM=dumb"}}
	w.reg = builtin.New(builtin.Config{Roots: []string{root}})
	return w
}

func (w *world) put(p, content string) {
	w.t.Helper()
	full := filepath.Join(w.root, filepath.FromSlash(p))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(p string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.root, filepath.FromSlash(p)))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) git(args ...string) {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.root
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// result is the end of one operation.
type result struct {
	outcome event.Outcome
	event.Result
	prepared tool.Prepared
}

// call describes a call as the executor does.
func (w *world) call(name string, args any) (tool.Tool, tool.Call) {
	w.t.Helper()
	raw, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		if err != nil {
			w.t.Fatal(err)
		}
		raw = string(b)
	}
	tl, err := w.reg.Lookup(name)
	if err != nil {
		w.t.Fatal(err)
	}
	n, _, err := tl.Describe(json.RawMessage(raw))
	if err != nil {
		w.t.Fatalf("%s %s: %v", name, raw, err)
	}
	w.ops++
	return tl, tool.Call{Goal: "g", Op: "op" + strings.Repeat("x", w.ops), Attempt: 1, Args: n, Seen: w.seen}
}

// run takes a call through prepare and run. A fault of Prepare rejects it.
func (w *world) run(name string, args any) result {
	w.t.Helper()
	return w.runCtx(w.t.Context(), name, args)
}

func (w *world) runCtx(ctx context.Context, name string, args any) result {
	w.t.Helper()
	tl, c := w.call(name, args)
	var r result
	if p, ok := tl.(tool.Preparer); ok {
		var err error
		if r.prepared, err = p.Prepare(ctx, w.env, c); err != nil {
			var f *fault.Fault
			if !errors.As(err, &f) {
				w.t.Fatalf("%s: Prepare: %v", name, err)
			}
			r.outcome, r.Fault = event.Rejected, f
			return r
		}
		c.Intent.Files = r.prepared.Files
	}
	var err error
	if r.outcome, r.Result, err = tl.(tool.Runner).Run(ctx, w.env, c); err != nil {
		w.t.Fatalf("%s: Run: %v", name, err)
	}
	for _, s := range r.Seen {
		w.seen[s.Path] = s.Hash
	}
	return r
}

func (w *world) ok(name string, args any) result {
	w.t.Helper()
	r := w.run(name, args)
	if r.outcome != event.Succeeded || r.Fault != nil {
		w.t.Fatalf("%s %v: %s, %v", name, args, r.outcome, r.Fault)
	}
	return r
}

func (w *world) refused(kind fault.Kind, name string, args any, says ...string) result {
	w.t.Helper()
	r := w.run(name, args)
	if r.Fault == nil || r.Fault.Kind != kind || r.outcome == event.Succeeded {
		w.t.Fatalf("%s %v: %s, %v, want %s", name, args, r.outcome, r.Fault, kind)
	}
	for _, s := range says {
		if !strings.Contains(r.Fault.Error(), s) {
			w.t.Errorf("%s %v: %v does not say %q", name, args, r.Fault, s)
		}
	}
	return r
}

func (w *world) says(r result, parts ...string) {
	w.t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.Output.Head, p) {
			w.t.Errorf("the model is told %q, without %q", r.Output.Head, p)
		}
	}
}

func (w *world) artifact(ref event.Ref) string {
	w.t.Helper()
	rc, err := w.env.Artifacts.OpenArtifact(w.t.Context(), ref.SHA256)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rc.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(rc); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

type obj = map[string]any

func execute(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

// killShim kills the process that supervises a command, as an out-of-memory
// killer would.
func killShim(t testing.TB, p sandbox.Process) {
	t.Helper()
	s, ok := p.(interface{ Shim() (shim.Identity, error) })
	if !ok {
		t.Fatalf("%T does not name its shim", p)
	}
	id, err := s.Shim()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(id.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
