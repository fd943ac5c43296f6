//go:build !linux

package landlock

import (
	"fmt"

	"belay/internal/sandbox"
)

func available() error {
	return fmt.Errorf("landlock: %w: it is a part of Linux", sandbox.ErrUnavailable)
}

func namespaces(string) uintptr { return 0 }
