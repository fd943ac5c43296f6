//go:build linux

package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Main makes this process the program of an attempt, if it was started as one.
// It returns otherwise.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != "attempt" {
		return
	}
	act, ok := acts[os.Args[2]]
	if !ok {
		fmt.Println("no such act")
		os.Exit(2)
	}
	if err := act(os.Args[3:]); err != nil {
		fmt.Println("held:", err)
		os.Exit(1)
	}
	fmt.Println("ESCAPED")
	os.Exit(0)
}

// acts are what a shell cannot do. An act that returns no error has succeeded
// in what it should not.
var acts = map[string]func([]string) error{
	"dial": func(a []string) error {
		c, err := net.DialTimeout(a[0], a[1], time.Minute)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("hello"))
		return err
	},
	"serve":   serve,
	"ptrace":  func(a []string) error { return ptrace(number(a[0])) },
	"signal":  func(a []string) error { return viaPidfd(number(a[0])) },
	"memory":  memory,
	"euid":    euid,
	"setuid":  setuid,
	"unshare": func([]string) error { return tricks() },
	"calls":   func([]string) error { return calls() },
	"sti":     func([]string) error { return sti() },
	"socket": func(a []string) error {
		_, err := unix.Socket(number(a[0]), number(a[1]), 0)
		return err
	},
	"open": func(a []string) error {
		f, err := os.OpenFile(a[0], os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		return err
	},
	"disk":  func(a []string) error { return disk(a[0]) },
	"peek":  func(a []string) error { return peek(number(a[0])) },
	"umask": func(a []string) error { return unix.Unmount(a[0], unix.MNT_DETACH) },
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// serve waits for somebody outside to come in, and writes the port where the
// test finds it. It gives up when the test says that it has tried, by a file
// beside that: who came before that waits in the queue by then.
func serve(a []string) error {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(a[0], []byte(strconv.Itoa(l.Addr().(*net.TCPAddr).Port)+"\n"), 0o600); err != nil {
		return err
	}
	for last := false; ; {
		if Waits(l.(*net.TCPListener)) {
			return nil
		}
		if last {
			return errors.New("nobody came")
		}
		time.Sleep(5 * time.Millisecond)
		_, err := os.Stat(a[0] + ".tried")
		last = err == nil
	}
}

// ptrace attaches; the kernel lets go of it when this process ends.
func ptrace(pid int) error { return unix.PtraceAttach(pid) }

func viaPidfd(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// peek reads another process's memory without tracing it.
func peek(pid int) error {
	b := make([]byte, 8)
	var lo uint64
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer maps.Close()
	if _, err := fmt.Fscanf(maps, "%x-", &lo); err != nil {
		return err
	}
	local := []unix.Iovec{{Base: &b[0], Len: 8}}
	_, err = unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(lo), Len: 8}}, 0)
	return err
}

// memory takes so many MiB and uses them.
func memory(a []string) error {
	n := number(a[0])
	var held [][]byte
	for range n {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	fmt.Println(len(held), "MiB")
	return nil
}

// euid succeeds when the effective user is another than the real one.
func euid([]string) error {
	if os.Geteuid() == os.Getuid() {
		return errors.New("the program has its caller's rights")
	}
	return nil
}

// setuid runs a copy of this program that is owned by another user and marked
// setuid; only root can make one.
func setuid(a []string) error {
	out, err := exec.Command(a[0], "attempt", "euid").CombinedOutput()
	if bytes.Contains(out, []byte("ESCAPED")) {
		return nil
	}
	return fmt.Errorf("%s %w", out, err)
}

// tricks tries to get a view of its own, in which to undo what holds it.
func tricks() error {
	if err := unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS); err == nil {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err == nil {
		return nil
	}
	if err := unix.Mount("tmpfs", "/mnt", "tmpfs", 0, ""); err == nil {
		_ = unix.Unmount("/mnt", unix.MNT_DETACH)
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""); err == nil {
		return nil
	}
	if fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); err == nil {
		unix.Close(fd)
		return nil
	}
	type cloneArgs struct{ flags, pidfd, child, parent, exit, stack, size, tls, setTID, setTIDSize, cgroup uint64 }
	args := cloneArgs{flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, exit: uint64(unix.SIGCHLD)}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno == 0 {
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return nil
	}
	return errors.New("no namespace, no mount")
}

// calls makes calls that reach into the kernel; the arguments are nonsense, so
// that one that gets through does no harm and answers otherwise than the
// filter.
func calls() error {
	for name, nr := range map[string]uintptr{"keyctl": unix.SYS_KEYCTL, "bpf": unix.SYS_BPF, "userfaultfd": unix.SYS_USERFAULTFD,
		"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "kexec_load": unix.SYS_KEXEC_LOAD, "init_module": unix.SYS_INIT_MODULE,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "setns": unix.SYS_SETNS} {
		bad := ^uintptr(0)
		_, _, errno := unix.Syscall6(nr, bad, 0, bad, bad, bad, bad)
		if errno != unix.EPERM && errno != unix.ENOSYS {
			fmt.Println(name, "answers", errno)
			return nil
		}
	}
	return errors.New("none of them gets through")
}

// sti asks to put a character into a terminal's input. On a file that is no
// terminal, a call that is not filtered says so.
func sti() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer f.Close()
	c := byte('x')
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI|1<<40, uintptr(unsafe.Pointer(&c)))
	if errno == unix.ENOTTY {
		return nil
	}
	return errno
}

// disk reads the first bytes of a disk as a whole: by its file in /dev, or by
// one made at the given path.
func disk(made string) error {
	names, err := os.ReadDir("/sys/block")
	if err != nil {
		return err
	}
	for _, n := range names {
		var major, minor uint32
		dev, err := os.ReadFile(filepath.Join("/sys/block", n.Name(), "dev"))
		if err != nil {
			continue
		}
		if _, err := fmt.Sscanf(string(dev), "%d:%d", &major, &minor); err != nil {
			continue
		}
		_ = os.Remove(made)
		_ = unix.Mknod(made, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor)))
		for _, path := range []string{filepath.Join("/dev", n.Name()), made} {
			if f, err := os.Open(path); err == nil {
				_, err = f.Read(make([]byte, 512))
				f.Close()
				if err == nil {
					return nil
				}
			}
		}
	}
	return errors.New("no disk can be read")
}
