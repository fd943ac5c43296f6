package core

import (
	"slices"
	"strings"

	"belay/internal/event"
)

// A rollback takes back what the goal's operations did, and nothing of what
// others did: a person, an editor, a formatter outside of a run. Which paths are
// others' follows from the ledger: each step of the workspace says who took it.

// external is who took a step of the workspace that was no operation's.
const external = "external"

// Passage is one step of the workspace, or with Staged of what is staged in the
// user's repository, from one content to the next.
type Passage struct {
	From, To string
	Staged   bool
	// Changes are the paths, where Listed says that the ledger has all of them:
	// then nobody need look at the contents, which may be gone by now.
	Changes []event.Change
	Listed  bool
}

// Standing is the content of a workspace at one instant.
type Standing struct{ Tree, Index string }

// OthersPassages are the steps among events that others than the goal's
// operations took.
func OthersPassages(es []event.Event) []Passage {
	var list []Passage
	for _, e := range es {
		switch p := e.Payload.(type) {
		case event.RepoStateMutated:
			if p.By == external {
				list = append(list, Passage{From: p.From, To: p.Revision.Tree, Changes: p.Changes, Listed: p.More == 0})
			}
		case event.IndexChanged:
			if p.By == external && p.From != "" {
				list = append(list, Passage{From: p.From, To: p.Index, Staged: true})
			}
		}
	}
	return list
}

// Unrecorded is the step from what is on record to what is there now: whoever
// took it, it was no operation of the goal.
func Unrecorded(last, now Standing) []Passage {
	var list []Passage
	if last.Tree != now.Tree {
		list = append(list, Passage{From: last.Tree, To: now.Tree})
	}
	if last.Index != now.Index && last.Index != "" && now.Index != "" {
		list = append(list, Passage{From: last.Index, To: now.Index, Staged: true})
	}
	return list
}

// LeftAlone are the paths, of those that a rollback would change, that it
// leaves as they are: what is others', and what cannot be made without
// touching that, because a file of others stands where a folder would have to
// be, or one of its folders is to be a file. The changes lead from now to then
// and are sorted, and so is the answer.
func LeftAlone(changes []event.Change, others map[string]bool) []string {
	stays := map[string]bool{}   // files of others that are there
	folders := map[string]bool{} // and the folders that they need
	for _, c := range changes {
		if !others[c.Path] || c.Status == "added" {
			continue // one that they removed takes no place
		}
		stays[c.Path] = true
		for p := above(c.Path); p != ""; p = above(p) {
			folders[p] = true
		}
	}
	var left []string
	for _, c := range changes {
		if others[c.Path] || c.Status == "added" && (folders[c.Path] || below(c.Path, stays)) {
			left = append(left, c.Path)
		}
	}
	slices.Sort(left)
	return left
}

// below reports whether one of the folders of a path is among files.
func below(path string, files map[string]bool) bool {
	for p := above(path); p != ""; p = above(p) {
		if files[p] {
			return true
		}
	}
	return false
}

// above is the folder of a path, "" at the top.
func above(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }
