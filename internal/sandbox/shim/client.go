//go:build linux

package shim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"belay/internal/failpoint"
	"belay/internal/sandbox"
)

// Sandbox starts commands under shims and finds them again. It implements the
// sandbox port for any backend. It is safe for use by many goroutines, and
// many processes may share one state directory.
type Sandbox struct {
	options Options
	spool   string
	boot    string

	mu       sync.Mutex
	reserve  *helper // an idle shim, already started
	refill   bool    // one is being started
	closed   bool
	refilled sync.WaitGroup
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// maxDeaths is how many shims may be killed under one start: more than that is
// no accident.
const maxDeaths = 2

// staleAfter is the age at which a half-prepared or half-removed record is
// taken for a crash's leftover.
const staleAfter = time.Hour

// New returns a sandbox whose spool lies in the state directory. It starts no
// process.
func New(state string, o Options) (*Sandbox, error) {
	abs, err := filepath.Abs(state)
	if err != nil {
		return nil, fmt.Errorf("shim: state directory %q: %w", state, err)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if o.Confine == nil {
		o.Confine = Plain
	}
	s := &Sandbox{options: o, spool: filepath.Join(abs, "spool"), boot: boot}
	if err := os.MkdirAll(s.spool, 0o700); err != nil {
		return nil, fmt.Errorf("shim: make the spool: %w", err)
	}
	s.tidy()
	if o.Bounded {
		sweepGroups()
	}
	return s, nil
}

// Name is the backend's name.
func (s *Sandbox) Name() string { return s.options.Name }

// Describe says in one sentence what holds and what does not.
func (s *Sandbox) Describe() string { return s.options.Describe }

// Close ends the idle shim. Running commands go on; so does every Process.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.refilled.Wait()
	s.mu.Lock()
	h := s.reserve
	s.reserve = nil
	s.mu.Unlock()
	if h != nil {
		h.dismiss()
	}
	return nil
}

func (s *Sandbox) record(key string) record { return record(filepath.Join(s.spool, key)) }

// Start records the command and starts it under a shim; see sandbox.Sandbox.
// When the program cannot be started (no such file, no such directory), that
// is a recorded result with SpawnError, not an error of Start.
func (s *Sandbox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shim: start %s: %w", c.Key, err)
	}
	sp, err := s.specOf(c)
	if err != nil {
		return nil, err
	}
	// A record under which nothing ever ran is removed and the start tried
	// again; with other starters at work that can take more than one round.
	deaths := 0
	for range 10 {
		st, err := s.look(c.Key)
		switch {
		case err != nil:
			return nil, err
		case st == absent:
		case st == void:
			return nil, fmt.Errorf("shim: start %s: %w; nothing has run", c.Key, sandbox.ErrVoid)
		case st == never:
			// Whether it still was in that state does not matter: look again.
			if _, err := s.discard(c.Key, never); err != nil {
				return nil, err
			}
		default:
			return &process{sandbox: s, key: c.Key, record: s.record(c.Key)}, nil
		}
		p, err := s.publish(ctx, sp)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if errors.Is(err, errShimEnded) && deaths < maxDeaths {
			// Killed by somebody (a machine out of memory) before anything ran:
			// that is no fault of the command's.
			deaths++
			continue
		}
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	return nil, fmt.Errorf("shim: start %s: other starters of this attempt keep failing; nothing has run", c.Key)
}

// check refuses what could not be run as meant.
func check(c sandbox.Command) error {
	if err := validKey(c.Key); err != nil {
		return err
	}
	bad := func(what string) error { return fmt.Errorf("shim: command %s: %s", c.Key, what) }
	nul := func(s string) bool { return strings.IndexByte(s, 0) >= 0 }
	switch {
	case len(c.Argv) == 0 && c.Shell == "":
		return bad("it has neither Shell nor Argv")
	case len(c.Argv) > 0 && c.Argv[0] == "":
		return bad("the program's name is empty")
	case nul(c.Shell) || slices.ContainsFunc(c.Argv, nul):
		return bad("its text holds a NUL byte, which no program can be given")
	case !filepath.IsAbs(c.Dir) || nul(c.Dir):
		return bad(fmt.Sprintf("the working directory %q is not an absolute path", c.Dir))
	case c.Timeout < 0 || c.Grace < 0 || c.MaxOutput < 0:
		return bad("Timeout, Grace and MaxOutput must not be negative")
	case c.MaxMemory < 0 || c.MaxProcesses < 0 || c.MaxCPU < 0 || c.MaxFileSize < 0:
		return bad("limits must not be negative")
	}
	for _, kv := range c.Env {
		if i := strings.IndexByte(kv, '='); i <= 0 || nul(kv) {
			return bad(fmt.Sprintf("environment entry %.40q is not KEY=VALUE", kv))
		}
	}
	return nil
}

func (s *Sandbox) specOf(c sandbox.Command) (spec, error) {
	l, err := s.options.Confine(c)
	if err != nil {
		return spec{}, fmt.Errorf("shim: confine %s by %s: %w", c.Key, s.options.Name, err)
	}
	id := newID()
	l.Env = append(slices.DeleteFunc(slices.Clone(l.Env), func(kv string) bool {
		return strings.HasPrefix(kv, EnvAttempt+"=") || strings.HasPrefix(kv, EnvAttemptID+"=")
	}), EnvAttempt+"="+c.Key, EnvAttemptID+"="+id)
	sp := spec{Format: format, Key: c.Key, ID: id, Boot: s.boot, Launch: l,
		Timeout: c.Timeout, Grace: c.Grace, MaxOutput: c.MaxOutput}
	if l.End == nil {
		sp.Limits = s.limitsOf(c)
	}
	return sp, nil
}

func (s *Sandbox) limitsOf(c sandbox.Command) limits {
	l := limits{Memory: c.MaxMemory, Processes: c.MaxProcesses, CPU: c.MaxCPU, FileSize: c.MaxFileSize}
	if s.options.Bounded {
		if l.Processes == 0 {
			l.Processes = DefaultProcesses
		}
		if l.FileSize == 0 {
			l.FileSize = DefaultFileSize
		}
	}
	return l
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}

// publish makes the record and hands it to a shim. The error wraps
// fs.ErrExist when another starter was first.
func (s *Sandbox) publish(ctx context.Context, sp spec) (*process, error) {
	tmp := record(filepath.Join(s.spool, ".new-"+sp.ID))
	if err := os.Mkdir(string(tmp), 0o700); err != nil {
		return nil, fmt.Errorf("shim: %w", err)
	}
	defer os.RemoveAll(string(tmp)) // gone by then, when all went well
	if err := tmp.prepare(sp); err != nil {
		return nil, err
	}
	// Held until the shim holds them too, so that no observer ever sees a
	// published record that nobody holds.
	alive, err := openFIFO(tmp.file(aliveFIFO), syscall.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("shim: %w", err)
	}
	defer syscall.Close(alive)
	control, err := openFIFO(tmp.file(controlFIFO), syscall.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("shim: %w", err)
	}
	defer syscall.Close(control)
	failpoint.Hit(failpoint.RecordPrepared)
	r := s.record(sp.Key)
	// A directory cannot be renamed onto one that is not empty, so exactly one
	// starter gets through.
	if err := os.Rename(string(tmp), string(r)); err != nil {
		return nil, fmt.Errorf("shim: record attempt %s: %w", sp.Key, err)
	}
	failpoint.Hit(failpoint.RecordNamed)
	if err := s.handOver(ctx, r, sp); err != nil {
		// Nothing has run. This worker still holds alive, so only it may remove
		// the record.
		_ = s.remove(r)
		return nil, err
	}
	return &process{sandbox: s, key: sp.Key, record: r}, nil
}

// handOver gets the record into the hands of a shim and has it started. An
// error means that nothing has run and nothing will.
func (s *Sandbox) handOver(ctx context.Context, r record, sp spec) error {
	durable := make(chan error, 1)
	go func() { durable <- syncDir(s.spool) }()
	h, err := s.takeHelper(r)
	if syncErr := <-durable; err == nil && syncErr != nil {
		h.dismiss()
		err = syncErr
	}
	if err == nil && ctx.Err() != nil {
		h.dismiss()
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("shim: start %s: %w", sp.Key, err)
	}
	failpoint.Hit(failpoint.HandedOver)
	// From "go" on, only an explicit refusal by the shim, or its end before the
	// marker was written, means that nothing has run.
	err = h.launch(ctx)
	failpoint.Hit(failpoint.LaunchedShim)
	s.replenish(h)
	if err == nil || r.mayHaveRun() && !errors.Is(err, errRefused) {
		return nil
	}
	return fmt.Errorf("shim: start %s: %w%s", sp.Key, err, lastWords(r))
}

// lastWords is what the shim left in its log, for an error text.
func lastWords(r record) string {
	b, err := os.ReadFile(r.file(logFile))
	if err != nil || len(b) == 0 {
		return ""
	}
	return "; its log says: " + clip(strings.TrimSpace(string(b)))
}

// Attach finds a command that an earlier worker started; see sandbox.Sandbox.
// When the shim is gone without a result it first ends what is left of the
// command. When nothing has run under the key, it puts a void record there
// before it says so.
func (s *Sandbox) Attach(_ context.Context, key string) (sandbox.Process, error) {
	if err := validKey(key); err != nil {
		return nil, err
	}
	for range 10 {
		st, err := s.look(key)
		if err != nil {
			return nil, err
		}
		switch st {
		case void:
			return nil, fmt.Errorf("shim: attempt %s: %w", key, sandbox.ErrNoRecord)
		case gone:
			return nil, s.endGone(key)
		case running, done:
			return &process{sandbox: s, key: key, record: s.record(key), attached: true}, nil
		case never:
			if _, err := s.discard(key, never); err != nil {
				return nil, err
			}
		}
		// A starter that is quicker than this wins, and the next look finds it.
		if err := s.publishVoid(key); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("shim: attach to %s: starters of this attempt keep coming and failing; try again", key)
}

// publishVoid takes the key for good, by the same rename as a start. It need
// not survive a power loss: the starter that it holds off would not either.
func (s *Sandbox) publishVoid(key string) error {
	tmp := record(filepath.Join(s.spool, ".new-"+newID()))
	if err := os.Mkdir(string(tmp), 0o700); err != nil {
		return fmt.Errorf("shim: void attempt %s: %w", key, err)
	}
	defer os.RemoveAll(string(tmp)) // gone by then, when all went well
	if err := os.WriteFile(tmp.file(voidFile), nil, 0o600); err != nil {
		return fmt.Errorf("shim: void attempt %s: %w", key, err)
	}
	failpoint.Hit(failpoint.VoidBefore)
	if err := os.Rename(string(tmp), string(s.record(key))); err != nil {
		return fmt.Errorf("shim: void attempt %s: %w", key, err)
	}
	failpoint.Hit(failpoint.VoidAfter)
	return nil
}

// state is what the spool shows of an attempt.
type state int

const (
	absent  state = iota // no record
	never                // a record under which nothing has run, nor will
	running              // its shim lives
	done                 // its result is recorded, readable or not
	gone                 // started, and nobody knows how it ended
	void                 // never started, and an Attach has said so: it never will
)

// look decides what the spool shows. The order of the questions is the proof.
// A result appears before its shim lets go of alive, so it is asked for again
// after nobody held it. A marker is believed only when afterwards there is
// still neither holder nor result: else it may belong to a successor that was
// published in between.
func (s *Sandbox) look(key string) (state, error) {
	r := s.record(key)
	if !r.exists() {
		return absent, nil
	}
	if _, err := os.Lstat(r.file(voidFile)); err == nil {
		return void, nil
	}
	verdict := never
	for range 2 {
		st, err := s.lookAlive(r)
		if err != nil || st == running || st == done {
			return st, err
		}
		if verdict == gone {
			break
		}
		if !r.mayHaveRun() {
			// In the boot that wrote the record this proves that nothing ran;
			// after a power loss the marker may simply be lost.
			if sp, err := r.spec(); err == nil && sp.Boot == s.boot {
				return never, nil
			}
		}
		verdict = gone
	}
	if !r.exists() {
		return absent, nil
	}
	return verdict, nil
}

// lookAlive tells done and running from all else, which it calls gone.
func (s *Sandbox) lookAlive(r record) (state, error) {
	alive, err := r.alive()
	var broken *damage
	if err != nil && !errors.As(err, &broken) {
		return absent, fmt.Errorf("shim: look for attempt %s: %w", filepath.Base(string(r)), err)
	}
	if _, err := os.Lstat(r.file(resultFile)); err == nil {
		return done, nil
	}
	if alive {
		return running, nil
	}
	return gone, nil
}

// endGone ends what a dead shim left running and says what is known.
func (s *Sandbox) endGone(key string) error {
	r := s.record(key)
	sp, err := r.spec()
	if err != nil {
		return fmt.Errorf("shim: attempt %s: %w (%w)", key, sandbox.ErrGone, err)
	}
	if sp.Boot != s.boot {
		return fmt.Errorf("shim: attempt %s: %w (the machine restarted, or it ran on another one)", key, sandbox.ErrGone)
	}
	// Without a marker nothing was started, and without groups they do nothing.
	var m marker
	_ = r.readJSON(shimFile, &m)
	g := groupsOf(m.Group)
	g.kill()
	if m.Pid != 0 && sp.Launch.End != nil {
		endBeyond(sp.Launch)
	}
	ended, left := endMarked(sp.ID)
	g.remove()
	switch {
	case left > 0:
		return fmt.Errorf("shim: attempt %s: %w (%d of its processes could not be ended)", key, sandbox.ErrGone, left)
	case ended > 0:
		return fmt.Errorf("shim: attempt %s: %w (%d processes it left behind were ended)", key, sandbox.ErrGone, ended)
	}
	return fmt.Errorf("shim: attempt %s: %w%s", key, sandbox.ErrGone, lastWords(r))
}

// Running lists the keys of commands whose shim lives, sorted.
func (s *Sandbox) Running(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(s.spool)
	if err != nil {
		return nil, fmt.Errorf("shim: list the spool: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("shim: list the spool: %w", err)
		}
		if validKey(e.Name()) != nil || !e.IsDir() {
			continue
		}
		st, err := s.look(e.Name())
		if err != nil {
			return nil, err
		}
		if st == running {
			keys = append(keys, e.Name())
		}
	}
	return keys, nil
}

var _ sandbox.Spool = (*Sandbox)(nil)

// Records implements sandbox.Spool.
func (s *Sandbox) Records(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(s.spool)
	if err != nil {
		return nil, fmt.Errorf("shim: list the spool: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if e.IsDir() && validKey(e.Name()) == nil {
			keys = append(keys, e.Name())
		}
	}
	return keys, ctx.Err()
}

// Forget removes the record of an attempt that does not run any more. An
// attempt without a record is no error.
func (s *Sandbox) Forget(_ context.Context, key string) error {
	if err := validKey(key); err != nil {
		return err
	}
	removed, err := s.discard(key, absent, never, done, gone, void)
	if err == nil && !removed {
		err = fmt.Errorf("shim: attempt %s still runs; stop it and wait before forgetting it", key)
	}
	return err
}

// discard removes a record if it is in one of the given states, and reports
// whether it was. The lock keeps two removers from judging one record and
// removing its successor.
func (s *Sandbox) discard(key string, allowed ...state) (bool, error) {
	lock, err := os.OpenFile(filepath.Join(s.spool, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("shim: lock the spool: %w", err)
	}
	defer lock.Close()
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("shim: lock the spool: %w", err)
	}
	st, err := s.look(key)
	if err != nil || !slices.Contains(allowed, st) {
		return false, err
	}
	return true, s.remove(s.record(key))
}

// remove takes a record out of the spool in one step, then deletes it.
func (s *Sandbox) remove(r record) error {
	trash := filepath.Join(s.spool, ".old-"+newID())
	if err := os.Rename(string(r), trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("shim: remove record: %w", err)
	}
	failpoint.Hit(failpoint.RecordTrashed)
	if err := removeAll(trash); err != nil {
		return fmt.Errorf("shim: remove record: %w", err)
	}
	return nil
}

// removeAll removes a directory that commands wrote in: what they made
// read-only (a module cache does) is removed all the same.
func removeAll(path string) error {
	if err := os.RemoveAll(path); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil // what cannot be opened up is told by the second attempt
	})
	return os.RemoveAll(path)
}

// tidy deletes what crashes left half-made. What cannot be deleted now is
// harmless and met again at the next start.
func (s *Sandbox) tidy() {
	entries, err := os.ReadDir(s.spool)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".new-") && !strings.HasPrefix(e.Name(), ".old-") {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(s.spool, e.Name()))
		}
	}
}
