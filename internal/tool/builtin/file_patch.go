package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/redact"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/workspace/edit"
)

var (
	oldAliases = []string{"old_str", "old_text"}
	newAliases = []string{"new_str", "new_text"}
)

var filePatchDef = &definition{
	name:   "file_patch",
	effect: event.Verifiable,
	doc:    "Replace text in files that you have read. old_string must occur exactly once unless replace_all. For several edits, also over several files, use edits instead: all are made or none.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "path", Aliases: pathAliases},
		{Name: "old_string", Keep: true, Aliases: oldAliases, Doc: "exact text with its indentation, without line numbers"},
		{Name: "new_string", Keep: true, Aliases: newAliases},
		{Name: "replace_all", Type: args.Boolean, Default: false},
		{Name: "edits", Type: args.Objects, Doc: "made in order; path defaults to the one above", Of: &args.Object{Ignored: chatter, Fields: []args.Field{
			{Name: "path", Aliases: pathAliases},
			{Name: "old_string", Required: true, Keep: true, Aliases: oldAliases},
			{Name: "new_string", Required: true, Keep: true, Aliases: newAliases},
			{Name: "replace_all", Type: args.Boolean, Default: false},
		}}},
	}},
}

// filePatch replaces text. Its normal form has only edits, each with its path.
type filePatch struct{ base }

// Describe implements tool.Tool.
func (t filePatch) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	edits, err := t.edits(v)
	if err != nil {
		return nil, event.Access{}, err
	}
	var a event.Access
	seen := map[string]bool{}
	for _, e := range edits {
		if p := e.String("path"); !seen[p] {
			seen[p] = true
			a.Writes = append(a.Writes, p)
		}
	}
	n, err := args.Values{"edits": edits}.JSON()
	return n, a, err
}

// edits brings both forms of the arguments into the one with edits.
func (t filePatch) edits(v args.Values) ([]args.Values, error) {
	single, list := v.Has("old_string") || v.Has("new_string"), v.Objects("edits")
	at := func(i int) string { return fmt.Sprintf("edits[%d].", i) }
	switch {
	case single && len(list) > 0:
		return nil, args.Invalid(t.def.name, "edits", "given together with old_string and new_string; expected one or the other")
	case single:
		for _, field := range []string{"path", "old_string", "new_string"} {
			if !v.Has(field) {
				return nil, args.Invalid(t.def.name, field, "missing; expected a string")
			}
		}
		list = []args.Values{{"path": v["path"], "old_string": v["old_string"], "new_string": v["new_string"]}}
		if v.Bool("replace_all") {
			list[0]["replace_all"] = true
		}
		at = func(int) string { return "" }
	case len(list) == 0:
		return nil, args.Invalid(t.def.name, "old_string", "missing; expected path, old_string and new_string, or edits with at least one of those")
	case v.Has("replace_all"):
		return nil, args.Invalid(t.def.name, "replace_all", "with edits, expected inside of each edit")
	}
	for i, e := range list {
		if !e.Has("path") {
			if !v.Has("path") {
				return nil, args.Invalid(t.def.name, at(i)+"path", "missing; expected a string that is not empty")
			}
			e["path"] = v["path"]
		}
		if err := t.cleanField(e, "path", at(i), false); err != nil {
			return nil, err
		}
		if artifactOf(e.String("path")) != "" {
			return nil, args.Invalid(t.def.name, at(i)+"path", "stored output can not be changed; expected a file")
		}
		if e.String("old_string") == e.String("new_string") {
			return nil, args.Invalid(t.def.name, at(i)+"new_string", "the same as old_string; expected what it is to become")
		}
	}
	return list, nil
}

// Prepare implements tool.Preparer.
func (t filePatch) Prepare(ctx context.Context, env tool.Env, call tool.Call) (tool.Prepared, error) {
	return prepareChange(ctx, env, call, t)
}

// Run implements tool.Runner.
func (t filePatch) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	return runChange(ctx, env, call, t)
}

// Probe implements tool.Prober.
func (t filePatch) Probe(ctx context.Context, env tool.Env, call tool.Call) (tool.Finding, error) {
	return probeChange(ctx, env, call)
}

func (t filePatch) changes(ctx context.Context, env tool.Env, call tool.Call) ([]change, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return nil, err
	}
	edits, err := t.edits(v)
	if err != nil {
		return nil, err
	}
	byPath := map[string][]edit.Replace{}
	var order []string
	for _, e := range edits {
		p := e.String("path")
		if byPath[p] == nil {
			order = append(order, p)
		}
		byPath[p] = append(byPath[p], edit.Replace{Old: e.String("old_string"), New: e.String("new_string"), All: e.Bool("replace_all")})
	}
	changes := make([]change, 0, len(order))
	for _, p := range order {
		c, err := t.change(ctx, env, call, p, byPath[p])
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// change edits one file. edit.Apply proves that the bytes outside the replaced
// spans are the same, and Workspace.Apply writes what it is given, so nothing
// else can have changed when the result's hash is the prepared one.
func (t filePatch) change(ctx context.Context, env tool.Env, call tool.Call, p string, replace []edit.Replace) (change, error) {
	c := change{path: p}
	var err error
	if c.file, err = current(ctx, env, call, p); err != nil {
		return c, err
	}
	c.path = c.file.Path
	if c.file.Absent {
		if replace[0].Old != "" {
			return c, missing(ctx, env.Workspace, p, fault.New(fault.NotFound, fault.Model, "there is no file "+p, "use write_file to create it"))
		}
	} else {
		c.before = shown(env, c.file.Bytes)
	}
	res, err := edit.Apply(c.file.Bytes, replace)
	if err != nil {
		for _, r := range replace {
			if redact.Marked(r.Old) > redact.Marked(string(c.file.Bytes)) {
				return c, fault.New(fault.NoMatch, fault.Model, p+": old_string has "+redact.Marker("…")+" in it, which stands for a secret that belay did not show",
					"name the text before or after the secret only")
			}
		}
		return c, inFile(p, err)
	}
	if string(res.Content) == string(c.file.Bytes) {
		return c, args.Invalid(t.def.name, "edits", "together they leave "+p+" as it is; there is nothing to write")
	}
	c.next, c.replaced, c.notes = res.Content, res.Replaced, res.Notes
	c.after = shown(env, c.next)
	return c, spares(c)
}

// inFile names the file in a fault about its text.
func inFile(p string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || strings.Contains(f.Message, p) {
		return err
	}
	return fault.New(f.Kind, f.Blame, p+": "+f.Message, f.SuggestedAction)
}
