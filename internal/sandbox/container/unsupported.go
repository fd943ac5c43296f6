//go:build !linux

package container

const (
	helper         = "shim-container"
	limitFiles     = 0
	limitProcesses = 0
)

func memoryBound() int64 { return 0 }

func ownLimit(int) string { return "" }
