package core

import (
	"fmt"
	"slices"

	"belay/internal/event"
)

// Conversation is what the core knows of the conversation without holding it: where it
// begins, how large a request may be, and how often it was compacted without a
// response in between.
type Conversation struct {
	// From is the seq that the conversation is read from since the last
	// compaction, 0 for all of it. Grounds are the events before it that it
	// stands on as well, in order.
	From    uint64   `json:"from,omitempty"`
	Grounds []uint64 `json:"grounds,omitempty"`
	// Requested is the latest request's event, Answered that of the latest
	// request with a response.
	Requested uint64 `json:"requested,omitempty"`
	Answered  uint64 `json:"answered,omitempty"`
	// Attached and Revised are the events that say where the work takes place
	// and what the goal is now.
	Attached uint64 `json:"attached,omitempty"`
	Revised  uint64 `json:"revised,omitempty"`
	// Settled are the doubts that were settled since From.
	Settled []Settled `json:"settled,omitempty"`
	// Level is the level of the latest compaction without a response since.
	Level int `json:"level,omitempty"`
	// Refused says that the provider refused the latest request as too large.
	Refused bool `json:"refused,omitempty"`
	// Asked says that the model was asked for words to the next compaction.
	Asked bool `json:"asked,omitempty"`
	// Tokens and Bytes are the latest request's size.
	Tokens int64 `json:"tokens,omitempty"`
	Bytes  int64 `json:"bytes,omitempty"`
	// Most are the smallest sizes that a provider refused, 0 for none: what it
	// says of its window, or what nobody told of it, may be wrong.
	MostTokens int64 `json:"most_tokens,omitempty"`
	MostBytes  int64 `json:"most_bytes,omitempty"`
	// Least is the size of the first request after a compaction, in tokens: a
	// conversation never gets smaller than that.
	Least int64 `json:"least,omitempty"`
}

// Settled is a doubt that is none any more: the operation's proposal, and what
// settled it.
type Settled struct {
	Proposal uint64 `json:"proposal"`
	By       uint64 `json:"by"`
}

// afresh forgets what a provider refused: a person has looked, and it may be
// another provider now.
func (v *Conversation) afresh() {
	v.Level, v.Refused, v.MostTokens, v.MostBytes, v.Least = 0, false, 0, 0, 0
}

func (v *Conversation) requested(seq uint64, p event.ModelRequested) {
	if p.Compaction != nil {
		v.Asked = true
		return
	}
	v.Requested = seq
	v.Tokens, v.Bytes = max(p.Reserved.Tokens-p.MaxOutput, 0), p.Bytes
	if v.Level > 0 {
		v.Least = v.Tokens
	}
}

func (v *Conversation) answered() {
	v.Answered, v.Level, v.Refused = v.Requested, 0, false
}

// refused notes a size that is too large.
func (v *Conversation) refused() {
	v.Refused = true
	v.MostTokens, v.MostBytes = smaller(v.MostTokens, v.Tokens), smaller(v.MostBytes, v.Bytes)
}

// smaller is the smaller one of two numbers, of which 0 is none.
func smaller(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (v *Conversation) compacted(p event.ContextCompacted, grounds []uint64) {
	v.From = min(p.Through, v.Answered)
	v.Grounds = nil
	v.Settled = slices.DeleteFunc(slices.Clone(v.Settled), func(d Settled) bool { return d.By < v.From })
	for _, d := range v.Settled {
		if !slices.Contains(grounds, d.Proposal) {
			grounds = append(grounds, d.Proposal)
		}
	}
	slices.Sort(grounds)
	for _, seq := range grounds {
		if seq < v.From {
			v.Grounds = append(v.Grounds, seq)
		}
	}
	v.Level, v.Refused, v.Asked = max(p.Level, 1), false, false
}

// grounds are the events before a compaction that the conversation stands on
// whatever is left of it: the goal in its first and its newest version, the
// workspace, what the user said that no response has answered, and operations
// that may still bring something.
func (s State) grounds() []uint64 {
	seqs := []uint64{1}
	add := func(seq uint64) {
		if seq > 0 && !slices.Contains(seqs, seq) {
			seqs = append(seqs, seq)
		}
	}
	add(s.Talk.Attached)
	add(s.Talk.Revised)
	for _, m := range s.Inbox {
		add(m.Seq)
	}
	for _, o := range s.InDoubt {
		add(o.Seq)
	}
	for _, o := range s.Open {
		add(o.Seq)
		add(o.Again)
	}
	return seqs
}

// limits are the most tokens and bytes that a request is sent with before the
// conversation is compacted; 0 bytes is no limit.
func (v Conversation) limits(window int64) (tokens, bytes int64) {
	if v.MostTokens > 0 {
		window = min(window, v.MostTokens*MarginAt/100)
	}
	tokens = min(window*CompactAt/100, MaxView)
	if v.Least > tokens*3/4 {
		// What stays after a compaction is large: to compact again at once would
		// win nothing and take away what was just read.
		tokens = max(tokens, min(v.Least+(window-v.Least)/2, window*CompactLast/100))
	}
	return tokens, v.MostBytes * MarginAt / 100
}

// Deciding reports whether it matters how large a request really is: by this
// upper bound it would be compacted.
func Deciding(s State, window, upper int64) bool {
	tokens, _ := s.Talk.limits(or(window, DefaultWindow))
	return upper > tokens && s.Talk.Level < MaxLevel && !s.Talk.Refused
}

// Tail is how many bytes of the latest exchanges a compaction leaves as they
// are, for a model with this window in tokens.
func Tail(window int64) int {
	tokens, _ := Conversation{}.limits(or(window, DefaultWindow))
	return int(tokens * TailShare / 100 * bytesPerToken)
}

// changeModel has another model answer. The fence rises with it: what the
// earlier one is still saying is charged and moves nothing.
func (w *step) changeModel(b ChangeModel) error {
	if err := w.alive(); err != nil {
		return err
	}
	if b.Model == "" {
		return fmt.Errorf("%w: no model is named", ErrInput)
	}
	if b.Model == w.s.Settings.Model {
		return nil
	}
	w.giveUpVerification("another model answers from now on")
	w.emit(event.ModelChanged{From: w.s.Settings.Model, Model: b.Model})
	return nil
}
