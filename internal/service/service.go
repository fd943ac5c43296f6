// Package service holds the use cases of belay and is the only door for every
// face: commands in, snapshots and event streams out. The command line, the
// API and the terminal send the same commands and see the same snapshot.
//
// It must not know how anything is shown, and decides nothing about a goal:
// it loads, lets the core decide, and appends.
package service

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/model"
	"belay/internal/moment"
	"belay/internal/recall"
	"belay/internal/redact"
	"belay/internal/runtime"
	"belay/internal/sandbox"
	"belay/internal/symbols"
	"belay/internal/workspace"
)

// Config wires the ports. Functions are called when they are first needed, so
// that a command that only reads opens nothing else.
type Config struct {
	Ledger ledger.Ledger
	// OpenWorkspace opens and locks a directory for a goal.
	OpenWorkspace func(ctx context.Context, root, goal string) (workspace.Workspace, error)
	// Stores are where the observed states of all workspaces are kept.
	Stores workspace.Stores
	// ReadWorkspace opens a directory for reading and observing alone.
	ReadWorkspace func(ctx context.Context, root string) (workspace.Workspace, error)
	// Index searches; nil where that is not possible.
	Index recall.Recall
	// Checkouts keeps the checkouts of goals that have one of their own.
	Checkouts workspace.Checkouts
	// Bring is what a goal's own checkout gets beside the files that count, by
	// the user's configuration; the repository's may only take away.
	Bring func(repo string) (bring workspace.Bring, warnings []string, err error)
	// PickSandbox resolves a setting ("auto", "" for the same, or a backend) to
	// the backend that a new goal keeps. Where none holds, it refuses with
	// ErrNoSandbox.
	PickSandbox func(ctx context.Context, setting string) (string, error)
	// OpenSandbox returns the backend that a goal's commands run in.
	OpenSandbox func(ctx context.Context, name string) (sandbox.Sandbox, error)
	// OpenModel resolves "provider:name".
	OpenModel func(ctx context.Context, spec string) (model.Model, error)
	// Symbols is the index of a workspace's symbols, nil when none is kept. It is
	// closed with the goal's ports.
	Symbols func(workspace.Workspace) symbols.Index
	// Versions says which versions of programs this machine has; nil when that is
	// not captured.
	Versions func(ctx context.Context, root string, programs []string) map[string]string
	// NewTools makes the tools of a goal.
	NewTools func(effect.ToolConfig) effect.Tools
	// BaseEnv is the environment of commands.
	BaseEnv []string
	// Protected are absolute paths that commands may not write: belay's state
	// and configuration.
	Protected []string
	// Scratch is the directory for private copies of workspaces, in which belay
	// runs checks of its own; commands must be able to see it.
	Scratch string
	// Secrets takes out of what people write what must not be recorded; nil
	// knows the shapes of keys alone.
	Secrets *redact.Redactor
	// Rules are the user's policy rules, read anew for each new goal.
	Rules func(repo string) (rules []event.Rule, warnings []string, err error)
	// AddRules saves rules in the user's policy file and returns them with their
	// ids; RemoveRules deletes them by id; CheckPolicy reads the text of a policy
	// file by its name.
	AddRules    func(rules []event.Rule) ([]event.Rule, error)
	RemoveRules func(ids []string) error
	CheckPolicy func(name string, text []byte) (rules []event.Rule, warnings []string, err error)
	// Worker makes a new worker name; Dead reports whether the process behind a
	// worker name is known to be gone.
	Worker func() string
	Dead   func(worker string) bool
	// Place names the state directory, and with it the machine, that this
	// process belongs to; "" when places are not told apart.
	Place string
	// Travel is whether new goals keep their workspace in the ledger, for workers
	// at other places, unless they say otherwise.
	Travel bool
	// Rested, if set, is told each time that a worker of this process has let a
	// goal come to rest.
	Rested func(ctx context.Context, s core.Snapshot)
	// Background, if set, begins what goes on beside the work of this process; the
	// function that it returns ends it.
	Background func(ctx context.Context) (stop func())
	// Lease is the length of a ticket's lease; 0 means the default.
	Lease time.Duration
	// Poll is how often workers look for goals when nothing tells them to; 0 is
	// what suits the store.
	Poll time.Duration
}

// Service is the door.
type Service struct {
	Config
	// working counts the workers that run in this process.
	working atomic.Int64
	mu      sync.Mutex
	// seen are the last states by goal, so that commands fold only what is new.
	seen map[string]core.State
}

// New makes a service.
func New(c Config) *Service { return &Service{Config: c, seen: map[string]core.State{}} }

// Errors that faces tell apart.
var (
	// ErrNotFound: no goal has that id or prefix.
	ErrNotFound = errors.New("no such goal")
	// ErrAmbiguous: the prefix fits more than one goal.
	ErrAmbiguous = errors.New("the prefix fits more than one goal")
	// ErrNoOperation: the goal has no such operation, or it has not ended.
	ErrNoOperation = errors.New("no such operation")
	// ErrUsage: the request itself is wrong.
	ErrUsage = errors.New("usage")
	// ErrNoSandbox: no backend that was asked for holds on this machine.
	ErrNoSandbox = sandbox.ErrUnavailable
	// ErrBusy: a live worker holds the goal.
	ErrBusy = errors.New("a running worker holds the goal")
)

// Resolve turns an unambiguous prefix of a goal id into the id.
func (s *Service) Resolve(ctx context.Context, prefix string) (string, error) {
	if prefix == "" {
		return "", fmt.Errorf("%w: name a goal (belay goals lists them)", ErrUsage)
	}
	rows, err := s.Ledger.Goals(ctx, ledger.Filter{Prefix: prefix, Limit: 3})
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		if id, err := s.recoverRow(ctx, prefix); err == nil {
			return id, nil
		}
		return "", fmt.Errorf("%w: %q (belay goals lists them)", ErrNotFound, prefix)
	}
	for _, r := range rows {
		if r.Goal == prefix {
			return r.Goal, nil
		}
	}
	if len(rows) > 1 {
		return "", fmt.Errorf("%w: %q fits %s, %s and perhaps more", ErrAmbiguous, prefix, rows[0].Goal, rows[1].Goal)
	}
	return rows[0].Goal, nil
}

// recoverRow rebuilds the row of a goal whose stream is there: lists are
// projections, and losing one costs a rebuild.
func (s *Service) recoverRow(ctx context.Context, prefix string) (string, error) {
	if err := s.RebuildRows(ctx); err != nil {
		return "", err
	}
	rows, err := s.Ledger.Goals(ctx, ledger.Filter{Prefix: prefix, Limit: 2})
	if err != nil || len(rows) != 1 {
		return "", ErrNotFound
	}
	return rows[0].Goal, nil
}

// RebuildRows recreates the row of every stream that has none.
func (s *Service) RebuildRows(ctx context.Context) error {
	ids, err := s.Ledger.Streams(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := s.Ledger.Goal(ctx, id); !errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		st, err := runtime.Load(ctx, s.Ledger, id)
		if err != nil {
			return fmt.Errorf("rebuild goal %s: %w", id, err)
		}
		if err := s.Ledger.Rebuild(ctx, core.Row(st)); err != nil {
			return fmt.Errorf("rebuild goal %s: %w", id, err)
		}
	}
	return nil
}

// NewGoalID is a goal id: short enough to type a prefix of, ordered by time.
func NewGoalID(now time.Time) (string, error) {
	var b [5]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("draw a goal id: %w", err)
	}
	// The random part comes first, so that two letters tell goals apart.
	return hex.EncodeToString(b[:]) + fmt.Sprintf("%06x", now.Unix()/60&0xffffff), nil
}

// state loads a goal's state as it is now.
func (s *Service) state(ctx context.Context, goal string) (core.State, error) {
	s.mu.Lock()
	st, ok := s.seen[goal]
	s.mu.Unlock()
	var err error
	if !ok {
		st, err = runtime.Load(ctx, s.Ledger, goal)
		if errors.Is(err, ledger.ErrNotFound) {
			return st, fmt.Errorf("%w: %s", ErrNotFound, goal)
		}
	} else {
		var es []event.Event
		if es, err = s.Ledger.Read(ctx, goal, st.Head, 0); err == nil {
			st = core.Fold(st, es)
		}
	}
	if err != nil {
		return st, err
	}
	s.mu.Lock()
	s.seen[goal] = st
	if !ok {
		s.forget(goal)
	}
	s.mu.Unlock()
	return st, nil
}

// How many states are kept: any, and of goals that have ended. They are a
// cache; a server that is asked for every goal there is must not grow with them.
const (
	maxSeen  = 2048
	maxEnded = 256
)

// forget drops states beyond what is kept, but never the one just used.
func (s *Service) forget(used string) {
	ended := 0
	for goal, st := range s.seen {
		if st.Status.Final() {
			ended++
		}
		if goal != used && (ended > maxEnded && st.Status.Final() || len(s.seen) > maxSeen) {
			delete(s.seen, goal)
		}
	}
}

// retries bounds how often a person's command is stepped again because a
// worker appended at the same moment. Each round reads what came in between,
// so it ends unless the goal is written to without pause.
const retries = 200

// do sends one input of a person to a goal.
func (s *Service) do(ctx context.Context, goal string, b core.Body) (core.State, error) {
	clean, err := cleanBody(s.Secrets, b)
	if err != nil {
		return core.State{}, err
	}
	key, looked := keyOf(ctx), uint64(0)
	var seed [16]byte
	if key != nil {
		if seed, err = key.seed(goal, clean); err != nil {
			return core.State{}, err
		}
	}
	for range retries {
		st, err := s.state(ctx, goal)
		if err != nil {
			return st, err
		}
		if key != nil {
			// Before each try: another process may just have recorded the same one.
			if key.Replayed, err = s.onRecord(ctx, goal, seed, key.oldest(time.Now()), looked, st.Head); err != nil || key.Replayed {
				return st, err
			}
			looked = st.Head
		}
		row, err := s.Ledger.Goal(ctx, goal)
		if err != nil {
			return st, err
		}
		in := core.Input{Now: moment.Of(time.Now()), By: event.ActorUser, StoreFence: row.Fence, Body: clean, Seed: seed}
		if key == nil {
			if _, err := rand.Read(in.Seed[:]); err != nil {
				return st, err
			}
		}
		r, err := core.Step(st, in)
		if err != nil {
			return st, fmt.Errorf("goal %s: %w", goal, err)
		}
		failpoint.Hit(failpoint.CommandBefore)
		_, err = s.Ledger.Append(ctx, ledger.Append{Goal: goal, Head: st.Head, Fence: row.Fence, Events: r.Events,
			Row: core.Row(r.State), Durable: true})
		if errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrFenced) {
			continue
		}
		if err != nil {
			return st, fmt.Errorf("goal %s: the ledger did not take the command: %w", goal, err)
		}
		failpoint.Hit(failpoint.CommandAfter)
		return s.state(ctx, goal)
	}
	return core.State{}, fmt.Errorf("goal %s is written to without pause; try again", goal)
}

// Snapshot is where a goal stands.
func (s *Service) Snapshot(ctx context.Context, goal string) (core.Snapshot, error) {
	st, err := s.state(ctx, goal)
	if err != nil {
		return core.Snapshot{}, err
	}
	const recent = 60
	after := uint64(0)
	if st.Head > recent {
		after = st.Head - recent
	}
	es, err := s.Ledger.Read(ctx, goal, after, recent)
	if err != nil {
		return core.Snapshot{}, err
	}
	v := core.View(st, core.Timeline(es))
	return v, s.showChildren(ctx, v.Children)
}

// SnapshotAt is where the goal stood after an event, 1 for the first one.
func (s *Service) SnapshotAt(ctx context.Context, goal string, seq uint64) (core.Snapshot, error) {
	var st core.State
	var entries []core.Entry
	const page, recent = 1000, 60
	for st.Head < seq {
		es, err := s.Ledger.Read(ctx, goal, st.Head, int(min(page, seq-st.Head)))
		if err != nil {
			return core.Snapshot{}, err
		}
		if len(es) == 0 {
			break
		}
		st = core.Fold(st, es)
		entries = append(entries, core.Timeline(es)...)
		entries = entries[max(0, len(entries)-recent):]
	}
	if seq == 0 || st.Head != seq {
		return core.Snapshot{}, fmt.Errorf("%w: goal %s has no event %d; its last one is %d", ErrUsage, goal, seq, st.Head)
	}
	return core.View(st, entries), nil
}

// Timeline is the goal as a person reads it back.
func (s *Service) Timeline(ctx context.Context, goal string) ([]core.Entry, error) {
	es, err := s.Ledger.Read(ctx, goal, 0, 0)
	return core.Timeline(es), err
}

// Events returns raw events after a seq.
func (s *Service) Events(ctx context.Context, goal string, after uint64) ([]event.Event, error) {
	return s.Ledger.Read(ctx, goal, after, 0)
}

// Page returns at most limit events after a seq.
func (s *Service) Page(ctx context.Context, goal string, after uint64, limit int) ([]event.Event, error) {
	return s.Ledger.Read(ctx, goal, after, limit)
}

// Follow yields events as they come.
func (s *Service) Follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error] {
	return s.Ledger.Follow(ctx, goal, after)
}

// Goals lists goals, newest first. The list is a projection: a goal whose row
// was lost gets it back here, because a list that silently lacks one is worse
// than none.
func (s *Service) Goals(ctx context.Context, f ledger.Filter) ([]ledger.Row, error) {
	if err := s.RebuildRows(ctx); err != nil {
		return nil, err
	}
	return s.Ledger.Goals(ctx, f)
}

// Audit re-computes a goal's hash chain.
func (s *Service) Audit(ctx context.Context, goal string) (ledger.Audit, error) {
	return s.Ledger.Audit(ctx, goal)
}

// Artifact opens an artifact by address.
func (s *Service) Artifact(ctx context.Context, sha string) (io.ReadCloser, error) {
	return s.Ledger.OpenArtifact(ctx, sha)
}

// Diff is the whole diff of a goal's workspace against its start, as it was
// last observed.
func (s *Service) Diff(ctx context.Context, goal string) (string, error) {
	st, err := s.state(ctx, goal)
	if err != nil {
		return "", err
	}
	return s.Whole(ctx, st.Diff.Diff)
}

// Whole returns a text in full.
func (s *Service) Whole(ctx context.Context, t event.Text) (string, error) {
	if t.Whole.IsZero() {
		return t.Head, nil
	}
	r, err := s.Ledger.OpenArtifact(ctx, t.Whole.SHA256)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, r); err != nil {
		return "", err
	}
	return b.String(), nil
}
