package main

import "syscall"

// maxData is what the process may take of memory: a parser that runs away ends
// itself, not the machine.
const maxData = 1 << 30

// limit bounds the process by itself. A limit that cannot be set is no reason
// not to work: belay ends what takes too long.
func limit() {
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: maxData, Max: maxData})
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}
