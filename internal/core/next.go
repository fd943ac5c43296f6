package core

import (
	"fmt"
	"strings"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/core/plan"
	"belay/internal/event"
)

// Who has to see to the next step of a goal.
const (
	NextUser     = "user"
	NextModel    = "model"
	NextBelay    = "belay"
	NextProvider = "provider"
	NextNobody   = "nobody"
)

// NextStep answers "what next?" from the state alone.
type NextStep struct {
	// Who has to act: user, model, belay, provider, or nobody.
	Who string `json:"who"`
	// What they have to do, in one line.
	What string `json:"what"`
	// How are the commands with which a person does it.
	How []string `json:"how,omitempty"`
	// Blocked is what stands in the way.
	Blocked []string `json:"blocked_by,omitempty"`
	// Todo is the todo to work on.
	Todo *event.Todo `json:"todo,omitempty"`
	// Missing are the criteria that do not hold on the repository as it is now.
	Missing []string `json:"missing_criteria,omitempty"`
}

// Next says what happens next with a goal: who has to act, what blocks, the
// next todo and the criteria that are missing. It is a function of the
// snapshot: nobody is asked, and no model's words are believed.
func Next(v Snapshot) NextStep {
	n := NextStep{}
	if v.Status.Final() {
		return nextOfEnded(v, n)
	}
	for _, c := range v.Criteria {
		if c.Result != event.Pass {
			n.Missing = append(n.Missing, c.ID)
		}
	}
	if t, ok := plan.Current(v.Todos); ok {
		n.Todo = &t
	}
	n.Blocked = blockedBy(v)
	switch {
	case v.Refuse != "":
		return n.by(NextUser, "use a belay that knows this goal's events, or look for damage: "+firstLine(v.Refuse), "belay audit "+v.Goal)
	case v.Status == lifecycle.Paused:
		return nextOfPaused(v, n)
	case v.WaitReason != "":
		return nextOfWaiting(v, n)
	case len(v.PendingApprovals) > 0:
		return nextApproval(v, n)
	case v.Status == lifecycle.Verifying:
		return n.by(NextBelay, "check the claim of completion")
	case v.Turn == "":
		return n.by(NextBelay, "take the goal up: no worker has it", "belay resume "+v.Goal)
	}
	if o, ok := running(v); ok {
		return n.by(NextBelay, "finish "+o)
	}
	if len(v.OpenOperations) > 0 {
		return n.by(NextBelay, "look at "+operationLine(v.OpenOperations[0])+", and start it if it may be")
	}
	return n.by(NextModel, nextOfModel(v, n))
}

func (n NextStep) by(who, what string, how ...string) NextStep {
	n.Who, n.What, n.How = who, what, how
	return n
}

// blockedBy lists what has to be settled before a claim can be accepted.
func blockedBy(v Snapshot) []string {
	var out []string
	for _, o := range v.InDoubt {
		out = append(out, fmt.Sprintf("%s %s: outcome unknown", o.Op, o.Tool))
	}
	for _, p := range v.PendingApprovals {
		out = append(out, fmt.Sprintf("%s %s: waits for approval", p.Op, p.Tool))
	}
	for _, t := range v.Todos {
		if open := plan.OpenBefore(v.Todos, t); t.Status == event.TodoPending && len(open) > 0 {
			out = append(out, fmt.Sprintf("todo %s: waits for %s", t.ID, strings.Join(open, ", ")))
		}
	}
	return out
}

func nextOfEnded(v Snapshot, n NextStep) NextStep {
	if len(v.InDoubt) > 0 {
		o := v.InDoubt[0]
		n.Blocked = blockedBy(v)
		return n.by(NextUser, fmt.Sprintf("settle %s %s: it started, and how it ended is not known", o.Op, o.Tool), "belay reconcile "+v.Goal+" "+o.Op+" --look")
	}
	if o, ok := running(v); ok {
		return n.by(NextBelay, "stop "+o)
	}
	what := "nothing: the goal is " + string(v.Status)
	if v.How != "" {
		what += " (" + string(v.How) + ")"
	}
	return n.by(NextNobody, what)
}

func nextOfPaused(v Snapshot, n NextStep) NextStep {
	resume := "belay resume " + v.Goal
	switch v.PauseReason {
	case event.PausedBudget:
		return n.by(NextUser, "extend the budget: "+orElse(v.PauseDetail, "it is exhausted"), resume+" --max-…")
	case event.PausedNoProg, event.PausedByHandoff:
		why := v.PauseDetail
		if v.HandOff != nil {
			why = v.HandOff.Why
		}
		return n.by(NextUser, "read the hand-off and say what to do: "+firstLine(why), `belay say `+v.Goal+` "…"`, resume)
	}
	return n.by(NextUser, "resume the goal when it may go on", resume)
}

func nextOfWaiting(v Snapshot, n NextStep) NextStep {
	switch v.WaitReason {
	case event.WaitApproval:
		return nextApproval(v, n)
	case event.WaitUserInput:
		if v.ClaimWaits() {
			return n.by(NextUser, "judge the claim of completion: "+firstLine(orElse(v.WaitDetail, "only a person can")), "belay approve "+v.Goal, "belay deny "+v.Goal)
		}
		return n.by(NextUser, "answer the model's question: "+firstLine(v.WaitDetail), `belay say `+v.Goal+` "…"`)
	case event.WaitRetry:
		until := ""
		if !v.WaitUntil.IsZero() {
			until = " at " + v.WaitUntil.String()
		}
		return n.by(NextProvider, "be there again; belay tries"+until+": "+firstLine(v.WaitDetail))
	}
	return n.by(NextBelay, "go on when the "+strings.ReplaceAll(string(v.WaitReason), "_", " ")+" is there")
}

func nextApproval(v Snapshot, n NextStep) NextStep {
	if len(v.PendingApprovals) == 0 {
		return n.by(NextUser, "answer what is asked", "belay approve "+v.Goal, "belay deny "+v.Goal)
	}
	p := v.PendingApprovals[0]
	what := fmt.Sprintf("approve or deny %s %s", p.Op, operationWords(operation.Op{Tool: p.Tool, Access: p.Access}))
	if more := len(v.PendingApprovals) - 1; more > 0 {
		what += fmt.Sprintf(", and %d more", more)
	}
	return n.by(NextUser, what, "belay approve "+v.Goal+" "+p.Op, "belay deny "+v.Goal+" "+p.Op)
}

// running names an operation that has started and has not ended.
func running(v Snapshot) (string, bool) {
	for _, o := range v.OpenOperations {
		if o.Phase == operation.Started {
			return operationLine(o), true
		}
	}
	return "", false
}

func operationLine(o OpenOperation) string {
	return strings.TrimSpace(o.Op + " " + o.Tool + " " + firstLine(clip(o.Command, 120)))
}

func nextOfModel(v Snapshot, n NextStep) string {
	switch {
	case v.PermissionMode == event.ModePlan:
		return "look, and record a plan: the repository is read-only until it is approved"
	case len(v.InDoubt) > 0:
		return fmt.Sprintf("find out how %s %s ended", v.InDoubt[0].Op, v.InDoubt[0].Tool)
	case n.Todo != nil && n.Todo.Status == event.TodoInProgress:
		return "go on with todo " + n.Todo.ID + ": " + firstLine(n.Todo.Content)
	case n.Todo != nil:
		return "begin todo " + n.Todo.ID + ": " + firstLine(n.Todo.Content)
	case len(n.Missing) > 0:
		return "make the missing criteria hold: " + strings.Join(n.Missing, ", ")
	case len(v.Criteria) == 0:
		return "work on the goal; nothing but your word can accept it"
	}
	return "claim completion: every criterion holds"
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
