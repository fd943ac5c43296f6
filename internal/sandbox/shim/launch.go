package shim

import (
	"encoding/json"
	"os"
	"path/filepath"

	"belay/internal/sandbox"
)

// Launch is what the shim really starts for a command: plain values, so that
// they can be recorded.
type Launch struct {
	// Argv is the program and its arguments. A program without a slash is
	// looked up in Env's PATH.
	Argv []string `json:"argv"`
	// Dir is the working directory in which Argv starts.
	Dir string `json:"dir"`
	// Env is the whole environment.
	Env []string `json:"env"`
	// Helper names the backend's helper (see Help), which prepares the process
	// before it becomes Argv; "" for none. Restrict is its input.
	Helper   string          `json:"helper,omitempty"`
	Restrict json.RawMessage `json:"restrict,omitempty"`
	// Unshare are the namespaces (CLONE_NEW… flags) in which the helper starts.
	// With a user namespace the caller's own ids are mapped to themselves and
	// the helper keeps the capabilities to set it up.
	Unshare uintptr `json:"unshare,omitempty"`
	// Keeper says that the first process belongs to the backend and ends when
	// the command does: it is never asked to end, only killed with all the rest.
	Keeper bool `json:"keeper,omitempty"`
	// Proof, if set, is a text that the file of that name in the attempt's
	// record holds once the command really ran: without it, a first process that
	// ended by itself means that the backend could not set the command up.
	Proof string `json:"proof,omitempty"`
	// End is for a backend whose command need not descend from the shim: the
	// program, with its arguments, that ends and removes what the first process
	// has started. It runs at every end, and may find nothing left to do. With
	// it, the first process's standard input is a pipe that the shim holds (a line
	// asks the command to end, its end says that the shim is gone), and limits
	// are the backend's.
	End []string `json:"end,omitempty"`
	// Absent are files that must not come into being: what has appeared there
	// when the command has ended is removed, and the output says so.
	Absent []string `json:"absent,omitempty"`
}

// The environment markers that every process of a command carries.
const (
	// EnvAttempt holds the attempt key, for people.
	EnvAttempt = "BELAY_ATTEMPT"
	// EnvAttemptID holds the record's random id, by which leftovers are found:
	// keys of two state directories may be equal, ids are not.
	EnvAttemptID = "BELAY_ATTEMPT_ID"
)

// ProofFile is where a helper lets the backend write its Proof, in the
// directory of the record.
const ProofFile = "proof"

// Confine turns a command into what really starts. It runs in the worker,
// before anything is recorded, and must have no effect on the world; an error
// means that the command is not run. A backend that has to act inside the
// started process puts a helper program in front of Plain's Argv.
type Confine func(sandbox.Command) (Launch, error)

// Plain starts the command as it is: Argv, or Shell by bash where /bin/bash
// exists and by sh elsewhere. The shell is neither a login nor an interactive
// one and reads no start-up files; the text runs as given.
func Plain(c sandbox.Command) (Launch, error) {
	argv := c.Argv
	if len(argv) == 0 {
		argv = shellArgv(c.Shell)
	}
	return Launch{Argv: argv, Dir: c.Dir, Env: c.Env}, nil
}

func shellArgv(text string) []string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return []string{"/bin/bash", "--noprofile", "--norc", "-c", text}
	}
	return []string{"/bin/sh", "-c", text}
}

// Options are what a backend supplies.
type Options struct {
	// Name and Describe are the backend's own.
	Name, Describe string
	// Confine is how the backend holds commands; nil means Plain.
	Confine Confine
	// Bounded gives commands that ask for no limits the default ones, and holds
	// the limits by control groups where this user may make them.
	Bounded bool
}

// The limits of bounded commands that name none.
const (
	// DefaultProcesses is far above what builds use and far below what makes a
	// machine unusable.
	DefaultProcesses = 4096
	// DefaultFileSize keeps one runaway file from filling a disk.
	DefaultFileSize = 16 << 30
)

// Scratch is the directory that an attempt's helper finds empty and that is
// removed when the command has ended.
func Scratch(state, key string) string { return filepath.Join(state, "spool", key, "scratch") }
