//go:build linux

package kernel

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockets says which families of sockets a filter lets be made.
type Sockets int

const (
	// AnySockets are those of ordinary programs: Unix, IPv4, IPv6, netlink. The
	// rest (raw packets, the hypervisor's, kernel crypto) no build needs, and
	// some of them no network namespace holds.
	AnySockets Sockets = iota
	// NoSockets leaves netlink, which only asks this kernel, and pairs.
	NoSockets
)

// call is one system call.
type call struct {
	name string
	nr   uintptr
}

// forbidden are calls that change the machine, reach into other processes or
// into the kernel, or make a new way round the other fences. arch.go adds those
// that only some processors have.
var forbidden = []call{
	{"mount", unix.SYS_MOUNT}, {"umount2", unix.SYS_UMOUNT2}, {"pivot_root", unix.SYS_PIVOT_ROOT}, {"move_mount", unix.SYS_MOVE_MOUNT},
	{"open_tree", unix.SYS_OPEN_TREE}, {"fsopen", unix.SYS_FSOPEN}, {"fsconfig", unix.SYS_FSCONFIG}, {"fsmount", unix.SYS_FSMOUNT},
	{"fspick", unix.SYS_FSPICK}, {"mount_setattr", unix.SYS_MOUNT_SETATTR}, {"unshare", unix.SYS_UNSHARE}, {"setns", unix.SYS_SETNS},
	{"chroot", unix.SYS_CHROOT}, {"keyctl", unix.SYS_KEYCTL}, {"add_key", unix.SYS_ADD_KEY}, {"request_key", unix.SYS_REQUEST_KEY},
	{"bpf", unix.SYS_BPF}, {"perf_event_open", unix.SYS_PERF_EVENT_OPEN}, {"userfaultfd", unix.SYS_USERFAULTFD}, {"kexec_load", unix.SYS_KEXEC_LOAD},
	{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD}, {"init_module", unix.SYS_INIT_MODULE}, {"finit_module", unix.SYS_FINIT_MODULE},
	{"delete_module", unix.SYS_DELETE_MODULE}, {"reboot", unix.SYS_REBOOT}, {"swapon", unix.SYS_SWAPON}, {"swapoff", unix.SYS_SWAPOFF},
	{"acct", unix.SYS_ACCT}, {"quotactl", unix.SYS_QUOTACTL}, {"quotactl_fd", unix.SYS_QUOTACTL_FD}, {"settimeofday", unix.SYS_SETTIMEOFDAY},
	{"clock_settime", unix.SYS_CLOCK_SETTIME}, {"syslog", unix.SYS_SYSLOG}, {"vhangup", unix.SYS_VHANGUP},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT}, {"kcmp", unix.SYS_KCMP}, {"fanotify_init", unix.SYS_FANOTIFY_INIT},
	{"nfsservctl", unix.SYS_NFSSERVCTL}, {"pidfd_getfd", unix.SYS_PIDFD_GETFD},
}

// absent are calls that are answered as if the kernel did not have them, so
// that programs go the older way that a filter can see into: io_uring makes
// sockets past it, clone3 hides its flags behind a pointer.
var absent = []call{
	{"clone3", unix.SYS_CLONE3}, {"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER},
}

const (
	offNr, offArch, offArg0, offArg1 = 0, 4, 16, 24
	retAllow                         = unix.SECCOMP_RET_ALLOW
	retErrno                         = unix.SECCOMP_RET_ERRNO
	cloneNamespaces                  = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	x32Bit    = 0x40000000
	tiocLinux = 0x541c
)

// Filter is the program for the kernel: a list of what is refused, all else
// allowed. A list of what is allowed would break every other build tool.
func Filter(s Sockets) []unix.SockFilter {
	var p program
	p.load(offArch)
	p.unless(unix.BPF_JEQ, auditArch, 1)
	p.ret(retErrno | uint32(unix.EPERM)) // another call table of the same processor
	p.load(offNr)
	if runtime.GOARCH == "amd64" {
		p.when(unix.BPF_JGE, x32Bit, retErrno|uint32(unix.ENOSYS))
	}
	for _, c := range append(forbidden, forbiddenHere...) {
		p.when(unix.BPF_JEQ, uint32(c.nr), retErrno|uint32(unix.EPERM))
	}
	for _, c := range absent {
		p.when(unix.BPF_JEQ, uint32(c.nr), retErrno|uint32(unix.ENOSYS))
	}
	p.ifCall(unix.SYS_CLONE, func(q *program) {
		q.load(offArg0)
		q.when(unix.BPF_JSET, cloneNamespaces, retErrno|uint32(unix.EPERM))
	})
	p.ifCall(unix.SYS_IOCTL, func(q *program) {
		// Both put characters into a terminal's input as if typed.
		q.load(offArg1)
		q.when(unix.BPF_JEQ, unix.TIOCSTI, retErrno|uint32(unix.EPERM))
		q.when(unix.BPF_JEQ, tiocLinux, retErrno|uint32(unix.EPERM))
	})
	p.ifCall(unix.SYS_SOCKET, func(q *program) {
		families := []uint32{unix.AF_NETLINK}
		if s == AnySockets {
			families = append(families, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6)
		}
		q.load(offArg0)
		for _, f := range families {
			q.when(unix.BPF_JEQ, f, retAllow)
		}
		q.ret(retErrno | uint32(unix.EACCES))
	})
	p.ret(retAllow)
	return p
}

// program grows a filter.
type program []unix.SockFilter

func (p *program) load(offset uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (p *program) ret(v uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v})
}

// unless skips n instructions when the test holds.
func (p *program) unless(test uint16, k uint32, n uint8) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: n, K: k})
}

// when returns v when the test holds.
func (p *program) when(test uint16, k, v uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: 1, K: k})
	p.ret(v)
}

// ifCall runs the body for one call and has its number loaded again after it.
func (p *program) ifCall(nr uintptr, body func(*program)) {
	var q program
	body(&q)
	q.load(offNr)
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(q)), K: uint32(nr)})
	*p = append(*p, q...)
}

// NoNewPrivileges gives up for good what a setuid program or file capabilities
// could bring.
func NoNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("kernel: forgo new privileges: %w", err)
	}
	return nil
}

// Seccomp binds the calling thread to a filter. NoNewPrivileges comes first.
func Seccomp(filter []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("kernel: seccomp filter: %w (the kernel needs CONFIG_SECCOMP_FILTER)", errno)
	}
	return nil
}

// Bytes is a filter as other programs take it from a descriptor.
func Bytes(filter []unix.SockFilter) []byte {
	size := int(unsafe.Sizeof(unix.SockFilter{}))
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), size*len(filter))...)
}
