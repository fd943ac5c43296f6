//go:build !linux

package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func exchange(fd int, a, b string) error  { return exchangeByLink(fd, a, b) }
func place(fd int, from, to string) error { return placeByLink(fd, from, to) }

// syncFileSystem makes everything that was written durable.
func syncFileSystem(*os.File) error { unix.Sync(); return nil }

// cloneBlocks is known for Linux alone.
func cloneBlocks(_, _ *os.File) error { return errors.ErrUnsupported }
