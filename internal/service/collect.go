package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/ledger"
	"belay/internal/sandbox"
	"belay/internal/workspace"
)

// looseFor is how long an artifact may be without an event that names it: a day
// is longer than any step takes to be recorded.
const looseFor = 24 * time.Hour

// Garbage is what a collection removed, or with Dry what it would.
type Garbage struct {
	Dry bool `json:"dry,omitempty"`
	// Goals are those on record, Over those that ended longer ago than the
	// retention.
	Goals int `json:"goals"`
	Over  int `json:"over"`
	// Stores are the private git directories, Records the spooled output of
	// commands, Ledger what went from the store of events beside the events.
	Stores  []workspace.Collected `json:"stores"`
	Records int                   `json:"records"`
	Ledger  ledger.Collected      `json:"ledger"`
	// Notes say what was left alone, and why.
	Notes []string `json:"notes,omitempty"`
}

// Collect removes what no goal needs any more: states of the workspaces of goals
// that have been over for the retention, but for their start, their end, what has
// a name and what evidence was taken on; the spooled output of their commands
// and their state caches; and artifacts that no event names. Events stay, all of
// them. What anybody uses is left alone.
func (s *Service) Collect(ctx context.Context, retention time.Duration, dry bool) (Garbage, error) {
	out := Garbage{Dry: dry, Stores: []workspace.Collected{}}
	var over map[string]bool
	var err error
	out.Stores, err = s.Stores.Collect(ctx, func(ctx context.Context) (workspace.Keep, error) {
		var k workspace.Keep
		k, over, err = s.holdings(ctx, retention)
		return k, err
	}, dry)
	if err != nil {
		return out, fmt.Errorf("nothing more was removed: %w", err)
	}
	if over == nil { // there is no store yet
		if _, over, err = s.holdings(ctx, retention); err != nil {
			return out, err
		}
	}
	out.Goals = len(over)
	var caches []string
	for goal, ended := range over {
		if ended {
			out.Over++
			caches = append(caches, goal)
		}
	}
	if out.Records, err = s.dropRecords(ctx, over, dry); err != nil {
		return out, err
	}
	c, ok := s.Ledger.(ledger.Collector)
	if !ok {
		out.Notes = append(out.Notes, "artifacts and state caches of this kind of ledger are not collected")
		return out, nil
	}
	now, err := s.Ledger.Now(ctx)
	if err != nil {
		return out, err
	}
	out.Ledger, err = c.Collect(ctx, ledger.Collect{Before: now.AddMS(-looseFor.Milliseconds()), Caches: caches, Dry: dry})
	return out, err
}

// holdings are the states that the goals on record need, and the goals, with
// whether their retention has run out.
func (s *Service) holdings(ctx context.Context, retention time.Duration) (workspace.Keep, map[string]bool, error) {
	k := workspace.Keep{Names: map[string]bool{}}
	over := map[string]bool{}
	k.Knows = func(goal string) bool { _, known := over[goal]; return known }
	goals, err := s.Ledger.Streams(ctx)
	if err != nil {
		return k, nil, err
	}
	now, err := s.Ledger.Now(ctx)
	if err != nil {
		return k, nil, err
	}
	for _, goal := range goals {
		h, err := s.holds(ctx, goal)
		if err != nil {
			return k, nil, err
		}
		for n := range h.Keep(now, retention.Milliseconds()) {
			k.Names[n] = true
		}
		over[goal] = h.Expired(now, retention.Milliseconds())
	}
	return k, over, nil
}

func (s *Service) holds(ctx context.Context, goal string) (*core.Holdings, error) {
	h := &core.Holdings{}
	for after := uint64(0); ; {
		es, err := s.Ledger.Read(ctx, goal, after, 1000)
		if err != nil || len(es) == 0 {
			return h, err
		}
		after = es[len(es)-1].Seq
		if err := h.See(es); err != nil {
			return h, err
		}
	}
}

// dropRecords forgets the spooled output of commands of goals that are over.
func (s *Service) dropRecords(ctx context.Context, over map[string]bool, dry bool) (int, error) {
	box, err := s.OpenSandbox(ctx, "none") // any backend finds the records of any other
	if err != nil {
		return 0, err
	}
	spool, ok := box.(sandbox.Spool)
	if !ok {
		return 0, nil
	}
	keys, err := spool.Records(ctx)
	if err != nil {
		return 0, err
	}
	running, err := box.Running(ctx)
	if err != nil {
		return 0, err
	}
	runs := map[string]bool{}
	for _, key := range running {
		runs[key] = true
	}
	n := 0
	for _, key := range keys {
		if goal, _, _ := strings.Cut(key, "."); !over[goal] || runs[key] {
			continue
		}
		if !dry {
			if err := box.Forget(ctx, key); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, nil
}
