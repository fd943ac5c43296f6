//go:build !linux

package local

import (
	"os"

	"golang.org/x/sys/unix"
)

func exchange(fd int, a, b string) error  { return exchangeByLink(fd, a, b) }
func place(fd int, from, to string) error { return placeByLink(fd, from, to) }

// syncFileSystem makes everything that was written durable.
func syncFileSystem(*os.File) error { unix.Sync(); return nil }
