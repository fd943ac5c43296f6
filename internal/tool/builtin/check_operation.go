package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/args"
)

var checkOperationDef = &definition{
	name:   "check_operation",
	effect: event.Read,
	doc:    "Look again what an operation did whose outcome is unknown. Runs and changes nothing; a certain finding settles it.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "op", Required: true, Aliases: []string{"op_id", "operation", "id"}, Doc: "like op7"},
	}},
}

// checkOperation looks at an operation in doubt.
type checkOperation struct{ base }

// Describe implements tool.Tool.
func (t checkOperation) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	n, err := v.JSON()
	return n, event.Access{}, err
}

// Run implements tool.Runner.
func (t checkOperation) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return failed(ctx, err)
	}
	op := v.String("op")
	if env.Look == nil {
		return failed(ctx, fault.New(fault.Internal, fault.Runtime, "this runtime cannot look at other operations", ""))
	}
	f, err := env.Look(ctx, op)
	if err != nil {
		return failed(ctx, err)
	}
	r := event.Result{Reconciles: f.Reconciliation(op)}
	switch f.What {
	case tool.FoundNever:
		r.Output.Head = op + " did not happen: the world is as it was before. It is settled; propose the action again if it is still right."
	case tool.FoundFinished:
		r.Output = f.Result.Output
		r.Output.Head = fmt.Sprintf("%s has ended: %s. It is settled, with this result:\n%s", op, f.Outcome, f.Result.Output.Head)
	default:
		r.Output.Head = op + " is still in doubt: " + f.Detail + "\nWhat can be seen does not settle it. Do not seek its effect in another way; ask_user, or go on with what does not depend on it."
	}
	return event.Succeeded, r, nil
}
