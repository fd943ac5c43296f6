package otlp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"belay/internal/core/lifecycle"
	"belay/internal/ledger"
	"belay/internal/trace"
)

// The measures of an exporter.
const (
	pollEvery = 2 * time.Second
	pageSize  = 500
	batchSize = 256
	// flushTime is how long the end of a program waits for the last spans.
	flushTime = 3 * time.Second
	backoff   = time.Second
	backoffTo = time.Minute
)

// Exporter sends what a ledger's goals have done.
type Exporter struct {
	Config
	Ledger ledger.Ledger
	// Version is this program's.
	Version string
	// Place names the state directory that spans are sent for: what was done at
	// another place, that place sends. "" sends all.
	Place string
	// State is the directory in which the position is kept.
	State string
	// Problem is told what could not be sent, each thing once.
	Problem func(error)
	// Poll is how often the ledger is looked at; 0 is the default.
	Poll time.Duration

	where position
	folds map[string]*fold
	batch []trace.Span
	then  map[string]uint64 // what has been sent through once the batch is
	dirty bool
	told  map[string]bool
	// ending is closed when the program wants to end.
	ending chan struct{}
}

// errEnding: the collector is away and the program ends; the position says
// from where to go on.
var errEnding = errors.New("the program ends")

// fold is a goal as far as it was read.
type fold struct {
	trace.Fold
	head uint64
}

// Start begins to send in the background. The function that it returns ends
// that, and gives what has just been recorded a moment to go out.
//
// Where nothing was ever sent before, it begins with what is recorded after
// Start has returned.
func (x *Exporter) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	x.ending = make(chan struct{})
	x.folds, x.then, x.told = map[string]*fold{}, map[string]uint64{}, map[string]bool{}
	if x.Poll == 0 {
		x.Poll = pollEvery
	}
	release, opened := x.lock(), false
	if release != nil {
		opened = x.open(ctx)
	}
	var done sync.WaitGroup
	done.Go(func() { x.run(ctx, release, opened) })
	return sync.OnceFunc(func() {
		close(x.ending)
		late := time.AfterFunc(flushTime, cancel)
		done.Wait()
		late.Stop()
		cancel()
	})
}

// run sends until it is told to end, then once more.
func (x *Exporter) run(ctx context.Context, release func(), opened bool) {
	tick := time.NewTicker(x.Poll)
	defer tick.Stop()
	for last := false; ; {
		if release == nil { // one process of a state directory sends; another takes over when it ends
			release = x.lock()
		}
		if release != nil && !opened {
			opened = x.open(ctx)
		}
		if opened {
			if err := x.pass(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errEnding) {
				x.problem("traces", err)
			}
		}
		if last || ctx.Err() != nil {
			break
		}
		select {
		case <-tick.C:
		case <-x.ending:
			last = true
		case <-ctx.Done():
		}
	}
	if release != nil {
		release()
	}
}

// problem says something once.
func (x *Exporter) problem(what string, err error) {
	text := fmt.Sprintf("%s: %v", what, err)
	if x.Problem == nil || x.told[text] {
		return
	}
	if len(x.told) > 100 {
		clear(x.told)
	}
	x.told[text] = true
	x.Problem(errors.New(text))
}

// pass sends everything that has been recorded since the last one.
func (x *Exporter) pass(ctx context.Context) error {
	rows, err := x.Ledger.Goals(ctx, ledger.Filter{})
	if err != nil {
		return err
	}
	x.where.see(rows)
	for _, r := range rows {
		at, ok := x.where.Goals[r.Goal]
		if !ok || at >= r.Head {
			x.drop(r)
			continue
		}
		if err := x.goal(ctx, r.Goal, at, r.Head); err != nil {
			return err
		}
		x.drop(r)
	}
	if err := x.flush(ctx); err != nil {
		return err
	}
	x.dirty = x.where.settle(rows) || x.dirty
	return x.save()
}

// drop forgets how a goal stands that has nothing open any more.
func (x *Exporter) drop(r ledger.Row) {
	if f := x.folds[r.Goal]; f != nil && lifecycle.Status(r.Status).Final() && !r.Runnable && f.head >= r.Head {
		delete(x.folds, r.Goal)
	}
}

// goal reads a goal on and puts what ended into the batch. What was sent before
// is read again after a restart: only so is it known what is still open.
func (x *Exporter) goal(ctx context.Context, goal string, sent, head uint64) error {
	f := x.folds[goal]
	if f == nil {
		f = &fold{Fold: trace.Fold{Content: x.Content}}
		x.folds[goal] = f
	}
	for f.head < head {
		es, err := x.Ledger.Read(ctx, goal, f.head, pageSize)
		if err != nil || len(es) == 0 {
			return err
		}
		for _, e := range es {
			for _, s := range f.Take(e) {
				if e.Seq > sent && (x.Place == "" || s.Place == "" || s.Place == x.Place) {
					x.batch = append(x.batch, s)
				}
			}
			f.head = e.Seq
		}
		if f.head > sent {
			x.then[goal] = f.head
		}
		if len(x.batch) >= batchSize {
			if err := x.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush sends the batch, however long that takes, and notes how far that is.
func (x *Exporter) flush(ctx context.Context) error {
	for len(x.batch) > 0 {
		n := min(len(x.batch), batchSize)
		if err := x.deliver(ctx, x.batch[:n]); err != nil {
			return err
		}
		x.batch = x.batch[n:]
	}
	x.batch = nil
	for goal, seq := range x.then {
		x.where.Goals[goal], x.dirty = seq, true
	}
	clear(x.then)
	return x.save()
}

// deliver sends spans until they are taken or refused for good.
func (x *Exporter) deliver(ctx context.Context, spans []trace.Span) error {
	body, err := encode(x.Config, x.Version, spans)
	if err != nil {
		return err
	}
	for wait := backoff; ; wait = min(2*wait, backoffTo) {
		again, after, err := x.post(ctx, body)
		if err == nil {
			clear(x.told) // if it fails again, that is news
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		x.problem("traces", err)
		if !again {
			return nil // they are lost, and that was said
		}
		pause := time.NewTimer(max(wait, after))
		select {
		case <-pause.C:
		case <-x.ending:
			pause.Stop()
			return errEnding
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}
