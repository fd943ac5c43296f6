package api

import (
	"bytes"
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"belay/client"
	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/model"
)

// lookAgain is how often it is looked whether a started command can be watched
// by now, or has been recorded as ended.
const lookAgain = 200 * time.Millisecond

// followOutput streams what a running command prints, from its beginning, and
// ends when the operation has. What runs on another machine shows nothing here.
func followOutput(c *call) error {
	op := c.r.PathValue("op")
	if _, err := c.Service.OperationEvents(c.ctx, c.goal, op); err != nil {
		return err
	}
	s, done, err := c.stream()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	chunks := make(chan []byte)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.watch(ctx, op, tap{ctx, chunks})
	}()
	beat := time.NewTicker(c.Limits.Beat)
	defer beat.Stop()
	var rest []byte // the beginning of a character that is not whole yet
	for {
		select {
		case p := <-chunks:
			var text string
			text, rest = wholeText(append(rest, p...))
			if text != "" && (s.send("output", 0, client.Output{Text: text}) != nil || s.flush() != nil) {
				return nil
			}
		case <-beat.C:
			if s.beat() != nil {
				return nil
			}
		case <-c.board.stopped:
			return nil
		case <-ended:
			if c.ctx.Err() == nil && s.send("end", 0, client.Output{}) == nil {
				_ = s.flush()
			}
			return nil
		}
	}
}

// watch follows the attempts of an operation until it has ended.
func (c *call) watch(ctx context.Context, op string, live tap) {
	watched := 0
	for ctx.Err() == nil {
		snap, err := c.Service.Snapshot(ctx, c.goal)
		if err != nil {
			return
		}
		o, open := find(snap.OpenOperations, op)
		if !open {
			return
		}
		if o.Phase == operation.Started && o.Attempt > watched {
			counted := live.counting()
			if c.Service.Watch(ctx, c.goal, op, o.Attempt, counted) == nil && *counted.n > 0 {
				watched = o.Attempt
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

func find(ops []core.OpenOperation, op string) (core.OpenOperation, bool) {
	for _, o := range ops {
		if o.Op == op {
			return o, true
		}
	}
	return core.OpenOperation{}, false
}

// wholeText cuts a character that is not whole yet off the end, and replaces
// what is no text.
func wholeText(p []byte) (text string, rest []byte) {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				rest = bytes.Clone(tail)
				p = p[:len(p)-n]
			}
			break
		}
	}
	return strings.ToValidUTF8(string(p), "\uFFFD"), rest
}

// tap hands output over, one piece at a time.
type tap struct {
	ctx    context.Context
	chunks chan<- []byte
}

type countedTap struct {
	tap
	n *int
}

func (t tap) counting() countedTap { return countedTap{t, new(int)} }

// Delta implements the service's live view; a model's words come with its
// response.
func (countedTap) Delta(string, model.Delta) {}

// Output implements the service's live view.
func (t countedTap) Output(_ string, p []byte) {
	*t.n += len(p)
	select {
	case t.chunks <- bytes.Clone(p):
	case <-t.ctx.Done():
	}
}
