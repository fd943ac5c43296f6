package bwrap

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"belay/internal/sandbox/kernel"
	"belay/internal/sandbox/scope"
	"belay/internal/sandbox/shim"
)

// init takes the process over when it is the helper; package shim says why so
// early.
func init() { shim.Help(helper, prepare) }

// prepare opens what bubblewrap inherits.
func prepare(l *shim.Launch, record, _ string) error {
	var r restriction
	if err := json.Unmarshal(l.Restrict, &r); err != nil {
		return fmt.Errorf("bwrap: read what to hold: %w", err)
	}
	if err := shim.Startable(r.Argv, l.Dir, l.Env); err != nil {
		return err
	}
	if err := scope.Make(r.Rules); err != nil {
		return err
	}
	filter, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("bwrap: keep the seccomp filter: %w", err)
	}
	if _, err := unix.Write(filter, kernel.Bytes(kernel.Filter(kernel.AnySockets))); err != nil {
		return fmt.Errorf("bwrap: keep the seccomp filter: %w", err)
	}
	if _, err := unix.Seek(filter, 0, 0); err != nil {
		return fmt.Errorf("bwrap: keep the seccomp filter: %w", err)
	}
	status, err := unix.Open(filepath.Join(record, shim.ProofFile), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("bwrap: open %s: %w", shim.ProofFile, err)
	}
	for from, to := range map[int]int{filter: filterFD, status: statusFD} {
		if err := unix.Dup3(from, to, 0); err != nil {
			return fmt.Errorf("bwrap: pass a descriptor on: %w", err)
		}
	}
	l.Argv = r.argv(l.Argv[0], l.Dir)
	return scoped(l.Argv[0])
}

// scoped keeps processes outside from being reached by abstract sockets where
// the command has the machine's network, on kernels that can. A bubblewrap
// that is installed setuid could not gain its rights any more, and goes
// without.
func scoped(program string) error {
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("bwrap: %w", err)
	}
	if kernel.LandlockABI() < 6 || info.Mode()&os.ModeSetuid != 0 {
		return nil
	}
	if err := kernel.NoNewPrivileges(); err != nil {
		return err
	}
	return kernel.Landlock(kernel.Domain{})
}
