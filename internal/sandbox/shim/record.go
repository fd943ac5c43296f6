//go:build linux

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"belay/internal/failpoint"
	"belay/internal/sandbox"
)

// The files of a record; the package comment says what each is for.
const (
	specFile    = "spec.json"
	shimFile    = "shim.json"
	shimTemp    = "shim.tmp"
	outputFile  = "output"
	resultFile  = "result.json"
	resultTemp  = "result.tmp"
	aliveFIFO   = "alive"
	controlFIFO = "control"
	logFile     = "shim.log"
	voidFile    = "void"
	scratchDir  = "scratch" // as in Scratch
)

// format is the version of the record's files. A shim is always the same
// binary as the worker that started it, but a later worker may be another.
const format = 1

// resultRoom is how many bytes are reserved for the result before anything
// runs, so that a disk that the command filled cannot lose it.
const resultRoom = 4096

// maxText bounds free text inside a result to stay within resultRoom even
// when every byte of it is escaped.
const maxText = 256

// spec is what the shim is told to run.
type spec struct {
	Format    int           `json:"format"`
	Key       string        `json:"key"`
	ID        string        `json:"id"`
	Boot      string        `json:"boot"`
	Launch    Launch        `json:"launch"`
	Timeout   time.Duration `json:"timeout,omitempty"`
	Grace     time.Duration `json:"grace,omitempty"`
	MaxOutput int64         `json:"max_output,omitempty"`
	Limits    limits        `json:"limits,omitzero"`
}

// limits are the resource limits to set on the command, 0 for none.
type limits struct {
	Memory    int64         `json:"memory,omitempty"`
	Processes int           `json:"processes,omitempty"`
	CPU       time.Duration `json:"cpu,omitempty"`
	FileSize  int64         `json:"file_size,omitempty"`
}

// Identity names one shim process so that a reused pid is never taken for it.
type Identity struct {
	Pid int `json:"pid"`
	// Start is the process's start time in clock ticks since boot.
	Start uint64 `json:"start"`
	// Boot is the kernel's boot id.
	Boot string `json:"boot"`
}

// marker is the content of shim.json.
type marker struct {
	Identity
	// Group names the shim's control groups, if it was to have any.
	Group string `json:"group,omitempty"`
}

// ended is the content of result.json.
type ended struct {
	Format int            `json:"format"`
	ID     string         `json:"id"`
	Result sandbox.Result `json:"result"`
}

// record is the directory of one attempt.
type record string

func (r record) file(name string) string { return filepath.Join(string(r), name) }

func (r record) exists() bool {
	_, err := os.Lstat(string(r))
	return err == nil
}

// readJSON reads one file of the record; errors name the file.
func (r record) readJSON(name string, into any) error {
	b, err := os.ReadFile(r.file(name))
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return &damage{file: r.file(name), why: err.Error()}
	}
	return nil
}

// damage says that a file of the record does not hold what it should.
type damage struct{ file, why string }

func (d *damage) Error() string {
	return fmt.Sprintf("shim: %s is damaged (%s); look at it, then remove the directory it lies in", d.file, d.why)
}

func (r record) spec() (spec, error) {
	var s spec
	if err := r.readJSON(specFile, &s); err != nil {
		return s, err
	}
	switch {
	case s.Format != format:
		return s, &damage{r.file(specFile), fmt.Sprintf("format %d, this belay reads %d", s.Format, format)}
	case s.ID == "" || s.Key != filepath.Base(string(r)) || len(s.Launch.Argv) == 0:
		return s, &damage{r.file(specFile), "it does not describe this attempt"}
	}
	return s, nil
}

// result returns the recorded result; fs.ErrNotExist when there is none.
func (r record) result() (sandbox.Result, error) {
	var e ended
	if err := r.readJSON(resultFile, &e); err != nil {
		return sandbox.Result{}, err
	}
	if e.Format != format || e.ID == "" {
		return sandbox.Result{}, &damage{r.file(resultFile), "it is not a result of this format"}
	}
	return e.Result, nil
}

// mayHaveRun reports whether the shim came as far as spawning the command.
func (r record) mayHaveRun() bool {
	_, err := os.Lstat(r.file(shimFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// alive reports whether somebody holds the record open: its shim, or the
// worker that is just handing it over.
func (r record) alive() (bool, error) {
	fd, err := openFIFO(r.file(aliveFIFO), syscall.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer syscall.Close(fd)
	var b [1]byte
	for {
		_, err = syscall.Read(fd, b[:])
		if err != syscall.EINTR {
			// EAGAIN: a writer is there and has written nothing, as it never
			// does. No error: end of file, nobody is there.
			return err == syscall.EAGAIN, nil
		}
	}
}

// openFIFO opens a FIFO without waiting for the other side. What is not a FIFO
// is refused: reading it would neither block nor tell anything.
func openFIFO(path string, mode int) (int, error) {
	for {
		fd, err := syscall.Open(path, mode|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			_ = syscall.Close(fd)
			return -1, &damage{path, "it is not a FIFO"}
		}
		return fd, nil
	}
}

// prepare fills an empty directory with everything a shim needs.
func (r record) prepare(s spec) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("shim: encode %s: %w", specFile, err)
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{specFile, b}, {outputFile, nil}, {resultTemp, make([]byte, resultRoom)}} {
		if err := os.WriteFile(r.file(f.name), f.content, 0o600); err != nil {
			return fmt.Errorf("shim: %w", err)
		}
	}
	for _, name := range []string{aliveFIFO, controlFIFO} {
		if err := syscall.Mkfifo(r.file(name), 0o600); err != nil {
			return fmt.Errorf("shim: make FIFO %s: %w; put the state directory on a local file system that has FIFOs", r.file(name), err)
		}
	}
	return nil
}

// prepareMarker writes the shim's identity where nobody looks for it, so that
// showMarker costs one rename.
func (r record) prepareMarker(m marker) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("shim: encode %s: %w", shimFile, err)
	}
	if err := os.WriteFile(r.file(shimTemp), b, 0o600); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	return nil
}

// showMarker makes the identity visible; from here on the command may have
// run.
func (r record) showMarker() error {
	if err := os.Rename(r.file(shimTemp), r.file(shimFile)); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	return nil
}

// writeResult makes the output and the result durable, then visible.
func (r record) writeResult(id string, res sandbox.Result, output *os.File) error {
	res.SpawnError, res.Stopped = clip(res.SpawnError), clip(res.Stopped)
	b, err := json.Marshal(ended{Format: format, ID: id, Result: res})
	if err != nil {
		return fmt.Errorf("shim: encode %s: %w", resultFile, err)
	}
	f, err := os.OpenFile(r.file(resultTemp), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	defer f.Close()
	// Both syncs run at once: the file system commits them together.
	synced := make(chan error, 1)
	go func() {
		if res.Output == 0 {
			synced <- nil
			return
		}
		synced <- syscall.Fdatasync(int(output.Fd()))
	}()
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err == nil {
		err = f.Sync()
	}
	if outErr := <-synced; err == nil && outErr != nil {
		err = fmt.Errorf("sync %s: %w", output.Name(), outErr)
	}
	failpoint.Hit(failpoint.ResultWritten)
	if err == nil {
		err = os.Rename(r.file(resultTemp), r.file(resultFile))
	}
	if err != nil {
		return fmt.Errorf("shim: record the result: %w", err)
	}
	return nil
}

// clip bounds free text.
func clip(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

// syncDir makes a directory's entries durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("shim: sync directory: %w", err)
	}
	return nil
}

// validKey checks that an attempt key is a file name that is neither hidden
// nor special. Names with a leading dot are the spool's own.
func validKey(key string) error {
	if key == "" || len(key) > 200 {
		return fmt.Errorf("shim: attempt key %.40q must have 1 to 200 bytes, it has %d", key, len(key))
	}
	for i, c := range []byte(key) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		case (c == '-' || c == '.') && i > 0:
		default:
			return fmt.Errorf("shim: attempt key %q is not a safe file name (letters, digits, '_', and after the first '.' or '-')", key)
		}
	}
	return nil
}

// self is this process's identity.
func self() (Identity, error) {
	st, err := readStat(os.Getpid())
	if err != nil {
		return Identity{}, fmt.Errorf("shim: read own start time: %w", err)
	}
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	return Identity{Pid: os.Getpid(), Start: st.start, Boot: boot}, nil
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("shim: read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// procStat is the part of /proc/PID/stat that is needed here.
type procStat struct {
	pid, ppid, pgrp int
	zombie          bool
	start           uint64
}

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(pid, string(b))
}

// parseStat reads the fields after the command name, which may itself hold
// spaces and parentheses.
func parseStat(pid int, line string) (procStat, error) {
	_, rest, ok := cutLast(line, ')')
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return procStat{}, fmt.Errorf("/proc/%d/stat has an unknown shape", pid)
	}
	ppid, err1 := strconv.Atoi(f[1])
	pgrp, err2 := strconv.Atoi(f[2])
	start, err3 := strconv.ParseUint(f[19], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return procStat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return procStat{pid: pid, ppid: ppid, pgrp: pgrp, zombie: f[0] == "Z" || f[0] == "X", start: start}, nil
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
