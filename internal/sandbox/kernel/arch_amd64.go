//go:build linux

package kernel

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var forbiddenHere = []call{{"iopl", unix.SYS_IOPL}, {"ioperm", unix.SYS_IOPERM}, {"modify_ldt", unix.SYS_MODIFY_LDT}, {"_sysctl", unix.SYS__SYSCTL},
	{"uselib", unix.SYS_USELIB}, {"ustat", unix.SYS_USTAT}}

const profileArch = "SCMP_ARCH_X86_64"
