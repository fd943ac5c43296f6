package core

import (
	"fmt"

	"belay/internal/core/children"
	"belay/internal/core/progress"
	"belay/internal/event"
)

// The defaults behind the zero values of event.Settings.
const (
	// DefaultMaxOutput is the output limit of one request, in tokens.
	DefaultMaxOutput = 8192
	// DefaultStepsPerTurn ends a turn; the goal goes on in a next one.
	DefaultStepsPerTurn = 60
	// DefaultRetryBaseMS doubles with each attempt up to DefaultRetryCapMS.
	DefaultRetryBaseMS = 1_000
	DefaultRetryCapMS  = 60_000
	// DefaultRetryWindowMS is how long one request is retried altogether:
	// overloads last tens of minutes. A goal may ask for hours.
	DefaultRetryWindowMS = 30 * 60_000
	// MaxReplyRetries is how many answers in a row may come out unusable: each
	// may have been charged.
	MaxReplyRetries = 8
	// ParkAfterMS is the wait from which on a goal is given back meanwhile.
	ParkAfterMS = 60_000
	// OutageMS is how long an outage has lasted when the longest pause between
	// two attempts is stretched by OutageFactor.
	OutageMS     = 30 * 60_000
	OutageFactor = 5
	// MaxTakeovers is how many workers in a row may die over a goal without one
	// response of the model between them; then the goal is handed off.
	MaxTakeovers = 10
	// BlockedBaseMS and BlockedCapMS shape the wait of a goal that no worker can
	// work on, MaxBlocked how often it is tried before it is handed off.
	BlockedBaseMS = 1_000
	BlockedCapMS  = 60_000
	MaxBlocked    = 60
	// DefaultParallelReads caps the reads that run side by side.
	DefaultParallelReads = 8
	// MaxCallsPerResponse caps the tool calls taken from one response; the rest
	// are rejected with the reason.
	MaxCallsPerResponse = 64
	// DefaultWindow stands for a window that nobody knows, in tokens: without
	// one the conversation, and the memory it takes, would grow for ever.
	DefaultWindow = 128_000
	// CompactAt is the share of the window, in percent, at which the
	// conversation is compacted before the next request, and CompactLast that
	// share when what always stays takes most of the room.
	CompactAt   = 80
	CompactLast = 95
	// MarginAt is the share of a refused size that counts as the window.
	MarginAt = 90
	// MaxView is the size at which a conversation is compacted although the
	// window has room, in tokens: each later request sends all of it again.
	MaxView = 80_000
	// TailShare is the share of that size, in percent, that the latest exchanges
	// may keep at a compaction.
	TailShare     = 15
	bytesPerToken = 3
	// MaxLevel is how often one request is made smaller before the goal is
	// handed off.
	MaxLevel = 3
)

func or(v, def int64) int64 {
	if v > 0 {
		return v
	}
	return def
}

// limits of a goal with its defaults applied.
func maxOutput(s event.Settings) int64     { return or(s.MaxOutput, DefaultMaxOutput) }
func stepsPerTurn(s event.Settings) int64  { return or(s.StepsPerTurn, DefaultStepsPerTurn) }
func parallelReads(s event.Settings) int64 { return or(s.ParallelReads, DefaultParallelReads) }
func refusedClaims(s event.Settings) int64 { return or(s.RefusedClaims, progress.RefusedClaims) }

// CheckSettings says what is wrong with a goal's settings, or nil. A word that
// means nothing must not be taken for the strictest or the mildest one.
func CheckSettings(s event.Settings) error {
	switch s.Approve {
	case "", event.ApproveAsk, event.ApproveAuto, event.ApproveNever:
	default:
		return fmt.Errorf("approve is ask, auto or never, not %q", s.Approve)
	}
	switch s.Plan {
	case "", event.PlanAuto, event.PlanAlways, event.PlanNever:
	default:
		return fmt.Errorf("plan is auto, always or never, not %q", s.Plan)
	}
	switch {
	case s.Patience < 0 || s.Patience > 100:
		return fmt.Errorf("patience is a factor from 1 to 100, not %d", s.Patience)
	case s.ApprovalTimeoutMS < 0:
		return fmt.Errorf("approval_timeout_ms must not be negative")
	case s.RetryWindowMS < 0:
		return fmt.Errorf("retry_window_ms must not be negative")
	}
	return children.CheckSettings(s)
}

// CheckLimits says what is wrong with a budget, or nil.
func CheckLimits(l event.Limits) error {
	for name, n := range map[string]int64{"turns": l.Turns, "steps": l.Steps, "tokens": l.Tokens, "cost_micros": l.CostMicros, "tool_ms": l.ToolMS} {
		if n < 0 {
			return fmt.Errorf("limits.%s must not be negative", name)
		}
	}
	return nil
}
