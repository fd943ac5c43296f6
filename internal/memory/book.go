package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/moment"
)

// Schema is the version of Book's shape: one of another version is rebuilt.
const Schema = 1

// What is kept at most.
const (
	MaxCommands  = 500
	MaxDecisions = 200
	maxFixes     = 3
	maxSince     = 3 // commands that may have mended another
	maxPaths     = 5 // paths likewise
	maxBroken    = 16
)

// At is where something was observed: the time tells what is newer between two
// goals, the rest makes the order one.
type At struct {
	Time moment.Time `json:"time"`
	Goal string      `json:"goal"`
	Seq  uint64      `json:"seq"`
}

func (a At) compare(b At) int {
	switch {
	case a.Time != b.Time:
		return sign(a.Time > b.Time)
	case a.Goal != b.Goal:
		return strings.Compare(a.Goal, b.Goal)
	case a.Seq != b.Seq:
		return sign(a.Seq > b.Seq)
	}
	return 0
}

func sign(more bool) int {
	if more {
		return 1
	}
	return -1
}

// Decision is a decision that outlives its goal.
type Decision struct {
	ID       string `json:"id"`
	At       At     `json:"at"`
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	// Paths are where it holds; none means the whole repository.
	Paths []string `json:"paths,omitempty"`
}

// Command is what is known of one command in one directory.
type Command struct {
	ID      string `json:"id"`
	Command string `json:"command"`
	Dir     string `json:"dir"`
	// Worked counts runs that ended well, TestsFailed those that ran tests of
	// which some failed, Failed all others.
	Worked      int `json:"worked"`
	TestsFailed int `json:"tests_failed,omitempty"`
	Failed      int `json:"failed,omitempty"`
	// Last is the latest run, How the way it ended and MS how long it took.
	Last At     `json:"last"`
	How  string `json:"how"`
	MS   int64  `json:"duration_ms,omitempty"`
	// LastFailure is how the latest run ended that failed.
	LastFailure string `json:"last_failure,omitempty"`
	FailedAt    At     `json:"failed_at,omitzero"`
	// Tools are the programs it ran with in the latest run that tells: resolved
	// path, and hash or version.
	Tools   map[string]string `json:"tools,omitempty"`
	ToolsAt At                `json:"tools_at,omitzero"`
	Fixes   []Fix             `json:"fixes,omitempty"`
}

// Runs is how often it was run.
func (c *Command) Runs() int { return c.Worked + c.TestsFailed + c.Failed }

// Fix is what was done between a failure and the next success.
type Fix struct {
	At  At     `json:"at"`
	How string `json:"how"` // the failure
	// Commands are ids of commands that worked in between, Paths what changed.
	// With neither, it worked on another try.
	Commands []string `json:"commands,omitempty"`
	Paths    []string `json:"paths,omitempty"`
}

// Book is the memory of one repository. Its zero value is empty.
type Book struct {
	// Through is the last event of each goal that was folded in.
	Through   map[string]uint64    `json:"through,omitempty"`
	Decisions map[string]*Decision `json:"decisions,omitempty"`
	Revoked   map[string]bool      `json:"revoked,omitempty"`
	Commands  map[string]*Command  `json:"commands,omitempty"`
	// Words are the persons' words that are known, by the event that holds them;
	// Masks is through which event of each goal an id is forgotten, "" for all.
	Words map[string]bool              `json:"words,omitempty"`
	Masks map[string]map[string]uint64 `json:"masks,omitempty"`
	// Going is what is known of goals that have not ended.
	Going map[string]*going `json:"going,omitempty"`
	// Late says that a word came that covers what was folded before.
	Late bool `json:"late,omitempty"`
}

// Stale reports whether everything has to be folded afresh: a person's word
// covers what was folded before it was known.
func (b *Book) Stale() bool { return b.Late }

// Afresh forgets all that was folded but the persons' words, which the next
// fold obeys from its beginning.
func (b *Book) Afresh() { *b = Book{Words: b.Words, Masks: b.Masks} }

// Seq says how far the fold is: it only grows, with every event, and with every
// person's word more than all that has to be folded afresh for it.
func (b *Book) Seq() uint64 {
	n := uint64(len(b.Words)) << 40
	for _, seq := range b.Through {
		n += seq
	}
	return n
}

// Forgetting is the word with which a person forgets these ids, or everything,
// as far as it is known to this book.
func (b *Book) Forgetting(repo string, ids []string, all bool) event.MemoryForgotten {
	return event.MemoryForgotten{Repo: repo, Items: ids, All: all, Through: maps.Clone(b.Through)}
}

// forget takes in a person's word.
func (b *Book) forget(e event.Event, p event.MemoryForgotten) {
	key := e.Goal + "/" + strconv.FormatUint(e.Seq, 10)
	if b.Words[key] {
		return
	}
	if b.Words == nil {
		b.Words = map[string]bool{}
	}
	if b.Masks == nil {
		b.Masks = map[string]map[string]uint64{}
	}
	b.Words[key], b.Late = true, true
	ids := p.Items
	if p.All {
		ids = []string{""}
	}
	for _, id := range ids {
		if b.Masks[id] == nil {
			b.Masks[id] = map[string]uint64{}
		}
		for goal, seq := range p.Through {
			b.Masks[id][goal] = max(b.Masks[id][goal], seq)
		}
	}
}

// forgotten reports whether what an event says of an id is covered by a
// person's word.
func (b *Book) forgotten(id string, e event.Event) bool {
	return e.Seq <= b.Masks[id][e.Goal] || e.Seq <= b.Masks[""][e.Goal]
}

// commandID names a command in a directory.
func commandID(n normal) string {
	sum := sha256.Sum256([]byte(n.dir + "\x00" + n.command))
	return "c" + hex.EncodeToString(sum[:4])
}

func (b *Book) decide(e event.Event, p event.DecisionRecorded) {
	paths, ok := scope(p.Scope)
	id := event.DecisionID(e.Goal, e.Seq)
	if !ok || b.forgotten(id, e) {
		return
	}
	if b.Decisions == nil {
		b.Decisions = map[string]*Decision{}
	}
	b.Decisions[id] = &Decision{ID: id, At: at(e), Decision: p.Decision, Reason: p.Reason, Paths: paths}
	if len(b.Decisions) > MaxDecisions {
		delete(b.Decisions, slices.MinFunc(slices.Collect(maps.Values(b.Decisions)), func(x, y *Decision) int { return x.At.compare(y.At) }).ID)
	}
}

// scope reads where a decision holds; ok is false when it is its goal alone.
func scope(text string) (paths []string, ok bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "repository", "repo", "the repository":
		return nil, true
	}
	for p := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !strings.ContainsAny(p, "/.*") || !clean(p) {
			return nil, false
		}
		paths = append(paths, p)
	}
	return paths, len(paths) > 0
}

func (b *Book) revoke(id string) {
	if b.Revoked == nil {
		b.Revoked = map[string]bool{}
	}
	b.Revoked[id] = true
}

func at(e event.Event) At { return At{Time: e.Time, Goal: e.Goal, Seq: e.Seq} }

func (b *Book) command(n normal) *Command {
	id := commandID(n)
	if c := b.Commands[id]; c != nil {
		return c
	}
	if b.Commands == nil {
		b.Commands = map[string]*Command{}
	}
	c := &Command{ID: id, Command: n.command, Dir: n.dir}
	b.Commands[id] = c
	return c
}

// bound drops the commands that were seen longest ago.
func (b *Book) bound() {
	for len(b.Commands) > MaxCommands {
		delete(b.Commands, slices.MinFunc(slices.Collect(maps.Values(b.Commands)), func(x, y *Command) int { return x.Last.compare(y.Last) }).ID)
	}
}
