package builtin

import (
	"context"
	"errors"
	"fmt"

	"belay/internal/event"
	"belay/internal/fault"
)

// asFault returns the fault inside an error, or makes one of an error that no
// port gave a kind.
func asFault(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return fault.New(fault.Internal, fault.Environment, err.Error(), "")
}

// failed is the end of an attempt that did not do what was asked. When the
// runtime took the context away there is no outcome, only its error.
func failed(ctx context.Context, err error) (event.Outcome, event.Result, error) {
	if ctx.Err() != nil {
		return "", event.Result{}, fmt.Errorf("builtin: interrupted: %w", context.Cause(ctx))
	}
	f := asFault(err)
	return event.Failed, event.Result{Output: event.Text{Head: f.Error()}, Fault: f}, nil
}

// succeeded is the end of an attempt that did.
func succeeded(text string) (event.Outcome, event.Result, error) {
	return event.Succeeded, event.Result{Output: event.Text{Head: text}}, nil
}

// plural writes a count with its noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
