// Package runtime drives goals: it claims a ticket, steps the core, appends
// what it decides, runs the effects it wants, and feeds their results back. It
// holds no rules: what happens next is always core.Step's word.
//
// # One loop
//
// Inputs are handled one at a time. The events of a step are committed before
// any of its effects starts. Effects run on goroutines of their own; each is
// named by its key, and after every step the set in flight is made equal to
// the set that the core wants.
//
// # Failure handling
//
// A conflict means that somebody else appended: read, fold, step again with
// the same input. Fenced means that the goal moved on under a newer fence: the
// driver still records what its own attempts did, as facts, and moves nothing.
// Any other append error is fail-stop: the driver ends with the storage named,
// and starts nothing more. Killed at any point, the next driver claims the
// goal, folds the ledger, and the core wants probes for what was running.
package runtime
