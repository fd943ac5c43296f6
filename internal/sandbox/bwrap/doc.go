// Package bwrap is the backend that holds commands by bubblewrap: namespaces
// for mounts, processes, IPC, names and network, no capabilities, and a seccomp
// filter. It must not know the other backends, nor goals or policy.
//
// Two things of bubblewrap's own do not fit the shim's rules and are bridged.
//
//   - Its first process, outside, must not be asked to end, for its end is the
//     kill of everything inside (--die-with-parent): the shim keeps its hands
//     off it (Launch.Keeper). The same option gives what the shim alone cannot:
//     when shim and worker are killed at once, the kernel ends every process of
//     the command, whatever it did to its environment.
//   - It ends with the command and takes with it what the command left running.
//     A line of shell around the command waits for those as long as the shim
//     would, so that a `tee` writes its last lines.
//
// Whether the command really started is told by bubblewrap's status (its
// "exit-code" only appears when it did): a sandbox that could not be set up is
// never taken for a command that failed.
package bwrap
