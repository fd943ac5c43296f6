package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/redact"
	"belay/internal/tool"
	"belay/internal/workspace"
	"belay/internal/workspace/edit"
)

// change is one file as an edit would leave it.
type change struct {
	file workspace.File // as it is now, Absent for a new one
	path string
	next []byte
	// before and after are the texts that a model is shown.
	before, after string
	replaced      int
	notes         []string
}

func (c change) print() event.FilePrint {
	p := event.FilePrint{Path: c.path, Base: c.file.Hash, Result: event.RefOf(c.next, "").SHA256}
	p.BaseMode, p.ResultMode = uint32(c.file.Mode.Perm()), uint32(c.file.Mode.Perm())
	if c.file.Absent {
		p.Base, p.BaseMode, p.ResultMode = "", 0, 0o644
	}
	return p
}

// changer is a tool that computes changes and lets mutate do the rest.
type changer interface {
	changes(ctx context.Context, env tool.Env, call tool.Call) ([]change, error)
}

// gate refuses changes while the plan is not approved. The core does so first;
// this is what holds if it is ever wrong.
func gate(env tool.Env) error {
	if env.ReadOnly {
		return fault.New(fault.PlanGate, fault.Model, "the workspace is read-only until the plan is approved", "record a plan with update_plan and wait for its approval")
	}
	return nil
}

// current reads a file that is about to be changed, and refuses it unless its
// bytes are those that the model knows.
func current(ctx context.Context, env tool.Env, call tool.Call, p string) (workspace.File, error) {
	f, err := env.Workspace.Stat(ctx, p)
	if err != nil {
		return f, missing(ctx, env.Workspace, p, err)
	}
	if f.Absent {
		return f, nil
	}
	if f, err = env.Workspace.Read(ctx, p); err != nil {
		return f, missing(ctx, env.Workspace, p, err)
	}
	known, read := call.Seen[f.Path]
	switch {
	case !read || known == "":
		return f, fault.New(fault.NotRead, fault.Model, p+" exists and was not read in this goal", "read it with read_file, then edit it")
	case known != f.Hash:
		return f, fault.New(fault.StaleEdit, fault.Model, p+" has changed since it was last read here (by the user, a command or another program)",
			"read it again with read_file, then make the edit on what stands there now")
	}
	return f, nil
}

// prepareChange computes the intent of an edit.
func prepareChange(ctx context.Context, env tool.Env, call tool.Call, t changer) (tool.Prepared, error) {
	if err := gate(env); err != nil {
		return tool.Prepared{}, err
	}
	changes, err := t.changes(ctx, env, call)
	if err != nil {
		return tool.Prepared{}, err
	}
	var p tool.Prepared
	var preview strings.Builder
	for _, c := range changes {
		p.Files = append(p.Files, c.print())
		from := "a/" + c.path
		if c.file.Absent {
			from = "/dev/null"
		}
		preview.WriteString(udiff.Unified(from, "b/"+c.path, c.before, c.after))
	}
	p.Preview = preview.String()
	return p, nil
}

// runChange makes the changes that were prepared, if the files are still the
// ones that they were prepared for.
func runChange(ctx context.Context, env tool.Env, call tool.Call, t changer) (event.Outcome, event.Result, error) {
	if err := gate(env); err != nil {
		return failed(ctx, err)
	}
	changes, err := t.changes(ctx, env, call)
	if err != nil {
		return failed(ctx, err)
	}
	if err := asPrepared(changes, call.Intent.Files); err != nil {
		return failed(ctx, err)
	}
	edits := make([]workspace.Edit, len(changes))
	for i, c := range changes {
		edits[i] = workspace.Edit{Path: c.path, Base: c.file.Hash, Content: c.next}
		if edits[i].Content == nil {
			edits[i].Content = []byte{}
		}
	}
	applyErr := env.Workspace.Apply(ctx, edits)
	// The world is asked whatever Apply said, and even when the runtime no
	// longer waits: what stands on disk is what gets recorded.
	w, err := look(context.WithoutCancel(ctx), env, call.Intent.Files)
	if err != nil {
		return "", event.Result{}, fmt.Errorf("builtin: looking at what was written: %w", err)
	}
	switch {
	case applyErr == nil:
		return event.Succeeded, w.result(told(changes, w)), nil
	case w.done == len(w.files):
		return event.Succeeded, w.result(told(changes, w)), nil
	case w.done == 0:
		return failed(ctx, applyErr)
	}
	f := asFault(applyErr)
	r := w.result("only a part of the edit was made: " + w.detail() + ". " + f.Error())
	r.Fault = f
	return event.OutcomeUnknown, r, nil
}

// asPrepared refuses to run anything but the exact intent that was recorded.
func asPrepared(changes []change, intent []event.FilePrint) error {
	recorded := map[string]event.FilePrint{}
	for _, f := range intent {
		recorded[f.Path] = f
	}
	if len(changes) != len(recorded) {
		return fault.New(fault.Internal, fault.Runtime, "the edit is not the one that was prepared", "")
	}
	for _, c := range changes {
		now, was := c.print(), recorded[c.path]
		if now.Base != was.Base {
			return fault.New(fault.StaleEdit, fault.Model, c.path+" has changed since the edit was prepared", "read it again with read_file, then make the edit on what stands there now")
		}
		if now.Result != was.Result {
			return fault.New(fault.Internal, fault.Runtime, "the edit of "+c.path+" does not give what was prepared", "")
		}
	}
	return nil
}

// world is how the files of an intent stand now.
type world struct {
	files      []event.FilePrint // Result is what stands there
	words      []string
	base, done int // how many stand as before, and as intended
	intended   []bool
}

// look compares the world with an intent.
func look(ctx context.Context, env tool.Env, intent []event.FilePrint) (world, error) {
	var w world
	for _, f := range intent {
		now, err := env.Workspace.Stat(ctx, f.Path)
		hash, mode, word := now.Hash, uint32(now.Mode.Perm()), ""
		var flt *fault.Fault
		switch {
		case errors.As(err, &flt):
			hash, mode, word = "", 0, "can not be read ("+flt.Message+")"
		case err != nil:
			return w, err
		case now.Absent:
			hash, mode = "", 0
		}
		intended := word == "" && hash == f.Result && !now.Absent
		switch {
		case intended:
			w.done++
			word = "is as the edit leaves it"
		case word != "":
		case hash == f.Base:
			w.base++
			word = "is as before the edit"
		case now.Absent:
			word = "is gone"
		default:
			word = "has other content than before and after the edit"
		}
		w.files = append(w.files, event.FilePrint{Path: f.Path, Base: f.Base, Result: hash, BaseMode: f.BaseMode, ResultMode: mode})
		w.words = append(w.words, f.Path+" "+word)
		w.intended = append(w.intended, intended)
	}
	return w, nil
}

func (w world) detail() string { return strings.Join(w.words, "; ") }

// result is what an edit brought back. The model knows the bytes it wrote, so
// that its next edit needs no read; a file that someone changed right after is
// known in no state, and the next edit is refused as stale.
func (w world) result(text string) event.Result {
	r := event.Result{Output: event.Text{Head: text}, Files: w.files}
	for i, f := range w.files {
		if w.intended[i] {
			r.Seen = append(r.Seen, event.FileSeen{Path: f.Path, Hash: f.Result})
		}
	}
	return r
}

// probeChange finds out what an attempt did that never reported back.
func probeChange(ctx context.Context, env tool.Env, call tool.Call) (tool.Finding, error) {
	w, err := look(ctx, env, call.Intent.Files)
	if err != nil {
		return tool.Finding{}, fmt.Errorf("builtin: comparing the workspace with the intent: %w", err)
	}
	switch n := len(w.files); {
	case n == 0:
		return tool.Finding{What: tool.FoundUnknown, Detail: "the intent names no files"}, nil
	case w.done == n:
		return tool.Finding{What: tool.FoundFinished, Outcome: event.Succeeded,
			Result: w.result("the edit was made before belay was interrupted: " + w.detail())}, nil
	case w.base == n:
		return tool.Finding{What: tool.FoundNever}, nil
	}
	return tool.Finding{What: tool.FoundUnknown, Detail: w.detail()}, nil
}

const (
	snippetContext = 3
	maxSnippet     = 4 << 10 // bytes of all snippets of one edit
)

// told says what was changed: for each file the lines, and how they read now.
func told(changes []change, w world) string {
	var b strings.Builder
	room := maxSnippet
	for i, c := range changes {
		ranges := changed(c.before, c.after)
		switch {
		case c.file.Absent:
			fmt.Fprintf(&b, "created %s (%s)\n", c.path, plural(lineCount(c.after), "line"))
		case c.replaced > 0:
			fmt.Fprintf(&b, "edited %s: %s, %s\n", c.path, plural(int64(c.replaced), "replacement"), inWords(ranges))
		default:
			fmt.Fprintf(&b, "rewrote %s (%s): %s\n", c.path, plural(lineCount(c.after), "line"), inWords(ranges))
		}
		for _, n := range c.notes {
			fmt.Fprintf(&b, "[%s]\n", n)
		}
		if !w.intended[i] {
			fmt.Fprintf(&b, "[%s: something else wrote it right after; read it again before the next edit]\n", w.words[i])
		}
		if c.replaced > 0 && !c.file.Absent {
			s := snippet(c.after, ranges, room)
			room -= len(s)
			b.WriteString(s)
		}
	}
	return b.String()
}

func lineCount(text string) int64 {
	n := int64(strings.Count(text, "\n"))
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// lines is a range of 1-based lines in the new text; to is from-1 where lines
// were only taken away.
type lines struct{ from, to int64 }

// changed finds the lines that differ.
func changed(before, after string) []lines {
	var out []lines
	at, line, delta := 0, int64(1), 0
	for _, e := range udiff.Lines(before, after) {
		start := e.Start + delta
		line += int64(strings.Count(after[at:start], "\n"))
		at = start
		out = append(out, lines{line, line + lineCount(e.New) - 1})
		delta += len(e.New) - (e.End - e.Start)
	}
	return out
}

const maxRanges = 8

func inWords(ranges []lines) string {
	var list []string
	for _, r := range ranges[:min(len(ranges), maxRanges)] {
		switch {
		case r.to < r.from:
			list = append(list, fmt.Sprintf("lines removed before line %d", r.from))
		case r.to == r.from:
			list = append(list, fmt.Sprintf("line %d", r.from))
		default:
			list = append(list, fmt.Sprintf("lines %d to %d", r.from, r.to))
		}
	}
	if n := len(ranges) - maxRanges; n > 0 {
		list = append(list, plural(int64(n), "more place"))
	}
	return strings.Join(list, ", ")
}

// snippet shows the changed lines with what stands around them.
func snippet(text string, ranges []lines, room int) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var b bytes.Buffer
	next := int64(1)
	for _, r := range ranges {
		from, to := max(r.from-snippetContext, next), min(r.to+snippetContext, int64(len(all)))
		if from > next && next > 1 {
			b.WriteString("   ...\n")
		}
		for n := from; n <= to; n++ {
			before := b.Len()
			numberLine(&b, n, all[n-1])
			if b.Len() > room {
				b.Truncate(before)
				b.WriteString("   ... [use read_file to see the rest]\n")
				return b.String()
			}
		}
		next = max(next, to+1)
	}
	return b.String()
}

// shown decodes content for previews, without its secrets; what is no text is
// shown as its size.
func shown(env tool.Env, content []byte) string {
	text, _, err := edit.Decode(content)
	if err != nil {
		return fmt.Sprintf("(%d bytes that are not text)\n", len(content))
	}
	return env.Secrets.Text(text)
}

// spares refuses content that would put belay's own marker where a secret
// stands: the model saw the marker, and would destroy what it stands for.
func spares(c change) error {
	if redact.Marked(string(c.next)) <= redact.Marked(string(c.file.Bytes)) {
		return nil
	}
	return fault.New(fault.SecretArgument, fault.Model, "the new content of "+c.path+" has "+redact.Marker("…")+" in it, which stands for a secret that belay did not show; written, it would destroy that secret",
		"use file_patch on the text around the secret, with old_string and new_string that leave it out")
}
