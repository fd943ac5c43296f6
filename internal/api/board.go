package api

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"belay/internal/core"
	"belay/internal/ledger"
	"belay/internal/service"
)

// board is the list of goals as it was seen last, looked at once for all who
// watch it, and only while somebody does. For each watcher it keeps no more
// than which goals have changed since it was told.
type board struct {
	service *service.Service
	every   time.Duration
	stopped chan struct{}
	once    sync.Once

	mu      sync.Mutex
	rows    map[string][]byte
	order   []string // newest first
	loaded  bool
	subs    map[*watcher]struct{}
	looking bool
}

// watcher is one reader of the list.
type watcher struct {
	wake  chan struct{}
	dirty map[string]struct{}
}

func newBoard(s *service.Service, every time.Duration) *board {
	return &board{service: s, every: every, stopped: make(chan struct{}), rows: map[string][]byte{}, subs: map[*watcher]struct{}{}}
}

func (b *board) stop() { b.once.Do(func() { close(b.stopped) }) }

func (b *board) subscribe() *watcher {
	w := &watcher{wake: make(chan struct{}, 1), dirty: map[string]struct{}{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[w] = struct{}{}
	for _, g := range b.order {
		w.dirty[g] = struct{}{}
	}
	if !b.looking {
		// What was seen when somebody last watched may be old: it is told anew.
		b.looking, b.loaded = true, false
		go b.look()
	}
	if b.loaded {
		w.wake <- struct{}{}
	}
	return w
}

func (b *board) unsubscribe(w *watcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, w)
}

// take returns the rows that the watcher has not been told, newest goal first,
// and whether the list has been seen as a whole.
func (b *board) take(w *watcher) ([][]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(w.dirty) == 0 {
		return nil, b.loaded
	}
	var out [][]byte
	for _, g := range b.order {
		if _, ok := w.dirty[g]; ok {
			out = append(out, b.rows[g])
		}
	}
	clear(w.dirty)
	return out, b.loaded
}

// look reads the list until nobody watches.
func (b *board) look() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-b.stopped:
			return
		case <-t.C:
		}
		b.mu.Lock()
		if len(b.subs) == 0 {
			b.looking = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		began := time.Now()
		if list, err := b.service.Overviews(ctx, ledger.Filter{}); err == nil {
			b.seen(list)
		} // else the next look may do better; readiness tells of a store that fails
		t.Reset(max(b.every, 10*time.Since(began))) // looking never becomes the main work
	}
}

func (b *board) seen(list []core.Overview) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var changed []string
	b.order = b.order[:0]
	for _, o := range list {
		b.order = append(b.order, o.Goal)
		// A lease is renewed all the time, and says no more than held does.
		o.LeaseUntil = 0
		text, err := json.Marshal(o)
		if err != nil || bytes.Equal(text, b.rows[o.Goal]) {
			continue
		}
		b.rows[o.Goal] = text
		changed = append(changed, o.Goal)
	}
	first := !b.loaded
	b.loaded = true
	for w := range b.subs {
		for _, g := range changed {
			w.dirty[g] = struct{}{}
		}
		if len(w.dirty) > 0 || first {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
}
