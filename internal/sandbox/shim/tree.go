//go:build linux

package shim

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// System calls of Linux 5.1 and 5.3 that package syscall has no names for;
// their numbers are the same on every architecture Go supports there.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// allProcesses reads the process table. Processes that end meanwhile are left
// out.
func allProcesses() []procStat {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var all []procStat
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil {
			all = append(all, st)
		}
	}
	return all
}

// under returns the living processes below the roots, and with those that are
// roots themselves, from one reading of the process table.
func under(all []procStat, isRoot func(procStat) bool) []procStat {
	children := map[int][]procStat{}
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
	}
	seen := map[int]bool{}
	var found []procStat
	var visit func(p procStat)
	visit = func(p procStat) {
		if seen[p.pid] {
			return
		}
		seen[p.pid] = true
		if !p.zombie {
			found = append(found, p)
		}
		for _, c := range children[p.pid] {
			visit(c)
		}
	}
	for _, p := range all {
		if isRoot(p) {
			visit(p)
		}
	}
	return found
}

// descendants are the living processes below this one.
func descendants() []procStat {
	me := os.Getpid()
	return under(allProcesses(), func(p procStat) bool { return p.ppid == me })
}

// signalTree signals processes one by one and by group. A group cannot be
// outrun by forking, but a process may have left its group. Groups are only
// addressed where every member is known to descend from the shim: the command
// began a session of its own, and groups never span sessions.
func signalTree(tree []procStat, sig syscall.Signal) {
	own := syscall.Getpgrp()
	groups := map[int]bool{}
	for _, p := range tree {
		if p.pgrp > 1 && p.pgrp != own && !groups[p.pgrp] {
			groups[p.pgrp] = true
			_ = syscall.Kill(-p.pgrp, sig)
		}
	}
	for _, p := range tree {
		signalExactly(p, sig)
	}
}

// signalExactly signals a process unless its pid belongs to another one by
// now.
func signalExactly(p procStat, sig syscall.Signal) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(p.pid), 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM {
		// An old kernel, or a container that forbids the call.
		if now, err := readStat(p.pid); err == nil && now.start == p.start {
			_ = syscall.Kill(p.pid, sig)
		}
		return
	}
	if errno != 0 {
		return // it has ended
	}
	defer syscall.Close(int(fd))
	// From here on the descriptor means one process; is it the one that was
	// seen?
	if now, err := readStat(p.pid); err != nil || now.start != p.start {
		return
	}
	_, _, _ = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0)
}

// endMarked kills every process that carries the record's marker in its
// environment, and what descends from it. It returns how many it met and how
// many are left after a bounded time.
func endMarked(id string) (ended, left int) {
	marker := []byte(EnvAttemptID + "=" + id)
	met := map[Identity]bool{}
	me := os.Getpid()
	deadline := time.Now().Add(endMarkedFor)
	pause := time.Millisecond
	// On a machine that is busy enough one reading of the process table takes
	// longer than the whole time: what it found is killed all the same, and
	// looked for again.
	for round := 0; ; round++ {
		tree := under(allProcesses(), func(p procStat) bool { return p.pid != me && carries(p.pid, marker) })
		if len(tree) == 0 {
			return len(met), 0
		}
		if round >= 3 && time.Now().After(deadline) {
			return len(met), len(tree)
		}
		for _, p := range tree {
			met[Identity{Pid: p.pid, Start: p.start}] = true
			signalExactly(p, syscall.SIGKILL)
		}
		// There is no event for the end of a process that is not our child.
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// endMarkedFor bounds the search for leftovers that do not die.
const endMarkedFor = 2 * time.Second

// carries reports whether the process was started with the environment entry.
// Other users' environments cannot be read and are not ours.
func carries(pid int, entry []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(kv, entry) {
			return true
		}
	}
	return false
}
