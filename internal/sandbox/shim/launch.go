package shim

import (
	"os"

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
}

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
}
