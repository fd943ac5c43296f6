package core

import (
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
	// conversation is compacted before the next request.
	CompactAt = 80
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
