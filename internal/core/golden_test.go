package core_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// readGolden reads the goals of a golden ledger (internal/event/testdata).
func readGolden(t *testing.T, name string) map[string][]event.Event {
	t.Helper()
	f, err := os.Open("../event/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	goals := map[string][]event.Event{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l struct {
			Record    event.Record
			Hash      string
			Artifacts []struct{ Content []byte }
		}
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		fetch := func(r event.Ref) ([]byte, error) {
			for _, a := range l.Artifacts {
				if event.RefOf(a.Content, "").SHA256 == r.SHA256 {
					return a.Content, nil
				}
			}
			return nil, fmt.Errorf("no artifact %s", r.SHA256)
		}
		e := event.Decode(l.Record, l.Hash, fetch)
		goals[e.Goal] = append(goals[e.Goal], e)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return goals
}

// The ledger of goals that travel is folded into where they are, and into what
// another place can restore them from.
func TestTheLedgerOfTravellingGoalsFoldsToWhatItSaid(t *testing.T) {
	t.Parallel()
	es := readGolden(t, "golden-travel.jsonl")["goal-4"]
	s := core.Fold(core.State{}, es)
	if s.Refuse != "" || s.Head != uint64(len(es)) || s.Status != lifecycle.Active {
		t.Fatalf("%s, head %d of %d, refused: %s", s.Status, s.Head, len(es), s.Refuse)
	}
	for what, ok := range map[string]bool{
		"at the first place again":   s.Place == "host-a",
		"the second worker was last": s.Holder.Place == "host-b" && s.Turn == nil,
		"the first tree, packed":     s.Packs.First != nil && s.Packs.First.Tree == "tree0" && s.Packs.First.Pack.SHA256 != "",
		"two packs in a row":         len(s.Packs.Chain) == 2 && s.Packs.Chain[1].Tree == "tree1" && s.Packs.Chain[1].Base == "tree0",
		"a tree that was not packed": s.Packs.Missed == "tree2" && s.Packs.Why == "the disk is full",
		"to be looked at once more":  !s.Fresh,
		"two turns":                  s.Turns == 2,
	} {
		if !ok {
			t.Errorf("it does not say: %s (%+v)", what, s.Packs)
		}
	}
}

// The ledger of a goal that was told of earlier ones is folded into what holds
// of it, and what was taken back.
func TestTheLedgerOfMemoryFoldsToWhatItSaid(t *testing.T) {
	t.Parallel()
	es := readGolden(t, "golden-memory.jsonl")["goal-memory"]
	s := core.Fold(core.State{}, es)
	if s.Refuse != "" || s.Head != uint64(len(es)) || s.Status != lifecycle.Active {
		t.Fatalf("%s, head %d of %d, refused: %s", s.Status, s.Head, len(es), s.Refuse)
	}
	holds := func(seq uint64) (ids string) {
		for _, it := range s.Memory.Holding(seq) {
			ids += it.ID + " "
		}
		return ids
	}
	for what, ok := range map[string]bool{
		"the second decision":       len(s.Decisions) == 1 && s.Decisions[0].ID == event.DecisionID("goal-memory", 6),
		"three things at first":     holds(4) == "d1 c1 c2 ",
		"one taken back":            holds(8) == "c1 c2 ",
		"one forgotten":             holds(9) == "c2 ",
		"all of them in the end":    holds(11) == "",
		"more than were told of it": s.Memory.More == 3,
	} {
		if !ok {
			t.Errorf("it does not say: %s (%+v)", what, s.Memory)
		}
	}
}

// The ledger of a goal with a child is folded into who started whom, and what
// it cost.
func TestTheLedgerOfChildrenFoldsToWhatItSaid(t *testing.T) {
	t.Parallel()
	goals := readGolden(t, "golden-children.jsonl")
	parent, child := core.Fold(core.State{}, goals["goal-6"]), core.Fold(core.State{}, goals["goal-7"])
	if parent.Refuse != "" || child.Refuse != "" || len(parent.Children) != 1 {
		t.Fatalf("refused: %q, %q; children: %+v", parent.Refuse, child.Refuse, parent.Children)
	}
	c := parent.Children[0]
	for what, ok := range map[string]bool{
		"how the child ended":         c.Goal == "goal-7" && c.Op == "op1" && c.Status == "failed" && !c.Open(),
		"what it used, no more held":  parent.Budget.Used.Steps == 3 && parent.Budget.Used.Tokens == 300 && len(parent.Budget.Reserved) == 0,
		"that the parent goes on":     parent.Status == lifecycle.Active && parent.Wait == nil && len(parent.Open) == 0,
		"whose child it is":           child.Parent == "goal-6" && child.ParentOp == "op1" && child.Depth == 1 && child.Share.Steps == 90,
		"that it was cancelled, told": child.Status == lifecycle.Cancelled && child.Ordered == 12 && child.ParentTold,
		"that nothing is left to do":  !child.Runnable(child.Updated),
	} {
		if !ok {
			t.Errorf("it does not say: %s (%+v)", what, c)
		}
	}
}

// The ledger that the first version wrote is folded by this one into what it
// said then.
func TestTheLedgerOfVersion1FoldsToWhatItSaid(t *testing.T) {
	t.Parallel()
	goals := readGolden(t, "golden-v1.jsonl")
	for goal, want := range map[string]lifecycle.Status{"goal-1": lifecycle.Completed, "goal-2": lifecycle.Cancelled, "goal-3": lifecycle.Failed} {
		s := core.Fold(core.State{}, goals[goal])
		if s.Refuse != "" || s.Status != want {
			t.Errorf("%s is %s, want %s; refused: %s", goal, s.Status, want, s.Refuse)
		}
		if s.Head != uint64(len(goals[goal])) {
			t.Errorf("%s: head %d of %d", goal, s.Head, len(goals[goal]))
		}
	}
	s := core.Fold(core.State{}, goals["goal-1"])
	for what, ok := range map[string]bool{
		"attested":                    s.How == event.Attested,
		"version 2":                   s.Version == 2,
		"no turn, request, operation": s.Turn == nil && s.Request == nil && len(s.Open) == 0 && len(s.InDoubt) == 0,
		"four operations":             s.Ops == 4,
		"revision 1":                  s.Revision == event.Revision{N: 1, Tree: "tree1"},
		"the gate is open":            s.Mode == event.ModeDefault,
		"a denial that sticks":        len(s.Approvals.Denied) == 1,
		"a plan, a todo, a decision":  s.Plan != nil && len(s.Todos) == 1 && len(s.Decisions) == 1,
		"the message was taken in":    len(s.Inbox) == 0 && len(s.Said) == 1,
		"the larger budget":           s.Budget.Limits.Tokens == 10_000_000,
		"one turn charged":            s.Budget.Used.Turns == 8, // 1, and 7 of the filled charge of r1
		"the whole spilled diff":      len(s.Diff.Diff.Head) == 14_400,
	} {
		if !ok {
			t.Errorf("goal-1 does not say: %s", what)
		}
	}
	if v := core.View(s, core.Timeline(goals["goal-1"])); v.Status != lifecycle.Completed || len(v.Timeline) < 30 {
		t.Errorf("the snapshot shows %s with %d entries", v.Status, len(v.Timeline))
	}
}

func TestTheGoldenLedgerOfWorktreesFolds(t *testing.T) {
	t.Parallel()
	es := readGolden(t, "golden-worktree.jsonl")["goal-worktree"]
	s := core.Fold(core.State{}, es)
	if s.Refuse != "" {
		t.Fatal(s.Refuse)
	}
	if s.Left != nil || s.Copy || s.Moved != nil || s.ForkedFrom == nil || !s.Removed || s.Applied != "tree0" {
		t.Errorf("left %v, copy %v, moved %v, forked %v, removed %v, applied %q", s.Left, s.Copy, s.Moved, s.ForkedFrom, s.Removed, s.Applied)
	}
}
