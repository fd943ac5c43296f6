// Package toolchain looks up which versions of programs a machine has, for the
// facts of environment_captured. It must not know goals or workspaces.
//
// A program is asked for its version in the root directory, with the reduced
// environment of commands, and never when it stands in the repository: its
// answer would be the repository's code. Answers are kept by the program's file,
// so that the same program is asked once; whoever asks waits a moment only, and
// what answers later is known the next time.
package toolchain

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// FileName is the cache's file in a state directory.
const FileName = "toolchains.json"

const (
	// patience is how long a question waits for answers that are not known yet.
	patience = 25 * time.Millisecond
	// askLimit is how long a program may take.
	askLimit = 5 * time.Second
	// maxKept bounds the cache.
	maxKept = 200
)

// Config says where the machine's programs are looked for.
type Config struct {
	// Dir is the state directory.
	Dir string
	// Env is the environment of commands; PATH is taken from it.
	Env []string
	// Patience is how long a question waits; 0 means 25 ms.
	Patience time.Duration
}

// Machine answers for this machine. It is safe for use by several goroutines.
type Machine struct {
	c      Config
	ctx    context.Context
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu    sync.Mutex
	known map[string]string        // by program's file as it is
	open  map[string]chan struct{} // being asked
}

// New makes a machine; nothing is read or started yet.
func New(c Config) *Machine {
	if c.Patience <= 0 {
		c.Patience = patience
	}
	m := &Machine{c: c, open: map[string]chan struct{}{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Close ends what is still being asked.
func (m *Machine) Close() error {
	m.cancel()
	m.asking.Wait()
	return nil
}

// Versions says of each program which version it has and where it stands. The
// text begins with the version where that is known: "1.26.8 (/usr/bin/go)".
func (m *Machine) Versions(ctx context.Context, root string, programs []string) map[string]string {
	out := map[string]string{}
	type open struct{ name, path, key string }
	var asked []open
	for _, name := range programs {
		path, key := m.find(name)
		switch {
		case path == "":
			out[name] = "not on PATH"
		case inside(root, path):
			out[name] = "in the repository, at " + path
		default:
			asked = append(asked, open{name, path, key})
			m.ask(name, path, key)
		}
	}
	wait, cancel := context.WithTimeout(ctx, m.c.Patience)
	defer cancel()
	for _, a := range asked {
		if v, ok := m.answer(wait, a.key); ok {
			out[a.name] = strings.TrimSpace(v + " (" + a.path + ")")
		} else {
			out[a.name] = "not known yet, at " + a.path
		}
	}
	return out
}

// find is a program's path, and a key that another content of it changes.
func (m *Machine) find(name string) (path, key string) {
	list := ""
	for _, kv := range m.c.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = v
		}
	}
	for _, dir := range filepath.SplitList(list) {
		if !filepath.IsAbs(dir) {
			continue // it would be another program in each directory
		}
		p := filepath.Join(dir, name)
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue
		}
		stamp, _ := json.Marshal([]any{name, real, info.Size(), info.ModTime().UnixNano()}) // strings and numbers
		return p, string(stamp)
	}
	return "", ""
}

// inside reports whether a program, or what it links to, stands in a directory.
func inside(root, path string) bool {
	real, err := filepath.EvalSymlinks(path)
	for _, p := range []string{path, real} {
		if rel, relErr := filepath.Rel(root, p); relErr == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return true
		}
	}
	return err != nil
}

// ask asks a program in the background unless its answer is known or on its way.
func (m *Machine) ask(name, path, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load()
	if _, ok := m.known[key]; ok || m.open[key] != nil || m.ctx.Err() != nil {
		return
	}
	done := make(chan struct{})
	m.open[key] = done
	m.asking.Go(func() {
		defer close(done)
		v, ok := m.run(name, path)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, key)
		if ok {
			m.known[key] = v
			m.save()
		}
	})
}

func (m *Machine) answer(ctx context.Context, key string) (string, bool) {
	m.mu.Lock()
	done := m.open[key]
	m.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[key]
	return v, ok
}

// flags are the ways to ask that are not --version.
var flags = map[string][]string{"go": {"version"}, "java": {"-version"}}

var version = regexp.MustCompile(`\d+\.\d+[0-9A-Za-z.+_-]*`)

// run asks one program. A program that fails or says no version has none that
// is known, and is not asked again; one that was interrupted is.
func (m *Machine) run(name, path string) (string, bool) {
	ctx, cancel := context.WithTimeout(m.ctx, askLimit)
	defer cancel()
	args := flags[name]
	if args == nil {
		args = []string{"--version"}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	// Looking must not fetch another toolchain.
	cmd.Env = append(append([]string{}, m.c.Env...), "GOTOOLCHAIN=local", "RUSTUP_AUTO_INSTALL=0", "NO_UPDATE_NOTIFIER=1", "COREPACK_ENABLE_NETWORK=0", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if m.ctx.Err() != nil {
		return "", false
	}
	if err != nil {
		return "", true
	}
	return version.FindString(said.String()), true
}

// load reads the cache once. A cache that cannot be read is an empty one.
func (m *Machine) load() {
	if m.known != nil {
		return
	}
	m.known = map[string]string{}
	if b, err := os.ReadFile(filepath.Join(m.c.Dir, FileName)); err == nil {
		_ = json.Unmarshal(b, &m.known)
	}
	if m.known == nil {
		m.known = map[string]string{}
	}
}

// save keeps the cache for the next process. One that cannot be kept costs a
// question more.
func (m *Machine) save() {
	for k := range m.known {
		if len(m.known) <= maxKept {
			break
		}
		delete(m.known, k)
	}
	b, err := json.Marshal(m.known)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(m.c.Dir, FileName+".*")
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err != nil || cerr != nil || os.Rename(f.Name(), filepath.Join(m.c.Dir, FileName)) != nil {
		_ = os.Remove(f.Name())
	}
}
