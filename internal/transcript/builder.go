package transcript

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"belay/internal/event"
	"belay/internal/model"
)

// Builder projects a goal's events. The zero value is ready for the first one.
type Builder struct {
	through uint64
	// head is what stays first: the goal, the workspace as it was found and,
	// after a compaction, the summary.
	head      []model.Message
	version   int
	spec      event.GoalSpec
	stated    uint64 // the event that holds the spec
	workspace string
	// parent says whose child the goal is, "" for nobody's.
	parent string
	// sealed is what requests have sent behind the head. The first seen of it
	// stood in a request that the model has answered.
	sealed []entry
	seen   int
	// open is the latest response with the results of its calls.
	open *exchange
	// pending are the texts that no request has sent, in order of their seq.
	pending []text
	asking  bool   // a request is open
	aside   string // the latest request that is no part of the conversation
	// requested is the model of the latest request, asked its seq, and answered
	// the seq of the latest request with a response.
	requested       string
	asked, answered uint64
	pause           *event.GoalPaused
	ops             map[string]*op
}

// entry is a message with the seq of the event that it began with.
type entry struct {
	at      uint64
	message model.Message
	// asked is the seq of the request that a response answered.
	asked uint64
	user  bool // words of the user
}

// exchange is a response and one slot for the result of each of its calls.
type exchange struct {
	at    uint64
	asked uint64
	parts []event.Part
	slots []slot
}

// slot is the place of the result of one call.
type slot struct {
	call   event.Part
	op     string
	result *model.ToolResult
}

// text is a pending text: the user's, or a note of belay.
type text struct {
	at   uint64
	user bool
	text string
}

// op is what is kept of an operation.
type op struct {
	// settled says that nothing more can come of it.
	settled   bool
	tool      string
	effect    event.EffectClass
	criterion string
	// byUser says that a person asked for it, in no call of the model's.
	byUser bool
	// on says what a check of belay's own was made on.
	on string
	// slot is where its first outcome goes; nil when that was told.
	exchange *exchange
	slot     int
	again    bool // it was run again after an unknown outcome
}

// Rebuild is a Builder that has been given all these events.
func Rebuild(events []event.Event) *Builder {
	b := &Builder{}
	for _, e := range events {
		b.Add(e)
	}
	return b
}

// Through is the seq of the last event that was added, 0 for none.
func (b *Builder) Through() uint64 { return b.through }

// Messages are the messages of a request made now that takes in these user
// messages, named by their seqs. The builder does not change. While a request
// is open, they are exactly the messages of that request. The caller must not
// write to what the messages point to. Without any event there are none.
func (b *Builder) Messages(taken []uint64) []model.Message {
	if b.through == 0 {
		return nil
	}
	first := b.first()
	out := make([]model.Message, 0, len(first)+len(b.sealed)+len(b.pending)+3)
	out = append(out, first...)
	for _, e := range b.sealed {
		out = append(out, e.message)
	}
	if b.asking {
		return out
	}
	tail, _ := b.tail(taken)
	for _, e := range tail {
		out = append(out, e.message)
	}
	return out
}

// first is the head, or a stand-in for a goal that cannot be read: a list of
// messages begins with the user whatever the ledger holds.
func (b *Builder) first() []model.Message {
	if len(b.head) == 0 {
		return []model.Message{userMessage(note(noGoal))}
	}
	return b.head
}

// tail is what a request made now would add to the sealed messages, and the
// pending texts that it would leave.
func (b *Builder) tail(taken []uint64) ([]entry, []text) {
	out := b.open.entries()
	var left []text
	for _, t := range b.pending {
		if t.user && !slices.Contains(taken, t.at) {
			left = append(left, t)
			continue
		}
		out = append(out, entry{at: t.at, message: userMessage(t.text), user: t.user})
	}
	last := model.User
	if n := len(out); n > 0 {
		last = out[n-1].message.Role
	} else if n := len(b.sealed); n > 0 {
		last = b.sealed[n-1].message.Role
	}
	if last == model.Assistant { // providers answer users only
		out = append(out, entry{at: b.through, message: userMessage(note(goOn))})
	}
	return out, left
}

func (x *exchange) entries() []entry {
	if x == nil {
		return nil
	}
	out := []entry{{at: x.at, message: model.Message{Role: model.Assistant, Parts: x.parts}, asked: x.asked}}
	if len(x.slots) == 0 {
		return out
	}
	results := make([]model.ToolResult, len(x.slots))
	for i, s := range x.slots {
		if s.result != nil {
			results[i] = *s.result
			continue
		}
		results[i] = model.ToolResult{CallID: s.call.CallID, Tool: s.call.Tool, Text: notEnded(s.op), Error: true}
	}
	return append(out, entry{at: x.at, message: model.Message{Role: model.ToolRole, Results: results}})
}

// seal makes permanent what a request sends.
func (b *Builder) seal(taken []uint64) {
	var tail []entry
	tail, b.pending = b.tail(taken)
	b.sealed = append(b.sealed, tail...)
	b.close()
}

// close ends the open exchange: its results are as they are, and what its
// operations still bring is told in notes.
func (b *Builder) close() {
	if b.open == nil {
		return
	}
	for _, s := range b.open.slots {
		if o := b.ops[s.op]; o != nil {
			o.exchange = nil
		}
	}
	b.open = nil
}

func (b *Builder) note(e event.Event, words string) {
	if words != "" {
		b.pending = append(b.pending, text{at: e.Seq, text: note(words)})
	}
}

// Add takes in the next event. One that was added before changes nothing; one
// that cannot be understood has no part in the conversation.
func (b *Builder) Add(e event.Event) {
	if e.Seq <= b.through {
		return
	}
	b.through = e.Seq
	if b.ops == nil {
		b.ops = map[string]*op{}
	}
	if b.addTurn(e) || b.addOperation(e) {
		return
	}
	b.addFact(e)
}

// addTurn takes in requests, responses, user messages and compactions.
func (b *Builder) addTurn(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.UserMessage:
		if e.Op == "" { // an answer is the result of its question's call
			b.pending = append(b.pending, text{at: e.Seq, user: true, text: userWords(p.Text, e.Seq)})
		}
	case event.ModelRequested:
		if p.Compaction != nil {
			b.aside = p.Request
			break
		}
		b.seal(p.Taken)
		b.asking, b.asked = true, e.Seq
		if b.requested != "" && p.Model != b.requested {
			// The request was composed before its model was recorded, so the
			// note comes after its response.
			b.note(e, modelSwitched(p.Request, b.requested, p.Model))
		}
		b.requested = p.Model
	case event.ModelFailed:
		if p.Request != b.aside || b.aside == "" {
			b.asking = false
		}
	case event.ModelResponded:
		if p.Request != b.aside || b.aside == "" {
			b.respond(e, p)
		}
	case event.ContextCompacted:
		b.compact(e, p)
	default:
		return false
	}
	return true
}

func (b *Builder) respond(e event.Event, p event.ModelResponded) {
	if b.open != nil {
		b.seal(nil) // a response without its request: what came before stands
	}
	b.asking = false
	b.seen, b.answered = len(b.sealed), b.asked
	if len(p.Parts) > 0 {
		x := &exchange{at: e.Seq, asked: b.asked, parts: make([]event.Part, len(p.Parts))}
		for i, part := range p.Parts {
			x.parts[i] = stored(part)
			if part.Kind == event.PartCall {
				x.slots = append(x.slots, slot{call: x.parts[i]})
			}
		}
		b.open = x
	}
	if p.StopReason == model.StopLength {
		b.note(e, cutByLimit)
	}
}

// setHead states the goal in its newest version, the workspace as it was found,
// and the summary if there is one.
func (b *Builder) setHead(summary string, level int) {
	b.head = nil
	for _, words := range []string{goalWords(b.version, b.spec, b.stated, level), b.parent, b.workspace, summary} {
		if words != "" {
			b.head = append(b.head, userMessage(words))
		}
	}
}

// addOperation takes in the life of operations.
func (b *Builder) addOperation(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.OperationProposed:
		b.propose(e, p)
	case event.OperationRejected:
		b.outcome(e, func(o *op, _ int) (string, bool) { return rejectedWords(e.Op, o.tool, p), true })
		b.known(e).settled = true
	case event.ApprovalDenied:
		b.outcome(e, func(*op, int) (string, bool) { return deniedWords(e.Op, p), true })
		b.known(e).settled = true
	case event.OperationFinished:
		b.outcome(e, func(_ *op, limit int) (string, bool) {
			return finishedWords(e.Op, e.Seq, p, limit), p.Outcome != event.Succeeded
		})
		b.known(e).settled = p.Outcome != event.OutcomeUnknown
	case event.OperationReconciled:
		o := b.known(e)
		o.again, o.settled = o.again || p.Retry, !p.Retry
		b.note(e, reconciledWords(e.Op, o.tool, e.Seq, p))
	default:
		return false
	}
	return true
}

// delegate starts a child goal, for a call of the model or for a person.
const delegate = "delegate"

// personsOwn is the tool that no model calls: a person's rollback.
const personsOwn = "rollback"

// propose gives an operation the slot of its call. Calls are proposed in order,
// and some servers give every call the same id, so the first free slot with the
// id is the right one.
func (b *Builder) propose(e event.Event, p event.OperationProposed) {
	o := &op{tool: p.Tool, effect: p.Effect, criterion: p.Criterion}
	if p.Criterion != "" {
		o.on = checkedOn(p.Arguments)
	}
	b.ops[e.Op] = o
	if o.byUser = p.Tool == delegate && p.Request == ""; o.byUser {
		return // no call of the model's waits for it
	}
	if b.open == nil || p.Criterion != "" || p.Setup > 0 || p.Tool == personsOwn {
		return
	}
	for i := range b.open.slots {
		s := &b.open.slots[i]
		if s.op == "" && s.call.CallID == valid(p.CallID) {
			s.op, o.exchange, o.slot = e.Op, b.open, i
			return
		}
	}
}

func (b *Builder) known(e event.Event) *op {
	if o := b.ops[e.Op]; o != nil {
		return o
	}
	o := &op{}
	b.ops[e.Op] = o
	return o
}

// outcome tells an outcome: the first one as the result of the call, any other
// in a note.
func (b *Builder) outcome(e event.Event, words func(o *op, limit int) (string, bool)) {
	o := b.known(e)
	if o.tool == personsOwn {
		return // what it led to is told by what it restored
	}
	if x := o.exchange; x != nil {
		s := &x.slots[o.slot]
		told, failed := words(o, min(MaxResult, max(MaxExchange/len(x.slots), minResult)))
		s.result = &model.ToolResult{CallID: s.call.CallID, Tool: s.call.Tool, Text: told, Error: failed}
		o.exchange = nil
		return
	}
	told, _ := words(o, MaxNote)
	b.note(e, laterOutcome(e.Op, o)+"\n"+told)
}

// addFact takes in what the model is told in notes.
func (b *Builder) addFact(e event.Event) {
	switch p := e.Payload.(type) {
	case event.GoalReceived:
		b.version, b.spec, b.stated = p.Version, p.Spec, e.Seq
		if p.ParentOp != "" {
			b.parent = childOfWords(p)
		}
		b.setHead("", 0)
	case event.ChildReserved:
		if p.ByUser {
			b.note(e, userChildWords(e.Op, p))
		}
	case event.GoalRevised:
		b.version, b.spec, b.stated = p.Version, p.Spec, e.Seq
		b.pending = append(b.pending, text{at: e.Seq, text: revisedWords(p, e.Seq)})
	case event.GoalPaused:
		b.pause = &p
	case event.GoalResumed:
		if b.pause != nil {
			b.note(e, resumedWords(*b.pause))
		}
		b.pause = nil
	case event.WorkspaceAttached:
		b.workspace = note(workspaceWords(p, len(b.spec.Acceptance) == 0 && b.parent == ""))
		if b.requested == "" && len(b.head) > 0 {
			b.setHead("", 0)
		} else {
			b.pending = append(b.pending, text{at: e.Seq, text: b.workspace})
		}
	case event.RepoStateMutated:
		b.mutated(e, p)
	case event.HeadMoved:
		if p.By == "external" {
			b.note(e, headWords(p))
		}
	case event.WorkspaceRestored:
		b.note(e, restoredWords(p))
	case event.VerificationFinished:
		// A claim made with finish is answered by its result.
		if e.Op == "" && p.Refused == "" && !p.NeedsPerson && p.Verdict.Verdict != event.Complete {
			b.note(e, verdictWords(p.Verdict))
		}
	case event.ProgressAlarm:
		if p.Advice != "" {
			b.note(e, alarmWords(p))
		}
	case event.ActionForbidden:
		b.note(e, forbiddenWords(p))
	case event.InstructionsFound:
		b.note(e, foundInstructions(p, e.Seq))
	case event.MemoryForgotten:
		b.note(e, forgottenWords(p))
	}
}

// mutated tells what the model does not know by its own edits.
func (b *Builder) mutated(e event.Event, p event.RepoStateMutated) {
	if p.By == "external" {
		b.note(e, externalWords(p))
		return
	}
	if o := b.ops[p.By]; o != nil && o.effect != event.Verifiable {
		b.note(e, changedByWords(p, o.tool))
	}
}

func userMessage(words string) model.Message { return model.Message{Role: model.User, Text: words} }

// stored is a part as it comes back from the ledger: JSON text has no invalid
// bytes and embedded JSON one form. A response that was just received and the
// same one read after a restart must give the same bytes.
func stored(p event.Part) event.Part {
	p.Text, p.CallID, p.Tool, p.Arguments = valid(p.Text), valid(p.CallID), valid(p.Tool), valid(p.Arguments)
	if len(p.Data) > 0 {
		if data, err := json.Marshal(p.Data); err == nil {
			p.Data = data
		}
	}
	return p
}

// valid replaces each invalid byte, as JSON does.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
