package sqlite

import (
	"context"
	"iter"
	"sync"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
)

// Follow implements ledger.Ledger.
func (l *Ledger) Follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error] {
	return rules.Follow(ctx, after, rules.Source{
		Head: func(ctx context.Context) (uint64, error) {
			seq, err := l.head(ctx, goal)
			if damaged(err) {
				// Read finds what can still be read.
				err = nil
			}
			return seq, l.wrap("follow goal "+goal, err)
		},
		Read: func(ctx context.Context, after uint64, limit int) ([]event.Event, error) {
			return l.Read(ctx, goal, after, limit)
		},
		Subscribe: func() (<-chan struct{}, func()) { return l.hub.subscribe(goal) },
		Closed:    l.closed,
	})
}

// The watcher looks for commits of other processes this often: at the least
// interval while there are some, slower and slower while there are none.
const (
	watchLeast = 2 * time.Millisecond
	watchMost  = 100 * time.Millisecond
)

// hub wakes followers: at once for an append of this handle, by the watcher
// for those of other processes. The watcher runs only while there is a
// follower.
type hub struct {
	l *Ledger

	mu       sync.Mutex
	subs     map[string]map[chan struct{}]struct{}
	count    int
	watching bool
	// fresh asks the watcher to look at once and often again.
	fresh chan struct{}
	wg    sync.WaitGroup
}

func (h *hub) subscribe(goal string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs, h.fresh = map[string]map[chan struct{}]struct{}{}, make(chan struct{}, 1)
	}
	if h.subs[goal] == nil {
		h.subs[goal] = map[chan struct{}]struct{}{}
	}
	h.subs[goal][c] = struct{}{}
	h.count++
	if !h.watching && !h.l.isClosed() {
		h.watching = true
		h.wg.Go(h.watch)
	}
	poke(h.fresh)
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[goal], c)
		if len(h.subs[goal]) == 0 {
			delete(h.subs, goal)
		}
		if h.count--; h.count == 0 {
			poke(h.fresh)
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (h *hub) notify(goal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs[goal] {
		poke(c)
	}
}

func (h *hub) notifyAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subs := range h.subs {
		for c := range subs {
			poke(c)
		}
	}
}

// wait returns when the watcher has ended, after the handle was closed.
func (h *hub) wait() {
	// A subscriber that saw the handle open has started the watcher, and
	// counted it, before it let go of the lock.
	h.mu.Lock()
	started := h.subs != nil
	h.mu.Unlock()
	if started {
		h.wg.Wait()
	}
}

// watch polls PRAGMA data_version on a connection of its own: it is a look at
// shared memory, and changes with every commit of any other connection.
func (h *hub) watch() {
	ctx := context.Background()
	conn, err := h.l.readDB.Conn(ctx)
	if err == nil {
		defer conn.Close()
	}
	var seen int64
	interval := watchLeast
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-h.l.closed:
			return
		case <-h.fresh:
			interval = watchLeast
		case <-timer.C:
		}
		h.mu.Lock()
		if h.count == 0 {
			h.watching = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		var version int64
		if err == nil {
			err = conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
		}
		switch {
		case err != nil:
			// Without a view of the file the followers look for themselves, and
			// meet the error there.
			h.notifyAll()
			interval = watchMost
			if busy(err) {
				err = nil
			}
		case version != seen:
			// The first look counts as a change: the commit that a follower is
			// waiting for may have come before it.
			seen = version
			h.notifyAll()
			interval = watchLeast
		default:
			interval = min(interval*2, watchMost)
		}
		timer.Reset(interval)
	}
}
