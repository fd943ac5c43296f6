package tool

import "strconv"

// AttemptKey is the spool key of one attempt: a safe file name.
func AttemptKey(goal, op string, attempt int) string {
	return goal + "." + op + "." + strconv.Itoa(attempt)
}
