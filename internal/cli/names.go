package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Commands are all commands that do something, by their words, with those of
// the other faces.
func Commands(env Env) []string {
	a := &app{Env: env}
	if a.Getenv == nil {
		a.Getenv = func(string) string { return "" }
	}
	var names []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasParent() && !c.HasSubCommands() {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "belay "))
		}
	}
	walk(a.root())
	return names
}
