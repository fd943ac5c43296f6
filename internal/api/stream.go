package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"belay/client"
	"belay/internal/core"
	"belay/internal/ledger"
	"belay/internal/token"
)

// sse writes server-sent events. It holds one buffer; what the reader does not
// take in stays in the ledger.
type sse struct {
	c  *call
	rc *http.ResponseController
	b  *bufio.Writer
}

// stream opens an event stream, if one more may be open.
func (c *call) stream() (*sse, func(), error) {
	if c.draining.Load() {
		return nil, nil, &client.Problem{Title: "The server is stopping", Status: http.StatusServiceUnavailable, Code: "stopping", Retryable: true,
			Detail: "connect again in a moment"}
	}
	if c.streams.Add(1) > c.Limits.Streams {
		c.streams.Add(-1)
		return nil, nil, &client.Problem{Title: "Too many streams", Status: http.StatusTooManyRequests, Code: "streams", Retryable: true,
			Detail: fmt.Sprintf("%d event streams are open already", c.Limits.Streams)}
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	s := &sse{c: c, rc: http.NewResponseController(c.w), b: bufio.NewWriterSize(c.w, 4<<10)}
	return s, func() { c.streams.Add(-1) }, s.flush()
}

// send writes one event; an id of 0 is none.
func (s *sse) send(name string, id uint64, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id > 0 {
		fmt.Fprintf(s.b, "id: %d\n", id)
	}
	_, err = fmt.Fprintf(s.b, "event: %s\ndata: %s\n\n", name, text)
	return err
}

func (s *sse) flush() error {
	if err := s.b.Flush(); err != nil {
		return err
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.c.Limits.WriteTime))
	return s.rc.Flush()
}

// beat says that the stream is alive, and ends it when its token is gone.
func (s *sse) beat() error {
	if s.c.token.ID != "local" {
		// The secret is looked up again: it may have been revoked meanwhile.
		if _, err := s.c.Check(secretOf(s.c.r)); errors.Is(err, token.ErrUnknown) {
			return errOver
		}
	}
	if _, err := s.b.WriteString(": alive\n\n"); err != nil {
		return err
	}
	return s.flush()
}

func secretOf(r *http.Request) string {
	const n = len("Bearer ")
	if h := r.Header.Get("Authorization"); len(h) > n {
		return h[n:]
	}
	return ""
}

// errOver ends a stream without a word: its reader connects again and is told
// why it may not.
var errOver = errors.New("the stream is over")

// followGoal streams a goal's events, or its timeline, from a place on.
func followGoal(c *call) error {
	view := c.r.URL.Query().Get("view")
	if view == "" {
		view = "events"
	}
	if view != "events" && view != "timeline" {
		return bad("view is events or timeline, not %q", view)
	}
	after, err := c.resumeAt()
	if err != nil {
		return err
	}
	s, done, err := c.stream()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	// One item at a time comes over: a reader that stalls keeps nothing waiting
	// in memory, and a later one reads on from the ledger by seq.
	items := make(chan ledger.Item)
	go func() {
		defer close(items)
		for it, err := range c.Service.Follow(ctx, c.goal, after) {
			if err != nil {
				return
			}
			select {
			case items <- it:
			case <-ctx.Done():
				return
			}
		}
	}()
	c.pump(s, items, view, after)
	return nil
}

// resumeAt is where a reader left off.
func (c *call) resumeAt() (uint64, error) {
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil {
			return 0, bad("Last-Event-ID is %q, which is no seq", last)
		}
		return n, nil
	}
	return c.number("after", 0, 1<<62)
}

// pump writes what comes until somebody leaves.
func (c *call) pump(s *sse, items <-chan ledger.Item, view string, last uint64) {
	beat := time.NewTicker(c.Limits.Beat)
	defer beat.Stop()
	for {
		var it ledger.Item
		ok := true
		select {
		case it, ok = <-items:
		case <-beat.C:
			if s.beat() != nil {
				return
			}
			continue
		case <-c.board.stopped:
			return
		default:
			if s.flush() != nil {
				return
			}
			select {
			case it, ok = <-items:
			case <-beat.C:
				if s.beat() != nil {
					return
				}
				continue
			case <-c.board.stopped:
				return
			}
		}
		if !ok || s.item(it, view, &last) != nil {
			return
		}
	}
}

// item writes one thing that the ledger yielded.
func (s *sse) item(it ledger.Item, view string, last *uint64) error {
	if it.CaughtUp {
		return s.send("caught_up", 0, client.Head{Head: *last})
	}
	*last = it.Event.Seq
	if view == "events" {
		return s.send("event", it.Event.Seq, it.Event)
	}
	if e, ok := core.TimelineEntry(it.Event); ok {
		return s.send("entry", it.Event.Seq, e)
	}
	// What a person does not read still moves the goal.
	return s.send("head", it.Event.Seq, client.Head{Head: it.Event.Seq})
}

// followGoals streams the list of goals: all of it, a marker, and then each
// goal that changes. It is no history, so a reader that was away gets the list
// anew and has missed nothing.
func followGoals(c *call) error {
	s, done, err := c.stream()
	if err != nil {
		return err
	}
	defer done()
	sub := c.board.subscribe()
	defer c.board.unsubscribe(sub)
	beat := time.NewTicker(c.Limits.Beat)
	defer beat.Stop()
	told := false
	for {
		select {
		case <-sub.wake:
		case <-beat.C:
			if s.beat() != nil {
				return nil
			}
			continue
		case <-c.ctx.Done():
			return nil
		case <-c.board.stopped:
			return nil
		}
		rows, first := c.board.take(sub)
		for _, r := range rows {
			if s.send("goal", 0, json.RawMessage(r)) != nil {
				return nil
			}
		}
		if first && !told {
			told = true
			if s.send("caught_up", 0, client.Head{}) != nil {
				return nil
			}
		}
		if s.flush() != nil {
			return nil
		}
	}
}
