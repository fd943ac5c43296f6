package core

import (
	"fmt"
	"strings"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// The ground of a goal is a commit and a branch, too: under a running one,
// somebody else's checkout, commit, merge or rebase makes what it does next land
// where nobody wanted it. So git's standing is looked at with every observation.
// What an operation of the goal moved is recorded; what somebody else moved under
// a running goal stops it with a question.

// noteStanding records that git stands elsewhere. The cause is an operation only
// if that can move it: an edit of a file cannot.
func (w *step) noteStanding(is *event.Standing, by string) {
	s := &w.s
	if is == nil || s.Git != nil && *is == *s.Git {
		return
	}
	if by != external && s.UnseenEffect == event.Verifiable {
		by = external
	}
	m := event.HeadMoved{To: *is, By: by}
	if s.Git == nil {
		m.By = "" // the directory is another: there is nothing to compare with
	} else {
		m.From = *s.Git
		m.Asked = by == external && !s.Trusted && s.Turn != nil && (s.Status == lifecycle.Active || s.Status == lifecycle.Verifying) &&
			(m.From != event.Standing{})
	}
	w.emitBy(event.ActorRuntime, opOf(m.By), m)
}

// movedWords says what has moved.
func movedWords(m event.HeadMoved) string {
	var said []string
	from, to := m.From, m.To
	if from.Branch != to.Branch {
		said = append(said, fmt.Sprintf("%s is checked out instead of %s", branchWords(to), branchWords(from)))
	}
	if from.Head != to.Head {
		said = append(said, fmt.Sprintf("HEAD is at %s instead of %s", commitWords(to.Head), commitWords(from.Head)))
	}
	switch {
	case to.Doing != "" && to.Doing != from.Doing:
		said = append(said, to.Doing+" is in progress")
	case from.Doing != "" && to.Doing == "":
		said = append(said, from.Doing+" has ended")
	}
	return strings.Join(said, ", ")
}

func branchWords(s event.Standing) string {
	if s.Branch == "" {
		return "no branch"
	}
	return "branch " + s.Branch
}

func commitWords(id string) string {
	if id == "" {
		return "no commit"
	}
	return clip(id, 12)
}

// movedQuestion is what a person is asked.
func movedQuestion(m event.HeadMoved) string {
	return "somebody else moved git under the goal: " + movedWords(m) + ". Go on from here, or stop? (approve or say what to do: it goes on; deny: it is paused)"
}

// askMoved waits for a person's word on the moved ground.
func (w *step) askMoved() bool {
	w.emitBy(event.ActorRuntime, "", event.GoalWaiting{Reason: event.WaitUserInput, Detail: movedQuestion(*w.s.Moved)})
	w.endTurn(event.StopNeedsUser, "git was moved by somebody else")
	return false
}

// answerMoved takes a person's word on the moved ground. It reports whether that
// was asked.
func (w *step) answerMoved(goOn bool) bool {
	if w.s.Moved == nil {
		return false
	}
	w.emit(event.HeadAnswered{GoOn: goOn})
	if !goOn {
		w.emit(event.GoalPaused{Reason: event.PausedByUser, Detail: "git was moved by somebody else, and the user stopped the goal"})
		return true
	}
	w.wake()
	return true
}

// plainAnswer reads an answer of one word.
func plainAnswer(text string) (goOn, plain bool) {
	switch strings.ToLower(strings.Trim(strings.TrimSpace(text), ".!")) {
	case "go on", "go", "yes", "y", "continue":
		return true, true
	case "stop", "no", "n":
		return false, true
	}
	return true, false
}

func (s *State) applyMoved(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.HeadMoved:
		to := p.To
		s.Git = &to
		switch {
		case p.Asked && s.Moved != nil: // it moved again before anybody answered
			both := p
			both.From = s.Moved.From
			s.Moved = &both
		case p.Asked:
			s.Moved = &p
		}
		if s.Moved != nil && s.Moved.From == to {
			s.Moved = nil // it is as it was
		}
	case event.HeadAnswered:
		s.Moved = nil
	default:
		return s.applyJourney(e)
	}
	return true
}
