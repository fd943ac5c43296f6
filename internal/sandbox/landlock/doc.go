// Package landlock is the backend that needs no program but belay itself: the
// helper binds its own thread with what the kernel offers and then becomes the
// command. It must not know the other backends, nor goals or policy.
//
// It has two grades. With namespaces, the helper starts in a mount, IPC and
// network namespace of its own (in a user namespace, unless belay runs as root)
// and shows the command a file system that is read-only but for what scope
// grants, with the hidden places empty. Without them, where a machine forbids
// namespaces, Landlock's own rules must do. They only ever grant: what is
// granted for a folder holds for everything in it, so the git hooks inside a
// writable workspace cannot be kept from being written, and there is no private
// /tmp, only a private TMPDIR. Describe says which grade it is.
//
// In both grades a Landlock domain and a seccomp filter come on top, so that
// neither fence is the only one.
package landlock
