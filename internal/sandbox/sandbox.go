// Package sandbox is the port for running a command contained, under a shim
// that outlives the runtime.
//
// A command is named by its attempt key. The shim (the same binary, started as
// `belay shim`) owns it in a session of its own, streams its output to the
// spool, enforces the deadline, ends the whole process tree, and writes the
// result file atomically. A new worker finds it by the key. The package must
// not know goals, policy or models; it decides nothing.
package sandbox

import (
	"context"
	"errors"
	"io"
	"time"
)

var (
	// ErrNoRecord: the spool holds nothing under this key: the command never
	// started.
	ErrNoRecord = errors.New("sandbox: no record of this attempt")
	// ErrGone: the spool shows that the command was started, but its shim is
	// gone without a result (killed, or the machine restarted): what it did is
	// unknown.
	ErrGone = errors.New("sandbox: the shim is gone without a result")
	// ErrVoid: another worker looked for this attempt, found that it had never
	// started, and took it over: it may not start any more.
	ErrVoid = errors.New("sandbox: this attempt was taken over by another worker")
	// ErrUnavailable: no backend holds on this machine.
	ErrUnavailable = errors.New("sandbox: no backend holds on this machine")
)

// Sandbox starts commands and finds them again.
type Sandbox interface {
	// Name is the backend ("none", "landlock", …).
	Name() string
	// Describe says in one sentence what holds and what does not.
	Describe() string
	// Start records the command in the spool and starts its shim. When it
	// returns an error, nothing has run. Starting a key that the spool already
	// knows re-attaches to it instead of running it twice.
	Start(ctx context.Context, c Command) (Process, error)
	// Attach finds a command that an earlier worker started: running or ended.
	// Finding none voids the key: ErrNoRecord is only returned once a Start of
	// this key can no longer succeed, so that a worker which was replaced
	// between its commit and its effect cannot run what its successor has taken
	// for never begun.
	Attach(ctx context.Context, key string) (Process, error)
	// Running lists the keys of commands whose shim lives.
	Running(ctx context.Context) ([]string, error)
	// Forget removes the spool of an attempt whose result is recorded.
	Forget(ctx context.Context, key string) error
}

// Spool is a sandbox that can say of which attempts it has records, so that
// those of goals that are long over can be forgotten.
type Spool interface {
	Records(ctx context.Context) (keys []string, err error)
}

// Command is one physical execution.
type Command struct {
	// Key names the attempt: goal, operation and attempt number. It is a safe
	// file name.
	Key string
	// Shell is run by `sh -c` (bash where it exists) when Argv is empty.
	Shell string
	Argv  []string
	// Dir is the absolute working directory.
	Dir string
	// Env is the whole environment, KEY=VALUE; nothing is inherited.
	Env []string
	// Timeout is the wall-clock limit; 0 means none.
	Timeout time.Duration
	// Grace is how long the tree has between the polite signal and the kill;
	// 0 means 2 s.
	Grace time.Duration
	// MaxOutput is how many bytes of output are kept; 0 means 64 MiB. What
	// comes after is counted and dropped.
	MaxOutput int64
	// Workspace is the absolute root that may be written; ReadOnly forbids it.
	Workspace string
	ReadOnly  bool
	// Network is what of the network is reached; see the Network constants. ""
	// is NetworkNone.
	Network string
	// Protected are absolute paths that may be neither written nor read.
	Protected []string
	// Limits of resources, 0 for the backend's default.
	MaxMemory    int64
	MaxProcesses int
	MaxCPU       time.Duration
	MaxFileSize  int64
}

// What a command may reach of the network.
const (
	// NetworkNone reaches nothing outside the command's own processes. A
	// backend that gives them a network of their own leaves them its loopback.
	NetworkNone = "none"
	// NetworkLoopback is the same with a loopback of the command's own for
	// certain: a backend that cannot give one refuses.
	NetworkLoopback = "loopback"
	// NetworkFull is the machine's network.
	NetworkFull = "full"
)

// Process is a started command.
type Process interface {
	Key() string
	// Wait returns the result. It ends early with ctx's error, with the command
	// running on. ErrGone when the shim died without a result.
	Wait(ctx context.Context) (Result, error)
	// Stop asks the shim to end the whole tree: politely, then by force. It
	// returns when the request is delivered; Wait tells when it has happened.
	Stop(ctx context.Context, reason string) error
	// Output opens the spooled output from the start. While the command runs
	// the reader ends at what has been written so far.
	Output() (io.ReadCloser, error)
	// Follow copies output as it is written, from the start, until the command
	// ends or ctx does.
	Follow(ctx context.Context, w io.Writer) error
}

// Result is how a command ended.
type Result struct {
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	// TimedOut: the deadline ended it. Stopped: Stop did, with its reason.
	TimedOut bool   `json:"timed_out,omitempty"`
	Stopped  string `json:"stopped,omitempty"`
	// SpawnError is set when the program could not be started at all.
	SpawnError string        `json:"spawn_error,omitempty"`
	Duration   time.Duration `json:"duration"`
	Output     int64         `json:"output"`  // bytes kept
	Dropped    int64         `json:"dropped"` // bytes past MaxOutput
	Survivors  int           `json:"survivors"`
	// MaxRSS is the largest resident set in bytes, CPU the user and system time.
	MaxRSS int64         `json:"max_rss"`
	CPU    time.Duration `json:"cpu"`
}
