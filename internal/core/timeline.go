package core

import (
	"encoding/json"
	"fmt"
	"strings"

	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/moment"
)

// Entry is one line of the timeline: an event under the name that people read,
// with the event that caused it.
type Entry struct {
	Seq    uint64      `json:"seq"`
	Time   moment.Time `json:"time"`
	Name   string      `json:"event_type"`
	Detail string      `json:"detail,omitempty"`
	Op     string      `json:"op_id,omitempty"`
	Turn   string      `json:"turn_id,omitempty"`
	Cause  string      `json:"cause,omitempty"`
	Actor  event.Actor `json:"actor,omitempty"`
	ID     string      `json:"id"`
}

// Timeline projects events into entries. Events that only serve the runtime
// (reservations, observations) have none.
func Timeline(es []event.Event) []Entry {
	var out []Entry
	for _, e := range es {
		if t, ok := TimelineEntry(e); ok {
			out = append(out, t)
		}
	}
	return out
}

// TimelineEntry projects one event; ok is false when it has no entry.
func TimelineEntry(e event.Event) (Entry, bool) {
	name, detail := describe(e)
	if name == "" {
		return Entry{}, false
	}
	return Entry{Seq: e.Seq, Time: e.Time, Name: name, Detail: clip(firstLine(detail), 240), Op: e.Op, Turn: e.Turn,
		Cause: e.Cause, Actor: e.Actor, ID: e.ID}, true
}

// describe gives an event its name under the seeds' words where those exist,
// else its own type.
func describe(e event.Event) (name, detail string) {
	switch p := e.Payload.(type) {
	case event.GoalReceived:
		return "task_received", p.Spec.Text
	case event.GoalRevised:
		return "goal_revised", fmt.Sprintf("version %d: %s", p.Version, p.Spec.Text)
	case event.GoalPaused:
		return "goal_paused: " + string(p.Reason), p.Detail
	case event.GoalCancelled:
		return "goal_cancelled", p.Reason
	case event.GoalFailed:
		return "goal_failed", p.Fault.Message
	case event.GoalCompleted:
		return "goal_completed: " + string(p.How), fmt.Sprintf("%d criteria on tree %s", len(p.Verdict.Criteria), short(p.Verdict.Tree))
	case event.GoalWaiting:
		return "goal_waiting: " + string(p.Reason), p.Detail
	case event.GoalWoken:
		return "goal_woken: " + string(p.Reason), ""
	case event.GoalHandedOff:
		return "goal_handed_off", p.Why
	case event.TurnStarted:
		if p.Takeover {
			return "turn_started", "taken over from a worker that is gone"
		}
		return "turn_started", ""
	case event.TurnEnded:
		return "agent_loop_stopped: " + string(p.Reason), p.Detail
	case event.UserMessage:
		return "user_message: " + string(p.Mode), p.Text
	case event.ModelRequested, event.WorkspaceObserved, event.VerificationStarted:
		return "", ""
	case event.ModelResponded:
		return "model_responded", fmt.Sprintf("%d calls, %d tokens in, %d out", calls(p.Parts), p.Usage.Input, p.Usage.Output)
	case event.ModelFailed:
		return "model_failed: " + string(p.Fault.Kind), p.Fault.Message
	case event.PlanUpdated:
		return string(e.Type), strings.TrimSpace(p.Plan.Summary + fmt.Sprintf(" (%d steps)", len(p.Plan.Steps)))
	case event.PlanModeExited:
		return string(e.Type), "approved by " + string(p.By)
	case event.CriteriaConfirmed:
		var ids []string
		for _, c := range p.Criteria {
			ids = append(ids, CriterionText(c))
		}
		return string(e.Type), "by " + string(p.By) + ": " + strings.Join(ids, "; ")
	case event.TodosUpdated:
		return string(e.Type), todoLine(p.Todos)
	case event.DecisionRecorded, event.DecisionRevoked, event.MemoryRecalled, event.MemoryForgotten, event.InstructionsFound:
		return string(e.Type), rememberedWords(p)
	case event.CompletionClaimed:
		return string(e.Type), p.Summary
	case event.VerificationFinished:
		if p.Refused != "" {
			return "verification_finished: refused", p.Refused
		}
		return "verification_finished: " + p.Verdict.Verdict, strings.Join(p.Verdict.Missing, "; ")
	case event.CriterionAnswered:
		return string(e.Type), fmt.Sprintf("%s accepted=%t", p.Criterion, p.Accepted)
	case event.ProgressAlarm:
		return "progress_alarm: " + p.Signal, p.Detail
	case event.ActionForbidden:
		return "action_forbidden: " + p.Tool, fmt.Sprintf("failed %d times in the same way", p.Count)
	case event.ContextCompacted:
		return string(e.Type), p.Reason
	case event.BudgetExtended:
		return string(e.Type), ""
	case event.ModelChanged:
		return string(e.Type), p.From + " to " + p.Model
	case event.PolicyChanged:
		return string(e.Type), policyWords(p)
	}
	return describeWork(e)
}

func describeFamily(e event.Event) (name, detail string) {
	switch p := e.Payload.(type) {
	case event.ChildReserved:
		return string(e.Type), p.Child + ": " + p.Spec.Text
	case event.ChildStarted:
		return string(e.Type), p.Child
	case event.ChildOrdered:
		return string(e.Type) + ": " + string(p.Order), p.Child
	case event.ChildEnded:
		return string(e.Type) + ": " + p.Status, p.Child + ": " + changeLine(p.Changes, p.More)
	case event.ParentOrdered:
		return string(e.Type) + ": " + string(p.Order), ""
	case event.ParentTold:
		return "", ""
	}
	return describeJourney(e)
}

func describeWork(e event.Event) (name, detail string) {
	switch p := e.Payload.(type) {
	case event.OperationProposed:
		if p.Setup > 0 {
			return "worktree_setup", "belay runs `" + p.Access.Command + "`"
		}
		if p.Criterion == "" {
			return "", ""
		}
		return "criterion_checked: " + p.Criterion, checkLine(p)
	case event.OperationRejected:
		return "operation_rejected: " + string(p.Fault.Kind), p.Fault.Message
	case event.ApprovalRequested:
		return "approval_requested: " + p.Tool, strings.Join(p.Why, "; ")
	case event.ApprovalGranted:
		return "approval_granted: " + p.Tool, "by " + string(p.By)
	case event.ApprovalDenied:
		return "approval_denied: " + p.Tool, strings.TrimSpace("by " + string(p.By) + " " + p.Reason)
	case event.OperationStarted:
		if p.Attempt > 1 {
			return "operation_started: again", fmt.Sprintf("attempt %d", p.Attempt)
		}
		if p.Intent.Network != "" {
			return "operation_started", "network: " + p.Intent.Network
		}
		return "", ""
	case event.OperationFinished:
		return finishedName(p), finishedDetail(p)
	case event.OperationReconciled:
		if p.Retry {
			return "operation_reconciled: retry", p.Reason
		}
		return "operation_reconciled: " + string(p.Outcome), p.Reason
	}
	return describeWorkspace(e)
}

func describeWorkspace(e event.Event) (name, detail string) {
	switch p := e.Payload.(type) {
	case event.WorkspaceAttached:
		return string(e.Type), attachedLine(p)
	case event.EnvironmentCaptured:
		if p.Depth == event.DepthDeep {
			return string(e.Type) + ": " + p.Depth, "" // how far the index was at that moment is no part of the goal's way
		}
		return string(e.Type) + ": " + p.Depth, factLine(p.Facts)
	case event.RepoStateMutated:
		return string(e.Type), fmt.Sprintf("revision %d by %s: %s", p.Revision.N, p.By, changeLine(p.Changes, p.More))
	case event.DiffUpdated:
		return string(e.Type), changeLine(p.Changes, p.More)
	case event.CheckpointCreated:
		return string(e.Type), p.Checkpoint + " " + p.Why
	case event.IndexChanged:
		return string(e.Type), "what is staged was changed by " + p.By
	case event.WorkspaceRestored:
		return string(e.Type), p.Checkpoint
	case event.WorkspacePacked:
		if p.Failed != "" {
			return "workspace_not_packed", p.Failed
		}
		return "", ""
	case event.WorkspaceMoved:
		return string(e.Type), movedLine(p)
	case event.TestCompleted:
		return testName(p), fmt.Sprintf("%s: %d passed, %d failed, %d skipped", p.Command, p.Counts.Passed, p.Counts.Failed, p.Counts.Skipped)
	case event.Damaged:
		return "damaged: " + string(e.Type), p.Reason
	}
	return describeFamily(e)
}

// attachedLine says what the goal found, what belay takes for its tests, and
// whether anything confines its commands.
func attachedLine(p event.WorkspaceAttached) string {
	line := fmt.Sprintf("%s, tree %s, %d dirty paths", p.Root, short(p.Tree), len(p.Dirty))
	if len(p.TestCommands) > 0 {
		line += "; tests found: " + p.TestCommands[0]
	}
	backend, words, _ := strings.Cut(p.Sandbox, ": ")
	words, _, _ = strings.Cut(words, ",")
	return line + "; sandbox " + backend + ": " + words
}

func movedLine(p event.WorkspaceMoved) string {
	if p.Adopted {
		return p.Root + " at " + p.Place + ", as it is, by the user's word"
	}
	return fmt.Sprintf("%s at %s, tree %s, %d paths written", p.Root, p.Place, short(p.Tree), p.Written)
}

func testName(p event.TestCompleted) string {
	word := "local_test_completed"
	if !p.Test {
		word = "command_checked"
	}
	if p.TimedOut {
		return word + ": timed_out"
	}
	return fmt.Sprintf("%s: exit_code=%d", word, p.ExitCode)
}

func finishedName(p event.OperationFinished) string {
	switch p.Outcome {
	case event.Succeeded:
		return "tool_executed: " + p.Tool
	default:
		return "tool_" + string(p.Outcome) + ": " + p.Tool
	}
}

func finishedDetail(p event.OperationFinished) string {
	detail := ""
	if p.Result.Fault != nil {
		detail = p.Result.Fault.Message
	} else if p.Result.Command != nil {
		detail = fmt.Sprintf("exit code %d in %d ms", p.Result.Command.ExitCode, p.Result.Command.DurationMS)
	} else if p.Result.Check != nil {
		detail = p.Result.Output.Head
	}
	if t := p.Result.Test; t != nil && p.Tool == ToolCheckRun {
		detail += fmt.Sprintf(": %d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped)
	}
	if p.Recovered != "" {
		detail += " (recovered: " + p.Recovered + ")"
	}
	if p.Late {
		detail += " (late: recorded, advances nothing)"
	}
	return detail
}

func todoLine(ts []event.Todo) string {
	var parts []string
	for _, t := range ts {
		mark := map[event.TodoStatus]string{event.TodoCompleted: "[x]", event.TodoInProgress: "[>]"}[t.Status]
		if mark == "" {
			mark = "[ ]"
		}
		parts = append(parts, mark+" "+t.Content)
	}
	return strings.Join(parts, "  ")
}

func changeLine(cs []event.Change, more int) string {
	var parts []string
	for _, c := range cs {
		parts = append(parts, fmt.Sprintf("%s (+%d -%d)", c.Path, c.Added, c.Deleted))
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if len(parts) == 0 {
		return "no difference to the start"
	}
	return strings.Join(parts, ", ")
}

func short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

// checkLine says what belay looks at itself.
func checkLine(p event.OperationProposed) string {
	var of CheckOf
	if err := json.Unmarshal(p.Arguments, &of); err != nil || !Private(operation.Op{Tool: p.Tool, Criterion: p.Criterion}) {
		return "belay runs `" + p.Access.Command + "`"
	}
	switch p.Tool {
	case ToolCheckRun:
		return "belay runs `" + of.Command + "` in a copy of " + of.On + " (tree " + short(of.Tree) + ")"
	case ToolCheckReview:
		return "belay asks a reviewer"
	case ToolCheckTests:
		return "belay compares the tests with those that stood at the start"
	}
	return "belay looks for it"
}
