package progress

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// Signal names one way in which a goal can fail to get anywhere.
type Signal string

// The six signals. Each has its own function on Watch, and its own thresholds
// in Thresholds.
const (
	// SameAction: near-equal calls with near-identical answers on one tree, one
	// after the other or in a cycle of up to MaxPeriod steps.
	SameAction Signal = "same_action"
	// TreeUnchanged: operations that should change something, and no tree that
	// was not seen before.
	TreeUnchanged Signal = "tree_unchanged"
	// RepeatedError: one error signature again and again, whatever action
	// brings it, with nothing learned in between.
	RepeatedError Signal = "repeated_error"
	// PlanStalled: no plan node moves, or the plan changes and nothing else does.
	PlanStalled Signal = "plan_stalled"
	// SameObservation: whatever is done, the same is seen.
	SameObservation Signal = "same_observation"
	// CostRising: what was spent since the last gain is far above what a gain
	// has cost so far.
	CostRising Signal = "cost_rising"
)

// Signals lists them in the order in which they are looked at: the most
// precise one speaks first.
func Signals() []Signal {
	return []Signal{SameAction, RepeatedError, SameObservation, TreeUnchanged, PlanStalled, CostRising}
}

// Threshold is when a signal warns the model and when it stops the goal.
type Threshold struct{ Warn, Stop int64 }

// thresholds are the defaults. The unit is what the signal counts: repeats of
// the action or cycle, operations, errors, responses.
var thresholds = map[Signal]Threshold{
	SameAction:      {4, 7},
	RepeatedError:   {8, 14},
	SameObservation: {8, 14},
	TreeUnchanged:   {8, 16},
	PlanStalled:     {30, 60},
	CostRising:      {40, 120},
}

// ThresholdOf returns the default threshold of a signal, stretched by the
// patience that a goal asks for (1 or less means the default).
func ThresholdOf(s Signal, patience int64) Threshold {
	t := thresholds[s]
	patience = max(patience, 1)
	return Threshold{t.Warn * patience, t.Stop * patience}
}

const (
	// MaxPeriod is the longest cycle that is looked for.
	MaxPeriod = 6
	// Churn is how many changes of the plan with nothing else to show count as
	// one stalled stretch: they weigh as much as so many responses each.
	Churn = 5
	// CostFactor is how many times dearer than the average gain the present
	// stretch must be, once there is an average of at least MinGains.
	CostFactor = 4
	MinGains   = 3

	maxSteps = 512 // enough for MaxPeriod cycles at the greatest patience
	maxSeen  = 512
)

// Step is one finished operation, as keys that can only be compared.
type Step struct {
	Tool   string `json:"tool"`
	Action uint64 `json:"action"`
	Sight  uint64 `json:"sight"`
	Tree   uint64 `json:"tree"`
	Round  uint64 `json:"round"`
}

func (s Step) same(o Step) bool {
	return s.Action == o.Action && s.Sight == o.Sight && s.Tree == o.Tree
}

// Watch is what is remembered of the way since the user last had a say. It is
// bounded. It is a value in a State: Clone before changing it.
type Watch struct {
	// Steps are the latest operations, oldest first.
	Steps []Step `json:"steps,omitempty"`
	// Trees, Facts, Ground and Evidence are what was there before: trees,
	// observations, changed paths, results of tests.
	Trees    Seen `json:"trees,omitempty"`
	Facts    Seen `json:"facts,omitempty"`
	Ground   Seen `json:"ground,omitempty"`
	Evidence Seen `json:"evidence,omitempty"`

	// Idle counts operations that should have changed something since a new
	// tree was last seen.
	Idle int64 `json:"idle,omitempty"`
	// Errors counts error signatures since something was last learned.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Still counts responses since the plan moved or anything was gained,
	// Changes the changes of the plan since anything was gained.
	Still   int64 `json:"still,omitempty"`
	Changes int64 `json:"changes,omitempty"`
	// Replies and Tokens were spent since the last gain; Edited says that the
	// repository was changed meanwhile, Gains and Spent are all so far.
	Replies int64 `json:"replies,omitempty"`
	Tokens  int64 `json:"tokens,omitempty"`
	Edited  bool  `json:"edited,omitempty"`
	Gains   int64 `json:"gains,omitempty"`
	Spent   int64 `json:"spent,omitempty"`

	// Warned are the signals that the model was told of.
	Warned []Signal `json:"warned,omitempty"`
}

// Clone copies the watch so that the copy can be changed.
func (w Watch) Clone() Watch {
	w.Steps = slices.Clone(w.Steps)
	w.Trees, w.Facts, w.Ground, w.Evidence = slices.Clone(w.Trees), slices.Clone(w.Facts), slices.Clone(w.Ground), slices.Clone(w.Evidence)
	w.Warned = slices.Clone(w.Warned)
	errors := make(map[string]int64, len(w.Errors))
	for k, v := range w.Errors {
		errors[k] = v
	}
	w.Errors = errors
	return w
}

// Afresh begins to count anew: the user has had a say, or the model has lost
// what it saw. What was seen is still no news.
func (w *Watch) Afresh() {
	w.Steps, w.Errors, w.Warned = nil, map[string]int64{}, nil
	w.Idle, w.Still, w.Changes, w.Replies, w.Tokens, w.Edited = 0, 0, 0, 0, 0, false
}

// Done is a finished operation.
type Done struct {
	Tool, Arguments, Round string
	// Observation is what the model is told; Error its signature, if it failed.
	Observation, Error string
	// Edits says that it edits files: what it tells is no news. Acts says that
	// it may change the world. Tests says that its result is told to Tested.
	Edits, Acts, Tests bool
}

// Finished notes an operation and what it brought to sight.
func (w *Watch) Finished(d Done, tree string) {
	s := Step{Tool: d.Tool, Action: hash(key(d.Tool, Blur(d.Arguments, true))), Sight: hash(Blur(d.Observation, false)), Tree: hash(tree), Round: hash(d.Round)}
	if d.Round == "" || !w.twice(s) {
		w.Steps = capped(append(w.Steps, s), maxSteps)
	}
	news := false
	if !d.Edits && !d.Tests && d.Error == "" {
		news = w.Facts.Add(hash(key(d.Tool, Blur(d.Observation, false))))
	}
	if d.Acts && !news {
		w.Idle++
	}
	switch {
	case news && !w.Edited:
		// Looking around, or at something that changes, is getting somewhere as
		// long as that is all that is done.
		w.gain()
	case news:
		w.Errors, w.Changes = map[string]int64{}, 0
	case d.Error != "":
		w.Errors[d.Error]++
	}
	w.Edited = w.Edited || d.Edits
}

// twice reports whether the same stands there from the same round: a model that
// asks for one thing many times in one response has not seen the answer yet.
func (w *Watch) twice(s Step) bool {
	for i := len(w.Steps) - 1; i >= 0 && w.Steps[i].Round == s.Round; i-- {
		if w.Steps[i].same(s) {
			return true
		}
	}
	return false
}

// Refused notes an operation that never started.
func (w *Watch) Refused(signature string, acts bool) {
	w.Errors[signature]++
	if acts {
		w.Idle++
	}
}

// Moved notes the present tree and the paths in which it differs from the one
// before. Own says that an operation of the goal did it.
func (w *Watch) Moved(tree string, paths []string, own bool) {
	h := hash(tree)
	if n := len(w.Steps); own && n > 0 {
		w.Steps[n-1].Tree = h
	}
	w.Errors = map[string]int64{}
	if w.Trees.Add(h) {
		w.Idle = 0
	}
	news := false
	for _, p := range paths {
		news = w.Ground.Add(hash(p)) || news
	}
	if news {
		w.gain()
		return
	}
	w.Edited = w.Edited || own
}

// Tested notes a test's result. What failed in a way not seen yet, and what
// passes on a tree not tested yet, is a gain.
func (w *Watch) Tested(command, result, tree string, passed bool) {
	k := hash(key(command, result))
	if passed {
		k = hash(key(command, "passed on "+tree))
	}
	if w.Evidence.Add(k) {
		w.gain()
	}
}

// Planned notes that the plan or the todos were recorded: whether they differ
// from before, and which todos are done. A todo is done once: to take it back
// and do it again is nothing gained.
func (w *Watch) Planned(moved bool, done ...string) {
	news := false
	for _, id := range done {
		news = w.Evidence.Add(hash(key("todo", id))) || news
	}
	switch {
	case news:
		w.gain()
	case moved:
		w.Still = 0
		w.Changes++
	}
}

// Replied notes what a response used. What the one before asked for has ended
// and was observed.
func (w *Watch) Replied(tokens int64) {
	w.calm()
	w.Replies++
	w.Still++
	w.Tokens += tokens
	w.Spent += tokens
}

// gain notes that something was got for what was spent.
func (w *Watch) gain() {
	w.Gains++
	w.Replies, w.Tokens, w.Still, w.Changes, w.Edited = 0, 0, 0, 0, false
	w.Errors = map[string]int64{}
}

// Alarm is a signal past its threshold.
type Alarm struct {
	Signal Signal
	Count  int64
	// Stop says that the goal stops here; else the model is warned.
	Stop   bool
	Detail string
}

// Look returns the first signal that calls for something, or nil. A signal
// stops a goal only after the model was warned of it.
func (w Watch) Look(patience int64) *Alarm {
	for _, s := range Signals() {
		n, detail := w.Count(s)
		t := ThresholdOf(s, patience)
		warned := slices.Contains(w.Warned, s)
		switch {
		case n >= t.Stop && warned:
			return &Alarm{Signal: s, Count: n, Stop: true, Detail: detail}
		case n >= t.Warn && !warned:
			return &Alarm{Signal: s, Count: n, Detail: detail}
		}
	}
	return nil
}

// calm forgets a warning whose cause is gone, so that the next time is a first
// time again.
func (w *Watch) calm() {
	if len(w.Warned) == 0 {
		return
	}
	w.Warned = slices.DeleteFunc(slices.Clone(w.Warned), func(s Signal) bool {
		n, _ := w.Count(s)
		return n < thresholds[s].Warn
	})
	if len(w.Warned) == 0 {
		w.Warned = nil
	}
}

// Warn notes that the model was told of a signal.
func (w *Watch) Warn(s Signal) {
	if _, known := thresholds[s]; known && !slices.Contains(w.Warned, s) {
		w.Warned = append(w.Warned, s)
	}
}

// Count is how far a signal has come, in its own unit, and in words.
func (w Watch) Count(s Signal) (n int64, detail string) {
	switch s {
	case SameAction:
		return w.sameAction()
	case RepeatedError:
		for _, c := range w.Errors {
			n = max(n, c)
		}
		return n, fmt.Sprintf("the same error came %d times and nothing was learned in between", n)
	case SameObservation:
		return w.sameObservation()
	case TreeUnchanged:
		return w.Idle, fmt.Sprintf("%d operations that should change something led to nothing that was not there before", w.Idle)
	case PlanStalled:
		if n = w.Changes * Churn; n > w.Still {
			return n, fmt.Sprintf("the plan was changed %d times and nothing else came of it", w.Changes)
		}
		return w.Still, fmt.Sprintf("no part of the plan has moved for %d responses", w.Still)
	case CostRising:
		return w.costRising()
	}
	return 0, ""
}

// sameAction counts the repeats of the last step, or of the shortest cycle that
// the last steps are.
func (w Watch) sameAction() (int64, string) {
	best, period := int64(1), 1
	for p := 1; p <= MaxPeriod; p++ {
		matched := 0
		for i := len(w.Steps) - 1; i-p >= 0 && w.Steps[i].same(w.Steps[i-p]); i-- {
			matched++
		}
		if n := int64(matched/p + 1); n > best {
			best, period = n, p
		}
	}
	if len(w.Steps) == 0 {
		return 0, ""
	}
	tool := w.Steps[len(w.Steps)-1].Tool
	if period == 1 {
		return best, fmt.Sprintf("%s was called %d times with nearly the same arguments and the same answer", tool, best)
	}
	return best, fmt.Sprintf("the same %d steps, ending with %s, were gone through %d times with the same answers", period, tool, best)
}

// sameObservation counts how many steps in a row saw the same, at most one a
// round: calls that went out together are one look.
func (w Watch) sameObservation() (int64, string) {
	n, last := int64(0), uint64(0)
	for i := len(w.Steps) - 1; i >= 0; i-- {
		s, end := w.Steps[i], w.Steps[len(w.Steps)-1]
		if s.Sight != end.Sight || s.Tree != end.Tree {
			break
		}
		if n == 0 || s.Round != last {
			n, last = n+1, s.Round
		}
	}
	return n, fmt.Sprintf("%d steps in a row showed the same", n)
}

// costRising counts responses without a gain, when they are dearer than gains
// were so far.
func (w Watch) costRising() (int64, string) {
	if w.Gains >= MinGains && w.Tokens < CostFactor*((w.Spent-w.Tokens)/w.Gains) {
		return 0, ""
	}
	return w.Replies, fmt.Sprintf("%d responses and %d tokens brought no new evidence", w.Replies, w.Tokens)
}

// Seen remembers the latest keys, oldest first.
type Seen []uint64

// Add notes a key and reports whether it is new.
func (s *Seen) Add(k uint64) bool {
	if i := slices.Index(*s, k); i >= 0 {
		*s = append(append((*s)[:i:i], (*s)[i+1:]...), k)
		return false
	}
	*s = capped(append(*s, k), maxSeen)
	return true
}

func capped[T any](s []T, n int) []T {
	if len(s) > n {
		return append([]T(nil), s[len(s)-n:]...)
	}
	return s
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it never fails
	return h.Sum64()
}
