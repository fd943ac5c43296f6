//go:build linux

package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// spawn starts the command with the given output. It must be called on the
// thread that stays for the shim's life: the parent-death signal is bound to
// it.
func (sp spec) spawn(r record, output *os.File) (int, error) {
	if st, err := os.Stat(sp.Launch.Dir); err != nil {
		return 0, fmt.Errorf("working directory: %w", err)
	} else if !st.IsDir() {
		return 0, fmt.Errorf("working directory %s is not a directory", sp.Launch.Dir)
	}
	path, err := lookPath(sp.Launch)
	if err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{
		Dir: sp.Launch.Dir, Env: sp.Launch.Env,
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
		// Its own session: no terminal to open, and groups that hold nobody
		// else.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if sp.Limits == (limits{}) {
		pid, err := syscall.ForkExec(path, sp.Launch.Argv, attr)
		return pid, startError(path, err)
	}
	return spawnLimited(r, attr)
}

func startError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("start %s: %w: write the text to a file and run that", path, err)
	case errors.Is(err, syscall.ENOENT):
		// The file itself is there, lookPath saw it.
		return fmt.Errorf("start %s: %w (is the interpreter in its first line, or its loader, missing?)", path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// spawnLimited goes through a helper (this binary again) that sets the limits
// on itself and then becomes the command. Limits set from outside would come
// too late for what the command does first; set in the shim, they would bind
// the shim.
func spawnLimited(r record, attr *syscall.ProcAttr) (int, error) {
	told, tell, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer told.Close()
	attr.Files = append(attr.Files, tell.Fd())
	attr.Env = append([]string{envHelper + "=1"}, attr.Env...)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"belay", limitArg, string(r)}, attr)
	tell.Close()
	if err != nil {
		return 0, fmt.Errorf("start the limits helper: %w", err)
	}
	// The pipe closes when the helper becomes the command, and when it dies.
	why, err := io.ReadAll(told)
	if err == nil && len(why) == 0 {
		return pid, nil
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	return 0, fmt.Errorf("%s", why)
}

// Resource limits that package syscall has no names for.
const rlimitNproc = 6

// becomeLimited is the limits helper. It returns only when it fails, after
// having said why on its descriptor 3.
func becomeLimited(dir string) int {
	runtime.LockOSThread()
	syscall.CloseOnExec(3)
	err := func() error {
		sp, err := record(dir).spec()
		if err != nil {
			return err
		}
		path, err := lookPath(sp.Launch)
		if err != nil {
			return err
		}
		for _, l := range sp.Limits.rlimits() {
			if err := l.set(); err != nil {
				return err
			}
		}
		return startError(path, syscall.Exec(path, sp.Launch.Argv, sp.Launch.Env))
	}()
	_, _ = syscall.Write(3, []byte(clip(err.Error())))
	return 127
}

type rlimit struct {
	name       string
	resource   int
	soft, hard uint64
}

// rlimits translates the limits. The address space comes last: from then on
// this process itself can hardly allocate.
func (l limits) rlimits() []rlimit {
	var out []rlimit
	if l.CPU > 0 {
		// Whole seconds, rounded up; the second between the two limits lets
		// SIGXCPU say why before SIGKILL ends it.
		s := uint64((l.CPU + time.Second - 1) / time.Second)
		out = append(out, rlimit{"CPU time", syscall.RLIMIT_CPU, s, s + 1})
	}
	for _, e := range []struct {
		name     string
		resource int
		value    int64
	}{{"file size", syscall.RLIMIT_FSIZE, l.FileSize}, {"processes", rlimitNproc, int64(l.Processes)}, {"memory", syscall.RLIMIT_AS, l.Memory}} {
		if e.value > 0 {
			out = append(out, rlimit{e.name, e.resource, uint64(e.value), uint64(e.value)})
		}
	}
	return out
}

// set applies the limit, or the present hard limit where that is lower.
func (l rlimit) set() error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(l.resource, &now); err != nil {
		return fmt.Errorf("read the %s limit: %w", l.name, err)
	}
	want := syscall.Rlimit{Cur: min(l.soft, now.Max), Max: min(l.hard, now.Max)}
	if err := syscall.Setrlimit(l.resource, &want); err != nil {
		return fmt.Errorf("set the %s limit to %d: %w", l.name, l.soft, err)
	}
	return nil
}

// lookPath finds the program as the command's own environment names it.
func lookPath(l Launch) (string, error) {
	name := l.Argv[0]
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(l.Dir, name)
		}
		return full, executable(full)
	}
	var path string
	for _, kv := range l.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		// An empty or relative entry would mean the workspace: a file there
		// must not become a command by its name alone.
		if !filepath.IsAbs(dir) {
			continue
		}
		if full := filepath.Join(dir, name); executable(full) == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("program %q is not in the command's PATH (%s)", name, path)
}

func executable(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	const execute = 1
	if st.IsDir() || syscall.Access(path, execute) != nil {
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}
