//go:build !linux

package pgtest

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func withParent(*syscall.SysProcAttr) {}

func children(pid int) []int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	var pids []int
	for _, f := range strings.Fields(string(out)) {
		if p, err := strconv.Atoi(f); err == nil {
			pids = append(pids, p)
		}
	}
	return pids
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
