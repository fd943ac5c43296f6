package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/memory"
)

// How long a goal that starts, or that has ended, waits for the memory to be
// brought up to date, once memoryAlways events are read. What is left is read
// next time.
const (
	recallBudget = 40 * time.Millisecond
	learnBudget  = time.Second
	memoryAlways = 2000
)

// memoryPage is how many events are read at once.
const memoryPage = 500

// noBudget reads all there is.
const noBudget = time.Duration(-1)

// memoryKey is where the memory of a repository is cached. No goal has such an
// id.
func memoryKey(repo string) string {
	sum := sha256.Sum256([]byte(repo))
	return "memory:" + hex.EncodeToString(sum[:12])
}

// errBehind says that not all that was recorded could be read in time. What is
// not read may be a person's word to forget.
var errBehind = errors.New("the memory is not up to date yet")

// book is the memory of a repository, brought up to date with the ledger; with
// errBehind as far as the budget goes. It is a projection: without a cache, or
// with one of another version, it is folded anew.
func (s *Service) book(ctx context.Context, repo string, budget time.Duration) (*memory.Book, error) {
	b := &memory.Book{}
	c, err := s.Ledger.LoadCache(ctx, memoryKey(repo))
	switch {
	case errors.Is(err, ledger.ErrNotFound):
	case err != nil:
		return b, err
	case c.Schema == memory.Schema:
		if json.Unmarshal(c.Blob, b) != nil {
			b = &memory.Book{}
		}
	}
	rows, err := s.Ledger.Goals(ctx, ledger.Filter{Repo: repo})
	if err != nil {
		return b, err
	}
	before := b.Seq()
	err = s.fold(ctx, b, rows, budget)
	for b.Stale() && (err == nil || errors.Is(err, errBehind)) {
		b.Afresh()
		err = s.fold(ctx, b, rows, budget)
	}
	if b.Seq() == before {
		return b, err
	}
	if blob, jerr := json.Marshal(b); jerr == nil {
		_ = s.Ledger.SaveCache(ctx, memoryKey(repo), ledger.Cache{Seq: b.Seq(), Schema: memory.Schema, Blob: blob})
	}
	return b, err
}

// fold adds what the goals have recorded since.
func (s *Service) fold(ctx context.Context, b *memory.Book, rows []ledger.Row, budget time.Duration) error {
	began, read := time.Now(), 0
	for _, r := range rows {
		for b.Through[r.Goal] < r.Head {
			if budget >= 0 && read >= memoryAlways && time.Since(began) > budget {
				return errBehind
			}
			es, err := s.Ledger.Read(ctx, r.Goal, b.Through[r.Goal], memoryPage)
			if err != nil {
				return err
			}
			if len(es) == 0 {
				break
			}
			read += len(es)
			for _, e := range es {
				b.Add(e)
			}
		}
	}
	return nil
}

// recall is what a goal that starts is told. Nothing of it is worth a failure:
// a goal without memory is a goal.
func (s *Service) recall(ctx context.Context, st core.State, tests []string) event.MemoryRecalled {
	b, err := s.book(ctx, core.Row(st).Repo, recallBudget)
	if err != nil {
		return event.MemoryRecalled{}
	}
	return b.Recall(memory.Query{Text: st.Spec.Text, Tests: append(st.TestCommands(), tests...)})
}

// learn brings the memory up to date when a goal has ended or is paused, so that
// the next one need not.
func (s *Service) learn(ctx context.Context, snap core.Snapshot) {
	if !snap.Status.Final() && snap.Status != lifecycle.Paused {
		return
	}
	repo := snap.Repo
	if snap.Worktree != nil {
		repo = snap.Worktree.Of
	}
	_, _ = s.book(ctx, repo, learnBudget)
}

// Memory is what is remembered of a repository, best first.
func (s *Service) Memory(ctx context.Context, repo string) ([]memory.Item, error) {
	repo, err := repoPath(repo)
	if err == nil {
		err = s.RebuildRows(ctx)
	}
	if err != nil {
		return nil, err
	}
	b, err := s.book(ctx, repo, noBudget)
	if err != nil {
		return nil, fmt.Errorf("read the memory of %s: %w", repo, err)
	}
	return b.List(memory.Query{}), nil
}

// Forgotten is what a person has had forgotten.
type Forgotten struct {
	Repo  string   `json:"repo"`
	Items []string `json:"items"`
	// Goals are those that hold the word: all that are going on, or the latest.
	Goals []string `json:"goals"`
}

// Forget has things remembered no longer, by their ids or all of them. The word
// is recorded in every goal of the repository that goes on, so that its model is
// told, and where none does, in the latest: either way it holds for all.
func (s *Service) Forget(ctx context.Context, repo string, ids []string, all bool) (Forgotten, error) {
	repo, err := repoPath(repo)
	if err == nil {
		err = s.RebuildRows(ctx)
	}
	if err != nil {
		return Forgotten{}, err
	}
	out := Forgotten{Repo: repo}
	b, err := s.book(ctx, repo, noBudget)
	if err != nil {
		return out, fmt.Errorf("read the memory of %s: %w", repo, err)
	}
	known := map[string]bool{}
	for _, it := range b.List(memory.Query{}) {
		known[it.ID] = true
		if all {
			out.Items = append(out.Items, it.ID)
		}
	}
	rows, err := s.Ledger.Goals(ctx, ledger.Filter{Repo: repo})
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		if !known[id] && !s.decided(ctx, rows, id) {
			return out, fmt.Errorf("%w: nothing with the id %q is remembered of %s (belay memory lists what is)", ErrUsage, id, repo)
		}
		out.Items = append(out.Items, id)
	}
	if len(out.Items) == 0 {
		return out, nil
	}
	word := b.Forgetting(repo, ids, all)
	var failed error
	for _, goal := range holders(rows) {
		if _, err := s.do(ctx, goal, core.Forget{Word: word}); err != nil {
			failed = errors.Join(failed, err)
			continue // one goal that holds the word is enough
		}
		out.Goals = append(out.Goals, goal)
	}
	if len(out.Goals) == 0 {
		return out, failed
	}
	_, err = s.book(ctx, repo, noBudget)
	return out, err
}

// decided reports whether a goal that goes on holds a decision of its own with
// this id: those can be taken back too.
func (s *Service) decided(ctx context.Context, rows []ledger.Row, id string) bool {
	for _, goal := range holders(rows) {
		st, err := s.state(ctx, goal)
		if err == nil && slices.ContainsFunc(st.Decisions, func(d core.Decision) bool { return d.ID == id }) {
			return true
		}
	}
	return false
}

// holders are the goals that record a person's word: rows are newest first.
func holders(rows []ledger.Row) []string {
	var going []string
	for _, r := range rows {
		if !lifecycle.Status(r.Status).Final() {
			going = append(going, r.Goal)
		}
	}
	if len(going) == 0 && len(rows) > 0 {
		return []string{rows[0].Goal}
	}
	slices.Reverse(going)
	return going
}

// repoPath is a repository as goals name it. One that is gone can still be
// remembered.
func repoPath(repo string) (string, error) {
	if strings.TrimSpace(repo) == "" {
		repo = "."
	}
	abs, err := filepath.Abs(repo)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil
}
