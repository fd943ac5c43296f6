package eval

import "math"

// Difference is an estimate of how much higher B's pass rate is than A's.
type Difference struct {
	// RateA and RateB are means over the cases, D their difference B - A.
	RateA float64 `json:"rate_a"`
	RateB float64 `json:"rate_b"`
	D     float64 `json:"difference"`
	// Low and High bound the difference with 95 % confidence.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// P is the two-sided probability of a split at least as uneven among the
	// cases that changed, were A and B equally good.
	P float64 `json:"p"`
	// Cases is how many cases were compared.
	Cases int `json:"cases"`
}

// z95 is the quantile of the normal distribution that leaves 2.5 % above it.
const z95 = 1.959963984540054

// Method names how Difference is found.
const Method = "paired difference of pass rates, unit = case; 95 % interval by Newcombe's method 10 (Wilson score intervals of both rates, joined by their correlation over the cases); p by the exact McNemar (sign) test over the cases whose rate changed"

// Compare compares paired pass rates: a[i] and b[i] are the share of runs of
// case i that passed, from 0 to 1.
//
// With one run a case this is Newcombe's method 10 for paired binary data
// (Statistics in Medicine 17, 2635, 1998). With several runs the rates vary less
// than single runs do, so that the interval, which counts cases only, errs on
// the wide side.
func Compare(a, b []float64) Difference {
	n := min(len(a), len(b))
	if n == 0 {
		return Difference{Low: -1, High: 1, P: 1}
	}
	d := Difference{Cases: n}
	up, down := 0, 0
	for i := range n {
		d.RateA += a[i]
		d.RateB += b[i]
		switch {
		case b[i] > a[i]:
			up++
		case b[i] < a[i]:
			down++
		}
	}
	d.RateA, d.RateB = min(d.RateA/float64(n), 1), min(d.RateB/float64(n), 1)
	d.D = d.RateB - d.RateA
	la, ua := wilson(d.RateA, n)
	lb, ub := wilson(d.RateB, n)
	phi := correlation(a[:n], b[:n], d.RateA, d.RateB)
	join := func(x, y float64) float64 { return math.Sqrt((x-y)*(x-y) + 2*(1-phi)*x*y) }
	d.Low = max(d.D-join(d.RateB-lb, ua-d.RateA), -1)
	d.High = min(d.D+join(ub-d.RateB, d.RateA-la), 1)
	d.P = signTest(up, down)
	return d
}

// wilson is the score interval of a rate over n.
func wilson(p float64, n int) (low, high float64) {
	m := float64(n)
	z2 := z95 * z95
	mid := (p + z2/(2*m)) / (1 + z2/m)
	half := z95 / (1 + z2/m) * math.Sqrt(p*(1-p)/m+z2/(4*m*m))
	return min(max(mid-half, 0), p), max(min(mid+half, 1), p)
}

// correlation is Pearson's, for binary values phi, with Newcombe's correction
// for continuity: a few cases that happen to agree must not make the interval
// narrow. It is 0 where one side never varies.
func correlation(a, b []float64, ma, mb float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if ab > 0 {
		ab = max(ab-0.5, 0)
	}
	if aa < 1e-12 || bb < 1e-12 {
		return 0
	}
	return min(max(ab/math.Sqrt(aa*bb), -1), 1)
}

// signTest is the exact two-sided test of up against down at even odds.
func signTest(up, down int) float64 {
	n, k := up+down, min(up, down)
	if n == 0 {
		return 1
	}
	// In logarithms: a binomial of thousands underflows.
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	sum := 0.0
	for i := 0; i <= k; i++ {
		sum += math.Exp(lg(n) - lg(i) - lg(n-i) - float64(n)*math.Ln2)
	}
	return min(2*sum, 1)
}
