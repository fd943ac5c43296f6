package transcript

import (
	"encoding/json"
	"fmt"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
)

// This file holds every word with which the model is told what happened. Three
// things are never mixed up: an operation did not start, it started and may
// have had effects, it finished. The first line of each result says which, with
// the op_id that evidence refers to:
//
//	[op4: did not start]        refused, denied or withdrawn; nothing happened
//	[op5: succeeded]            it ran to its end
//	[op5: failed]               it ran to its end and did not do what was asked
//	[op5: timed out]            it was ended at its deadline; may have had effects
//	[op6: stopped]              it was ended before its end; may have had effects
//	[op7: outcome unknown]      it started; nobody knows how it ended
//	[op8: did not happen]       it was about to start; belay looked, nothing happened
//	[op9: claim not accepted]   finish, refused for lack of evidence

// The marks say whose words a text holds.
const (
	markUser  = "[user] "
	markBelay = "[belay] "
)

const (
	noGoal     = "The goal of this conversation cannot be read."
	goOn       = "Go on: call a tool, or call finish when the criteria hold."
	cutByLimit = "Your last response was cut off at its output limit. What is missing from it was not seen: go on in smaller steps."
)

func note(words string) string { return markBelay + words }

func userWords(s string, at uint64) string { return markUser + cut(valid(s), MaxUserText, holds(at)) }

// holds says where the whole of a text is.
func holds(seq uint64) string { return fmt.Sprintf("event %d of this goal holds the whole", seq) }

func leftOut(bytes int, whole string) string {
	s := fmt.Sprintf("[… %d bytes left out", bytes)
	if whole != "" {
		s += "; " + whole
	}
	return s + " …]"
}

// address says how the model reads a whole text that it was shown a part of.
func address(r event.Ref) string {
	return fmt.Sprintf("the whole (%d bytes) is read_file path artifact:%s", r.Size, r.SHA256)
}

// shown is a text of an event as the model sees it, with the address of the
// whole when something is missing.
func shown(t event.Text, seq uint64, limit int) string {
	s, whole := valid(t.Head), holds(seq)
	if !t.Whole.IsZero() {
		whole = address(t.Whole)
	}
	if len(s) > limit {
		return cut(s, limit, whole)
	}
	if t.Cut && !t.Whole.IsZero() && !strings.Contains(s, t.Whole.SHA256) {
		s = strings.TrimRight(s, "\n") + "\n[… shortened; " + whole + "]"
	}
	return s
}

func heading(opID, what string) string { return "[" + opID + ": " + what + "]" }

// faultWords is a fault with its remedy.
func faultWords(f fault.Fault) string {
	s := strings.TrimSpace(valid(f.Message))
	if a := strings.TrimSpace(valid(f.SuggestedAction)); a != "" {
		s = sentence(s) + " Next: " + a
	}
	return sentence(cut(s, MaxNote, ""))
}

func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, "…") || strings.IndexByte(".!?]", s[len(s)-1]) >= 0 {
		return s
	}
	return s + "."
}

// notEnded stands for the result of a call whose operation is still open, or
// that has none.
func notEnded(opID string) string {
	if opID == "" {
		return "[did not start]\nNo operation was recorded for this call, so nothing happened."
	}
	return heading(opID, "has not ended") + "\nThere is no result yet. Do not call it again; what it did will be told."
}

// rejectedWords is the result of an operation that never started.
func rejectedWords(opID, tool string, p event.OperationRejected) string {
	f := p.Fault
	if p.Outcome == event.Cancelled {
		return heading(opID, "did not start") + "\nIt was withdrawn before it began, so nothing happened: " + faultWords(f)
	}
	if f.Kind == fault.Unverified && tool == "finish" {
		return heading(opID, "claim not accepted") + "\n" + upper(faultWords(f))
	}
	return heading(opID, "did not start") + "\n" + refusal(f.Kind) + ", so nothing happened: " + faultWords(f)
}

// refusal says which guard refused, because what to do next depends on it.
func refusal(k fault.Kind) string {
	switch k {
	case fault.InvalidArguments:
		return "Its arguments do not fit the schema"
	case fault.UnknownTool:
		return "There is no such tool"
	case fault.PlanGate:
		return "The plan gate is closed"
	case fault.PolicyDenied:
		return "Policy forbids it"
	case fault.UserDenied:
		return "It was denied, and the denial stands"
	case fault.Forbidden:
		return "It is forbidden until the repository changes"
	case fault.InDoubt:
		return "An earlier run of the same action is in doubt"
	case fault.AlreadyExists:
		return "It was not needed or not possible"
	case fault.NotRead, fault.StaleEdit:
		return "The file is not as you know it"
	case fault.NoMatch, fault.Ambiguous:
		return "The text to replace is not clear"
	case fault.Outside, fault.Protected:
		return "The path is off limits"
	case fault.SandboxMissing:
		return "It cannot be confined on this machine"
	}
	return "It was refused before it began"
}

func deniedWords(opID string, p event.ApprovalDenied) string {
	s := "The user denied it, so nothing happened."
	if p.By == event.ActorPolicy {
		s = "It needs an approval, and nobody is there to give one, so nothing happened."
	} else if why := strings.TrimSpace(valid(p.Reason)); why != "" {
		s += " The user's reason: " + sentence(cut(why, MaxNote, ""))
	}
	return heading(opID, "did not start") + "\n" + s +
		" The denial stands for this exact action: do not seek the same effect in another way; do something else, or ask the user."
}

// finishedWords is the outcome of an attempt. The output is shown up to limit.
func finishedWords(opID string, seq uint64, p event.OperationFinished, limit int) string {
	head, facts := outcomeWords(opID, p)
	lines := []string{heading(opID, head)}
	if p.Late {
		facts = append(facts, "It ended after the goal had moved on; the result is a fact all the same.")
	}
	switch {
	case p.Recovered == "":
	case head == "did not happen":
		facts = append(facts, "The worker was replaced just as it was to start; belay looked, and nothing had happened.")
	case p.Recovered == "reattached":
		facts = append(facts, "The worker was replaced while it ran; it ran on, and this is its whole result.")
	case p.Outcome == event.OutcomeUnknown:
		facts = append(facts, "The worker was replaced meanwhile.")
	default:
		facts = append(facts, "The worker was replaced meanwhile; belay looked at the world to establish this.")
	}
	if len(facts) > 0 {
		lines = append(lines, strings.Join(facts, " "))
	}
	body := shown(p.Result.Output, seq, limit)
	c := p.Result.Command
	// A command's output says by itself how it ended, in the tool's words.
	if f := p.Result.Fault; f != nil && c == nil && !strings.Contains(body, strings.TrimSpace(valid(f.Message))) {
		lines = append(lines, faultWords(*f))
	}
	switch {
	case strings.TrimSpace(body) != "":
		lines = append(lines, body)
	case c != nil:
		lines = append(lines, fmt.Sprintf("exit code %d (no output)", c.ExitCode))
	case p.Result.Fault == nil:
		lines = append(lines, "(no output)")
	}
	return strings.Join(lines, "\n")
}

// outcomeWords says in a few words how an attempt ended, and what follows.
func outcomeWords(opID string, p event.OperationFinished) (head string, facts []string) {
	c, f := p.Result.Command, p.Result.Fault
	switch {
	case p.Outcome == event.OutcomeUnknown:
		return "outcome unknown", []string{"It started and may have had effects; how it ended is not known.",
			"Look at its effects before you go on: check_operation " + opID + ", then read tools. The same action is refused until this is settled, by evidence or by the user."}
	case p.Outcome == event.Cancelled && c == nil && p.Recovered != "":
		return "did not happen", nil
	case p.Outcome == event.Cancelled:
		return "stopped", []string{"It started and was ended before its end: it may have had effects up to there."}
	case c != nil && c.TimedOut:
		return "timed out", []string{"It was ended at its deadline: it may have had effects up to there."}
	case p.Outcome == event.Succeeded:
		return "succeeded", nil
	case f != nil && f.Kind == fault.SpawnFailed:
		return "did not start", []string{"It could not be started, so nothing happened."}
	}
	return "failed", nil
}

// checkedOn says in words what a check of belay's own is made on, "" when its
// arguments do not tell.
func checkedOn(args json.RawMessage) string {
	var of struct {
		On string `json:"on"`
	}
	if json.Unmarshal(args, &of) != nil {
		return ""
	}
	return of.On
}

// laterOutcome leads in what became of an operation whose call has its result.
func laterOutcome(opID string, o *op) string {
	switch {
	case o.criterion != "" && o.on != "":
		return fmt.Sprintf("belay ran %s itself (%s), on %s, as a check of criterion %s:", tool(o), opID, line(o.on), line(o.criterion))
	case o.criterion != "":
		return fmt.Sprintf("belay ran %s itself (%s), as a check of criterion %s:", tool(o), opID, line(o.criterion))
	case o.byUser:
		return fmt.Sprintf("The child goal that the user started (%s) has ended:", opID)
	case o.again:
		return fmt.Sprintf("%s (%s) was taken up again after its unknown outcome, and now:", opID, tool(o))
	}
	return fmt.Sprintf("News of %s (%s), beyond the result that its call was given:", opID, tool(o))
}

func tool(o *op) string {
	if o.tool == "" {
		return "an operation"
	}
	return line(o.tool)
}

func reconciledWords(opID, tool string, seq uint64, p event.OperationReconciled) string {
	who := "evidence"
	if p.By == event.ActorUser || strings.HasPrefix(string(p.By), string(event.ActorUser)+":") {
		who = "the user"
	}
	s := fmt.Sprintf("The unknown outcome of %s (%s) is settled by %s: ", opID, line(tool), who)
	switch {
	case p.Retry:
		s += "it is to be run again, as the same operation. Its result will be told; do not call it again"
	case p.Outcome == event.Succeeded:
		s += "it did what was asked"
	default:
		s += "it did not do what was asked. The same action is allowed again"
	}
	if why := line(p.Reason); why != "" {
		s += " (" + why + ")"
	}
	s = sentence(s)
	if p.Result != nil {
		if body := strings.TrimSpace(shown(p.Result.Output, seq, MaxNote)); body != "" {
			s += "\n" + body
		}
	}
	return s
}

// goalWords is the goal in the user's name: text, constraints, criteria.
func goalWords(version int, g event.GoalSpec, at uint64, level int) string {
	s := markUser + "The goal"
	if version > 1 {
		s += fmt.Sprintf(" (version %d)", version)
	}
	return s + ":\n" + specWords(g, at, MaxUserText>>(4*max(level-2, 0)))
}

func specWords(g event.GoalSpec, at uint64, limit int) string {
	var b strings.Builder
	b.WriteString(cut(strings.TrimSpace(valid(g.Text)), limit, holds(at)))
	if len(g.Constraints) > 0 {
		b.WriteString("\n\nConstraints, which hold whatever happens:")
		for _, c := range g.Constraints {
			b.WriteString("\n- " + cut(valid(c), MaxNote, ""))
		}
	}
	if len(g.Acceptance) > 0 {
		b.WriteString("\n\nIt is done when all of these hold on the repository as it then is:")
		for _, c := range g.Acceptance {
			b.WriteString("\n- " + criterionWords(c))
		}
	}
	return b.String()
}

func criterionWords(c event.Criterion) string {
	var what string
	switch c.Kind {
	case event.CriterionTest:
		what = fmt.Sprintf("`%s` ends with exit code 0, at least one test is executed and none fails", c.Command)
	case event.CriterionCommand:
		what = fmt.Sprintf("`%s` ends with exit code 0", c.Command)
	case event.CriterionReproduces:
		what = fmt.Sprintf("`%s`, with the tests as they then are, fails on the code as it was found and passes on the code as it then is", c.Command)
	case event.CriterionScope:
		what = "only allowed paths are changed"
		if len(c.Allow) > 0 {
			what += "; allowed: " + strings.Join(c.Allow, ", ")
		}
		if len(c.Forbid) > 0 {
			what += "; forbidden: " + strings.Join(c.Forbid, ", ")
		}
	case event.CriterionTestsIntact:
		what = "no test that was there before is deleted, skipped or weakened, and all of them still pass as they were, over the code as it then is"
		if len(c.Allow) > 0 {
			what += "; these may change: " + strings.Join(c.Allow, ", ")
		}
	case event.CriterionArtifact:
		what = artifactWords(c)
	case event.CriterionReview:
		what = "a reviewer who sees the diff says yes"
	case event.CriterionManual:
		what = "a person says yes"
	default:
		what = string(c.Kind)
	}
	if c.Repeat > 1 {
		what += fmt.Sprintf("; %d runs in a row", c.Repeat)
	}
	s := c.ID + ": " + what
	if c.Text != "" {
		s += " (" + c.Text + ")"
	}
	return cut(valid(s), MaxNote, "")
}

func artifactWords(c event.Criterion) string {
	switch {
	case c.Path == "" && c.Commit == "":
		return "the branch " + c.Branch + " is there"
	case c.Path == "":
		where := "HEAD"
		if c.Branch != "" {
			where = "the branch " + c.Branch
		}
		return fmt.Sprintf("%s has a commit, made since the start, whose message contains %q", where, c.Commit)
	}
	what := c.Path + " is there"
	if c.Contains != "" {
		what += fmt.Sprintf(" and contains %q", c.Contains)
	}
	if c.Matches != "" {
		what += fmt.Sprintf(" and matches the regular expression %q", c.Matches)
	}
	if c.SHA256 != "" {
		what += " and has the SHA-256 " + c.SHA256
	}
	return what
}

func revisedWords(p event.GoalRevised, at uint64) string {
	return fmt.Sprintf("%sThe goal, revised. This version, %d, stands in the place of every earlier one:\n%s", markUser, p.Version, specWords(p.Spec, at, MaxUserText))
}

// workspaceWords says where the work takes place.
func workspaceWords(p event.WorkspaceAttached, bare bool) string {
	s := "The repository is " + path(p.Root) + "; paths are relative to it."
	if p.Git == "" {
		s += " It is no git repository."
	} else {
		s += " git " + p.Git
		if p.Branch != "" {
			s += ", branch " + path(p.Branch)
		}
		s += "."
	}
	if n := len(p.Dirty); n > 0 {
		s += fmt.Sprintf(" It was found with changes that are not committed and not yours: %s.", paths(p.Dirty, 0))
	}
	if bare {
		if len(p.TestCommands) > 0 {
			s += fmt.Sprintf(" The goal names no criteria, so this one counts: `%s` ends with exit code 0, at least one test is executed and none fails.", line(p.TestCommands[0]))
		} else {
			s += " The goal names no criteria and belay found no test command: the user will judge your claim."
		}
	}
	return s
}

const maxPaths = 20

func paths(ps []string, more int) string {
	var out []string
	for i, p := range ps {
		if i == maxPaths {
			more += len(ps) - maxPaths
			break
		}
		out = append(out, path(p))
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

func changeWords(cs []event.Change, more int) string {
	var ps []string
	for _, c := range cs {
		ps = append(ps, c.Path)
	}
	if len(ps) == 0 && more == 0 {
		return "paths not listed"
	}
	// The paths are quoted by paths; how each changed stands in the diff.
	return paths(ps, more)
}

func externalWords(p event.RepoStateMutated) string {
	return fmt.Sprintf("Somebody else changed the repository (none of your operations did). It is now revision %d: %s. What you know of these files is out of date; read them again before you edit them.",
		p.Revision.N, changeWords(p.Changes, p.More))
}

func changedByWords(p event.RepoStateMutated, tool string) string {
	return fmt.Sprintf("%s (%s) changed the repository. It is now revision %d: %s. Read these files again before you edit them.",
		p.By, line(tool), p.Revision.N, changeWords(p.Changes, p.More))
}

// headWords tells that somebody else moved git; whether the goal goes on is for
// the user to say, and has been said when the model reads it.
func headWords(p event.HeadMoved) string {
	at := p.To.Branch
	if at == "" {
		at = "no branch"
	}
	words := fmt.Sprintf("Somebody else moved git: HEAD is now at %.12s on %s (it was at %.12s on %s).", p.To.Head, at, p.From.Head, p.From.Branch)
	if p.To.Doing != "" {
		words += " " + strings.ToUpper(p.To.Doing[:1]) + p.To.Doing[1:] + " is in progress."
	}
	return words + " Look before you rely on what you knew."
}

func restoredWords(p event.WorkspaceRestored) string {
	s := fmt.Sprintf("The repository was set back to checkpoint %s. What you know of its files is out of date.", line(p.Checkpoint))
	if len(p.Kept) > 0 {
		s += " Left alone, because they are not this goal's: " + paths(p.Kept, 0) + "."
	}
	return s
}

func resumedWords(p event.GoalPaused) string {
	why := line(p.Detail)
	if why != "" {
		why = " (" + why + ")"
	}
	switch p.Reason {
	case event.PausedByUser:
		return "The user paused the goal" + why + " and has resumed it. Things may have changed meanwhile."
	case event.PausedByParent:
		return "The goal that started this one was paused and has been resumed. Things may have changed meanwhile."
	case event.PausedBudget:
		return "The goal stopped because its budget was exhausted" + why + "; it goes on now."
	case event.PausedNoProg:
		return "The goal stopped because it made no progress" + why + "; it goes on now. Do not repeat what was tried: change the strategy."
	}
	return "belay had handed the goal over to the user" + why + "; it goes on now."
}

// childOfWords tells a child what it is for, and who reads what it says.
func childOfWords(p event.GoalReceived) string {
	s := "This goal is a part of another one, " + line(p.Parent) + ", whose model started it. You work in a worktree of your own; that goal takes your changes over as it sees fit and verifies them itself. " +
		"The summary that you give to finish is your report to it: say there all that it needs to know, what you changed, what you found, what is left."
	if p.Settings.ReadOnly {
		s += " You only look: nothing can be changed here, and your report is the whole result."
	}
	return note(s)
}

func userChildWords(opID string, p event.ChildReserved) string {
	return fmt.Sprintf("The user has started a child goal of this one (%s): %s. It works beside you, in a worktree of its own; its result will be told when it ends. Go on meanwhile.", opID, cut(line(p.Spec.Text), 400, ""))
}

func verdictWords(v event.Verdict) string {
	s := "Your last response called no tool, so it counts as a claim to be done. The claim is not accepted"
	if len(v.Missing) == 0 {
		return s + ". Go on with the goal."
	}
	s += ":"
	for _, m := range v.Missing {
		s += "\n- " + line(m)
	}
	return s + "\nProduce the missing evidence on the repository as it is now, then call finish."
}

func forbiddenWords(p event.ActionForbidden) string {
	return fmt.Sprintf("This action of %s failed %d times in the same way. It is refused until the repository changes: change the strategy.", line(p.Tool), p.Count)
}

func alarmWords(p event.ProgressAlarm) string {
	return "belay sees no progress: " + line(p.Detail) + ". " + line(p.Advice)
}

func modelSwitched(request, from, to string) string {
	return fmt.Sprintf("From request %s on, %s answers; the responses before it are by %s.", request, line(to), line(from))
}

func summaryWords(t event.Text, seq uint64, level int) string {
	s := strings.TrimSpace(shown(t, seq, MaxSummary>>(2*max(level-1, 0))))
	if s == "" {
		s = "The conversation up to here was left out; its summary is empty."
	}
	return note(s)
}

func upper(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// proseWords are what the model had to say to a compaction. Each line is
// quoted, so that none of them can pass for somebody else's.
func proseWords(prose string) string {
	prose = strings.TrimSpace(valid(prose))
	if prose == "" {
		return ""
	}
	return "\n\nYour own words before the compaction. They are no facts of the ledger; where they differ from it, the ledger holds:\n> " +
		strings.Join(strings.FieldsFunc(prose, func(r rune) bool { return r == '\n' || r == '\r' }), "\n> ")
}
