package transcript

import (
	"belay/internal/event"
	"belay/internal/model"
)

// Cut is where a compaction may cut the conversation so that at most this many
// bytes of it stay: the seq of an answered request, whose response and all that
// follows are whole exchanges. The latest exchange always stays; 0 means that
// no request was answered yet.
func (b *Builder) Cut(limit int) uint64 {
	at, size := b.answered, 0
	for _, e := range b.open.entries() {
		size += min(bytesOf(e.message), MaxUnseen)
	}
	for i := len(b.sealed) - 1; i >= 0; i-- {
		e := b.sealed[i]
		if size += bytesOf(e.message); size > limit {
			break
		}
		if e.asked > 0 && e.asked < at {
			at = e.asked
		}
	}
	return at
}

func bytesOf(m model.Message) int {
	n := len(m.Text)
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Tool) + len(p.Arguments) + len(p.Data)
	}
	for _, r := range m.Results {
		n += len(r.Text)
	}
	return n
}

// compact puts a summary in the place of what the model has answered to. What
// stays depends only on events from the cut on and on the few that core.State
// names beside them, so that a conversation which is read from there has the
// same bytes as one that was there all along.
func (b *Builder) compact(e event.Event, p event.ContextCompacted) {
	b.asking = false
	b.sealed = append(b.sealed, b.open.entries()...)
	b.close()
	level := max(p.Level, 1)
	// Before the floor only words of the user stay, and of these what no
	// response has answered.
	floor := min(p.Through, b.answered)
	var kept []entry
	seen := 0
	for i, s := range b.sealed {
		switch {
		case i >= b.seen && (s.at > floor || s.user):
			s.message = shortened(s.message, MaxUnseen>>(2*(level-1)))
		case i < b.seen && s.at > p.Through:
		default:
			continue
		}
		if n := len(kept); n > 0 && s.message.Role == model.Assistant && kept[n-1].message.Role == model.Assistant {
			// What the user said in between, long before it was taken in, is in
			// the summary.
			kept = append(kept, entry{at: s.asked, message: userMessage(note(goOn))})
		}
		kept = append(kept, s)
		if i < b.seen {
			seen = len(kept)
		}
	}
	b.sealed, b.seen = kept, seen
	var pending []text
	for _, t := range b.pending {
		if t.user || t.at > floor {
			if level > 2 {
				t.text = cut(t.text, MaxUnseen>>(2*(level-1)), holds(t.at))
			}
			pending = append(pending, t)
		}
	}
	b.pending = pending
	for id, o := range b.ops {
		if o.settled {
			delete(b.ops, id)
		}
	}
	b.setHead(summaryWords(p.Summary, e.Seq, level)+proseWords(p.Prose), level)
}
