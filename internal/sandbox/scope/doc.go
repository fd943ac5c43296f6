// Package scope says what a confined command may reach in the file system, as
// an ordered list of rules that every backend applies in its own way. It must
// not know how any backend holds a rule; it only looks at the machine and
// changes nothing but what Make is asked for.
//
// # The rules
//
// Everything that no rule names may be read and not written. Over that lie, the
// outer path first, so that the more exact rule wins:
//
//   - the workspace, writable, or read-only while the plan gate is closed;
//   - in it, what would make git or belay run or believe something outside the
//     sandbox: hooks, configuration and the like of every repository found, and
//     belay.yaml, read-only. The git directories themselves are pinned: a
//     directory that is a mount point cannot be renamed away and replaced;
//   - /tmp and /var/tmp, private and empty;
//   - the caches of build tools, writable; the list is in caches.go. A hostile
//     command can spoil a cache, as any build script can; docs/security.md says
//     so;
//   - hidden, as if empty: belay's state and configuration, the user's
//     credentials (credentials.go), other programs' sockets: /run, and every
//     socket that a program outside listens on at the time.
//
// Rules name paths without symbolic links in them: what a link points to is
// what is ruled.
package scope
