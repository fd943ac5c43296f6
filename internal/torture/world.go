package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"belay/internal/ledger/postgres/pgtest"
)

// patience bounds every process; only a hung one meets it.
const patience = 90 * time.Second

// world is one run's repository, state and environment.
type world struct {
	dir, program string
	base         string         // the laid world that it was copied from
	name         string         // of the run
	server       *pgtest.Server // that has its ledger; nil for SQLite
	place        int            // of places, where the goal is
	points       string         // BELAY_FAILPOINTS of the processes that are tortured
	goal         string
	acked        map[uint64]string // seq → hash of every event that a process printed
	badMu        sync.Mutex
	bad          []string
	log          func(format string, a ...any)
}

func (w *world) violation(format string, a ...any) {
	w.badMu.Lock()
	w.bad = append(w.bad, fmt.Sprintf(format, a...))
	w.badMu.Unlock()
	w.log("VIOLATION: "+format, a...)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// environ is what belay sees. Everything that it starts, and whatever that
// starts, carries the run's directory in its environment.
func (w *world) environ(tortured bool) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1",
		// Effects are counted outside the repository, where no sandbox lets a
		// command write.
		"BELAY_SANDBOX=none", "BELAY_STATE=" + w.path(places[w.place]), "BELAY_CONFIG=" + w.path("config")}
	if w.server != nil {
		env = append(env, "BELAY_DB="+address(w.server, w.name))
	}
	if tortured {
		env = append(env, "BELAY_FAILPOINTS="+w.points, "BELAY_FAILPOINT_DIR="+w.path("points"))
	}
	return env
}

// outcome is how one process ended.
type outcome struct {
	args     []string
	out, err string
	code     int
	killed   bool
}

func (o outcome) String() string {
	how := "exit " + strconv.Itoa(o.code)
	if o.killed {
		how = "killed"
	}
	return fmt.Sprintf("belay %s: %s\n%s%s", strings.Join(o.args, " "), how, tail(o.out), tail(o.err))
}

func tail(s string) string {
	if len(s) > 1500 {
		s = "…" + s[len(s)-1500:]
	}
	return s
}

// belay runs the program to its end; disturb, if any, is called with its
// process.
func (w *world) belay(tortured bool, disturb func(pid int, gone <-chan struct{}), args ...string) (outcome, error) {
	c := exec.Command(w.program, args...)
	c.Dir, c.Env = w.path("repo"), w.environ(tortured)
	// Files, not pipes: what a killed process wrote is there, and nobody waits
	// for a descriptor that a child might have kept.
	out, err := os.CreateTemp(w.dir, "out-")
	if err != nil {
		return outcome{}, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	errFile, err := os.CreateTemp(w.dir, "err-")
	if err != nil {
		return outcome{}, err
	}
	defer os.Remove(errFile.Name())
	defer errFile.Close()
	c.Stdout, c.Stderr = out, errFile
	if err := c.Start(); err != nil {
		return outcome{}, err
	}
	gone := make(chan struct{})
	disturbed := make(chan struct{})
	go func() {
		defer close(disturbed)
		if disturb != nil {
			disturb(c.Process.Pid, gone)
		}
	}()
	late := time.AfterFunc(patience, func() { _ = c.Process.Signal(syscall.SIGQUIT) })
	err = c.Wait()
	close(gone)
	<-disturbed
	hung := !late.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	o := outcome{args: args, code: c.ProcessState.ExitCode()}
	status := c.ProcessState.Sys().(syscall.WaitStatus)
	o.killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	b, err := os.ReadFile(out.Name())
	if err != nil {
		return o, err
	}
	o.out = string(b)
	if b, err = os.ReadFile(errFile.Name()); err != nil {
		return o, err
	}
	o.err = string(b)
	if hung {
		w.violation("belay %s did not end within %s:\n%s", strings.Join(args, " "), patience, o.err)
	}
	if strings.Contains(o.err, "panic:") || strings.Contains(o.err, "internal error") || strings.Contains(o.err, "goroutine ") {
		w.violation("a panic: %v", o)
	}
	w.log("%v", o)
	return o, nil
}

// ask runs an undisturbed command, again while the server is away.
func (w *world) ask(args ...string) (outcome, error) {
	for began := time.Now(); ; {
		o, err := w.belay(false, nil, args...)
		if err != nil || !o.away() || time.Since(began) > patience {
			return o, err
		}
	}
}

// acknowledge notes the events that a process showed: whoever shows an event
// says that it is recorded.
func (w *world) acknowledge(o outcome) {
	for l := range strings.Lines(o.out) {
		var e record
		if json.Unmarshal([]byte(l), &e) != nil || e.Seq == 0 || e.Hash == "" {
			continue // the snapshot at the end, or a line that the kill cut off
		}
		if was, ok := w.acked[e.Seq]; ok && was != e.Hash {
			w.violation("event %d was shown with two contents", e.Seq)
		}
		w.acked[e.Seq] = e.Hash
	}
}

// ours lists the processes of this run.
func (w *world) ours() (list []proc) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(env, []byte(w.dir+"/")) {
			continue
		}
		cmd, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if len(cmd) == 0 {
			continue // a zombie: ended, and somebody else's to reap
		}
		list = append(list, proc{pid, strings.ReplaceAll(strings.TrimSuffix(string(cmd), "\x00"), "\x00", " ")})
	}
	return list
}

type proc struct {
	pid int
	cmd string
}

// shimCommand is how a shim appears among the processes.
const shimCommand = "belay shim"

// killShims kills the run's shims and reports how many.
func (w *world) killShims() int {
	n := 0
	for _, p := range w.ours() {
		if p.cmd == shimCommand && syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// tree is every file below a folder with its mode and content, folders
// included; names that skip says are left out.
func tree(dir string, skip func(rel string) bool) (map[string]string, error) {
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == "." {
			return err
		}
		if skip != nil && skip(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		m[rel] = info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			m[rel] += " " + string(b)
		}
		return nil
	})
	return m, err
}
