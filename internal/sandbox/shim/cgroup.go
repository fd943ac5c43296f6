//go:build linux

package shim

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// groups are the control groups of one command: directories, one for each
// hierarchy that this user may make one in and that can hold a limit. They bound
// the whole tree, which resource limits cannot, and know every process in it,
// whatever it did to its environment or its parent. Where none can be made,
// resource limits are all there is; the methods then do nothing.
//
// The shim itself is a member, with everything it starts: to move a process
// into a group makes the kernel wait for every processor, some ten milliseconds,
// and an idle shim has them to spare. What it starts is the first to be ended
// when memory runs out, not the shim (see helper's preferred).
type groups []group

type group struct {
	dir, parent string
	// kind is "memory" or "pids" for the first version's hierarchies, "v2" for
	// the second's.
	kind string
}

const groupPrefix = "belay-"

// groupsOf names the groups of a shim, "" for none. It makes nothing.
func groupsOf(name string) groups {
	if name == "" {
		return nil
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return groupsIn(string(b), mountsOf(), name)
}

// mountsOf maps "memory", "pids" and "v2" to where the hierarchy is mounted.
func mountsOf() map[string]string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	m := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) < 4:
		case f[2] == "cgroup2":
			m["v2"] = f[1]
		case f[2] == "cgroup":
			for o := range strings.SplitSeq(f[3], ",") {
				if o == "memory" || o == "pids" {
					m[o] = f[1]
				}
			}
		}
	}
	return m
}

func groupsIn(own string, mounts map[string]string, name string) groups {
	var g groups
	for line := range strings.SplitSeq(own, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		path := f[2]
		if strings.HasPrefix(filepath.Base(path), groupPrefix) {
			path = filepath.Dir(path) // a worker that is itself a command's
		}
		if f[1] == "" && f[0] == "0" {
			if root := mounts["v2"]; root != "" {
				// A group with processes cannot hand controllers down, so ours
				// stands beside the caller's own, where the caller's manager
				// has delegated that level; under the root it is a child.
				up := filepath.Join(root, filepath.Dir(path))
				g = append(g, group{filepath.Join(up, name), filepath.Join(root, path), "v2"})
			}
			continue
		}
		for _, kind := range []string{"memory", "pids"} {
			if root := mounts[kind]; root != "" && slices.Contains(strings.Split(f[1], ","), kind) {
				g = append(g, group{filepath.Join(root, path, name), filepath.Join(root, path), kind})
			}
		}
	}
	return g
}

// enter makes the groups and moves this process in, and returns those where
// that went well.
func (g groups) enter() groups {
	var in groups
	for _, c := range g {
		if os.Mkdir(c.dir, 0o755) != nil {
			continue
		}
		_, memory := os.Stat(filepath.Join(c.dir, c.memoryFile()))
		_, pids := os.Stat(filepath.Join(c.dir, c.pidsFile()))
		if memory != nil && pids != nil || !c.write("cgroup.procs", strconv.Itoa(os.Getpid())) {
			_ = os.Remove(c.dir)
			continue
		}
		in = append(in, c)
	}
	return in
}

// limit sets what the groups hold and returns the limits that are left to be
// set as resource limits.
func (g groups) limit(l limits) limits {
	for _, c := range g {
		memory := l.Memory
		if memory == 0 {
			memory = defaultMemory()
		}
		if name := c.memoryFile(); name != "" && memory > 0 && c.write(name, strconv.FormatInt(memory, 10)) {
			l.Memory = 0
			if c.kind == "v2" {
				// Without this a command would swap instead of meeting its limit.
				c.write("memory.swap.max", "0")
			}
		}
		// The shim's own threads are in the count.
		if name := c.pidsFile(); name != "" && l.Processes > 0 && c.write(name, strconv.Itoa(l.Processes+shimThreads)) {
			l.Processes = 0
		}
	}
	return l
}

// shimThreads are the shim's own, made beforehand, and room for those that the
// runtime made by itself.
const shimThreads = ownThreads + 10

// defaultMemory leaves a fifth of the machine to everybody else.
func defaultMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 || f[0] != "MemTotal:" {
		return 0
	}
	kib, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return kib * 1024 / 5 * 4
}

func (c group) memoryFile() string {
	switch c.kind {
	case "memory":
		return "memory.limit_in_bytes"
	case "v2":
		return "memory.max"
	}
	return ""
}

func (c group) pidsFile() string {
	if c.kind == "memory" {
		return ""
	}
	return "pids.max"
}

func (c group) write(name, value string) bool {
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	_, err = f.WriteString(value)
	return f.Close() == nil && err == nil
}

// kill kills every member but this process.
func (g groups) kill() {
	for _, c := range g {
		b, err := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for pid := range strings.FieldsSeq(string(b)) {
			// A member cannot leave, so the number is still its own unless it
			// has ended this very moment; signalExactly looks once more.
			if n, err := strconv.Atoi(pid); err == nil && n != os.Getpid() {
				if st, err := readStat(n); err == nil {
					signalExactly(st, syscall.SIGKILL)
				}
			}
		}
	}
}

// leave moves this process out and removes the groups.
func (g groups) leave() {
	for _, c := range g {
		(group{dir: c.parent}).write("cgroup.procs", strconv.Itoa(os.Getpid()))
	}
	g.remove()
}

// remove removes the groups. The last member may still be on its way out of a
// group when its parent has already been told of its end.
func (g groups) remove() {
	for _, c := range g {
		for pause := time.Millisecond; pause < 100*time.Millisecond; pause *= 2 {
			if err := os.Remove(c.dir); err == nil || os.IsNotExist(err) || os.IsPermission(err) {
				break
			}
			time.Sleep(pause)
		}
	}
}

// sweepGroups removes what killed shims left: groups without a member that
// have been there for long.
func sweepGroups() {
	for _, c := range groupsOf(groupPrefix + "x") {
		entries, err := os.ReadDir(filepath.Dir(c.dir))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), groupPrefix) && time.Since(info.ModTime()) > staleAfter {
				_ = os.Remove(filepath.Join(filepath.Dir(c.dir), e.Name())) // refused while it has members
			}
		}
	}
}
