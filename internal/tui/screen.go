package tui

import (
	"strings"
	"time"
	"unicode/utf8"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/terminal"
)

const (
	maxEntries = 2000 // of the timeline, kept to scroll back in
	maxLines   = 400  // of a command's output or a model's text
	maxInput   = 4000 // characters typed
)

// Typing says what the line that is being typed will be.
type Typing string

// What can be typed.
const (
	NotTyping Typing = ""
	Steer     Typing = "steer"
	Message   Typing = "message"
	Reply     Typing = "answer"
	Denial    Typing = "deny, reason"
)

// Act is a command that the person has given.
type Act string

// The commands.
const (
	Approve Act = "approve"
	Deny    Act = "deny"
	Suggest Act = "suggest" // which rule would allow this for good
	Always  Act = "always"
	Say     Act = "say"
	Pause   Act = "pause"
	Resume  Act = "resume"
	Cancel  Act = "cancel"
	Quit    Act = "quit"
)

// Command is what a key means: an act and what it is about.
type Command struct {
	Act        Act
	Op, Intent string
	Text       string
	Mode       event.MessageMode
	Rules      []event.Rule
	// Save says that the rules go to the user's policy.yaml as well.
	Save bool
}

// Screen is all that is shown of one goal. It is a value: Key and the methods
// that take in news return the next one.
type Screen struct {
	Width, Height int
	Color         bool
	Now           time.Time

	Snap    core.Snapshot
	Entries []core.Entry
	// Attached says that another process works on the goal; quitting leaves it.
	Attached bool
	Held     bool

	// live is what the model writes or a command prints right now.
	live   []string
	liveOf string
	closed string // what streamed last and has ended
	action string
	since  time.Time

	// Preview is the whole of what the first pending approval asks about.
	Preview string
	scroll  int // lines back from the end of the timeline
	down    int // lines down in the preview

	typing  Typing
	input   string
	asking  string // "cancel" while the person is asked to confirm it
	rules   []event.Rule
	save    bool
	Notice  string
	problem bool
}

// Took takes in a new snapshot.
func (s Screen) Took(v core.Snapshot) Screen {
	was := s.question()
	s.Snap = v
	if q := s.question(); q != was {
		s.down, s.rules = 0, nil
		if s.typing == Denial {
			s.typing, s.input = NotTyping, ""
		}
	}
	if v.CurrentAction != s.action {
		s.action, s.since = v.CurrentAction, s.Now
	}
	return s
}

// question names the pending approval that is shown, "" for none.
func (s Screen) question() string {
	if len(s.Snap.PendingApprovals) == 0 {
		return ""
	}
	return s.Snap.PendingApprovals[0].Op + s.Snap.PendingApprovals[0].Intent.Hash
}

// Happened takes in an event.
func (s Screen) Happened(e event.Event) Screen {
	switch p := e.Payload.(type) {
	case event.ModelResponded:
		s = s.ended(p.Request)
	case event.ModelFailed:
		s = s.ended(p.Request)
	case event.OperationFinished:
		s = s.ended(e.Op)
	}
	if t, ok := core.TimelineEntry(e); ok {
		s.Entries = append(s.Entries[max(0, len(s.Entries)-maxEntries+1):len(s.Entries):len(s.Entries)], t)
		if s.scroll > 0 {
			s.scroll++ // what is looked at stays where it is
		}
	}
	return s
}

// ended notes that nothing more of a stream is to be shown: its result is in
// the timeline.
func (s Screen) ended(of string) Screen {
	s.closed = of
	if s.liveOf == of {
		s.live, s.liveOf = nil, ""
	}
	return s
}

// Streamed takes in a piece of a model's text or of a command's output.
func (s Screen) Streamed(of, text string) Screen {
	if of == s.closed {
		return s
	}
	if of != s.liveOf {
		s.live, s.liveOf = []string{""}, of
	}
	lines := append([]string(nil), s.live...)
	for i, part := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if i > 0 {
			lines = append(lines, "")
		}
		// A carriage return goes back over its line: progress bars do.
		if at := strings.LastIndexByte(part, '\r'); at >= 0 {
			part = part[at+1:]
			lines[len(lines)-1] = ""
		}
		last := lines[len(lines)-1] + part
		if len(last) > maxInput {
			last = last[len(last)-maxInput:]
		}
		lines[len(lines)-1] = last
	}
	s.live = lines[max(0, len(lines)-maxLines):]
	return s
}

// Said shows what came of a command.
func (s Screen) Said(notice string, problem bool) Screen {
	s.Notice, s.problem = notice, problem
	return s
}

// Offer shows the rules that would allow the pending question for good.
func (s Screen) Offer(rules []event.Rule, save bool) Screen {
	if len(rules) == 0 {
		return s.Said("no rule can allow this beforehand: answer it each time", true)
	}
	s.rules, s.save = rules, save
	return s
}

// Key takes in one key, named as bubbletea names it, and returns the command
// that it means, if any. Text is what a printable key types.
func (s Screen) Key(key, text string) (Screen, *Command) {
	s.Notice = ""
	switch {
	case key == "ctrl+c":
		return s, &Command{Act: Quit}
	case s.typing != NotTyping:
		return s.typed(key, text)
	case s.asking != "":
		s.asking = ""
		if key == "y" {
			return s, &Command{Act: Cancel}
		}
		return s.Said("not cancelled", false), nil
	case len(s.rules) > 0:
		rules, save := s.rules, s.save
		s.rules = nil
		if key == "y" {
			q := s.Snap.PendingApprovals[0]
			return s, &Command{Act: Always, Op: q.Op, Intent: q.Intent.Hash, Rules: rules, Save: save}
		}
		return s, nil
	}
	if len(s.Snap.PendingApprovals) > 0 {
		if next, c, done := s.answered(key); done {
			return next, c
		}
	} else if s.Snap.ClaimWaits() {
		switch key {
		case "y", "a":
			return s, &Command{Act: Approve}
		case "n", "d":
			s.typing = Denial
			return s, nil
		}
	}
	return s.general(key)
}

// answered are the keys that answer the pending approval.
func (s Screen) answered(key string) (Screen, *Command, bool) {
	q := s.Snap.PendingApprovals[0]
	switch key {
	case "y", "a":
		return s, &Command{Act: Approve, Op: q.Op, Intent: q.Intent.Hash}, true
	case "n", "d":
		s.typing = Denial
		return s, nil, true
	case "A", "shift+a":
		return s, &Command{Act: Suggest, Op: q.Op, Save: true}, true
	case "g":
		return s, &Command{Act: Suggest, Op: q.Op}, true
	case "down", "j":
		s.down++
		return s, nil, true
	case "up", "k":
		s.down = max(0, s.down-1)
		return s, nil, true
	case "pgdown", "space":
		s.down += max(1, s.Height/2)
		return s, nil, true
	case "pgup":
		s.down = max(0, s.down-max(1, s.Height/2))
		return s, nil, true
	}
	return s, nil, false
}

func (s Screen) general(key string) (Screen, *Command) {
	switch key {
	case "s":
		s.typing = Steer
	case "m":
		s.typing = Message
	case "enter":
		if s.Snap.WaitReason == event.WaitUserInput && !s.Snap.ClaimWaits() {
			s.typing = Reply
		}
	case "p":
		return s, &Command{Act: Pause}
	case "r":
		return s, &Command{Act: Resume}
	case "c":
		s.asking = "cancel"
	case "q":
		return s, &Command{Act: Quit}
	case "up", "k":
		s.scroll = min(s.scroll+1, len(s.Entries))
	case "down", "j":
		s.scroll = max(0, s.scroll-1)
	case "pgup":
		s.scroll = min(s.scroll+max(1, s.Height/2), len(s.Entries))
	case "pgdown":
		s.scroll = max(0, s.scroll-max(1, s.Height/2))
	case "home":
		s.scroll = len(s.Entries)
	case "end", "esc":
		s.scroll = 0
	}
	return s, nil
}

// blanks are what is no line of its own in a line that is typed or pasted.
var blanks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// typed takes a key into the line that is being typed.
func (s Screen) typed(key, text string) (Screen, *Command) {
	switch key {
	case "esc":
		s.typing, s.input = NotTyping, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(s.input)
		s.input = s.input[:len(s.input)-n]
	case "ctrl+u":
		s.input = ""
	case "enter":
		t, line := s.typing, strings.TrimSpace(s.input)
		if line == "" && t != Denial {
			return s, nil
		}
		s.typing, s.input = NotTyping, ""
		switch t {
		case Denial:
			c := &Command{Act: Deny, Text: line}
			if len(s.Snap.PendingApprovals) > 0 {
				c.Op, c.Intent = s.Snap.PendingApprovals[0].Op, s.Snap.PendingApprovals[0].Intent.Hash
			}
			return s, c
		case Steer:
			return s, &Command{Act: Say, Text: line, Mode: event.Steer}
		default:
			return s, &Command{Act: Say, Text: line, Mode: event.Message}
		}
	default:
		if text != "" && len(s.input) < maxInput {
			s.input += terminal.Safe(blanks.Replace(text))
		}
	}
	return s, nil
}

// over reports whether the goal goes no further by itself.
func (s Screen) over() bool { return s.Snap.Status.Final() || s.Snap.Status == lifecycle.Paused }
