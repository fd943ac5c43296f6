// Package container is the backend that runs commands in a container of an
// image, by the command line that Podman and Docker share. The tools that a
// command finds are the image's; of the machine it sees the workspace, private
// temporary folders and the caches of build tools. It must not know the other
// backends, nor goals or policy.
//
// Three things differ from the backends whose processes are the shim's own.
//
//   - The container may belong to somebody else (Docker's daemon; Podman's
//     monitor). Launch.End is the command that ends it for certain, run by the
//     shim at every end, and by a worker that finds the shim dead.
//   - Signals do not reach in. The first process's standard input is a pipe that
//     the shim holds: a line asks the command to end, and the pipe's own end,
//     which comes with the shim's, kills everything inside.
//   - Limits are the container's. The shim sets none.
//
// Images are pinned: a goal keeps the id that its image's name had at the start.
package container
