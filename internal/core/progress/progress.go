// Package progress notices when a goal goes round in circles. Each signal is a
// pure function over counts with a documented default threshold.
//
// Counter is about one action that fails: it is forbidden, then the goal is
// handed off. Watch is about the way as a whole: six signals, each of which
// warns the model before it stops the goal. Honest repetition (polling what
// changes, testing after each edit, one edit over many files) is no circle:
// what brings news, new ground or new evidence begins the count anew.
//
// It must not know tools or models: an action is an opaque key, an error a
// signature, the repository a tree hash.
package progress

// Default thresholds.
const (
	// SameError is how often one action may end with one error signature on
	// one tree before it is forbidden; the next time hands the goal off.
	SameError = 3
	// RefusedClaims is how many claims in a row may be refused with no
	// operation between them.
	RefusedClaims = 3
)

// Counter counts equal failures. An edit of the repository starts it afresh:
// running a failing test again after a change is work, not a circle.
type Counter struct {
	Tree   string           `json:"tree,omitempty"`
	Counts map[string]int64 `json:"counts,omitempty"` // action + signature → times
	// Forbidden are the actions refused while the tree stays as it is.
	Forbidden map[string]string `json:"forbidden,omitempty"` // action → signature
	// Rounds say in which round an action was last counted.
	Rounds map[string]string `json:"rounds,omitempty"` // action + signature → round
}

// Clone copies the counter so that the copy can be changed.
func (c Counter) Clone() Counter {
	counts := make(map[string]int64, len(c.Counts))
	for k, v := range c.Counts {
		counts[k] = v
	}
	forbidden := make(map[string]string, len(c.Forbidden))
	for k, v := range c.Forbidden {
		forbidden[k] = v
	}
	rounds := make(map[string]string, len(c.Rounds))
	for k, v := range c.Rounds {
		rounds[k] = v
	}
	c.Counts, c.Forbidden, c.Rounds = counts, forbidden, rounds
	return c
}

// Moved tells the counter the present tree.
func (c *Counter) Moved(tree string) {
	if tree == c.Tree {
		return
	}
	c.Tree = tree
	c.Afresh()
}

// Afresh forgets what failed so far: a reason for it is gone.
func (c *Counter) Afresh() {
	c.Counts, c.Forbidden, c.Rounds = map[string]int64{}, map[string]string{}, map[string]string{}
}

// Note counts one failure of an action and returns how often it has now failed
// in this way on this tree. Failures of one round count once: a model that asks
// for the same thing many times in one response has not yet seen it fail.
func (c *Counter) Note(action, signature, round string) int64 {
	k := key(action, signature)
	if round == "" || c.Rounds[k] != round {
		c.Counts[k]++
		c.Rounds[k] = round
	}
	return c.Counts[k]
}

// Count returns what Note would have returned last.
func (c Counter) Count(action, signature string) int64 { return c.Counts[key(action, signature)] }

// Forbid refuses an action until the tree changes.
func (c *Counter) Forbid(action, signature string) { c.Forbidden[action] = signature }

// Verdict is what a count calls for.
type Verdict string

// The verdicts.
const (
	Fine    Verdict = ""
	Forbid  Verdict = "forbid"
	HandOff Verdict = "hand_off"
)

// Judge compares a count with the threshold (0 means the default).
func Judge(count, threshold int64) Verdict {
	if threshold <= 0 {
		threshold = SameError
	}
	switch {
	case count > threshold:
		return HandOff
	case count == threshold:
		return Forbid
	}
	return Fine
}

// key keeps the two words apart whatever they are.
func key(action, signature string) string { return action + "\n" + signature }
