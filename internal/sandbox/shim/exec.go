//go:build linux

package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// spawn starts the command with the given output. It must be called on the
// thread that stays for the shim's life: the parent-death signal is bound to
// it.
func (sp spec) spawn(r record, input, output *os.File, g groups) (int, error) {
	if st, err := os.Stat(sp.Launch.Dir); err != nil {
		return 0, fmt.Errorf("working directory: %w", err)
	} else if !st.IsDir() {
		return 0, fmt.Errorf("working directory %s is not a directory", sp.Launch.Dir)
	}
	path, err := lookPath(sp.Launch)
	if err != nil {
		return 0, err
	}
	if input == nil {
		if input, err = os.OpenFile(os.DevNull, os.O_RDONLY, 0); err != nil {
			return 0, err
		}
		defer input.Close()
	}
	attr := &syscall.ProcAttr{
		Dir: sp.Launch.Dir, Env: sp.Launch.Env,
		Files: []uintptr{input.Fd(), output.Fd(), output.Fd()},
		// Its own session: no terminal to open, and groups that hold nobody
		// else.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if sp.Limits == (limits{}) && sp.Launch.Helper == "" {
		pid, err := syscall.ForkExec(path, sp.Launch.Argv, attr)
		return pid, startError(path, err)
	}
	if sp.Launch.Unshare != 0 {
		unshared(attr.Sys, sp.Launch.Unshare)
	}
	helper := limitArg
	if sp.Launch.Helper != "" {
		helper = sp.Launch.Helper
		if err := os.Mkdir(r.file(scratchDir), 0o700); err != nil {
			return 0, err
		}
	}
	if held := sp.Limits.held(g.limit(sp.Limits)); held != "" {
		attr.Env = append([]string{envHeld + "=" + held}, attr.Env...)
	}
	return spawnHelped(r, helper, attr)
}

// unshared lets the helper start in namespaces of its own. In a user namespace
// it keeps two capabilities across its own start; it gives them up before it
// becomes the command.
func unshared(sys *syscall.SysProcAttr, flags uintptr) {
	sys.Cloneflags = flags
	if flags&syscall.CLONE_NEWUSER == 0 {
		return
	}
	uid, gid := os.Getuid(), os.Getgid()
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	const capNetAdmin, capSysAdmin = 12, 21
	sys.AmbientCaps = []uintptr{capNetAdmin, capSysAdmin}
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

// spawnHelped goes through a helper (this binary again) that sets the limits
// on itself, lets the backend prepare the process, and then becomes the
// command. Limits set from outside would come too late for what the command
// does first; set in the shim, they would bind the shim.
func spawnHelped(r record, helper string, attr *syscall.ProcAttr) (int, error) {
	told, tell, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer told.Close()
	attr.Files = append(attr.Files, tell.Fd())
	attr.Env = append([]string{envHelper + "=1"}, attr.Env...)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"belay", helper, string(r)}, attr)
	tell.Close()
	if err != nil {
		return 0, fmt.Errorf("start the helper %s: %w", helper, err)
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

// Prepare is a backend's part of a helper: it restricts the calling thread,
// which then becomes the command, and may change what is started. Scratch is
// an empty directory of the attempt, removed when the command has ended;
// record is where ProofFile goes.
type Prepare func(l *Launch, record, scratch string) error

// Help makes this process a backend's helper if it was started as one. A
// backend calls it in its init, for the reason that the shim itself takes over
// there; it does not return if the process is that helper.
func Help(name string, p Prepare) {
	if os.Getenv(envHelper) != "" && len(os.Args) == 3 && os.Args[1] == name {
		syscall.Exit(becomeCommand(os.Args[2], p))
	}
}

// becomeCommand is a helper's main. It returns only when it fails, after
// having said why on its descriptor 3.
//
// Which limits are left to it the shim says in the environment, where groups
// hold the others.
func becomeCommand(dir string, prepare Prepare) int {
	runtime.LockOSThread()
	syscall.CloseOnExec(3)
	err := func() error {
		r := record(dir)
		sp, err := r.spec()
		if err != nil {
			return err
		}
		path, err := lookPath(sp.Launch)
		if err != nil {
			return err
		}
		left := sp.Limits
		if os.Getenv(envHeld) != "" {
			left = left.without(os.Getenv(envHeld))
		}
		preferred()
		if prepare != nil {
			if err := prepare(&sp.Launch, dir, r.file(scratchDir)); err != nil {
				return err
			}
		}
		if left.Memory > 0 {
			path, sp.Launch.Argv = limitMemory(left.Memory, path, sp.Launch.Argv)
		}
		for _, l := range left.rlimits() {
			if err := l.set(); err != nil {
				return err
			}
		}
		return startError(path, syscall.Exec(path, sp.Launch.Argv, sp.Launch.Env))
	}()
	_, _ = syscall.Write(3, []byte(clip(err.Error())))
	return 127
}

// preferred makes this process and what it starts the first to be ended when
// memory runs out: the shim, which tells of it, must not be.
func preferred() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0) }

// held names the limits that are no more to be set, for a helper.
func (l limits) held(left limits) string {
	var out []string
	if l.Memory != left.Memory {
		out = append(out, "memory")
	}
	if l.Processes != left.Processes {
		out = append(out, "processes")
	}
	return strings.Join(out, ",")
}

func (l limits) without(held string) limits {
	for h := range strings.SplitSeq(held, ",") {
		switch h {
		case "memory":
			l.Memory = 0
		case "processes":
			l.Processes = 0
		}
	}
	return l
}

type rlimit struct {
	name       string
	resource   int
	soft, hard uint64
}

// limitMemory puts a shell in front that limits the address space. A Go program
// is beyond most limits from its start, and could not even come to the exec.
func limitMemory(bytes int64, path string, argv []string) (string, []string) {
	kib := uint64(bytes) / 1024
	var now syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &now) == nil {
		kib = min(kib, now.Max/1024)
	}
	const shell = "/bin/sh"
	front := []string{shell, "-c", `ulimit -v "$1" && shift && exec "$@"`, "belay", strconv.FormatUint(kib, 10), path}
	return shell, append(front, argv[1:]...)
}

// rlimits translates the limits but that on memory.
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
	}{{"file size", syscall.RLIMIT_FSIZE, l.FileSize}, {"processes", rlimitNproc, int64(l.Processes)}} {
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

// Startable says why a program could not be started, for backends in whose
// view it would be a program of theirs that fails.
func Startable(argv []string, dir string, env []string) error {
	_, err := lookPath(Launch{Argv: argv, Dir: dir, Env: env})
	return err
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
