package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
)

// keyLife is how long a command can be sent again under its key without being
// done again. A started goal is found by its key for ever.
const keyLife = 24 * time.Hour

// clockSkew is how far the clocks of those who make keys may be off.
const clockSkew = 15 * time.Minute

// oldest is how far back a command under the key can be on record.
func (k *Key) oldest(now time.Time) moment.Time {
	if since := k.Since.Add(-clockSkew); !k.Since.IsZero() && k.Since.Before(now.Add(clockSkew)) && since.After(now.Add(-keyLife)) {
		return moment.Of(since)
	}
	return moment.Of(now.Add(-keyLife))
}

// ErrKeyReused: the key stands for another request.
var ErrKeyReused = errors.New("the idempotency key was used for another request")

type keyed struct{}

// Key is the name that a caller gave a command, so that sending it again does
// nothing more. Who sends it is part of the name.
type Key struct {
	Name string
	// Since is when the key was made, as its maker's clock says; zero if it does
	// not tell. It bounds how far back the ledger is looked through.
	Since time.Time
	// Replayed is set when the command turned out to be on record already.
	Replayed bool
}

// WithKey makes the command that is called with the context one that can be
// sent again. The key lives in the ledger: the ids of the events are made from
// it, so it holds across crashes and between processes.
func WithKey(ctx context.Context, k *Key) context.Context { return context.WithValue(ctx, keyed{}, k) }

func keyOf(ctx context.Context) *Key {
	k, _ := ctx.Value(keyed{}).(*Key)
	return k
}

// seed makes the ids of a command's events follow from the key, the goal and
// what is asked: the same key with another request is another command.
func (k *Key) seed(goal string, b core.Body) ([16]byte, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return [16]byte{}, fmt.Errorf("goal %s: the command cannot be named: %w", goal, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%T\x00%s", k.Name, goal, b, body))
	return [16]byte(sum[:16]), nil
}

// goalID is the id of the goal that is started under the key.
func (k *Key) goalID() string {
	sum := sha256.Sum256([]byte("start\x00" + k.Name))
	return hex.EncodeToString(sum[:8])
}

// onRecord looks for a command's first event among the events after a seq,
// newest first, as far back as keys live.
func (s *Service) onRecord(ctx context.Context, goal string, seed [16]byte, oldest moment.Time, after, head uint64) (bool, error) {
	const page = 256
	tail := idTail(event.NewID(0, seed, 0))
	for head > after {
		from := after
		if head > page && head-page > after {
			from = head - page
		}
		es, err := s.Ledger.Read(ctx, goal, from, int(head-from))
		if err != nil {
			return false, err
		}
		for _, e := range es {
			if idTail(e.ID) == tail {
				return true, nil
			}
		}
		if len(es) > 0 && es[0].Time < oldest {
			return false, nil
		}
		head = from
	}
	return false, nil
}

// idTail is an event id without its time.
func idTail(id string) string {
	const stamp = len("01234567-89ab-")
	if len(id) < stamp {
		return id
	}
	return id[stamp:]
}

// begin records the first events of a goal. Where its key has begun one
// already, that is the answer if the request is the same.
func (s *Service) begin(ctx context.Context, goal string, ready core.Ready) error {
	_, err := s.Ledger.Append(ctx, ledger.Append{Goal: goal, Events: ready.Events, Row: core.Row(ready.State), Durable: true})
	k := keyOf(ctx)
	if k == nil || !errors.Is(err, ledger.ErrExists) {
		if err != nil {
			return fmt.Errorf("the ledger did not take the goal: %w", err)
		}
		return nil
	}
	es, err := s.Ledger.Read(ctx, goal, 0, 1)
	if err != nil {
		return err
	}
	if len(es) == 0 || !sameStart(es[0], ready.Events[0]) {
		return fmt.Errorf("%w: it started goal %s", ErrKeyReused, goal)
	}
	k.Replayed = true
	return nil
}

// sameStart compares what two requests asked for; what belay itself found out
// at the start is no part of it.
func sameStart(a, b event.Event) bool {
	var texts [2]string
	for i, e := range []event.Event{a, b} {
		p, ok := e.Payload.(event.GoalReceived)
		if !ok {
			return false
		}
		p.Settings.Rules, p.Settings.Sandbox, p.Settings.Travel = nil, "", false
		if p.Worktree != nil {
			p.Repo, p.Worktree = p.Worktree.Of, &event.Worktree{}
		}
		text, err := json.Marshal(p)
		if err != nil {
			return false
		}
		texts[i] = string(text)
	}
	return texts[0] == texts[1]
}
