//go:build linux

package shim

import (
	"runtime"
	"sync"
)

// ownThreads is how many threads the shim makes at its start. It is at most in
// this many calls that block at once, and the runtime keeps threads that it has
// made.
const ownThreads = 10

// makeThreads makes the threads that this process may ever need. Later it may
// not be able to: a command that forks without end fills the control group that
// the shim is in, and a Go program that cannot make a thread dies.
func makeThreads() {
	var up, down sync.WaitGroup
	release := make(chan struct{})
	for range ownThreads {
		up.Add(1)
		down.Go(func() {
			// Each has a thread to itself, so there are as many as wait here.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			<-release
		})
	}
	up.Wait()
	close(release)
	down.Wait()
}
