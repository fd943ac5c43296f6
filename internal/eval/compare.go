package eval

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Side is one case in one of two results.
type Side struct {
	Pass    int `json:"pass"`
	Fail    int `json:"fail"`
	TimeOut int `json:"time_out"`
	Infra   int `json:"infra"`
	// Class is that of the last run that did not pass.
	Class Class `json:"class,omitempty"`
	// The means over the runs that were judged.
	Steps      float64 `json:"steps"`
	Tokens     float64 `json:"tokens"`
	CostMicros float64 `json:"cost_micros"`
	WallMS     float64 `json:"wall_ms"`
}

// judged is how many runs say something: infra and time-outs do not.
func (s Side) judged() int { return s.Pass + s.Fail }

// rate is the share of judged runs that passed.
func (s Side) rate() float64 {
	if s.judged() == 0 {
		return 0
	}
	return float64(s.Pass) / float64(s.judged())
}

func (s Side) String() string {
	text := fmt.Sprintf("%d/%d", s.Pass, s.judged())
	if s.TimeOut > 0 {
		text += fmt.Sprintf(" %d time_out", s.TimeOut)
	}
	if s.Infra > 0 {
		text += fmt.Sprintf(" %d infra", s.Infra)
	}
	return text
}

// CaseChange is a case whose pass rate is another one.
type CaseChange struct {
	Case string `json:"case"`
	A    Side   `json:"a"`
	B    Side   `json:"b"`
}

// Comparison is what differs between two results.
type Comparison struct {
	Difference
	Method  string       `json:"method"`
	Better  []CaseChange `json:"better"`
	Worse   []CaseChange `json:"worse"`
	Unclear []string     `json:"unclear,omitempty"` // not judged on one side
	OnlyA   []string     `json:"only_a,omitempty"`
	OnlyB   []string     `json:"only_b,omitempty"`
	// A and B sum up the compared cases: counts are totals, the rest means a case.
	A Side `json:"a"`
	B Side `json:"b"`
}

// CompareResults pairs two results by case.
func CompareResults(a, b Results) Comparison {
	left, right := sides(a), sides(b)
	c := Comparison{Method: Method, Better: []CaseChange{}, Worse: []CaseChange{}}
	var ra, rb []float64
	for _, name := range slices.Sorted(maps.Keys(left)) {
		l := left[name]
		r, both := right[name]
		switch {
		case !both:
			c.OnlyA = append(c.OnlyA, name)
			continue
		case l.judged() == 0 || r.judged() == 0:
			c.Unclear = append(c.Unclear, name)
			continue
		}
		ra, rb = append(ra, l.rate()), append(rb, r.rate())
		c.A.add(l)
		c.B.add(r)
		switch change := (CaseChange{name, l, r}); {
		case r.rate() > l.rate():
			c.Better = append(c.Better, change)
		case r.rate() < l.rate():
			c.Worse = append(c.Worse, change)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(right)) {
		if _, both := left[name]; !both {
			c.OnlyB = append(c.OnlyB, name)
		}
	}
	c.A.mean(len(ra))
	c.B.mean(len(rb))
	c.Difference = Compare(ra, rb)
	return c
}

func (s *Side) add(o Side) {
	s.Pass, s.Fail, s.TimeOut, s.Infra = s.Pass+o.Pass, s.Fail+o.Fail, s.TimeOut+o.TimeOut, s.Infra+o.Infra
	s.Steps, s.Tokens, s.CostMicros, s.WallMS = s.Steps+o.Steps, s.Tokens+o.Tokens, s.CostMicros+o.CostMicros, s.WallMS+o.WallMS
}

func (s *Side) mean(n int) {
	if n > 0 {
		m := float64(n)
		s.Steps, s.Tokens, s.CostMicros, s.WallMS = s.Steps/m, s.Tokens/m, s.CostMicros/m, s.WallMS/m
	}
}

func sides(r Results) map[string]Side {
	m := map[string]Side{}
	for _, run := range r.Runs {
		s := m[run.Case]
		switch run.Outcome {
		case Pass:
			s.Pass++
		case Fail:
			s.Fail++
		case TimeOut:
			s.TimeOut++
		default:
			s.Infra++
		}
		if run.Outcome != Pass {
			s.Class = run.Class
		}
		if run.Outcome == Pass || run.Outcome == Fail {
			s.add(Side{Steps: float64(run.Steps), Tokens: float64(run.Tokens), CostMicros: float64(run.CostMicros), WallMS: float64(run.WallMS)})
		}
		m[run.Case] = s
	}
	for name, s := range m {
		s.mean(s.judged())
		m[name] = s
	}
	return m
}

func compareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compare A B", Short: "two results side by side: what changed, pass rates with an interval, cost and steps",
		Long: "compare pairs the cases of two results (folders of --out, or results.json files).\n\n" +
			"Pass rates are over runs that were judged: infra and time-outs are left out and shown.\nMethod: " + Method + ".",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("compare takes two results: belay eval compare A B")
			}
			a, err := ReadResults(args[0])
			if err != nil {
				return usage("%v", err)
			}
			b, err := ReadResults(args[1])
			if err != nil {
				return usage("%v", err)
			}
			cmp := CompareResults(a, b)
			return printJSONOr(c, cmp, func(w io.Writer) { cmp.print(w) })
		},
	}
}

func (c Comparison) print(w io.Writer) {
	change := func(word string, list []CaseChange) {
		for _, x := range list {
			why := ""
			if x.B.Class != "" {
				why = string(x.B.Class)
			}
			fmt.Fprintf(w, "%-7s %-44s %s -> %s  %s\n", word, clean(x.Case), x.A, x.B, why)
		}
	}
	change("worse", c.Worse)
	change("better", c.Better)
	list := func(word string, names []string) {
		for _, n := range names {
			fmt.Fprintf(w, "%-7s %s\n", word, clean(n))
		}
	}
	list("unclear", c.Unclear)
	list("only A", c.OnlyA)
	list("only B", c.OnlyB)
	if len(c.Worse)+len(c.Better) == 0 {
		fmt.Fprintln(w, "no case changed")
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tA\tB\tdifference\t")
	fmt.Fprintf(t, "pass rate of %d cases\t%.1f %%\t%.1f %%\t%+.1f points\t\n", c.Cases, 100*c.RateA, 100*c.RateB, 100*c.D)
	num := func(name, format string, a, b float64) {
		fmt.Fprintf(t, "%s\t"+format+"\t"+format+"\t%s\t\n", name, a, b, share(a, b))
	}
	num("requests a case", "%.1f", c.A.Steps, c.B.Steps)
	num("tokens a case", "%.0f", c.A.Tokens, c.B.Tokens)
	num("US dollars a case", "%.4f", c.A.CostMicros/1e6, c.B.CostMicros/1e6)
	num("seconds a case", "%.1f", c.A.WallMS/1e3, c.B.WallMS/1e3)
	_ = t.Flush()
	fmt.Fprintf(w, "95 %% interval of the difference: %+.1f to %+.1f points; p = %.3f\n%s\n", 100*c.Low, 100*c.High, c.P, Method)
}

// share is how much more b is than a.
func share(a, b float64) string {
	if a == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(b-a)/a)
}
