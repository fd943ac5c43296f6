package cli

import "belay/internal/terminal"

// Safe makes untrusted text harmless for a terminal. Everything that comes from
// a model, a repository or a command goes through it before it is printed.
func Safe(s string) string { return terminal.Safe(s) }
