package runtime

import (
	"context"
	"encoding/json"
	"errors"

	"belay/internal/core"
	"belay/internal/failpoint"
	"belay/internal/ledger"
)

// cacheEvery is how many events may have to be folded when a goal is opened.
var cacheEvery = failpoint.Tune[uint64](256, 24)

// Load folds a goal's state from its cache and the events after it.
func Load(ctx context.Context, l ledger.Ledger, goal string) (core.State, error) {
	var s core.State
	c, err := l.LoadCache(ctx, goal)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
	case err != nil:
		return s, err
	case c.Schema == core.StateSchema:
		if json.Unmarshal(c.Blob, &s) != nil || s.Head != c.Seq {
			s = core.State{} // a cache that cannot be read costs time, never a goal
		}
	}
	for {
		es, err := l.Read(ctx, goal, s.Head, 1000)
		if err != nil {
			return s, err
		}
		if len(es) == 0 {
			break
		}
		s = core.Fold(s, es)
		if s.Refuse != "" {
			break
		}
	}
	if s.Head == 0 && s.Refuse == "" {
		return s, ledger.ErrNotFound
	}
	return s, nil
}

// cache keeps the state now and then, so that opening the goal does not depend
// on its length.
func (d *driver) cache(ctx context.Context) {
	if d.state.Head < d.cached+cacheEvery {
		return
	}
	d.cached = d.state.Head
	Cache(ctx, d.Ledger, d.state)
}

// Cache keeps a state. A failure costs time at the next opening and nothing
// else.
func Cache(ctx context.Context, l ledger.Ledger, s core.State) {
	if s.Refuse != "" {
		return // a newer binary may understand what this one does not
	}
	if b, err := json.Marshal(s); err == nil {
		failpoint.Hit(failpoint.CacheBefore)
		_ = l.SaveCache(ctx, s.Goal, ledger.Cache{Seq: s.Head, Schema: core.StateSchema, Blob: b})
		failpoint.Hit(failpoint.CacheAfter)
	}
}
