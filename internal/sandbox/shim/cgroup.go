//go:build linux

package shim

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groups are the control groups of one command: directories, one for each
// hierarchy that this user may make one in. They bound the whole tree, which
// resource limits cannot, and know every process in it, whatever it did to its
// environment or its parent. Where none can be made, resource limits are all
// there is; the methods then do nothing.
type groups []group

type group struct {
	dir string
	// kind is "memory" or "pids" for the first version's hierarchies, "v2" for
	// the second's.
	kind string
}

// groupsOf names the groups of an attempt. It makes nothing: shim, helper and
// a later worker of the same session come to the same names.
func groupsOf(id string) groups {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return groupsIn(string(b), mountsOf(), id)
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

func groupsIn(own string, mounts map[string]string, id string) groups {
	var g groups
	name := "belay-" + id
	for line := range strings.SplitSeq(own, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		// A helper that has joined reads its own group here.
		path := strings.TrimSuffix(f[2], "/"+name)
		if f[1] == "" && f[0] == "0" {
			if root := mounts["v2"]; root != "" {
				// A group with processes cannot hand controllers down, so ours
				// stands beside the caller's own, where the caller's manager
				// has delegated that level; under the root it is a child.
				g = append(g, group{filepath.Join(root, filepath.Dir(path), name), "v2"})
			}
			continue
		}
		for _, kind := range []string{"memory", "pids"} {
			if root := mounts[kind]; root != "" && slices.Contains(strings.Split(f[1], ","), kind) {
				g = append(g, group{filepath.Join(root, path, name), kind})
			}
		}
	}
	return g
}

// make makes the groups and sets their limits, where that is allowed.
func (g groups) make(l limits) {
	for _, c := range g {
		if os.Mkdir(c.dir, 0o755) != nil {
			continue
		}
		memory := l.Memory
		if memory == 0 {
			memory = defaultMemory()
		}
		for name, value := range map[string]int64{c.memoryFile(): memory, c.pidsFile(): int64(l.Processes)} {
			if name != "" && value > 0 {
				c.write(name, strconv.FormatInt(value, 10))
			}
		}
		// Without this a command would swap instead of meeting its limit.
		if c.kind == "v2" {
			c.write("memory.swap.max", "0")
		}
	}
}

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

// join moves the calling process into the groups and returns the limits that
// are left to be set as resource limits.
func (g groups) join(l limits) limits {
	for _, c := range g {
		if !c.write("cgroup.procs", "0") {
			continue
		}
		if l.Memory > 0 && c.holds(c.memoryFile(), l.Memory) {
			l.Memory = 0
		}
		if c.holds(c.pidsFile(), int64(l.Processes)) {
			l.Processes = 0
		}
	}
	return l
}

// holds reports whether a limit that was written is in force.
func (c group) holds(name string, value int64) bool {
	if name == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		return false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	// The kernel rounds memory down to whole pages.
	return err == nil && n <= value && value-n < 1<<16
}

// kill kills every member, where the kernel has a file for that.
func (g groups) kill() {
	for _, c := range g {
		if c.kind == "v2" {
			c.write("cgroup.kill", "1")
		}
	}
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
