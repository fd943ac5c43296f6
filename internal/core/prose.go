package core

import (
	"fmt"
	"strings"

	"belay/internal/event"
)

const (
	// ProseOutput is the output limit of the words that go with a compaction, in
	// tokens; maxProse is how many bytes of them are kept.
	ProseOutput = 1024
	maxProse    = 4 << 10
)

// askProse asks the model for a few words of its own that go with a compaction,
// when the goal's settings say so and the budget has room. It is asked once:
// whatever comes of it, the compaction follows.
func (w *step) askProse(c event.Compaction, b Composed) bool {
	if !w.s.Settings.Prose || w.s.Talk.Asked {
		return false
	}
	ask := askOf(w.s.Settings, b)
	ask.MaxOutput = min(ask.MaxOutput, ProseOutput)
	ask.Input += ProseOutput // the words that ask for it
	reserved, out, short := w.s.Budget.Fit(ask, w.in.Now)
	if short != "" {
		return false
	}
	w.emit(event.ModelRequested{Request: fmt.Sprintf("r%d", w.s.Requests+1), Model: w.s.Settings.Model, Attempt: 1,
		MaxOutput: out, Reserved: reserved, Through: b.Head, Bytes: b.Bytes, Compaction: &c})
	w.commit() // it costs money
	return true
}

// prosed takes what the model has to say, or that it said nothing of use, and
// compacts.
func (w *step) prosed(b Replied, c event.Compaction) {
	b.Response.Request = b.Request
	w.emitBy(event.ActorModel, "", b.Response)
	prose := strings.TrimSpace(finalText(b.Response.Parts))
	if len(b.Proposals) > 0 {
		prose = "" // it goes on working instead of saying what it knows
	}
	w.compacted(c, 1, clip(prose, maxProse))
}

// unprosed compacts without the words that did not come.
func (w *step) unprosed(b ReplyFailed, c event.Compaction, charged event.Amount) {
	w.emit(event.ModelFailed{Request: b.Request, Fault: b.Fault, Charged: charged})
	w.compacted(c, 1, "")
}
