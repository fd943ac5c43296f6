//go:build linux

package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"belay/internal/failpoint"
	"belay/internal/sandbox"
)

// init makes the process a shim if it was started as one; see "Speed" in the
// package comment for why it happens here and not in some main. The
// environment variable keeps a `shim` that a person typed from getting here,
// and no command ever inherits it.
func init() {
	if os.Getenv(envHelper) == "" || len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == helperArg && len(os.Args) == 2:
		// Without the runtime's exit hooks: there is nothing to flush, and the
		// worker is waiting to reap.
		syscall.Exit(serve())
	case os.Args[1] == limitArg && len(os.Args) == 3:
		syscall.Exit(becomeCommand(os.Args[2], nil))
	}
}

const (
	socketFD = 3
	// windDown is how long processes that outlive the command's normal end may
	// finish by themselves: enough for a `tee` to write its last lines.
	windDown = 200 * time.Millisecond
	// leftoverGrace is their time between SIGTERM and SIGKILL. It is short
	// because the caller waits for nothing but them.
	leftoverGrace = 250 * time.Millisecond
	defaultGrace  = 2 * time.Second
	// killFor bounds the rounds of SIGKILL. Only processes stuck in the kernel
	// survive the first ones.
	killFor       = 10 * time.Second
	defaultOutput = 64 << 20
)

// serve is the shim's main: wait for a record, take it, run it.
func serve() int {
	// The parent-death signal of the command is bound to the thread that
	// starts it, so this thread must not end before the process does.
	runtime.LockOSThread()
	closeInherited()
	s, err := ready()
	if err != nil {
		return 1 // the worker sees the end of file and starts another
	}
	defer s.leaveGroups()
	sock := os.NewFile(socketFD, "worker")
	in := bufio.NewReader(sock)
	line, err := in.ReadString('\n')
	if err != nil {
		return 0 // dismissed, or the worker died: nothing was asked for
	}
	r := record(strings.TrimSuffix(line, "\n"))
	logTo(r)
	if err := s.take(r); err != nil {
		refuse(sock, err)
		return 1
	}
	failpoint.Hit(failpoint.ShimTaken)
	if _, err := io.WriteString(sock, "ready\n"); err != nil {
		return 0
	}
	if line, err := in.ReadString('\n'); err != nil || line != "go\n" {
		return 0 // the worker died or changed its mind: nothing has run
	}
	failpoint.Hit(failpoint.ShimTold)
	if err := r.showMarker(); err != nil {
		refuse(sock, err)
		return 1
	}
	failpoint.Hit(failpoint.ShimMarked)
	// The worker may die at any moment from here on; a failed answer to it
	// changes nothing.
	res := s.run(func() { _, _ = io.WriteString(sock, "started\n") })
	failpoint.Hit(failpoint.ShimTreeEnded)
	if err := r.writeResult(s.spec.ID, res, s.output); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	failpoint.Hit(failpoint.ResultNamed)
	_ = syscall.Close(s.alive) // waiters wake here
	failpoint.Hit(failpoint.ShimLetGo)
	if err := syncDir(string(r)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := removeAll(r.file(scratchDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 0
}

func refuse(sock io.Writer, err error) {
	_, _ = fmt.Fprintf(sock, "failed %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
}

// closeInherited closes what the worker had inherited itself without knowing,
// such as a pipe that its own caller waits on. The Go runtime's own
// descriptors must stay: it reads the processor limit from files under /sys as
// long as the process lives, and crashes over whatever else it finds under
// their numbers. Event queues and pid descriptors have no path at all.
func closeInherited() {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	names, _ := d.Readdirnames(-1)
	d.Close()
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil || fd <= socketFD {
			continue
		}
		to, err := os.Readlink("/proc/self/fd/" + n)
		if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/") && !strings.HasPrefix(to, "/proc/") {
			_ = syscall.Close(fd)
		}
	}
	syscall.CloseOnExec(socketFD)
}

// logTo sends what the Go runtime says at a crash to the record.
func logTo(r record) {
	f, err := os.OpenFile(r.file(logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_ = syscall.Dup3(int(f.Fd()), 2, 0)
}

// supervisor runs one command from its spawn to the end of its tree.
type supervisor struct {
	me     Identity
	record record
	spec   spec
	groups groups
	// entered brings the groups once this process is in them.
	entered chan groups
	group   string
	alive   int
	output  *os.File
	from    *os.File // the command's output: read here,
	to      *os.File // written there

	// life is the shim's end of the first process's standard input, where the
	// backend wants one.
	life *os.File

	main    int
	exited  chan syscall.WaitStatus // the command's first process ended
	empty   chan struct{}           // no child is left, hence no descendant
	signals chan os.Signal
	stops   chan string
	beyond  beyond

	mu     sync.Mutex
	cpu    time.Duration
	maxRSS int64

	res     sandbox.Result
	began   time.Time
	isOver  bool // the first process has ended
	phase   phase
	extra   map[Identity]bool // processes met after the first one ended
	killEnd time.Time
	pause   time.Duration
}

// phase is how far the ending of the tree has come.
type phase int

const (
	untouched phase = iota
	winding         // the command ended by itself; leftovers may finish
	asked           // SIGTERM sent
	killing         // SIGKILL rounds
)

// ready does everything that needs no record, so that an idle shim has it
// behind it.
func ready() (*supervisor, error) {
	me, err := self()
	if err != nil {
		return nil, err
	}
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		return nil, fmt.Errorf("become the reaper of the command's processes: %w", errno)
	}
	// No core dumps into the workspace: they would change its tree.
	var core syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CORE, &core) == nil {
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 0, Max: core.Max})
	}
	s := &supervisor{me: me, entered: make(chan groups, 1), group: os.Getenv(envGroup), exited: make(chan syscall.WaitStatus, 1), empty: make(chan struct{}),
		signals: make(chan os.Signal, 4), stops: make(chan string), extra: map[Identity]bool{}}
	if s.from, s.to, err = os.Pipe(); err != nil {
		return nil, err
	}
	const setPipeSize = 1031 // F_SETPIPE_SZ; refused is as good
	if raw, err := s.from.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, 1<<20) })
	}
	// Caught, not ignored: an ignored signal would stay ignored in the
	// command. A hang-up means nothing to a shim; the others are a request to
	// end, such as the machine's shutdown.
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	if s.group != "" {
		makeThreads()
	}
	go func() {
		s.entered <- groupsOf(s.group).enter()
		close(s.entered)
	}()
	// The first use of a type by encoding/json is the slow one.
	if b, err := json.Marshal(spec{}); err == nil {
		_ = json.Unmarshal(b, new(spec))
	}
	_, _ = json.Marshal(ended{})
	return s, nil
}

// take opens everything the record offers. Holding alive comes first: from
// then on the record counts as held.
func (s *supervisor) take(r record) error {
	var err error
	s.record = r
	if s.alive, err = openFIFO(r.file(aliveFIFO), syscall.O_RDWR); err != nil {
		return err
	}
	if s.spec, err = r.spec(); err != nil {
		return err
	}
	control, err := openFIFO(r.file(controlFIFO), syscall.O_RDWR)
	if err != nil {
		return err
	}
	if s.output, err = os.OpenFile(r.file(outputFile), os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return err
	}
	go s.listen(os.NewFile(uintptr(control), controlFIFO))
	return r.prepareMarker(marker{s.me, s.group})
}

// leaveGroups leaves nothing of the groups behind.
func (s *supervisor) leaveGroups() {
	if s.groups == nil {
		s.groups = <-s.entered // at once, when run has taken it
	}
	s.groups.leave()
}

// listen takes stop requests for as long as the process lives.
func (s *supervisor) listen(control *os.File) {
	in := bufio.NewReader(control)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		reason := strings.TrimSuffix(line, "\n")
		if reason == "" {
			reason = "stopped"
		}
		s.stops <- reason
	}
}

// run spawns the command, tells that it did, and returns the result once the
// whole tree has ended.
func (s *supervisor) run(started func()) sandbox.Result {
	var err error
	s.began = time.Now()
	s.groups = <-s.entered
	var input *os.File
	if s.spec.Launch.End != nil {
		input, s.life, err = os.Pipe()
	}
	if err == nil {
		s.main, err = s.spec.spawn(s.record, input, s.to, s.groups)
	}
	input.Close() // of nil is nothing
	s.to.Close()
	if err != nil {
		started()
		return sandbox.Result{ExitCode: -1, SpawnError: err.Error()}
	}
	limit := s.spec.MaxOutput
	if limit == 0 {
		limit = defaultOutput
	}
	p := newPump(s.from, s.output, limit)
	go p.run()
	go s.reap()
	failpoint.Hit(failpoint.ShimSpawned)
	started()
	failpoint.Hit(failpoint.ShimStarted)
	s.watch()
	p.finish()
	s.removeForbidden(p)
	s.res.Output, s.res.Dropped = p.kept, p.dropped
	s.res.Survivors = len(s.extra)
	s.mu.Lock()
	s.res.CPU, s.res.MaxRSS = s.cpu, s.maxRSS
	s.mu.Unlock()
	s.prove()
	return s.res
}

// removeForbidden removes what the command has made where nothing may be.
func (s *supervisor) removeForbidden(p *pump) {
	for _, path := range s.spec.Launch.Absent {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		what := "removed"
		if err := os.RemoveAll(path); err != nil {
			what = "could not remove"
		}
		p.store([]byte("\nbelay: " + what + " " + path + ": a command may not make this file, git would follow it\n"))
	}
}

// prove turns the end of a backend that could not set the command up into what
// it is: the command was not started.
func (s *supervisor) prove() {
	if s.spec.Launch.Proof == "" || s.res.TimedOut || s.res.Stopped != "" || s.res.Signal != "" {
		return
	}
	b, err := os.ReadFile(s.record.file(ProofFile))
	if err == nil && strings.Contains(string(b), s.spec.Launch.Proof) {
		return
	}
	said, _ := os.ReadFile(s.output.Name())
	s.res.ExitCode, s.res.SpawnError = -1, "the sandbox could not be set up: "+strings.TrimSpace(string(said))
}

// reap collects every child, adopted ones included, until none is left.
func (s *supervisor) reap() {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, 0, &ru)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			close(s.empty)
			return
		}
		s.mu.Lock()
		s.cpu += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		s.maxRSS = max(s.maxRSS, ru.Maxrss*1024)
		s.mu.Unlock()
		switch pid {
		case s.main:
			s.exited <- ws
		default:
			s.beyond.ended(pid)
		}
	}
}

// watch waits for the end of the tree, and brings it about where it does not
// come by itself.
func (s *supervisor) watch() {
	var deadline <-chan time.Time
	if s.spec.Timeout > 0 {
		deadline = time.After(s.spec.Timeout - time.Since(s.began))
	}
	var next <-chan time.Time
	for {
		select {
		case ws := <-s.exited:
			next = s.over(ws, next)
		case <-s.empty:
			if s.isOver {
				return
			}
			select {
			case ws := <-s.exited:
				s.over(ws, nil)
			default:
				// Somebody else reaped it (a debugger); how it ended is lost.
				s.res.ExitCode, s.res.Duration = -1, time.Since(s.began)
			}
			return
		case <-deadline:
			if s.mayEnd() {
				s.res.TimedOut = true
				next = s.ask()
			}
		case reason := <-s.stops:
			if s.mayEnd() {
				s.res.Stopped = reason
				next = s.ask()
			}
		case sig := <-s.signals:
			if s.mayEnd() {
				s.res.Stopped = "the shim got " + signalName(sig.(syscall.Signal))
				next = s.ask()
			}
		case <-next:
			if next = s.escalate(); next == nil {
				s.giveUp()
				return
			}
		}
	}
}

// mayEnd reports whether the command still runs by itself. An end that has
// already happened but was not looked at yet counts.
func (s *supervisor) mayEnd() bool {
	if s.phase != untouched {
		return false
	}
	select {
	case ws := <-s.exited:
		s.exited <- ws // buffered, and the reaper sends only once
		return false
	default:
		return true
	}
}

// over notes how the command's first process ended.
func (s *supervisor) over(ws syscall.WaitStatus, next <-chan time.Time) <-chan time.Time {
	s.isOver = true
	s.res.Duration = time.Since(s.began)
	s.res.ExitCode = ws.ExitStatus()
	if ws.Signaled() {
		s.res.Signal = signalName(ws.Signal())
		// The number a shell would give it.
		s.res.ExitCode = 128 + int(ws.Signal())
	}
	if s.phase != untouched {
		return next
	}
	s.endBeyond()
	s.phase = winding
	return time.After(windDown)
}

// ask sends SIGTERM to the tree and returns when to go further.
func (s *supervisor) ask() <-chan time.Time {
	grace := s.spec.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	if s.phase == winding {
		grace = min(grace, leftoverGrace)
	}
	s.phase = asked
	if s.spec.Launch.End != nil {
		// It does not matter if nobody reads any more: then it is over.
		_, _ = s.life.WriteString("end\n")
		return time.After(grace)
	}
	tree := s.living()
	if s.spec.Launch.Keeper {
		tree = slices.DeleteFunc(tree, func(p procStat) bool { return p.pid == s.main || p.pgrp == s.main })
	}
	signalTree(tree, syscall.SIGTERM)
	signalTree(tree, syscall.SIGCONT) // a stopped process hears nothing
	return time.After(grace)
}

// escalate takes the next step against processes that are still there; nil
// when no step is left.
func (s *supervisor) escalate() <-chan time.Time {
	switch s.phase {
	case winding:
		return s.ask()
	case asked:
		s.endBeyond()
		s.phase = killing
		s.killEnd = time.Now().Add(killFor)
		s.pause = time.Millisecond
	case killing:
		if time.Now().After(s.killEnd) {
			return nil
		}
	}
	s.groups.kill()
	signalTree(s.living(), syscall.SIGKILL)
	s.pause = min(2*s.pause, 100*time.Millisecond)
	return time.After(s.pause)
}

// giveUp accounts for processes that not even SIGKILL ended in time: the
// kernel holds them, and they end when it lets go.
func (s *supervisor) giveUp() {
	if !s.isOver {
		s.res.ExitCode, s.res.Duration = -1, time.Since(s.began)
	}
	s.isOver = true
	s.living()
}

// living are the processes of the tree now. Those that are met after the
// first one's end are counted as survivors.
func (s *supervisor) living() []procStat {
	tree := descendants()
	if s.isOver && s.spec.Launch.End == nil {
		for _, p := range tree {
			s.extra[Identity{Pid: p.pid, Start: p.start}] = true
		}
	}
	return tree
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL",
	syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE",
	syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV", syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM", syscall.SIGXCPU: "SIGXCPU",
	syscall.SIGXFSZ: "SIGXFSZ", syscall.SIGSYS: "SIGSYS", syscall.SIGVTALRM: "SIGVTALRM", syscall.SIGPROF: "SIGPROF",
}

func signalName(s syscall.Signal) string {
	if n, ok := signalNames[s]; ok {
		return n
	}
	return "signal " + strconv.Itoa(int(s))
}
