// Package none is the backend that confines nothing: a command runs under the
// shim with the user's own rights. It must not know anything but the shim; it
// exists so that "unconfined" is a choice with a name, shown to the user,
// never a silent fallback.
package none

import "belay/internal/sandbox/shim"

// Name is how settings and the snapshot call this backend.
const Name = "none"

// Describe is what the user is told.
const Describe = "commands run unconfined, with your own rights: they can write wherever you can and use the network; " +
	"only their deadline, the resource limits asked for and the end of their whole process tree are enforced"

// New returns the backend with its spool in the state directory.
func New(state string) (*shim.Sandbox, error) {
	return shim.New(state, shim.Options{Name: Name, Describe: Describe})
}
