package terminal

import "strings"

// ColourOf is how a timeline entry of that name is shown, as an SGR code: green
// for what is good, red for what is not, yellow for what waits, else bold.
func ColourOf(name string) string {
	switch {
	case strings.HasPrefix(name, "goal_completed"), strings.HasSuffix(name, "exit_code=0"), strings.HasPrefix(name, "approval_granted"):
		return "32"
	case strings.Contains(name, "failed"), strings.Contains(name, "rejected"), strings.Contains(name, "denied"),
		strings.Contains(name, "unknown"), strings.Contains(name, "exit_code="):
		return "31"
	case strings.HasPrefix(name, "approval_requested"), strings.HasPrefix(name, "goal_waiting"), strings.HasPrefix(name, "progress_alarm"):
		return "33"
	}
	return "1"
}
