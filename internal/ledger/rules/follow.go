package rules

import (
	"context"
	"iter"

	"belay/internal/event"
	"belay/internal/ledger"
)

// Source is what Follow needs of a store for one goal.
type Source struct {
	// Head is the seq of the last event, 0 for none.
	Head func(context.Context) (uint64, error)
	// Read is ledger.Read on the goal.
	Read func(ctx context.Context, after uint64, limit int) ([]event.Event, error)
	// Subscribe returns a channel that gets a value some time after every
	// append to the goal that is committed after Subscribe returned; spurious
	// and merged values are fine. stop gives the channel back.
	Subscribe func() (wake <-chan struct{}, stop func())
	// Closed ends the following with ledger.ErrClosed.
	Closed <-chan struct{}
}

// followBatch bounds what a slow reader of a long stream keeps in memory.
const followBatch = 256

// Follow is the loop behind every store's Follow: read what is there, mark
// once that the reader has caught up, then read again on every wake-up.
func Follow(ctx context.Context, after uint64, src Source) iter.Seq2[ledger.Item, error] {
	return func(yield func(ledger.Item, error) bool) {
		// Subscribing comes before the first read: an append in between would
		// otherwise be neither read nor announced.
		wake, stop := src.Subscribe()
		defer stop()
		fail := func(err error) {
			if ctx.Err() == nil {
				yield(ledger.Item{}, err)
			}
		}
		head, err := src.Head(ctx)
		if err != nil {
			fail(err)
			return
		}
		last, caughtUp := after, false
		for {
			if !caughtUp && last >= head {
				caughtUp = true
				if !yield(ledger.Item{CaughtUp: true}, nil) {
					return
				}
			}
			batch, err := src.Read(ctx, last, followBatch)
			if err != nil {
				fail(err)
				return
			}
			for _, e := range batch {
				if ctx.Err() != nil || !yield(ledger.Item{Event: e}, nil) {
					return
				}
				last = e.Seq
				if !caughtUp && last >= head {
					caughtUp = true
					if !yield(ledger.Item{CaughtUp: true}, nil) {
						return
					}
				}
			}
			if len(batch) > 0 {
				continue
			}
			// Only a tail that was cut off from the stream leaves the head
			// unreached; the reader has then seen all there is.
			if !caughtUp {
				head = last
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-src.Closed:
				fail(ledger.ErrClosed)
				return
			case <-wake:
			}
		}
	}
}
