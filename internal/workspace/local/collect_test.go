package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belay/internal/workspace"
)

// observedStates is a workspace with many states, and what each was.
type observedStates struct {
	root, state string
	trees       []string
	was         map[string]map[string]string
	index       string
}

func manyStates(t *testing.T, seed uint64) *observedStates {
	t.Helper()
	o := &observedStates{root: t.TempDir(), state: t.TempDir(), was: map[string]map[string]string{}}
	run(t, o.root, "init", "-q")
	put(t, o.root, map[string]string{"a": "1", "d/b": "2", "d/e/c": "3", ".gitignore": "*.log\n"})
	run(t, o.root, "add", "a")
	w := open2(t, o.root, Options{State: o.state, Lock: true})
	r := rand.New(rand.NewPCG(seed, seed))
	for range 8 {
		tree := observe(t, w)
		if o.was[tree] == nil {
			o.trees, o.was[tree] = append(o.trees, tree), disk(t, o.root, false)
		}
		for range 1 + r.IntN(3) {
			p := filepath.Join(o.root, []string{"a", "d/b", "d/e/c", "n"}[r.IntN(4)])
			if r.IntN(4) == 0 {
				_ = os.Remove(p) // it may not be there
			} else if err := os.WriteFile(p, fmt.Appendf(nil, "%d\n", r.IntN(1000)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	var err error
	if o.index, err = w.Staged(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := w.Keep(context.Background(), "goal/cp0", o.trees[0]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

// keepOf is what a collection is told to keep.
func keepOf(names ...string) func(context.Context) (workspace.Keep, error) {
	k := workspace.Keep{Names: map[string]bool{}, Knows: func(goal string) bool { return goal == "goal" }}
	for _, n := range names {
		k.Names[n] = true
	}
	return func(context.Context) (workspace.Keep, error) { return k, nil }
}

// check holds that what is kept is whole, and that the next observation is what
// one without memory would be.
func (o *observedStates) check(t *testing.T, when string, kept []string) {
	t.Helper()
	w := open2(t, o.root, Options{State: o.state})
	defer w.Close()
	for _, tree := range kept {
		dir := t.TempDir()
		if err := w.Materialise(context.Background(), tree, dir); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		differ(t, when, o.was[tree], disk(t, dir, false))
	}
	if _, err := w.loadStaged(context.Background(), o.index); err != nil {
		t.Errorf("%s: what was staged: %v", when, err)
	}
	now := observe(t, w)
	if want := fresh(t, o.root); now != want {
		t.Errorf("%s: observed %s, want %s", when, now, want)
	}
	if err := w.Materialise(context.Background(), now, t.TempDir()); err != nil {
		t.Errorf("%s: the present state is not whole: %v", when, err)
	}
}

func (o *observedStates) collect(t *testing.T, at int, names ...string) (done []workspace.Collected, hits []string) {
	t.Helper()
	s := Stores{Dir: o.state}
	s.crash = func(i instant) {
		if hits = append(hits, named[i]); len(hits) == at {
			panic(killed{named[i]})
		}
	}
	defer func() {
		if p := recover(); p != nil {
			if _, ours := p.(killed); !ours {
				panic(p)
			}
		}
	}()
	done, err := s.Collect(context.Background(), keepOf(names...), false)
	if err != nil {
		t.Fatal(err)
	}
	return done, hits
}

// TestACollectionRemovesWhatIsNotKeptAndNothingElse: and a crash at any of its
// instants loses nothing that is kept; the next one ends what it began.
func TestACollectionRemovesWhatIsNotKeptAndNothingElse(t *testing.T) {
	t.Parallel()
	probe := manyStates(t, 1)
	_, hits := probe.collect(t, 0, probe.trees[0], probe.index)
	if len(hits) < 10 || !slices.Contains(hits, named[storePacked]) || !slices.Contains(hits, named[storeForgot]) || !slices.Contains(hits, named[storeSwept]) {
		t.Fatalf("it came to %v", hits)
	}
	for _, at := range append(instants(hits), 5, 9, 0) {
		t.Run(fmt.Sprint("crash at ", at), func(t *testing.T) {
			t.Parallel()
			seed := uint64(at + 1)
			o := manyStates(t, seed)
			t.Logf("seed %d", seed)
			kept := []string{o.trees[0], o.trees[len(o.trees)/2]}
			if at > 0 {
				o.collect(t, at, append(kept, o.index)...)
				o.check(t, "after the crash", kept)
			}
			o.collect(t, 0, append(kept, o.index)...)
			o.check(t, "collected", kept)
			w := open2(t, o.root, Options{State: o.state})
			now := observe(t, w)
			for i, tree := range o.trees {
				held, err := w.Holds(context.Background(), tree)
				if err != nil {
					t.Fatal(err)
				}
				if want := slices.Contains(kept, tree) || tree == now; held != want {
					t.Errorf("state %d is there: %t", i, held)
				}
			}
		})
	}
}

// TestACollectionLeavesAloneWhatIsUsed: by a goal, by a reader, or by goals of
// another ledger; and a dry one changes nothing.
func TestACollectionLeavesAloneWhatIsUsed(t *testing.T) {
	t.Parallel()
	o := manyStates(t, 3)
	skipped := func(why string, opts *Options, keep func(context.Context) (workspace.Keep, error)) {
		t.Helper()
		before := prints(t, o.state)
		var w *Workspace
		if opts != nil {
			opts.State = o.state
			w = open2(t, o.root, *opts)
			before = prints(t, o.state)
		}
		got, err := Stores{Dir: o.state}.Collect(context.Background(), keep, opts == nil && why == "")
		if err != nil || len(got) != 1 || !strings.Contains(got[0].Skipped, why) || why == "" && (got[0].Skipped != "" || got[0].Objects == 0) {
			t.Errorf("%q: %+v %v", why, got, err)
		}
		if w != nil {
			w.Close()
		}
		after := prints(t, o.state)
		for p := range after {
			if strings.HasSuffix(p, "/use") || strings.HasSuffix(p, "/lock") || strings.HasSuffix(p, "/git") {
				delete(after, p)
				delete(before, p)
			}
		}
		same(t, why, before, after)
	}
	skipped("in use", &Options{Lock: true, Goal: "goal"}, keepOf())
	skipped("in use", &Options{}, keepOf())
	skipped("", nil, keepOf(o.trees[0]))
	skipped("states of goal goal, which this ledger does not know", nil, func(context.Context) (workspace.Keep, error) {
		return workspace.Keep{Names: map[string]bool{}, Knows: func(string) bool { return false }}, nil
	})
}
