package toolchain_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/environment/toolchain"
)

type world struct {
	t          *testing.T
	bin, state string
}

func newWorld(t *testing.T) *world { return &world{t: t, bin: t.TempDir(), state: t.TempDir()} }

// put makes a program that counts how often it is asked.
func (w *world) put(dir, name, script string) string {
	w.t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho x >>"+filepath.Join(w.state, "asked-"+name)+"\n"+script+"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) asked(name string) int {
	b, err := os.ReadFile(filepath.Join(w.state, "asked-"+name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Count(string(b), "x")
}

func (w *world) open(patience time.Duration, path ...string) *toolchain.Machine {
	m := toolchain.New(toolchain.Config{Dir: w.state, Patience: patience,
		Env: []string{"HOME=/nonexistent", "PATH=" + strings.Join(append(path, w.bin, "/usr/bin", "/bin"), ":")}})
	w.t.Cleanup(func() { m.Close() })
	return m
}

func TestAProgramIsAskedOnceAndAgainWhenItIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(w.bin, "go", `[ "$1" = version ] && [ "$GOTOOLCHAIN" = local ] && echo "go version go1.99.2 x/y"`)
	w.put(w.bin, "java", `echo 'openjdk version "21.0.1" 2023' >&2`)
	w.put(w.bin, "npm", `exit 1`)
	root := t.TempDir()
	for range 2 { // the second process knows it from the file
		m := w.open(time.Minute)
		got := m.Versions(context.Background(), root, []string{"go", "java", "npm", "no-such-program"})
		for name, want := range map[string]string{"go": "1.99.2 (" + w.bin + "/go)", "java": "21.0.1 (" + w.bin + "/java)", "npm": "(" + w.bin + "/npm)", "no-such-program": "not on PATH"} {
			if got[name] != want {
				t.Errorf("%s: %q, want %q", name, got[name], want)
			}
		}
		m.Close()
	}
	if w.asked("go") != 1 || w.asked("npm") != 1 {
		t.Errorf("asked %d and %d times", w.asked("go"), w.asked("npm"))
	}
	w.put(w.bin, "go", `echo "go version go2.10.0, a longer text than before"`)
	if got := w.open(time.Minute).Versions(context.Background(), root, []string{"go"})["go"]; !strings.HasPrefix(got, "2.10.0 ") {
		t.Errorf("after the update: %q", got)
	}
}

func TestAProgramOfTheRepositoryIsNeverRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := t.TempDir()
	inner := w.put(root, "python3", `echo 3.99.0`)
	if err := os.Symlink(inner, filepath.Join(w.bin, "ruby")); err != nil {
		t.Fatal(err)
	}
	got := w.open(time.Minute, ".", root).Versions(context.Background(), root, []string{"python3", "ruby"})
	if got["python3"] != "in the repository, at "+inner || !strings.HasPrefix(got["ruby"], "in the repository") || w.asked("python3") != 0 {
		t.Errorf("%v, asked %d times", got, w.asked("python3"))
	}
}

func TestWhoAsksDoesNotWaitForASlowProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fifo := filepath.Join(w.state, "go-on")
	w.put(w.bin, "cargo", `while [ ! -e `+fifo+` ]; do sleep 0.01; done; echo cargo 1.75.0`)
	m := w.open(time.Millisecond)
	if got := m.Versions(context.Background(), t.TempDir(), []string{"cargo"})["cargo"]; got != "not known yet, at "+w.bin+"/cargo" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(fifo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got := m.Versions(context.Background(), t.TempDir(), []string{"cargo"})["cargo"]
		if strings.HasPrefix(got, "1.75.0 ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %q", got)
		}
	}
}

func TestACacheThatIsNoneIsAnEmptyOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(w.bin, "make", `echo GNU Make 4.3`)
	if err := os.WriteFile(filepath.Join(w.state, toolchain.FileName), []byte("null}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.open(time.Minute).Versions(context.Background(), t.TempDir(), []string{"make"})["make"]; !strings.HasPrefix(got, "4.3 ") {
		t.Errorf("%q", got)
	}
}
