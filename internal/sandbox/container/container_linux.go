package container

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"belay/internal/sandbox/kernel"
	"belay/internal/sandbox/scope"
	"belay/internal/sandbox/shim"
)

const helper = "shim-container"

// init takes the process over when it is the helper; package shim says why so
// early.
func init() { shim.Help(helper, prepare) }

// prepare makes what the engine mounts.
func prepare(l *shim.Launch, record, scratch string) error {
	var r restriction
	if err := json.Unmarshal(l.Restrict, &r); err != nil {
		return fmt.Errorf("container: read what to hold: %w", err)
	}
	if err := scope.Make(r.Rules); err != nil {
		return err
	}
	if err := cover(r.Rules, scratch); err != nil {
		return fmt.Errorf("container: %w", err)
	}
	filter, err := kernel.Profile()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, profile), filter, 0o600); err != nil {
		return fmt.Errorf("container: %w", err)
	}
	for _, f := range []string{filepath.Join(scratch, emptyFile), filepath.Join(record, shim.ProofFile)} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			return fmt.Errorf("container: %w", err)
		}
	}
	return nil
}

// cover makes an empty folder for each that is hidden, with the places in it
// that are granted all the same: nothing can be mounted where nothing is.
func cover(rules []scope.Rule, scratch string) error {
	for i, r := range rules {
		if r.Kind != scope.Hidden || r.File {
			continue
		}
		empty := filepath.Join(scratch, emptyDir, strconv.Itoa(i))
		if err := os.MkdirAll(empty, 0o755); err != nil {
			return err
		}
		for _, in := range rules[i+1:] {
			rel, err := filepath.Rel(r.Path, in.Path)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			dir := filepath.Join(empty, rel)
			if in.File {
				dir = filepath.Dir(dir)
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if in.File {
				if err := os.WriteFile(filepath.Join(empty, rel), nil, 0o600); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// memoryBound leaves a fifth of the machine to everybody else.
func memoryBound() int64 {
	var i syscall.Sysinfo_t
	if syscall.Sysinfo(&i) != nil {
		return 0
	}
	return int64(i.Totalram) * int64(i.Unit) / 5 * 4
}

// The kernel's numbers of the limits that are passed on.
const (
	limitFiles     = syscall.RLIMIT_NOFILE
	limitProcesses = 6
)

// ownLimit is a limit of this process, "" for none.
func ownLimit(resource int) string {
	var l syscall.Rlimit
	if syscall.Getrlimit(resource, &l) != nil || l.Max > 1<<40 {
		return ""
	}
	if resource == limitProcesses {
		// Engines lower their own beneath what their caller has.
		l.Max = min(l.Max, 1<<15)
	}
	return fmt.Sprintf("%d:%d", min(l.Cur, l.Max), l.Max)
}
