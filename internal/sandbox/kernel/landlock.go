//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock, by what a rule grants. Rights that the running kernel
// does not know are left out.
const (
	// Read is to read and run files. Names of directories can always be listed.
	Read = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// WriteFile is what can be said of a single file.
	WriteFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// Write is everything that changes a directory and what is in it. Device
	// files are not among what can be made.
	Write = WriteFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	devices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// ErrNoLandlock says that this kernel has none, or has it switched off.
var ErrNoLandlock = errors.New("the kernel offers no Landlock (it came with Linux 5.13; the boot option lsm= may lack it)")

// LandlockABI is the version of the kernel's Landlock, 0 for none.
func LandlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// Domain is what a Landlock domain holds.
type Domain struct {
	// Read says that reading is ruled too; without it every file may be read.
	Read bool
	// Files says that writing is ruled. A domain without it may still mount.
	Files bool
	// NoTCP refuses to bind and to connect TCP sockets, whatever the port.
	NoTCP bool
	Grants
}

// Grants map paths to rights. A path that is not there any more is left out.
type Grants map[string]uint64

// handled are the file rights that a version knows.
func (d Domain) handled(abi int) uint64 {
	var h uint64
	if d.Files {
		h = Write | devices
	}
	if d.Read {
		h |= Read
	}
	if abi < 2 {
		h &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < 3 {
		h &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 5 {
		h &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return h
}

// attributes is the kernel's struct landlock_ruleset_attr up to version 6.
type attributes struct{ fs, net, scoped uint64 }

// Landlock puts the calling thread into a domain. From version 6 on, processes
// outside can neither be signalled nor reached by abstract Unix sockets; from
// the first on, they cannot be traced.
func Landlock(d Domain) error {
	abi := LandlockABI()
	if abi == 0 {
		return fmt.Errorf("kernel: %w", ErrNoLandlock)
	}
	a := attributes{fs: d.handled(abi)}
	size := unsafe.Sizeof(a.fs)
	if abi >= 4 {
		size += unsafe.Sizeof(a.net)
		if d.NoTCP {
			a.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if abi >= 6 {
		size += unsafe.Sizeof(a.scoped)
		a.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if a == (attributes{}) {
		return nil // nothing that this kernel could hold; an empty set is refused
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&a)), size, 0)
	if errno != 0 {
		return fmt.Errorf("kernel: make a Landlock rule set: %w", errno)
	}
	defer unix.Close(int(fd))
	for path, rights := range d.Grants {
		if err := grant(int(fd), path, rights&a.fs); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("kernel: enter the Landlock domain: %w", errno)
	}
	return nil
}

// beneath is the kernel's struct landlock_path_beneath_attr, which is packed:
// 12 bytes.
type beneath struct {
	rights uint64
	parent int32
}

func grant(set int, path string, rights uint64) error {
	if rights == 0 {
		return nil
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // gone, or not even to be looked at: nothing is granted
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("kernel: Landlock rule for %s: %w", path, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
	default:
		rights &= Read | WriteFile
	}
	if rights == 0 {
		return nil
	}
	b := beneath{rights: rights, parent: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&b)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("kernel: Landlock rule for %s: %w", path, errno)
	}
	return nil
}
