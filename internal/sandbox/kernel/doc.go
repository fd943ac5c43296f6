// Package kernel wraps what Linux offers a process to bind itself: Landlock,
// seccomp filters, capabilities, and mounts in a namespace of its own. Its one
// job is to do what it is told to the calling thread, which then becomes the
// command. It must not know which paths or calls are to be refused for whom:
// that is the backends' matter.
//
// Landlock and seccomp are used by their system calls, without a library: the
// libraries bind every thread of a process, for which they need hooks into the
// C library or the runtime, and the helper has no other thread that matters: an
// exec ends them all and keeps the calling thread's bonds.
package kernel
