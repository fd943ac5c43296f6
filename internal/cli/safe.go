package cli

import "belay/internal/terminal"

// Safe makes untrusted text harmless for a terminal. Everything that comes from
// a model, a repository or a command goes through it before it is printed.
func Safe(s string) string { return terminal.Safe(s) }

// oneLine is Safe for a place within one line, block for text with lines.
func oneLine(s string) string { return terminal.Line(s) }
func block(s string) string   { return terminal.Block(s) }
