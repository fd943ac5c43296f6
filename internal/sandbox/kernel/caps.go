//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FileCaps are what root keeps: without them root could not work on another
// user's repository. They reach no further than the writable paths.
const FileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// DropCapabilities leaves the calling thread, and every program it becomes, at
// most the given capabilities.
func DropCapabilities(keep uint64) error {
	for c := uintptr(0); c < 64; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last one
		}
		if err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("kernel: drop capability %d: %w", c, err)
		}
		// Refused: a process without CAP_SETPCAP, whose own sets are emptied
		// below, and which NoNewPrivileges keeps from filling them again.
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("kernel: clear ambient capabilities: %w", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return fmt.Errorf("kernel: read capabilities: %w", err)
	}
	for i := range data {
		left := uint32(keep >> (32 * i))
		data[i].Effective &= left
		data[i].Permitted &= left
		data[i].Inheritable = 0
	}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("kernel: drop capabilities: %w", err)
	}
	return nil
}

// LoopbackUp brings up the loopback interface of the thread's network
// namespace.
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("kernel: loopback: %w", err)
	}
	defer unix.Close(fd)
	// struct ifreq: the name, then the flags.
	var req struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = unix.IFF_UP | unix.IFF_RUNNING
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return fmt.Errorf("kernel: bring up loopback: %w", errno)
	}
	return nil
}
