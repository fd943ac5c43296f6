package local

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// stamp is what the file system says about a file without opening it. Two
// equal stamps, taken at different times and neither of them racy, mean equal
// content: the change time cannot be set by a program.
type stamp struct {
	mode         uint32 // type and permission bits
	size         int64
	ino          uint64
	mtime, ctime int64 // nanoseconds
}

// racyWindow is how close to an observation's start a time may lie and still
// hide a later change: the kernel's clock for file times ticks every 1 to 10
// milliseconds.
const racyWindow = 20 * time.Millisecond

// coarseWindow is the same for file systems that keep whole (or even) seconds.
const coarseWindow = 2100 * time.Millisecond

// racy reports whether a change made after start could leave the stamp as it
// is.
func (s stamp) racy(start int64) bool {
	newest := max(s.mtime, s.ctime)
	window := racyWindow
	if s.ctime%int64(time.Second) == 0 {
		window = coarseWindow
	}
	return newest >= start-int64(window)
}

func (s stamp) kind() uint32    { return s.mode & unix.S_IFMT }
func (s stamp) isDir() bool     { return s.kind() == unix.S_IFDIR }
func (s stamp) isRegular() bool { return s.kind() == unix.S_IFREG }
func (s stamp) isLink() bool    { return s.kind() == unix.S_IFLNK }

// sameBytes compares what a rename keeps.
func (s stamp) sameBytes(t stamp) bool {
	return s.mode == t.mode && s.size == t.size && s.ino == t.ino && s.mtime == t.mtime
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{mode: uint32(st.Mode), size: st.Size, ino: st.Ino, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

func lstat(path string) (stamp, error) { return lstatAt(unix.AT_FDCWD, path) }

// lstatAt is lstat relative to an open directory. The last component is never
// followed; the ones before it are, so whoever needs confinement has looked at
// each of them.
func lstatAt(fd int, path string) (stamp, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(fd, path, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			return stampOf(&st), nil
		}
		if err != unix.EINTR {
			return stamp{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
	}
}

func fstat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	for {
		if err := unix.Fstat(fd, &st); err != unix.EINTR {
			return st, err
		}
	}
}
