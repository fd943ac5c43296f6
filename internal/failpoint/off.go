//go:build !failpoints

package failpoint

// Enabled says whether this program has failpoints.
const Enabled = false

// Hit marks an instant. In this build it is nothing.
func Hit(Name) {}

// Err marks an instant at which an error may be injected. In this build there
// is none.
func Err(Name) error { return nil }

// Environ is what a process of ours hands to another whose environment it
// makes anew. In this build it is nothing.
func Environ() []string { return nil }

// Tune returns the value that this build uses: here the real one.
func Tune[T any](real, _ T) T { return real }
