package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange swaps two names in a folder in one step, so that no write of
// somebody else between comparing and replacing is lost unseen.
func exchange(fd int, a, b string) error {
	err := unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return exchangeByLink(fd, a, b)
	}
	return err
}

// syncFileSystem makes everything that was written beside f durable.
func syncFileSystem(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// place moves a file to a name that must be free.
func place(fd int, from, to string) error {
	err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return placeByLink(fd, from, to)
	}
	return err
}

// cloneBlocks makes out share the blocks of in, on a file system that can.
func cloneBlocks(out, in *os.File) error { return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) }
