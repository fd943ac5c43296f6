package prompt

import (
	"belay/internal/core"
	"belay/internal/model"
	"belay/internal/tool"
)

// The sizes of the view, in bytes.
const (
	// MaxFixed is what instructions and tools may take together.
	MaxFixed = 12 << 10
	// MaxRules is the most of the repository's own rules that is shown.
	MaxRules = 8 << 10
	// MaxState is the most that the state block takes.
	MaxState = 4 << 10
)

// Input is what a request is built from.
type Input struct {
	// State is the goal's state at the head that Messages were projected from.
	State core.State
	// Messages are the transcript's.
	Messages []model.Message
	// Tools are in their fixed order.
	Tools []model.Tool
	// ID, Attempt and MaxOutput are those of the announced request; they are
	// not known yet when a request is only composed and counted.
	ID        string
	Attempt   int
	MaxOutput int64
}

// Build puts a request together.
func Build(in Input) model.Request {
	return model.Request{System: System(in.State), Tools: in.Tools, Messages: in.Messages, State: StateBlock(in.State),
		ID: in.ID, Attempt: in.Attempt, MaxOutput: in.MaxOutput}
}

// Tools declares tools to a model, in the order given.
func Tools(ts []tool.Tool) []model.Tool {
	out := make([]model.Tool, len(ts))
	for i, t := range ts {
		s := t.Spec()
		out[i] = model.Tool{Name: s.Name, Description: s.Description, Schema: s.Schema}
	}
	return out
}

// System is the instructions and, behind them, the repository's own rules and
// what earlier goals left, as they stood at the last compaction.
func System(s core.State) string {
	if s.Workspace == nil {
		return instructions
	}
	return instructions + rules(s) + memory(s)
}

// Measure returns how many leading bytes two request bodies have in common.
func Measure(prev, next []byte) (stable int) {
	n := min(len(prev), len(next))
	for stable < n && prev[stable] == next[stable] {
		stable++
	}
	return stable
}
