package progress_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/progress"
)

func TestThresholds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count, threshold int64
		want             progress.Verdict
	}{
		{0, 0, progress.Fine}, {1, 0, progress.Fine}, {2, 0, progress.Fine}, {3, 0, progress.Forbid}, {4, 0, progress.HandOff},
		{3, -1, progress.Forbid}, {1, 1, progress.Forbid}, {2, 1, progress.HandOff}, {9, 10, progress.Fine},
		{10, 10, progress.Forbid}, {11, 10, progress.HandOff}, {1 << 40, 10, progress.HandOff},
	} {
		if got := progress.Judge(c.count, c.threshold); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.count, c.threshold, got, c.want)
		}
	}
}

// The verdict never becomes milder with more failures, and each one is reached:
// no count jumps over "forbid".
func TestVerdictsRiseOneByOne(t *testing.T) {
	t.Parallel()
	rank := map[progress.Verdict]int{progress.Fine: 0, progress.Forbid: 1, progress.HandOff: 2}
	rapid.Check(t, func(t *rapid.T) {
		th := rapid.Int64Range(-2, 20).Draw(t, "threshold")
		n := rapid.Int64Range(0, 30).Draw(t, "count")
		if a, b := rank[progress.Judge(n, th)], rank[progress.Judge(n+1, th)]; b < a || b > a+1 {
			t.Fatalf("threshold %d: %d → %d, %d → %d", th, n, a, n+1, b)
		}
	})
}

type failure struct{ action, signature string }

// counter drives the real counter beside a plain list of failures since the
// tree last moved.
type counter struct {
	c         progress.Counter
	tree      string
	since     []failure
	forbidden map[string]string
}

func (x *counter) draw(t *rapid.T) failure {
	return failure{rapid.SampledFrom([]string{"a", "b", "a s"}).Draw(t, "action"), rapid.SampledFrom([]string{"s", "t", "s s"}).Draw(t, "signature")}
}

func (x *counter) times(f failure) int64 {
	n := int64(0)
	for _, g := range x.since {
		if g == f {
			n++
		}
	}
	return n
}

func (x *counter) note(t *rapid.T) {
	f := x.draw(t)
	x.since = append(x.since, f)
	if got := x.c.Note(f.action, f.signature, ""); got != x.times(f) {
		t.Fatalf("%v: counted %d, happened %d times", f, got, x.times(f))
	}
}

func (x *counter) moved(t *rapid.T) {
	tree := rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "tree")
	x.c.Moved(tree)
	if tree != x.tree {
		x.tree, x.since, x.forbidden = tree, nil, map[string]string{}
	}
}

func (x *counter) afresh(*rapid.T) {
	x.c.Afresh()
	x.since, x.forbidden = nil, map[string]string{}
}

func (x *counter) forbid(t *rapid.T) {
	f := x.draw(t)
	x.c.Forbid(f.action, f.signature)
	x.forbidden[f.action] = f.signature
}

func (x *counter) copyAndCache(t *rapid.T) {
	c := x.c.Clone()
	c.Note("a", "s", "")
	c.Forbid("only in the copy", "s")
	raw, err := json.Marshal(x.c)
	if err != nil {
		t.Fatal(err)
	}
	var back progress.Counter
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	x.c = back.Clone()
}

func (x *counter) check(t *rapid.T) {
	for _, a := range []string{"a", "b", "a s"} {
		for _, s := range []string{"s", "t", "s s"} {
			if f := (failure{a, s}); x.c.Count(a, s) != x.times(f) {
				t.Fatalf("%v: %d, happened %d times", f, x.c.Count(a, s), x.times(f))
			}
		}
		if sig, ok := x.c.Forbidden[a]; ok != (x.forbidden[a] != "") || sig != x.forbidden[a] {
			t.Fatalf("%q forbidden: %t for %q, want %q", a, ok, sig, x.forbidden[a])
		}
	}
	if x.c.Forbidden["only in the copy"] != "" {
		t.Fatal("a change of the copy reached the original")
	}
}

func TestFailuresCountUntilTheTreeMoves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c progress.Counter
		x := &counter{c: c.Clone(), forbidden: map[string]string{}}
		t.Repeat(map[string]func(*rapid.T){"note": x.note, "moved": x.moved, "afresh": x.afresh,
			"forbid": x.forbid, "copy": x.copyAndCache, "": x.check})
	})
}

func TestFailuresOfOneRoundCountOnce(t *testing.T) {
	t.Parallel()
	c := progress.Counter{}.Clone()
	for _, round := range []string{"r1", "r1", "r1", "r2", "r2"} {
		c.Note("a", "s", round)
	}
	if n := c.Count("a", "s"); n != 2 {
		t.Errorf("two rounds of failures count %d", n)
	}
}
