package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
)

// A checkout of a goal's own lacks what the user's directory holds beside its
// files: installed packages, generated code. The user says by which commands it
// is prepared. They run before the model is asked for the first time, one after
// the other, as operations like any other: on record, in the goal's sandbox,
// found again after a crash. One that has succeeded never runs again; one that
// has not stops the goal.

const (
	// MaxSetup is how many commands may prepare a worktree.
	MaxSetup = 20
	// SetupTimeoutS is how long one of them may take, in seconds.
	SetupTimeoutS = 1800
)

// SetupFailure is the command of a worktree's setup that did not succeed.
type SetupFailure struct {
	Op  string `json:"op_id"`
	Why string `json:"why,omitempty"`
}

// CheckSetup says what is wrong with the commands that prepare a worktree, or
// nil.
func CheckSetup(commands []string) error {
	if len(commands) > MaxSetup {
		return fmt.Errorf("setup: %d commands; at most %d prepare a worktree", len(commands), MaxSetup)
	}
	for i, c := range commands {
		if strings.TrimSpace(c) == "" || strings.ContainsRune(c, 0) {
			return errors.New("setup: command " + fmt.Sprint(i+1) + " is empty or holds a NUL")
		}
	}
	return nil
}

// toSetUp reports whether the goal's worktree is still to be prepared. A goal
// that only looks has nothing prepared for it.
func (s State) toSetUp() bool {
	return s.Worktree != nil && s.SetUp < len(s.Worktree.Setup) && !s.Settings.ReadOnly
}

// prepareWorktree proposes the next command of the setup, or stops the goal over
// the one that did not succeed.
func (w *step) prepareWorktree() bool {
	s := &w.s
	n, command := s.SetUp+1, s.Worktree.Setup[s.SetUp]
	for _, o := range s.InDoubt {
		if o.Setup > 0 {
			w.stopSetup(o.ID, command, "started, and its outcome is unknown",
				fmt.Sprintf("look at the worktree, then: belay reconcile %s %s --succeeded, --failed or --retry, and belay resume %s", s.Goal, o.ID, s.Goal))
			return true
		}
	}
	if bad := s.SetupFailed; bad != nil {
		w.stopSetup(bad.Op, command, "did not succeed: "+bad.Why, fmt.Sprintf("belay log %s %s shows what it said; mend it in %s, then belay resume %s runs it again; belay cancel %s ends the goal", s.Goal, bad.Op, s.Worktree.Dir, s.Goal, s.Goal))
		return true
	}
	args, err := json.Marshal(map[string]any{"command": command, "timeout_s": SetupTimeoutS})
	if err != nil {
		w.fail(err)
		return false
	}
	w.emitBy(event.ActorRuntime, fmt.Sprintf("op%d", s.Ops+1), event.OperationProposed{Tool: "run_command", Effect: event.Supervised,
		Arguments: args, Access: event.Access{Command: command}, Setup: n})
	return true
}

func (w *step) stopSetup(op, command, what, remedy string) {
	f := fault.New(fault.ExitStatus, fault.Environment, fmt.Sprintf("the worktree is not prepared: the setup command `%s` (%s) %s", clip(command, 200), op, what), remedy)
	w.handOff(f.Told(), f, event.PausedByHandoff, event.StopHandedOff)
}

// setUp notes how a command of the setup ended. One that was withdrawn, or did
// not happen, is proposed again.
func (s *State) setUp(o operation.Op, outcome event.Outcome, why string) {
	if o.Setup == 0 || o.Setup != s.SetUp+1 {
		return
	}
	switch outcome {
	case event.Succeeded:
		s.SetUp, s.SetupFailed = o.Setup, nil
	case event.Failed, event.Rejected:
		s.SetupFailed = &SetupFailure{Op: o.ID, Why: oneLine(clip(why, 300))}
	}
}
