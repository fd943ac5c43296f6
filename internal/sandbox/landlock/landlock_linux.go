package landlock

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"belay/internal/sandbox"
	"belay/internal/sandbox/kernel"
	"belay/internal/sandbox/scope"
	"belay/internal/sandbox/shim"
)

// init takes the process over when it is the helper; package shim says why so
// early.
func init() { shim.Help(helper, prepare) }

func available() error {
	if kernel.LandlockABI() == 0 {
		return fmt.Errorf("landlock: %w: %w", sandbox.ErrUnavailable, kernel.ErrNoLandlock)
	}
	return nil
}

// namespaces are those the helper starts in. As root no user namespace is
// made: in one, root could not work on another user's repository.
func namespaces(network string) uintptr {
	flags := uintptr(syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC)
	if network != sandbox.NetworkFull {
		flags |= syscall.CLONE_NEWNET
	}
	if os.Geteuid() != 0 {
		flags |= syscall.CLONE_NEWUSER
	}
	return flags
}

// prepare binds the calling thread. The order matters: the view and the
// network need capabilities, and the filter comes last because it refuses what
// the steps before it do.
func prepare(l *shim.Launch, _, scratch string) error {
	var r restriction
	if err := json.Unmarshal(l.Restrict, &r); err != nil {
		return fmt.Errorf("landlock: read what to hold: %w", err)
	}
	if err := scope.Make(r.Rules); err != nil {
		return err
	}
	domain := kernel.Domain{Read: true, Files: true, Grants: kernel.Grants{}}
	sockets := kernel.AnySockets
	if r.Namespaces {
		if err := enterView(r); err != nil {
			return err
		}
		grantView(domain.Grants, r.Rules)
	} else {
		grantBare(domain.Grants, r.Rules, scratch)
		if r.Network != sandbox.NetworkFull {
			domain.NoTCP, sockets = true, kernel.NoSockets
		}
	}
	// The folder again, as it is in the view.
	if err := os.Chdir(l.Dir); err != nil {
		return fmt.Errorf("landlock: working directory: %w", err)
	}
	var keep uint64
	if os.Geteuid() == 0 {
		keep = kernel.FileCaps
	}
	if err := kernel.NoNewPrivileges(); err != nil {
		return err
	}
	if err := kernel.DropCapabilities(keep); err != nil {
		return err
	}
	if err := kernel.Landlock(domain); err != nil {
		return err
	}
	return kernel.Seccomp(kernel.Filter(sockets))
}

// enterView shows the rules in the helper's own mount namespace.
func enterView(r restriction) error {
	var v kernel.View
	for _, rule := range r.Rules {
		source := rule.Source
		if source == "" {
			source = rule.Path
		}
		var err error
		if rule.Kind == scope.Hidden {
			err = v.Hide(rule.Path, rule.File)
		} else {
			err = v.Take(source, rule.Path, rule.Kind == scope.ReadOnly, rule.File)
		}
		if err != nil {
			return err
		}
	}
	v.Memory("/dev/shm")
	if err := v.Show(); err != nil {
		return err
	}
	if r.Network != sandbox.NetworkFull {
		return kernel.LoopbackUp()
	}
	return nil
}

// devices are the device files of every program. Terminals are not among
// them: the user's own is one.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// grantView grants what the view shows; the view itself does the hiding.
func grantView(g kernel.Grants, rules []scope.Rule) {
	readable(g, "/", []string{"/dev"})
	for _, r := range rules {
		if r.Kind == scope.Writable {
			g[r.Path] |= kernel.Read | kernel.Write
		} else {
			g[r.Path] |= kernel.Read
		}
	}
	grantDevices(g)
}

func grantDevices(g kernel.Grants) {
	for _, d := range devices {
		g[d] |= kernel.Read | kernel.WriteFile
	}
	g["/dev/shm"] |= kernel.Read | kernel.Write
}

// grantBare grants by Landlock alone: to read all but what is hidden, to write
// what is writable. /dev/shm is everybody's here, and stays closed.
func grantBare(g kernel.Grants, rules []scope.Rule, scratch string) {
	hidden := []string{"/dev", "/tmp", "/var/tmp"}
	for _, r := range rules {
		if r.Kind == scope.Hidden {
			hidden = append(hidden, r.Path)
		}
	}
	readable(g, "/", hidden)
	for _, r := range rules {
		switch {
		case r.Source != "": // its place is hidden, and scratch is granted below
		case r.Kind == scope.Writable:
			g[r.Path] |= kernel.Read | kernel.Write
		case r.Kind == scope.ReadOnly:
			g[r.Path] |= kernel.Read
		}
	}
	g[scratch] |= kernel.Read | kernel.Write
	grantDevices(g)
	delete(g, "/dev/shm")
}

// readable grants to read everything below dir but the hidden paths, by
// granting what lies beside them. What appears beside them later stays closed.
func readable(g kernel.Grants, dir string, hidden []string) {
	whole := true
	for _, h := range hidden {
		if h == dir {
			return
		}
		if scope.Within(h, dir) {
			whole = false
		}
	}
	if whole {
		g[dir] |= kernel.Read
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // closed to the command as well
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			readable(g, path, hidden)
		case e.Type()&os.ModeSymlink == 0 && !contains(hidden, path):
			g[path] |= kernel.Read
		}
	}
}

func contains(all []string, s string) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}
