package core

import (
	"fmt"
	"slices"
	"strings"

	"belay/internal/core/approval"
	"belay/internal/core/budget"
	"belay/internal/core/children"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/policy"
	"belay/internal/tool/control"
)

// The tools with which a goal has others work for it.
const (
	ToolDelegate   = control.Delegate
	ToolApplyChild = control.ApplyChild
)

// reservation is the name of a child's share in its parent's budget.
func reservation(child string) string { return "child:" + child }

// delegated reports whether an operation has started a child that has not
// ended: it stands in nobody's way until then.
func (s State) delegated(o operation.Op) bool {
	if len(s.Children) == 0 || o.Tool != ToolDelegate {
		return false
	}
	c, ok := s.Children.Of(o.ID)
	return ok && c.Open()
}

// inLine are the open operations that wait for something else than a child.
func (s State) inLine() []operation.Op {
	if len(s.Children) == 0 {
		return s.Open
	}
	var line []operation.Op
	for _, o := range s.Open {
		if !s.delegated(o) {
			line = append(line, o)
		}
	}
	return line
}

// awaits reports whether the model waits for children: those of its latest
// response, unless the user has said something meanwhile. What older ones bring
// is told to it as news.
func (s State) awaits() bool {
	if len(s.Children) == 0 || len(s.mail()) > 0 {
		return false
	}
	latest := fmt.Sprintf("r%d", s.Requests)
	return slices.ContainsFunc(s.Open, func(o operation.Op) bool { return o.Request == latest && s.delegated(o) })
}

// errand reports whether the goal has to start or to tell a child something
// now. A paused goal starts none.
func (s State) errand(c children.Child) bool {
	if c.Phase == children.Reserved {
		return s.Status != lifecycle.Paused
	}
	return c.Owes()
}

func (s State) errands() bool { return slices.ContainsFunc(s.Children, s.errand) }

// owesParent reports whether the goal has ended, with all that it began, and
// its parent has not recorded that.
func (s State) owesParent() bool {
	return s.Status.Final() && s.ParentOp != "" && !s.ParentTold && !s.AnyStarted() && s.Request == nil && len(s.Children.Open()) == 0
}

// OnlyFamily reports whether the goal has ended and all that is left to do is to
// tell others: for that nothing has to be opened.
func (s State) OnlyFamily() bool {
	_, rolling := s.rollback()
	return s.Status.Final() && !s.AnyStarted() && s.Request == nil && !rolling && (s.errands() || s.owesParent())
}

// wantedFamily is what passes between this goal and those above and below it.
func (s State) wantedFamily() []Effect {
	if s.Turn == nil {
		return nil
	}
	var es []Effect
	for _, c := range s.Children {
		switch {
		case !s.errand(c):
		case c.Phase == children.Reserved:
			es = append(es, Spawn{Child: c.Goal, Seq: c.Seq})
		default:
			es = append(es, Command{Child: c.Goal, Order: c.Order.What, Seq: c.Order.Seq})
		}
	}
	if s.owesParent() {
		es = append(es, Tell{Parent: s.Parent, Ended: s.ended()})
	}
	return es
}

// ended is what the goal's parent is told of its end.
func (s State) ended() event.ChildEnded {
	e := event.ChildEnded{Child: s.Goal, Status: string(s.Status), How: s.How, Used: budget.Add(s.Budget.Used, s.Budget.Held()),
		Report: event.Text{Head: s.Report}, Base: s.BaselineTree(), Tree: s.Revision.Tree, Diff: s.Diff.Diff, Changes: s.Diff.Changes,
		More: s.Diff.More, Head: s.Head}
	if s.Status == lifecycle.Completed {
		e.Verdict = s.Verdict
	}
	if s.Fault != nil {
		e.Fault = fault.New(fault.Kind(s.Fault.Kind), fault.Runtime, s.Fault.Message, "")
	}
	for _, o := range s.InDoubt {
		e.InDoubt = append(e.InDoubt, o.ID+" ("+o.Tool+")")
	}
	return e
}

// delegate starts a child for the model's call at the head of the line. The
// call stays open until the child has ended.
func (w *step) delegate(o operation.Op) bool {
	d, err := control.DecodeDelegate(o.Args)
	if err == nil {
		err = w.checkCriteria(ToolDelegate, d.Criteria)
	}
	if err != nil {
		w.reject(o, argumentFault(err))
		return true
	}
	if f := w.mayDelegate(); f != nil {
		w.reject(o, f)
		return true
	}
	if int64(len(w.s.Children.Open())) >= children.Parallel(w.s.Settings) {
		return w.waitForChildren()
	}
	if o.Phase != operation.Approved {
		if settled := w.askForCommands(o, d); settled {
			return true
		}
	}
	share, reserved, short := children.Carve(w.s.Budget.Limits, w.s.Budget.Left(), children.Wish{Percent: d.Percent}, w.in.Now)
	if short != "" {
		w.reject(o, fault.New(fault.BudgetExhausted, fault.Model, "what is left of the budget of "+short+" is too little for a child goal", "do it yourself"))
		return true
	}
	spec := event.GoalSpec{Text: d.Goal, Acceptance: d.Criteria, Constraints: w.s.Spec.Constraints, Limits: share}
	gate := w.s.Mode == event.ModePlan
	w.reserveChild(event.ActorRuntime, o.ID, spec, children.Narrow(w.s.Settings, gate, d.ReadOnly, "", ""), reserved)
	return true
}

// mayDelegate says why the goal may start no child now, or nil.
func (w *step) mayDelegate() *fault.Fault {
	s := w.s
	if !children.Allowed(s.Settings, s.Depth) {
		return fault.New(fault.Forbidden, fault.Model, fmt.Sprintf("this goal may start no child goal (it is %d levels below the first, %d are allowed)", s.Depth, children.Depth(s.Settings)), "do it yourself")
	}
	if most := children.Most(s.Settings); int64(len(s.Children)) >= most {
		return fault.New(fault.Forbidden, fault.Model, fmt.Sprintf("this goal has started %d child goals, as many as it may", most), "do the rest yourself")
	}
	if v := policy.Judge(s.Policy(), ToolDelegate, event.Control, event.Access{}); v.Decision == policy.Deny {
		return fault.New(fault.PolicyDenied, fault.Model, v.Reason, "do it yourself")
	}
	return nil
}

// askForCommands has a person asked about criteria whose commands this goal may
// not run unasked: the child would run them so. It reports whether the
// operation goes no further now.
func (w *step) askForCommands(o operation.Op, d control.Delegation) bool {
	var why []string
	for _, c := range d.Criteria {
		if c.Command == "" {
			continue
		}
		v := policy.Judge(w.s.Policy(), "run_command", event.Supervised, event.Access{Command: c.Command})
		switch v.Decision {
		case policy.Deny:
			w.reject(o, fault.New(fault.PolicyDenied, fault.Model, fmt.Sprintf("the command of criterion %s: %s", c.ID, v.Reason), "give another criterion"))
			return true
		case policy.Ask:
			why = append(why, fmt.Sprintf("criterion %s of the child runs `%s` unasked: %s", c.ID, c.Command, v.Reason))
		}
	}
	if len(why) == 0 {
		return false
	}
	var preview strings.Builder
	fmt.Fprintf(&preview, "child goal: %s\n", d.Goal)
	for _, c := range d.Criteria {
		fmt.Fprintf(&preview, "done when: %s\n", CriterionText(c))
	}
	intent := event.Intent{Hash: o.ArgsHash, Preview: event.Text{Head: preview.String()}}
	if denied, was := w.s.Approvals.WasDenied(intent.Hash); was {
		w.reject(o, fault.New(fault.UserDenied, fault.User, "these criteria were denied before: "+denied, "give others"))
		return true
	}
	w.emitBy(event.ActorPolicy, o.ID, event.ApprovalRequested{Tool: o.Tool, Intent: intent, Access: o.Access, Why: why})
	switch w.s.Settings.Approve {
	case event.ApproveAuto:
		w.grant(approval.Pending{Op: o.ID, Tool: o.Tool, Intent: intent}, event.ActorPolicy)
	case event.ApproveNever:
		w.emitBy(event.ActorPolicy, o.ID, event.ApprovalDenied{Tool: o.Tool, Intent: intent.Hash, By: event.ActorPolicy,
			Reason: "nobody is there to approve it (--approve never)"})
	default:
		w.commit() // a person will be told
	}
	return true
}

// reserveChild makes the intent durable; the child's stream is made after the
// commit.
func (w *step) reserveChild(by event.Actor, op string, spec event.GoalSpec, set event.Settings, reserved event.Amount) {
	w.emitBy(by, op, event.ChildReserved{Child: children.ID(w.s.Goal, op), Spec: spec, Settings: set, Reserved: reserved,
		Depth: w.s.Depth + 1, Tree: w.s.Revision.Tree, ByUser: by == event.ActorUser})
	w.commit()
}

// ChildStart is how the child begins that an event of this goal reserved.
func ChildStart(s State, e event.Event) (Start, error) {
	p, ok := e.Payload.(event.ChildReserved)
	if !ok {
		return Start{}, fmt.Errorf("core: event %d of goal %s reserves no child", e.Seq, s.Goal)
	}
	return Start{Goal: p.Child, Spec: p.Spec, Settings: p.Settings, Repo: s.Repo, Parent: s.Goal, ParentOp: e.Op, Depth: p.Depth, Share: p.Reserved}, nil
}

// Title is a goal's text as lists show it.
func Title(spec event.GoalSpec) string { return clip(firstLine(spec.Text), 200) }

// adoptChild starts a child for a person: `belay run --parent`.
func (w *step) adoptChild(b Delegate) error {
	s := &w.s
	switch {
	case s.Status != lifecycle.Active:
		return fmt.Errorf("%w: the goal is %s; only an active goal starts children", ErrState, s.Status)
	case s.Workspace == nil:
		return fmt.Errorf("%w: the goal has not looked at its workspace yet", ErrState)
	case strings.TrimSpace(b.Spec.Text) == "":
		return fmt.Errorf("%w: the child goal has no text", ErrInput)
	}
	if err := CheckCriteria(b.Spec.Acceptance); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if err := CheckLimits(b.Spec.Limits); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if f := w.mayDelegate(); f != nil {
		return fmt.Errorf("%w: %s", ErrState, f.Message)
	}
	if most := children.Parallel(s.Settings); int64(len(s.Children.Open())) >= most {
		return fmt.Errorf("%w: %d child goals are open, as many as may be at a time", ErrState, most)
	}
	share, reserved, short := children.Carve(s.Budget.Limits, s.Budget.Left(), children.Wish{Percent: b.Percent, Limits: b.Spec.Limits}, w.in.Now)
	if short != "" {
		return fmt.Errorf("%w: what is left of the goal's budget of %s is less than that", ErrState, short)
	}
	op := fmt.Sprintf("op%d", s.Ops+1)
	args, err := control.Encode(control.Delegation{Goal: b.Spec.Text, Percent: b.Percent, ReadOnly: b.ReadOnly})
	if err != nil {
		return err
	}
	set := children.Narrow(s.Settings, s.Mode == event.ModePlan, b.ReadOnly, b.Approve, b.Plan)
	if b.Model != "" {
		set.Model = b.Model
	}
	if err := CheckSettings(set); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	w.emitOp(op, event.OperationProposed{Tool: ToolDelegate, Effect: event.Control, Arguments: args})
	b.Spec.Limits = share
	b.Spec.Constraints = append(slices.Clone(s.Spec.Constraints), b.Spec.Constraints...)
	w.reserveChild(event.ActorUser, op, b.Spec, set, reserved)
	return nil
}

// waitForChildren gives the ticket back until a child has ended.
func (w *step) waitForChildren() bool {
	if w.s.errands() {
		return false // they are started first
	}
	w.emitBy(event.ActorRuntime, "", event.GoalWaiting{Reason: event.WaitChild, Detail: childrenWords(w.s.Children.Open())})
	w.endTurn(event.StopYielded, "waits for "+childrenWords(w.s.Children.Open()))
	return false
}

func childrenWords(open []children.Child) string {
	var ids []string
	for _, c := range open {
		ids = append(ids, c.Goal+" ("+c.Op+")")
	}
	word := "child goals "
	if len(ids) == 1 {
		word = "child goal "
	}
	return word + strings.Join(ids, ", ")
}

// childEnded records how a child ended: once, whoever tells it and how often.
func (w *step) childEnded(b ChildDone) error {
	c, ok := w.s.Children.Find(b.Ended.Child)
	switch {
	case !ok:
		return fmt.Errorf("%w: %s is no child of goal %s", ErrInput, b.Ended.Child, w.s.Goal)
	case !c.Open():
		return nil
	case c.Phase == children.Reserved: // its stream was made, and its maker died
		w.emitBy(event.ActorRuntime, c.Op, event.ChildStarted{Child: c.Goal})
	}
	if w.s.Status == lifecycle.Active {
		w.dropClaim("a child goal has ended meanwhile; look at its result first")
	}
	w.emitBy(event.ActorRuntime, c.Op, b.Ended)
	if o, open := w.s.Find(c.Op); open && o.Open() {
		w.emitBy(event.ActorRuntime, o.ID, childResult(o, b.Ended))
	}
	if wt := w.s.Wait; wt != nil && wt.Reason == event.WaitChild && (len(w.s.inLine()) > 0 || !w.s.awaits()) {
		w.emitBy(event.ActorRuntime, "", event.GoalWoken{Reason: event.WaitChild})
	}
	return nil
}

// maxChildDiff is how much of a child's diff its parent is shown at once.
const maxChildDiff = 16 << 10

// childResult is the outcome of the call that started a child. That the child
// failed is a result.
func childResult(o operation.Op, e event.ChildEnded) event.OperationFinished {
	f := event.OperationFinished{Tool: o.Tool, Attempt: o.Attempt, Outcome: event.Succeeded, Result: event.Result{Used: &e.Used}}
	f.Result.Output = event.Text{Head: ChildWords(o.ID, e), Whole: e.Diff.Whole, Cut: !e.Diff.Whole.IsZero()}
	switch lifecycle.Status(e.Status) {
	case lifecycle.Completed:
	case lifecycle.Cancelled:
		f.Outcome = event.Cancelled
		f.Result.Fault = fault.New(fault.Cancelled, fault.User, "the child goal was cancelled", "")
	default:
		f.Outcome = event.Failed
		f.Result.Fault = e.Fault
	}
	return f
}

// ChildWords is a child's result as its parent's model reads it.
func ChildWords(op string, e event.ChildEnded) string {
	var b strings.Builder
	fmt.Fprintf(&b, "child goal %s %s", e.Child, e.Status)
	if e.How != "" {
		fmt.Fprintf(&b, " (%s)", strings.ReplaceAll(string(e.How), "_", " "))
	}
	b.WriteString("\n")
	if e.Fault != nil {
		fmt.Fprintf(&b, "why: %s\n", e.Fault.Message)
	}
	if e.Report.Head != "" {
		fmt.Fprintf(&b, "its report: %s\n", strings.TrimSpace(e.Report.Head))
	}
	for _, d := range e.InDoubt {
		fmt.Fprintf(&b, "unknown outcome: %s\n", d)
	}
	if v := e.Verdict; v != nil {
		for _, c := range v.Criteria {
			fmt.Fprintf(&b, "criterion %s: %s on the child's tree %s\n", c.ID, c.Result, short(v.Tree))
		}
	}
	if len(e.Changes)+e.More == 0 {
		b.WriteString("it changed no file\n")
		return b.String()
	}
	fmt.Fprintf(&b, "it changed, in its own worktree: %s\n", changeLine(e.Changes, e.More))
	fmt.Fprintf(&b, "Nothing of that is in your workspace. apply_child with child %s takes it over; then verify it yourself, on your tree: what the child has shown holds for its own.\n", op)
	b.WriteString("\n" + clip(e.Diff.Head, maxChildDiff))
	return b.String()
}

// obey does what the parent wants. An order that is older than one that was
// obeyed changes nothing.
func (w *step) obey(b Ordered) error {
	if b.Seq <= w.s.Ordered || w.s.Status.Final() {
		return nil
	}
	w.emitBy(event.ActorRuntime, "", event.ParentOrdered{Order: b.Order, Seq: b.Seq})
	switch b.Order {
	case event.OrderCancel:
		return w.cancel(Cancel{Reason: "goal " + w.s.Parent + ", which started it, has ended or was cancelled"})
	case event.OrderPause:
		if w.s.Status == lifecycle.Paused {
			return nil
		}
		w.giveUpVerification("the goal that started it was paused before it ended")
		w.emitBy(event.ActorRuntime, "", event.GoalPaused{Reason: event.PausedByParent, Detail: "goal " + w.s.Parent + ", which started it, was paused"})
	case event.OrderResume:
		if w.s.Pause != nil && w.s.Pause.Reason == event.PausedByParent {
			w.emitBy(event.ActorRuntime, "", event.GoalResumed{})
		}
	}
	return nil
}

// fromFamily handles what a goal is told by those above and below it. It
// reports whether the input was of that kind.
func (w *step) fromFamily() (bool, error) {
	switch b := w.in.Body.(type) {
	case ChildDone:
		return true, w.childEnded(b)
	case Ordered:
		return true, w.obey(b)
	case Spawned:
		if w.in.Fence == 0 { // a worker's own is one of its results
			w.spawned(b)
			return true, nil
		}
	}
	return false, nil
}

// spawned notes that a child's stream exists: a worker made it, or whoever
// started it for a person, without a ticket.
func (w *step) spawned(b Spawned) {
	if c, ok := w.s.Children.Find(b.Child); ok && c.Phase == children.Reserved && (w.in.Fence == 0 || w.holder()) {
		w.emitBy(event.ActorRuntime, c.Op, event.ChildStarted{Child: b.Child})
	}
}

func (w *step) commanded(b Commanded) {
	if c, ok := w.s.Children.Find(b.Child); ok && c.Open() && b.Seq > c.Told && w.holder() {
		w.emitBy(event.ActorRuntime, c.Op, event.ChildOrdered{Child: b.Child, Order: b.Order, Seq: b.Seq})
	}
}

func (w *step) told() {
	if w.s.owesParent() && w.holder() {
		w.emitBy(event.ActorRuntime, "", event.ParentTold{Parent: w.s.Parent})
	}
}

func (s *State) applyFamily(e event.Event) bool {
	var err error
	switch p := e.Payload.(type) {
	case event.ChildReserved:
		s.Children, err = s.Children.Reserve(children.Child{Goal: p.Child, Op: e.Op, Title: Title(p.Spec), ByUser: p.ByUser,
			Share: p.Spec.Limits, Reserved: p.Reserved, ReadOnly: p.Settings.ReadOnly, Seq: e.Seq})
		if p.Reserved != (event.Amount{}) {
			s.Budget.Reserve(reservation(p.Child), p.Reserved)
		}
	case event.ChildStarted:
		s.Children, err = s.Children.Start(p.Child)
	case event.ChildOrdered:
		s.Children, err = s.Children.Tell(p.Child, p.Seq)
	case event.ChildEnded:
		if s.Children, err = s.Children.End(p.Child, p); err == nil {
			s.settle(reservation(p.Child), p.Used)
		}
		if s.Status == lifecycle.Active {
			s.Claim = nil // there is news that the model has not seen
		}
	case event.ParentOrdered:
		s.Ordered = p.Seq
	case event.ParentTold:
		s.ParentTold = true
	default:
		return false
	}
	if err != nil {
		s.refuse(e, err.Error())
	}
	return true
}

// ChildToApply is the child whose result an operation is to take over, or the
// fault that says why there is none.
func ChildToApply(s State, o operation.Op) (children.Child, *fault.Fault) {
	name, err := control.DecodeApplyChild(o.Args)
	if err != nil {
		return children.Child{}, argumentFault(err)
	}
	c, ok := s.Children.Find(name)
	if !ok {
		c, ok = s.Children.Of(name)
	}
	switch {
	case !ok:
		return c, fault.New(fault.NotFound, fault.Model, name+" is no child goal of this one", "name it by the op_id of the delegate call")
	case c.Open():
		return c, fault.New(fault.NotFound, fault.Model, "child goal "+c.Goal+" has not ended", "wait for its result")
	case c.Tree == "" || c.Tree == c.Base:
		return c, fault.New(fault.NotFound, fault.Model, "child goal "+c.Goal+" changed no file", "there is nothing to take over")
	}
	return c, nil
}

// applied notes that an operation took a child's result over.
func (s *State) applied(o operation.Op) {
	if o.Tool != ToolApplyChild {
		return
	}
	if c, f := ChildToApply(*s, o); f == nil {
		s.Children = s.Children.Apply(c.Goal)
	}
}

// commandChildren has the open children follow what became of the goal.
func (s *State) commandChildren(e event.Event) {
	if len(s.Children) == 0 {
		return
	}
	var order event.ChildOrder
	switch e.Type {
	case event.TypeGoalPaused:
		order = event.OrderPause
	case event.TypeGoalResumed:
		order = event.OrderResume
	case event.TypeGoalCancelled, event.TypeGoalFailed, event.TypeGoalCompleted:
		order = event.OrderCancel
	default:
		return
	}
	s.Children = s.Children.Command(children.Order{What: order, Seq: e.Seq})
}

// maxReport is how much a child can report to its parent at once.
const maxReport = 12 << 10

// reportCap is how much of what a claim says is kept.
func (s State) reportCap() int {
	if s.ParentOp != "" {
		return maxReport
	}
	return headText
}

func (Delegate) isInput()  {}
func (ChildDone) isInput() {}
func (Ordered) isInput()   {}
func (Spawned) isInput()   {}
func (Commanded) isInput() {}
func (Told) isInput()      {}
