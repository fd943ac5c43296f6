package local

import "golang.org/x/sys/unix"

// exchangeByLink swaps two names where the system has no single step for it:
// the original gets a second name, the new file replaces it, and the second
// name becomes the temporary one. b is never absent.
func exchangeByLink(fd int, a, b string) error {
	second := a + ".was"
	if err := unix.Linkat(fd, b, fd, second, 0); err != nil {
		return err
	}
	if err := unix.Renameat(fd, a, fd, b); err != nil {
		_ = unix.Unlinkat(fd, second, 0)
		return err
	}
	return unix.Renameat(fd, second, fd, a)
}

// placeByLink moves a file to a name that must be free.
func placeByLink(fd int, from, to string) error {
	if err := unix.Linkat(fd, from, fd, to, 0); err != nil {
		return err
	}
	return unix.Unlinkat(fd, from, 0)
}
