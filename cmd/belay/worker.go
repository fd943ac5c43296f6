package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"belay/internal/failpoint"
	"belay/internal/fault"
)

// envLease is how long a goal stays with a worker that says nothing more: a
// fleet on a good network can take less than the default, and so replaces a
// dead machine sooner.
const envLease = "BELAY_LEASE"

// leaseOf reads a lease; 0 means the default.
func leaseOf(text string) (time.Duration, error) {
	if text == "" {
		return failpoint.Tune[time.Duration](0, 900*time.Millisecond), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > time.Hour {
		return 0, fault.New(fault.InvalidArguments, fault.User, envLease+" is "+strconv.Quote(text)+", which is no lease", "give it from 1s to 1h; unset, it is 30s")
	}
	return d, nil
}

// A worker's name says which process it is, so that another process on the
// same machine can tell that it is dead without waiting for its lease:
// host/boot/pid/start/n. The start time tells a reused pid apart, n counts the
// drivers of one process, because every driver is a worker of its own.
var drivers atomic.Int64

func newWorker() string {
	return fmt.Sprintf("%s/%d/%s/%d", machine(), os.Getpid(), startTime(os.Getpid()), drivers.Add(1))
}

func machine() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return host + "/-"
	}
	return host + "/" + strings.TrimSpace(string(boot))
}

// startTime is the process's start in clock ticks since boot, "" when there is
// no such process.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command name may hold anything, parentheses included; what follows
	// the last one are plain fields, the start time being the 22nd of all.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 20 {
		return ""
	}
	return f[19]
}

// deadWorker reports whether the process behind a worker's name is known to be
// gone. A worker of another machine is never known to be.
func deadWorker(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) != 5 {
		return false
	}
	host, boot, _ := strings.Cut(machine(), "/")
	if parts[0] != host || boot == "-" {
		return false
	}
	if parts[1] != boot {
		return true // this machine has restarted since
	}
	pid, err := strconv.Atoi(parts[2])
	return err == nil && startTime(pid) != parts[3]
}
