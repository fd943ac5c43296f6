//go:build linux

package kernel

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"
)

// profileRule is one entry of a seccomp profile as container engines read it.
type profileRule struct {
	Names  []string     `json:"names"`
	Action string       `json:"action"`
	Errno  uint         `json:"errnoRet"`
	Args   []profileArg `json:"args,omitempty"`
}

// profileArg compares Value with an argument of which only the bits of Mask
// count.
type profileArg struct {
	Index uint   `json:"index"`
	Mask  uint64 `json:"value"`
	Value uint64 `json:"valueTwo"`
	Op    string `json:"op"`
}

// lastFamily is far above the socket families that there are; a number past it
// is none to the kernel.
const lastFamily = 63

// Profile is Filter(AnySockets) in the words of container engines.
func Profile() ([]byte, error) {
	const low = 0xffffffff // the kernel takes these arguments as 32 bits
	refuse := func(errno unix.Errno, args []profileArg, names ...string) profileRule {
		return profileRule{Names: names, Action: "SCMP_ACT_ERRNO", Errno: uint(errno), Args: args}
	}
	masked := func(index uint, mask, value uint64) []profileArg {
		return []profileArg{{Index: index, Mask: mask, Value: value, Op: "SCMP_CMP_MASKED_EQ"}}
	}
	var rules []profileRule
	for _, c := range append(append([]call{}, forbidden...), forbiddenHere...) {
		rules = append(rules, refuse(unix.EPERM, nil, c.name))
	}
	for _, c := range absent {
		rules = append(rules, refuse(unix.ENOSYS, nil, c.name))
	}
	for bit := uint64(1); bit <= low; bit <<= 1 {
		if cloneNamespaces&bit != 0 {
			rules = append(rules, refuse(unix.EPERM, masked(0, bit, bit), "clone"))
		}
	}
	for _, request := range []uint64{unix.TIOCSTI, tiocLinux} {
		rules = append(rules, refuse(unix.EPERM, masked(1, low, request), "ioctl"))
	}
	for family := uint64(0); family <= lastFamily; family++ {
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
		default:
			rules = append(rules, refuse(unix.EACCES, masked(0, low, family), "socket"))
		}
	}
	b, err := json.Marshal(struct {
		Default       string        `json:"defaultAction"`
		Architectures []string      `json:"architectures"`
		Rules         []profileRule `json:"syscalls"`
	}{"SCMP_ACT_ALLOW", []string{profileArch}, rules})
	if err != nil {
		return nil, fmt.Errorf("kernel: write a seccomp profile: %w", err)
	}
	return b, nil
}
