//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Enabled says whether this program has failpoints.
const Enabled = true

const (
	envPoints = "BELAY_FAILPOINTS"
	envDir    = "BELAY_FAILPOINT_DIR"
)

type action struct {
	do string
	at int64
}

var (
	dir     = os.Getenv(envDir)
	actions = sync.OnceValue(func() map[Name][]action { return parse(os.Getenv(envPoints)) })
)

// parse reads BELAY_FAILPOINTS. A name that does not exist would test nothing,
// so it ends the program.
func parse(text string) map[Name][]action {
	known := map[Name]bool{}
	for _, n := range Names() {
		known[n] = true
	}
	out := map[Name][]action{}
	for _, entry := range strings.Split(text, ";") {
		if entry == "" {
			continue
		}
		name, rest, _ := strings.Cut(entry, "=")
		do, count, _ := strings.Cut(rest, "@")
		at, err := strconv.ParseInt(count, 10, 64)
		if err != nil || !known[Name(name)] || do != "kill" && do != "both" && do != "error" || dir == "" {
			fmt.Fprintf(os.Stderr, "%s: cannot use %q (name=kill|both|error@N, with %s)\n", envPoints, entry, envDir)
			os.Exit(2)
		}
		out[Name(name)] = append(out[Name(name)], action{do, at})
	}
	return out
}

// Hit marks an instant: the process ends here when the environment says so.
func Hit(n Name) { _ = Err(n) }

// Err marks an instant at which an error may be injected.
func Err(n Name) error {
	list := actions()[n]
	if list == nil {
		return nil
	}
	hit := count(n)
	for _, a := range list {
		if a.at != hit {
			continue
		}
		taken(n, hit)
		switch a.do {
		case "error":
			return fmt.Errorf("failpoint %s: an injected error", n)
		case "both":
			killParent()
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return nil
}

// count makes one hit and returns its number over all processes of the run.
func count(n Name) int64 {
	f, err := os.OpenFile(filepath.Join(dir, string(n)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err) // the test's own directory
	}
	defer f.Close()
	if _, err := f.Write([]byte{'.'}); err != nil {
		panic(err)
	}
	// After an appending write the offset is that write's own end.
	at, err := f.Seek(0, 1)
	if err != nil {
		panic(err)
	}
	return at
}

// taken leaves word that an action is taken, for whoever counts the kills.
func taken(n Name, hit int64) {
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s@%d.taken", n, hit)), nil, 0o600); err != nil {
		panic(err) // the test's own directory
	}
}

// killParent kills the parent when it runs this same program.
func killParent() {
	self, err := os.Readlink("/proc/self/exe")
	parent := os.Getppid()
	theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/exe", parent))
	if err == nil && err2 == nil && self == theirs {
		_ = syscall.Kill(parent, syscall.SIGKILL)
	}
}

// Environ is what a process of ours hands to another whose environment it
// makes anew.
func Environ() []string {
	return []string{envPoints + "=" + os.Getenv(envPoints), envDir + "=" + dir}
}

// Tune returns the value that this build uses: here the one under which a
// short test reaches what a long run would.
func Tune[T any](_, test T) T { return test }
