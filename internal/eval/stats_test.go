package eval

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func rates(t *rapid.T, n int, name string) []float64 {
	runs := rapid.IntRange(1, 6).Draw(t, name+" runs")
	return rapid.SliceOfN(rapid.Map(rapid.IntRange(0, runs), func(k int) float64 { return float64(k) / float64(runs) }), n, n).Draw(t, name)
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestTheIntervalIsSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "cases")
		a, b := rates(t, n, "a"), rates(t, n, "b")
		d, r := Compare(a, b), Compare(b, a)
		if !(d.Low >= -1 && d.Low <= d.D+1e-12 && d.D <= d.High+1e-12 && d.High <= 1) {
			t.Fatalf("not -1 <= low <= difference <= high <= 1: %+v", d)
		}
		if !near(d.D, -r.D) || !near(d.Low, -r.High) || !near(d.High, -r.Low) || !near(d.P, r.P) {
			t.Fatalf("changing sides does not turn the sign: %+v %+v", d, r)
		}
		if !(d.P > 0 && d.P <= 1) {
			t.Fatalf("p is %g", d.P)
		}
		if same := Compare(a, a); same.D != 0 || same.P != 1 || same.Low > 0 || same.High < 0 {
			t.Fatalf("a result differs from itself: %+v", same)
		}
		// Four times the evidence of the same kind says more.
		var a4, b4 []float64
		for range 4 {
			a4, b4 = append(a4, a...), append(b4, b...)
		}
		if more := Compare(a4, b4); more.High-more.Low > d.High-d.Low+1e-9 {
			t.Fatalf("more cases make it wider: %+v %+v", d, more)
		}
	})
}

// The expected values follow from the formulas by hand: the Wilson intervals of
// 0, 5 and 10 out of 10, joined by a phi that is plain to see.
func TestKnownIntervals(t *testing.T) {
	t.Parallel()
	pairs := func(both, onlyA, onlyB, none int) (a, b []float64) {
		for n, ab := range map[int][2]float64{0: {1, 1}, 1: {1, 0}, 2: {0, 1}, 3: {0, 0}} {
			for range []int{both, onlyA, onlyB, none}[n] {
				a, b = append(a, ab[0]), append(b, ab[1])
			}
		}
		return a, b
	}
	for _, c := range []struct {
		both, onlyA, onlyB, none int
		d, low, high, p          float64
	}{
		// No case in common with the other: the widest that 10 pairs allow.
		{0, 10, 0, 0, -1, -1, -0.6075, 2 * math.Pow(0.5, 10)},
		// Nothing differs and nothing varies: phi is 0.
		{10, 0, 0, 0, 0, -0.2775, 0.2775, 1},
		{0, 5, 5, 0, 0, -0.5269, 0.5269, 1},
		// All agree, five times each way: phi is (25 - 5) / 25 = 0.8, and the
		// halves, 0.2634 each, join to 0.2634 * sqrt(2 - 1.6).
		{5, 0, 0, 5, 0, -0.1666, 0.1666, 1},
	} {
		a, b := pairs(c.both, c.onlyA, c.onlyB, c.none)
		d := Compare(a, b)
		tol := func(x, y float64) bool { return math.Abs(x-y) < 5e-4 }
		if !near(d.D, c.d) || !tol(d.Low, c.low) || !tol(d.High, c.high) || !near(d.P, c.p) {
			t.Errorf("%+v, want %+v", d, c)
		}
	}
	if d := Compare(nil, nil); d.Low != -1 || d.High != 1 || d.P != 1 {
		t.Errorf("of nothing: %+v", d)
	}
	// Two of 30 coins: 2 * sum of C(30,k) for k <= 2, over 2^30.
	if p, want := signTest(2, 28), 2.0*(1+30+435)/(1<<30); math.Abs(p-want) > 1e-12 {
		t.Errorf("sign test: %g, want %g", p, want)
	}
	if p := signTest(2000, 2100); p <= 0.1 || p >= 0.14 {
		t.Errorf("sign test of thousands: %g", p)
	}
}
