package postgres

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
)

// Follow implements ledger.Ledger.
func (l *Ledger) Follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error] {
	return rules.Follow(ctx, after, rules.Source{
		Head: func(ctx context.Context) (uint64, error) {
			seq, err := l.head(ctx, goal)
			if damaged(err) || ctx.Err() != nil {
				// Read finds what can still be read.
				err = nil
			}
			return seq, err
		},
		Read: func(ctx context.Context, after uint64, limit int) ([]event.Event, error) {
			return l.Read(ctx, goal, after, limit)
		},
		Subscribe: func() (<-chan struct{}, func()) { return l.hub.subscribe(goal) },
		Closed:    l.closed,
	})
}

// channel is what the handles on one schema notify each other on; a payload is
// a goal's id, or nothing for "look at all of them", with claimable before it
// when the goal waits for a worker.
func (l *Ledger) channel() string { return "belay:" + l.opts.Schema }

// claimable marks a goal that a worker may claim now.
const claimable = "+"

// hub wakes followers, and workers that wait for a goal: at once for an append of this handle, by notifications
// for those of others, and by a look at the heads now and then for what no
// notification told. The listener and the poller run only while there is a
// follower.
type hub struct {
	l *Ledger

	mu     sync.Mutex
	subs   map[string]map[chan struct{}]struct{}
	wakers map[chan struct{}]struct{}
	count  int
	stop   context.CancelFunc
	// deaf is true while there is no connection to listen on.
	deaf bool
	wg   sync.WaitGroup
}

func (h *hub) subscribe(goal string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[string]map[chan struct{}]struct{}{}
	}
	if h.subs[goal] == nil {
		h.subs[goal] = map[chan struct{}]struct{}{}
	}
	h.subs[goal][c] = struct{}{}
	h.join()
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[goal], c)
		if len(h.subs[goal]) == 0 {
			delete(h.subs, goal)
		}
		h.leave()
	}
}

// join and leave start and stop listening with the first and the last that is
// there to hear. The caller holds mu.
func (h *hub) join() {
	if h.count++; h.count == 1 && !h.l.isClosed() {
		ctx, cancel := context.WithCancel(context.Background())
		h.stop, h.deaf = cancel, true
		h.wg.Go(func() { h.listen(ctx) })
		h.wg.Go(func() { h.poll(ctx) })
	}
}

func (h *hub) leave() {
	if h.count--; h.count == 0 && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// Wakeups implements ledger.Waker. Whatever was told while there was no
// connection to listen on is made up for by one signal once there is one again.
func (l *Ledger) Wakeups(ctx context.Context) <-chan struct{} {
	h, c := &l.hub, make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wakers == nil {
		h.wakers = map[chan struct{}]struct{}{}
	}
	h.wakers[c] = struct{}{}
	h.join()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.wakers, c)
		h.leave()
	})
	return c
}

// wake tells those who wait for a goal to claim.
func (h *hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.wakers {
		poke(c)
	}
}

// close ends listener and poller, after the handle was marked as closed.
func (h *hub) close() {
	h.mu.Lock()
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// notify wakes the followers of a goal; "" wakes all.
func (h *hub) notify(goal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for g, subs := range h.subs {
		if goal == "" || g == goal {
			for c := range subs {
				poke(c)
			}
		}
	}
}

func (h *hub) setDeaf(deaf bool) {
	h.mu.Lock()
	h.deaf = deaf
	h.mu.Unlock()
}

// listen keeps a connection that listens. What happened while there was none
// is told by waking everyone once there is one again.
func (h *hub) listen(ctx context.Context) {
	for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		if h.listenOnce(ctx) {
			pause = 10 * time.Millisecond
		}
		h.setDeaf(true)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (h *hub) listenOnce(ctx context.Context) (heard bool) {
	conn, err := pgx.ConnectConfig(ctx, h.l.direct.Copy())
	if err != nil {
		return false
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{h.l.channel()}.Sanitize()); err != nil {
		return false
	}
	h.setDeaf(false)
	h.notify("")
	h.wake()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		goal, ready := strings.CutPrefix(n.Payload, claimable)
		if ready {
			h.wake()
		}
		h.notify(goal)
	}
}

// poll looks at the heads of all goals that are followed, in one query.
func (h *hub) poll(ctx context.Context) {
	seen := map[string]int64{}
	for {
		h.mu.Lock()
		interval := h.l.opts.Poll
		if h.deaf {
			interval /= 10
		}
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		h.mu.Lock()
		goals := make([]string, 0, len(h.subs))
		for g := range h.subs {
			if storable(g) {
				goals = append(goals, g)
			}
		}
		h.mu.Unlock()
		if len(goals) == 0 {
			continue // workers alone are here, and look for themselves
		}
		rows, err := h.l.pool.Query(ctx, h.l.q(`SELECT g, coalesce((SELECT e.seq FROM @events e WHERE e.goal = g ORDER BY e.seq DESC LIMIT 1), 0) FROM unnest($1::text[]) g`), goals)
		if err != nil {
			// Whoever is following meets the server's absence when there is
			// something to read; until then it is not theirs to know.
			continue
		}
		now := map[string]int64{}
		var goal string
		var head int64
		_, err = pgx.ForEachRow(rows, []any{&goal, &head}, func() error {
			now[goal] = head
			return nil
		})
		if err != nil {
			continue
		}
		for g, head := range now {
			if seen[g] != head {
				h.notify(g)
			}
		}
		seen = now
	}
}

// sender tells other handles of appends, after their commits and in a
// transaction of its own: NOTIFY takes a lock that the whole server shares and
// keeps it until its commit is on disk, so within the appends it would take
// away what they gain from committing together. A word that is lost with this
// process costs others the poller's interval.
type sender struct {
	l *Ledger

	mu     sync.Mutex
	goals  []string
	closed bool
	signal chan struct{}
	// closing cuts the pause between two bundles short.
	closing chan struct{}
	ended   chan struct{}
}

// bundle is the least time between two notifications of one handle.
const bundle = 5 * time.Millisecond

func (s *sender) start() {
	s.signal, s.closing, s.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.run()
}

func (s *sender) send(goal string, ready bool) {
	// A notification's payload has a limit of 8000 bytes.
	if len(goal) > 4096 {
		goal = ""
	}
	if ready {
		goal = claimable + goal
	}
	s.mu.Lock()
	if !s.closed && !slices.Contains(s.goals, goal) {
		s.goals = append(s.goals, goal)
	}
	s.mu.Unlock()
	poke(s.signal)
}

func (s *sender) run() {
	defer close(s.ended)
	for range s.signal {
		s.mu.Lock()
		goals, closed := s.goals, s.closed
		s.goals = nil
		s.mu.Unlock()
		if len(goals) > 0 {
			s.tell(goals)
		}
		if closed {
			return
		}
		// Who appends without pause is told of in bundles. No person sees these
		// milliseconds, and the server is spared a transaction an append.
		select {
		case <-time.After(bundle):
		case <-s.closing:
		}
	}
}

func (s *sender) tell(goals []string) {
	failpoint.Hit(failpoint.PgNotifyBefore)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.l.onConn(ctx, func(c *pgx.Conn) error {
		t := &tx{l: s.l, conn: c, level: fleeting}
		return t.send(ctx, []step{{sql: "SELECT pg_notify($1, g) FROM unnest($2::text[]) g", args: []any{s.l.channel(), goals}}}, true)
	})
}

// close says what is left to say and ends the sender, before the handle is
// marked as closed.
func (s *sender) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	poke(s.signal)
	<-s.ended
}
