package builtin

import (
	"context"
	"encoding/json"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/args"
	ctl "belay/internal/tool/control"
)

var applyChildDef = &definition{
	name:   ctl.ApplyChild,
	effect: event.Verifiable,
	doc:    "Merge what a child goal changed into the workspace.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "child", Required: true, Aliases: []string{"goal", "op_id"}, Doc: "its op_id"},
	}},
}

// applyChild takes over what a child goal changed. What it is going to write is
// known only when it is prepared.
type applyChild struct{ base }

var _ tool.Prober = applyChild{}

// Describe implements tool.Tool.
func (t applyChild) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	n, err := v.JSON()
	if err == nil {
		_, err = ctl.DecodeApplyChild(n)
	}
	return n, event.Access{}, err
}

// children is what merges, or the fault that there are no child goals here.
func (applyChild) children(env tool.Env) (tool.Merger, error) {
	if env.Children == nil {
		return nil, fault.New(fault.NotFound, fault.Model, "this goal has no child goals", "")
	}
	return env.Children, nil
}

// Prepare implements tool.Preparer.
func (t applyChild) Prepare(ctx context.Context, env tool.Env, call tool.Call) (tool.Prepared, error) {
	m, err := t.children(env)
	if err == nil {
		err = gate(env)
	}
	if err != nil {
		return tool.Prepared{}, err
	}
	return m.Prepare(ctx, call)
}

// Run implements tool.Runner.
func (t applyChild) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	m, err := t.children(env)
	if err == nil {
		err = gate(env)
	}
	if err != nil {
		return failed(ctx, err)
	}
	return m.Run(ctx, call)
}

// Probe implements tool.Prober.
func (t applyChild) Probe(ctx context.Context, env tool.Env, call tool.Call) (tool.Finding, error) {
	m, err := t.children(env)
	if err != nil {
		return tool.Finding{What: tool.FoundUnknown, Detail: err.Error()}, nil
	}
	return m.Probe(ctx, call)
}
