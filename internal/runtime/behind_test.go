package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/ledger"
)

// forgetful is a store that has lost what it acknowledged: it refuses every
// append behind it and has nothing newer to read.
type forgetful struct {
	ledger.Ledger
	lost bool
}

func (f *forgetful) Append(ctx context.Context, a ledger.Append) ([]event.Event, error) {
	if f.lost {
		return nil, ledger.ErrConflict
	}
	return f.Ledger.Append(ctx, a)
}

// TestALedgerThatLostWhatItAcknowledgedStopsTheDriver: a conflict with nothing
// to read would otherwise be stepped again for ever.
func TestALedgerThatLostWhatItAcknowledgedStopsTheDriver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	f := &forgetful{Ledger: s.store.Ledger}
	s.store.Ledger = f
	s.once(event.TypeOperationStarted, func() { f.lost = true })
	err := s.drive("first", nil)
	if !errors.Is(err, ledger.ErrConflict) || !strings.Contains(err.Error(), "lost what it acknowledged") {
		t.Errorf("the driver ended with %v", err)
	}
}
