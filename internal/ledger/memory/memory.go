// Package memory is the store of the ledger that lives in one process: for
// simulations and tests. It keeps every rule of the port, hash chain and
// artifacts included, and nothing on disk. It must not know what any event
// means.
//
// Events are encoded and decoded as in any other store, so a payload that
// would not survive a real ledger does not survive here; the decoded form is
// kept, so that reading again costs nothing. Payloads are shared between
// readers and must not be changed by them, as is true of every event.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
	"belay/internal/moment"
)

// Options adjust a new store.
type Options struct {
	// Clock is the store's clock; nil means time.Now.
	Clock func() time.Time
	// FailAppend is called with the number of each append, from 1. When it
	// returns an error, that append fails with it and nothing is stored.
	FailAppend func(n int) error
}

// Ledger is one handle on a store in memory.
type Ledger struct {
	*store
	once   sync.Once
	closed chan struct{}
}

var _ ledger.Ledger = (*Ledger)(nil)

type store struct {
	opts Options

	mu        sync.Mutex
	appends   int
	goals     map[string]*goal
	artifacts map[string]event.Artifact
}

// goal is one stream with its row. A stream without a row is a goal whose row
// was lost.
type goal struct {
	records []event.Record
	hashes  []string
	// decoded[i] is the event of records[i]; the zero Event means not decoded.
	decoded []event.Event
	row     *ledger.Row
	cache   *ledger.Cache
	wake    map[chan struct{}]struct{}
}

// New makes an empty store and returns its first handle.
func New(opts Options) *Ledger {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	return (&Ledger{store: &store{opts: opts, goals: map[string]*goal{}, artifacts: map[string]event.Artifact{}}}).Handle()
}

// Handle returns another handle on the same store, as a second process would
// have.
func (l *Ledger) Handle() *Ledger {
	return &Ledger{store: l.store, closed: make(chan struct{})}
}

// Close ends this handle and what follows through it; the store lives on.
func (l *Ledger) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// enter locks the store for one call.
func (l *Ledger) enter(ctx context.Context) error {
	select {
	case <-l.closed:
		return ledger.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	return nil
}

func (s *store) now() moment.Time { return moment.Of(s.opts.Clock()) }

// of returns a goal, making room for it when there is none.
func (s *store) of(id string) *goal {
	g := s.goals[id]
	if g == nil {
		g = &goal{wake: map[chan struct{}]struct{}{}}
		s.goals[id] = g
	}
	return g
}

func (g *goal) tail() rules.Tail {
	n := len(g.records)
	if n == 0 {
		return rules.Tail{}
	}
	return rules.Tail{Seq: g.records[n-1].Seq, Hash: g.hashes[n-1], Time: g.records[n-1].Time}
}

// Append implements ledger.Ledger. Durable makes no difference in memory.
func (l *Ledger) Append(ctx context.Context, a ledger.Append) ([]event.Event, error) {
	p, err := rules.Prepare(a)
	if err != nil {
		return nil, err
	}
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	l.appends++
	if l.opts.FailAppend != nil {
		if err := l.opts.FailAppend(l.appends); err != nil {
			return nil, fmt.Errorf("ledger in memory: append %d: %w", l.appends, err)
		}
	}
	var row *ledger.Row
	var tail rules.Tail
	if g := l.goals[a.Goal]; g != nil {
		row, tail = g.row, g.tail()
	}
	if err := p.Permit(row, tail); err != nil {
		return nil, err
	}
	s := p.Seal(row, tail, l.now())
	g := l.of(a.Goal)
	g.records = append(g.records, s.Records...)
	g.hashes = append(g.hashes, s.Hashes...)
	g.decoded = append(g.decoded, make([]event.Event, len(s.Records))...)
	g.row = &s.Row
	for _, art := range p.Artifacts {
		if _, ok := l.artifacts[art.SHA256]; !ok {
			art.Content = bytes.Clone(art.Content)
			l.artifacts[art.SHA256] = art
		}
	}
	g.notify()
	return s.Events, nil
}

func (g *goal) notify() {
	for c := range g.wake {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Read implements ledger.Ledger.
func (l *Ledger) Read(ctx context.Context, id string, after uint64, limit int) ([]event.Event, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	g := l.goals[id]
	if g == nil {
		return nil, nil
	}
	i, _ := slices.BinarySearchFunc(g.records, after+1, func(r event.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	var out []event.Event
	for last := after; i < len(g.records) && (limit <= 0 || len(out) < limit); {
		if last+1 < g.records[i].Seq {
			last++
			out = append(out, rules.Missing(id, last))
			continue
		}
		if g.decoded[i].Seq == 0 {
			g.decoded[i] = event.Decode(g.records[i], g.hashes[i], l.fetch)
		}
		out, last = append(out, g.decoded[i]), g.records[i].Seq
		i++
	}
	return out, nil
}

// Records implements ledger.Ledger.
func (l *Ledger) Records(ctx context.Context, id string, after uint64, limit int) ([]ledger.Stored, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	g := l.goals[id]
	if g == nil {
		return nil, nil
	}
	var out []ledger.Stored
	for i, r := range g.records {
		if r.Seq > after && (limit <= 0 || len(out) < limit) {
			out = append(out, ledger.Stored{Record: r, Hash: g.hashes[i]})
		}
	}
	return out, nil
}

// fetch reads an artifact for event.Decode; the store is locked.
func (s *store) fetch(ref event.Ref) ([]byte, error) {
	a, ok := s.artifacts[ref.SHA256]
	if !ok {
		return nil, fmt.Errorf("artifact %s: %w", ref.SHA256, ledger.ErrNotFound)
	}
	return a.Content, nil
}

// Follow implements ledger.Ledger.
func (l *Ledger) Follow(ctx context.Context, id string, after uint64) iter.Seq2[ledger.Item, error] {
	return rules.Follow(ctx, after, rules.Source{
		Head: func(ctx context.Context) (uint64, error) {
			if err := l.enter(ctx); err != nil {
				return 0, err
			}
			defer l.mu.Unlock()
			return l.of(id).tail().Seq, nil
		},
		Read: func(ctx context.Context, after uint64, limit int) ([]event.Event, error) {
			return l.Read(ctx, id, after, limit)
		},
		Subscribe: func() (<-chan struct{}, func()) {
			c := make(chan struct{}, 1)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.of(id).wake[c] = struct{}{}
			return c, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.of(id).wake, c)
			}
		},
		Closed: l.closed,
	})
}

// Goal implements ledger.Ledger.
func (l *Ledger) Goal(ctx context.Context, id string) (ledger.Row, error) {
	if err := l.enter(ctx); err != nil {
		return ledger.Row{}, err
	}
	defer l.mu.Unlock()
	return l.row(id)
}

func (s *store) row(id string) (ledger.Row, error) {
	if g := s.goals[id]; g != nil && g.row != nil {
		return *g.row, nil
	}
	return ledger.Row{}, fmt.Errorf("goal %s: %w", id, ledger.ErrNotFound)
}

// Goals implements ledger.Ledger.
func (l *Ledger) Goals(ctx context.Context, f ledger.Filter) ([]ledger.Row, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var rows []ledger.Row
	for id, g := range l.goals {
		if g.row == nil || !strings.HasPrefix(id, f.Prefix) || f.Repo != "" && g.row.Repo != f.Repo || f.Parent != "" && g.row.Parent != f.Parent ||
			len(f.Status) > 0 && !slices.Contains(f.Status, g.row.Status) || f.Leased && g.row.LeaseOwner == "" {
			continue
		}
		rows = append(rows, *g.row)
	}
	slices.SortFunc(rows, func(a, b ledger.Row) int {
		return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(b.Goal, a.Goal))
	})
	if f.Limit > 0 && len(rows) > f.Limit {
		rows = rows[:f.Limit]
	}
	return rows, nil
}

// Claim implements ledger.Ledger.
func (l *Ledger) Claim(ctx context.Context, c ledger.Claim) (ledger.Ticket, error) {
	if err := rules.CheckClaim(c); err != nil {
		return ledger.Ticket{}, err
	}
	if err := l.enter(ctx); err != nil {
		return ledger.Ticket{}, err
	}
	defer l.mu.Unlock()
	now := l.now()
	id := c.Goal
	if id == "" {
		if id = l.mostUrgent(c, now); id == "" {
			return ledger.Ticket{}, ledger.ErrNothing
		}
	}
	row, err := l.row(id)
	if err != nil {
		return ledger.Ticket{}, err
	}
	row, t, err := rules.Take(row, c, now)
	if err != nil {
		return ledger.Ticket{}, err
	}
	l.goals[id].row = &row
	return t, nil
}

func (s *store) mostUrgent(c ledger.Claim, now moment.Time) string {
	var best *ledger.Row
	var bestDue moment.Time
	for _, g := range s.goals {
		if g.row == nil || rules.Held(*g.row, c, now) {
			continue
		}
		due, ready := rules.Ready(*g.row, now)
		if !ready {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(best.Priority, g.row.Priority), cmp.Compare(due, bestDue), cmp.Compare(g.row.Goal, best.Goal)) < 0 {
			best, bestDue = g.row, due
		}
	}
	if best == nil {
		return ""
	}
	return best.Goal
}

// Renew implements ledger.Ledger.
func (l *Ledger) Renew(ctx context.Context, t ledger.Ticket, lease time.Duration) (ledger.Ticket, error) {
	if err := rules.CheckLease(lease); err != nil {
		return ledger.Ticket{}, err
	}
	if err := l.enter(ctx); err != nil {
		return ledger.Ticket{}, err
	}
	defer l.mu.Unlock()
	row, err := l.row(t.Goal)
	if err != nil {
		return ledger.Ticket{}, err
	}
	if err := rules.Ours(row, t); err != nil {
		return ledger.Ticket{}, err
	}
	t.Until = rules.Until(l.now(), lease)
	row.LeaseUntil = t.Until
	l.goals[t.Goal].row = &row
	return t, nil
}

// Release implements ledger.Ledger.
func (l *Ledger) Release(ctx context.Context, t ledger.Ticket) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if row, err := l.row(t.Goal); err == nil && row.LeaseOwner == t.Owner {
		row.LeaseOwner, row.LeaseUntil = "", 0
		l.goals[t.Goal].row = &row
	}
	return nil
}

// PutArtifact implements ledger.Ledger.
func (l *Ledger) PutArtifact(ctx context.Context, r io.Reader, media string) (event.Ref, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return event.Ref{}, fmt.Errorf("ledger in memory: read the artifact: %w", err)
	}
	a := event.NewArtifact(content, media)
	if err := l.enter(ctx); err != nil {
		return event.Ref{}, err
	}
	defer l.mu.Unlock()
	if _, ok := l.artifacts[a.SHA256]; !ok {
		l.artifacts[a.SHA256] = a
	}
	return a.Ref, nil
}

// OpenArtifact implements ledger.Ledger.
func (l *Ledger) OpenArtifact(ctx context.Context, sha256 string) (io.ReadCloser, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	return l.open(sha256)
}

func (s *store) open(sha256 string) (io.ReadCloser, error) {
	a, ok := s.artifacts[sha256]
	if !ok {
		return nil, fmt.Errorf("artifact %s: %w", sha256, ledger.ErrNotFound)
	}
	return rules.NewVerifier(bytes.NewReader(a.Content), nil, a.SHA256, a.Size), nil
}

// SaveCache implements ledger.Ledger.
func (l *Ledger) SaveCache(ctx context.Context, id string, c ledger.Cache) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	g := l.of(id)
	if rules.Newer(g.cache, c) {
		c.Blob = bytes.Clone(c.Blob)
		g.cache = &c
	}
	return nil
}

// LoadCache implements ledger.Ledger.
func (l *Ledger) LoadCache(ctx context.Context, id string) (ledger.Cache, error) {
	if err := l.enter(ctx); err != nil {
		return ledger.Cache{}, err
	}
	defer l.mu.Unlock()
	if g := l.goals[id]; g != nil && g.cache != nil {
		c := *g.cache
		c.Blob = bytes.Clone(c.Blob)
		return c, nil
	}
	return ledger.Cache{}, fmt.Errorf("cache of goal %s: %w", id, ledger.ErrNotFound)
}

// Audit implements ledger.Ledger.
func (l *Ledger) Audit(ctx context.Context, id string) (ledger.Audit, error) {
	if err := l.enter(ctx); err != nil {
		return ledger.Audit{}, err
	}
	defer l.mu.Unlock()
	g := l.goals[id]
	if g == nil || g.row == nil && len(g.records) == 0 {
		return ledger.Audit{}, fmt.Errorf("goal %s: %w", id, ledger.ErrNotFound)
	}
	a := rules.NewAuditor(id, l.open)
	for i, r := range g.records {
		if !a.Add(r, g.hashes[i]) {
			break
		}
	}
	var head uint64
	if g.row != nil {
		head = g.row.Head
	}
	return a.Done(head), nil
}

// Rebuild implements ledger.Ledger.
func (l *Ledger) Rebuild(ctx context.Context, row ledger.Row) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	g := l.goals[row.Goal]
	if g == nil || len(g.records) == 0 {
		return fmt.Errorf("goal %s has no events: %w", row.Goal, ledger.ErrNotFound)
	}
	var fence uint64
	for _, r := range g.records {
		fence = max(fence, r.Fence)
	}
	row = rules.Restore(row, g.row, g.records[0].Time, g.tail(), fence, l.now())
	g.row = &row
	return nil
}

// Streams implements ledger.Ledger.
func (l *Ledger) Streams(ctx context.Context) ([]string, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(l.goals)) {
		if len(l.goals[id].records) > 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Now implements ledger.Ledger.
func (l *Ledger) Now(ctx context.Context) (moment.Time, error) {
	if err := l.enter(ctx); err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	return l.now(), nil
}
