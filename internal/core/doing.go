package core

import (
	"fmt"
	"strings"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
)

// Doing says in a few words what goes on for a goal right now, "" when
// nothing does. After a cancel or a pause it tells what was asked for from what
// has already stopped.
func Doing(s State) string {
	running := startedWords(s.Open)
	switch {
	case s.Refuse != "":
		return "cannot be advanced by this belay"
	case s.RollingBack():
		return s.deedWords()
	case s.Status.Final() && running != "":
		return "stopping " + running
	case s.Status == lifecycle.Paused && running != "":
		return "paused, still running " + running
	case s.Status.Final() && len(s.Children.Open()) > 0:
		return "stopping " + childrenWords(s.Children.Open())
	case s.Status.Final() || s.Status == lifecycle.Paused:
		return ""
	case running != "":
		return "running " + running
	case s.Wait != nil:
		return waitWords(s)
	case s.Verification != nil || s.Status == lifecycle.Verifying:
		return "verifying the claim of completion"
	case s.Turn == nil:
		return "ready for a worker"
	case s.Request != nil && s.Request.Compaction != nil:
		return "asking the model for words to a compaction"
	case s.Request != nil && s.Request.Attempt > 1:
		return fmt.Sprintf("asking the model, attempt %d", s.Request.Attempt)
	case s.Request != nil:
		return "asking the model"
	case len(s.inLine()) > 0:
		return "preparing " + operationWords(s.inLine()[0])
	}
	return "between two steps"
}

func waitWords(s State) string {
	switch s.Wait.Reason {
	case event.WaitApproval:
		if len(s.Approvals.Pending) > 0 {
			p := s.Approvals.Pending[0]
			return "waiting for approval of " + operationWords(operation.Op{Tool: p.Tool, Access: p.Access})
		}
		return "waiting for an approval"
	case event.WaitUserInput:
		return "waiting for an answer"
	case event.WaitRetry:
		return "waiting to try again"
	}
	if s.Wait.Reason == event.WaitChild && len(s.Children.Open()) > 0 {
		return "waiting for " + childrenWords(s.Children.Open())
	}
	return "waiting for " + strings.ReplaceAll(string(s.Wait.Reason), "_", " ")
}

// startedWords names what may be running.
func startedWords(ops []operation.Op) string {
	words, more := "", 0
	for _, o := range ops {
		switch {
		case o.Phase != operation.Started:
		case words == "":
			words = operationWords(o)
		default:
			more++
		}
	}
	if more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

func operationWords(o operation.Op) string {
	what := firstLine(o.Access.Command)
	if what == "" {
		what = strings.Join(append(append([]string(nil), o.Access.Writes...), o.Access.Reads...), " ")
	}
	if what == "" {
		return o.Tool
	}
	return o.Tool + ": " + clip(what, 120)
}
