package core_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/event"
)

// files is a workspace in values: path to content.
type files map[string]string

// changes lead from one to the other.
func (a files) changes(b files) []event.Change {
	var list []event.Change
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		was, here := a[p]
		is, there := b[p]
		switch {
		case !here:
			list = append(list, event.Change{Path: p, Status: "added"})
		case !there:
			list = append(list, event.Change{Path: p, Status: "deleted"})
		case was != is:
			list = append(list, event.Change{Path: p, Status: "modified"})
		}
	}
	return list
}

// put writes a file as a file system does: what stands in its way goes.
func (a files) put(path, content string) {
	for p := range a {
		if strings.HasPrefix(p, path+"/") || strings.HasPrefix(path, p+"/") {
			delete(a, p)
		}
	}
	a[path] = content
}

// possible says which path is a file and a folder at once.
func (a files) possible() error {
	for p := range a {
		for q := range a {
			if strings.HasPrefix(q, p+"/") {
				return fmt.Errorf("%s is a file, and %s is in it", p, q)
			}
		}
	}
	return nil
}

// TestARollbackTakesBackAllThatIsTheGoalsAndNothingThatIsOthers: over random
// histories of a goal and of others, with files that give way to folders and
// back. What others changed since is as it is; all else is as it was, as far as
// a file system can hold both; and rolling forward again is exact.
func TestARollbackTakesBackAllThatIsTheGoalsAndNothingThatIsOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		paths := []string{"a", "a/b", "a/b/c", "d", "e/f", "e/g", "h"}
		states := []files{{}}
		var es []event.Event
		now := files{}
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			next := maps.Clone(now)
			for range rapid.IntRange(1, 3).Draw(t, "writes") {
				p := rapid.SampledFrom(paths).Draw(t, "path")
				if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
					delete(next, p)
				} else {
					next.put(p, fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "content")))
				}
			}
			by := rapid.SampledFrom([]string{"external", "op1"}).Draw(t, "by")
			es = append(es, event.Event{Payload: event.RepoStateMutated{From: fmt.Sprint(i), Revision: event.Revision{Tree: fmt.Sprint(i + 1)}, By: by}})
			now = next
			states = append(states, now)
		}
		at := rapid.IntRange(0, len(es)).Draw(t, "target")
		recorded := rapid.IntRange(at, len(es)).Draw(t, "recorded")
		theirs := map[string]bool{}
		for _, p := range append(core.OthersPassages(es[at:recorded]), core.Unrecorded(core.Standing{Tree: fmt.Sprint(recorded)}, core.Standing{Tree: fmt.Sprint(len(es))})...) {
			var from, to int
			fmt.Sscan(p.From+" "+p.To, &from, &to)
			for _, c := range states[from].changes(states[to]) {
				theirs[c.Path] = true
			}
		}
		target, changes := states[at], now.changes(states[at])
		left := core.LeftAlone(changes, theirs)
		got := maps.Clone(now)
		for _, c := range changes {
			if !slices.Contains(left, c.Path) && c.Status == "deleted" {
				delete(got, c.Path)
			}
		}
		for _, c := range changes {
			if slices.Contains(left, c.Path) || c.Status == "deleted" {
				continue
			}
			got[c.Path] = target[c.Path]
		}
		if err := got.possible(); err != nil {
			t.Fatalf("from %v to %v, others' %v: %v: %v", now, target, theirs, got, err)
		}
		for _, c := range changes {
			was, is := now[c.Path], got[c.Path]
			if theirs[c.Path] && was != is {
				t.Fatalf("%s is others' and was changed from %q to %q", c.Path, was, is)
			}
			if slices.Contains(left, c.Path) && !theirs[c.Path] { // given up only for what stays
				stays := func(p string) bool { _, there := now[p]; return there && theirs[p] }
				if !slices.ContainsFunc(slices.Collect(maps.Keys(now)), func(p string) bool {
					return stays(p) && (strings.HasPrefix(p, c.Path+"/") || strings.HasPrefix(c.Path, p+"/"))
				}) {
					t.Fatalf("%s is left alone for nothing", c.Path)
				}
			}
			if !slices.Contains(left, c.Path) && got[c.Path] != target[c.Path] {
				t.Fatalf("%s is %q and was %q", c.Path, got[c.Path], target[c.Path])
			}
		}
		// Forward again: nobody else was there in between.
		if back := got.changes(now); len(core.LeftAlone(back, nil)) != 0 || len(back) > len(changes) {
			t.Fatalf("forward again: %v", back)
		}
	})
}

// TestWhatOthersStagedIsTheirs: the same rule for the index; a record without a
// beginning attributes nothing.
func TestWhatOthersStagedIsTheirs(t *testing.T) {
	t.Parallel()
	es := []event.Event{{Payload: event.IndexChanged{Index: "i1", By: "external"}}, {Payload: event.IndexChanged{From: "i1", Index: "i2", By: "op1"}},
		{Payload: event.IndexChanged{From: "i2", Index: "i3", By: "external"}}}
	if got := core.OthersPassages(es); !reflect.DeepEqual(got, []core.Passage{{From: "i2", To: "i3", Staged: true}}) {
		t.Errorf("%+v", got)
	}
	if got := core.Unrecorded(core.Standing{Tree: "t", Index: "i3"}, core.Standing{Tree: "t", Index: "i4"}); !reflect.DeepEqual(got, []core.Passage{{From: "i3", To: "i4", Staged: true}}) {
		t.Errorf("%+v", got)
	}
	if got := core.Unrecorded(core.Standing{Tree: "t"}, core.Standing{Tree: "t", Index: "i4"}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
