package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// DecisionRevoked takes a recorded decision back, of this goal or of an
// earlier one in the same repository.
type DecisionRevoked struct {
	// Decision is its id.
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	By       Actor  `json:"by"`
}

// MemoryRecalled is what the goal was told, when it started, of what earlier
// goals in its repository left. It grants nothing.
type MemoryRecalled struct {
	Items []MemoryItem `json:"items"`
	// More is how many were known beside those that are shown.
	More int `json:"more,omitempty"`
}

// MemoryItem is one thing that is remembered, as it was shown.
type MemoryItem struct {
	ID   string     `json:"id"`
	Kind MemoryKind `json:"kind"`
	// Text is the one line that is shown.
	Text string `json:"text"`
}

// MemoryKind is the kind of a thing that is remembered.
type MemoryKind string

// The kinds of memory.
const (
	MemoryDecision MemoryKind = "decision" // a model's own words, recorded as a decision
	MemoryCommand  MemoryKind = "command"  // how a command ended here, as it was observed
)

// MemoryForgotten is a person's word that something is to be remembered no
// longer. It covers what was recorded up to then; what is observed later is
// news.
type MemoryForgotten struct {
	// Repo is the repository that it is about.
	Repo  string   `json:"repo"`
	Items []string `json:"items,omitempty"` // ids
	// All says that everything is meant.
	All bool `json:"all,omitempty"`
	// Through is the last event of each goal that it covers.
	Through map[string]uint64 `json:"through"`
}

// DecisionID is the id of the decision that an event records.
func DecisionID(goal string, seq uint64) string {
	sum := sha256.Sum256([]byte(goal + "\x00" + strconv.FormatUint(seq, 10)))
	return "d" + hex.EncodeToString(sum[:4])
}
