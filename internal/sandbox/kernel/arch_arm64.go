//go:build linux

package kernel

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var forbiddenHere []call

const profileArch = "SCMP_ARCH_AARCH64"
