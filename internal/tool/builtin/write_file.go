package builtin

import (
	"context"
	"encoding/json"

	"belay/internal/event"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/workspace/edit"
)

var writeFileDef = &definition{
	name:   "write_file",
	effect: event.Verifiable,
	doc:    "Create a file, or replace the whole content of one that you have read. To change a part, use file_patch.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "path", Required: true, Aliases: pathAliases},
		{Name: "content", Required: true, Keep: true, Aliases: []string{"contents", "text", "file_text"}},
	}},
}

// writeFile writes whole files.
type writeFile struct{ base }

// Describe implements tool.Tool.
func (t writeFile) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	if err := t.cleanField(v, "path", "", false); err != nil {
		return nil, event.Access{}, err
	}
	if artifactOf(v.String("path")) != "" {
		return nil, event.Access{}, args.Invalid(t.def.name, "path", "stored output can not be changed; expected a file")
	}
	n, err := v.JSON()
	return n, event.Access{Writes: []string{v.String("path")}}, err
}

// Prepare implements tool.Preparer.
func (t writeFile) Prepare(ctx context.Context, env tool.Env, call tool.Call) (tool.Prepared, error) {
	return prepareChange(ctx, env, call, t)
}

// Run implements tool.Runner.
func (t writeFile) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	return runChange(ctx, env, call, t)
}

// Probe implements tool.Prober.
func (t writeFile) Probe(ctx context.Context, env tool.Env, call tool.Call) (tool.Finding, error) {
	return probeChange(ctx, env, call)
}

func (t writeFile) changes(ctx context.Context, env tool.Env, call tool.Call) ([]change, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return nil, err
	}
	c := change{path: v.String("path"), next: []byte(v.String("content"))}
	if c.file, err = current(ctx, env, call, c.path); err != nil {
		return nil, err
	}
	c.path = c.file.Path
	if !c.file.Absent {
		// Bytes that are no text have no encoding to keep: the new content is
		// then written as it is.
		if _, _, derr := edit.Decode(c.file.Bytes); derr == nil {
			if c.next, err = edit.Rewrite(c.file.Bytes, v.String("content")); err != nil {
				return nil, err
			}
		}
		if string(c.next) == string(c.file.Bytes) {
			return nil, args.Invalid(t.def.name, "content", c.path+" has exactly this content already; there is nothing to write")
		}
		c.before = shown(env, c.file.Bytes)
	}
	c.after = shown(env, c.next)
	return []change{c}, spares(c)
}
