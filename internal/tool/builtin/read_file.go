package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/tool/textcap"
	"belay/internal/workspace/edit"
)

const (
	defaultLines = 2000
	maxReadBytes = 48 << 10
)

var readFileDef = &definition{
	name:   "read_file",
	effect: event.Read,
	doc:    "Read a text file. Lines come as `12→text`; the number and arrow are not part of the file. Read a file before editing it. For stored output, path is artifact:SHA256; for an event, event:SEQ.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "path", Required: true, Aliases: pathAliases},
		{Name: "offset", Type: args.Integer, Min: 1, Default: int64(1), Doc: "first line, default 1"},
		{Name: "limit", Type: args.Integer, Min: 1, Max: 1_000_000, Default: int64(defaultLines), Doc: "number of lines, default 2000"},
	}},
}

// readFile shows a file with line numbers and tells the runtime which bytes
// the model now knows.
type readFile struct{ base }

// Describe implements tool.Tool. An offset of 0, which some models send for
// the first line, is line 1.
func (t readFile) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	if err := t.cleanField(v, "path", "", false); err != nil {
		return nil, event.Access{}, err
	}
	var a event.Access
	if p := v.String("path"); artifactOf(p) == "" && !isEvent(p) {
		a.Reads = []string{p}
	}
	n, err := v.JSON()
	return n, a, err
}

// Run implements tool.Runner.
func (t readFile) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return failed(ctx, err)
	}
	p := &pager{from: v.Int("offset", 1), limit: v.Int("limit", defaultLines), maxBytes: maxReadBytes}
	name := v.String("path")
	if sum := artifactOf(name); sum != "" {
		if err := copyArtifact(ctx, env, sum, p); err != nil {
			return failed(ctx, err)
		}
		return t.show(ctx, name, p, nil)
	}
	if isEvent(name) {
		text, err := readEvent(ctx, env, name)
		if err != nil {
			return failed(ctx, err)
		}
		_, _ = io.WriteString(p, text)
		return t.show(ctx, name, p, nil)
	}
	f, err := env.Workspace.Read(ctx, name)
	if err != nil {
		return failed(ctx, missing(ctx, env.Workspace, name, err))
	}
	text, enc, err := edit.Decode(f.Bytes)
	if err != nil {
		return failed(ctx, binary(name, f.Bytes, err))
	}
	// A pager never fails to take bytes.
	_, _ = io.WriteString(p, env.Secrets.Text(text))
	o, r, err := t.show(ctx, name, p, traits(enc))
	if err == nil && r.Fault == nil {
		r.Seen = []event.FileSeen{{Path: f.Path, Hash: f.Hash}}
	}
	return o, r, err
}

// show puts the lines together with what there is to know about them.
func (t readFile) show(ctx context.Context, name string, p *pager, notes []string) (event.Outcome, event.Result, error) {
	if p.close() && p.last == p.lines {
		notes = append(notes, "no newline at the end")
	}
	if p.lines == 0 {
		return succeeded("[" + strings.Join(append(notes, "the file is empty"), "; ") + "]")
	}
	if p.from > p.lines {
		return failed(ctx, args.Invalid(t.def.name, "offset", fmt.Sprintf("%d is past the end; %s has %s", p.from, name, plural(p.lines, "line"))))
	}
	var b strings.Builder
	if len(notes) > 0 {
		b.WriteString("[" + strings.Join(notes, "; ") + "]\n")
	}
	b.Write(p.out.Bytes())
	if p.from > 1 || p.last < p.lines {
		fmt.Fprintf(&b, "[lines %d to %d of %d", p.from, p.last, p.lines)
		if p.last < p.lines {
			fmt.Fprintf(&b, "; go on with offset=%d", p.last+1)
		}
		b.WriteString("]\n")
	}
	return succeeded(b.String())
}

// traits names what is hidden from the model and kept by every edit.
func traits(enc edit.Encoding) []string {
	var notes []string
	if enc.Charset != edit.UTF8 {
		notes = append(notes, "encoded in "+string(enc.Charset))
	}
	if enc.BOM {
		notes = append(notes, "begins with a byte-order mark")
	}
	switch enc.EOL {
	case edit.CRLF:
		notes = append(notes, "CRLF line endings")
	case edit.CR:
		notes = append(notes, "CR line endings")
	case edit.Mixed:
		notes = append(notes, "mixed line endings")
	}
	if len(notes) > 0 {
		notes = append(notes, "edits keep this: write plain lines")
	}
	return notes
}

// copyArtifact writes stored output, cleaned as the model first saw it.
func copyArtifact(ctx context.Context, env tool.Env, sum string, w io.Writer) error {
	if env.Artifacts == nil {
		return fault.New(fault.NotFound, fault.Runtime, "artifacts are not kept here", "")
	}
	r, err := env.Artifacts.OpenArtifact(ctx, sum)
	if err != nil {
		var f *fault.Fault
		if errors.As(err, &f) {
			return err
		}
		return fault.New(fault.NotFound, fault.Model, "the artifact can not be opened: "+err.Error(), "copy the reference from the result that names it, all 64 digits")
	}
	defer r.Close()
	safe := env.Secrets.Writer(w)
	c := textcap.NewCleaner(safe)
	if _, err := io.Copy(c, &until{ctx, r}); err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	return safe.Close()
}

// until ends a long copy when the context ends.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u *until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// magic names what binary content most likely is.
var magic = []struct{ prefix, name string }{
	{"\x89PNG\r\n", "a PNG image"}, {"\xff\xd8\xff", "a JPEG image"}, {"GIF8", "a GIF image"}, {"RIFF", "a RIFF container (WebP, WAV, AVI)"},
	{"%PDF-", "a PDF document"}, {"PK\x03\x04", "a ZIP archive (or what is built on it: jar, docx, whl)"}, {"\x1f\x8b", "gzip data"},
	{"BZh", "bzip2 data"}, {"\xfd7zXZ", "xz data"}, {"\x28\xb5\x2f\xfd", "zstd data"}, {"7z\xbc\xaf", "a 7z archive"},
	{"\x7fELF", "an ELF executable or library"}, {"MZ", "a Windows executable"}, {"\xcf\xfa\xed\xfe", "a Mach-O executable"},
	{"\xca\xfe\xba\xbe", "a Java class or a Mach-O executable"}, {"\x00asm", "a WebAssembly module"}, {"SQLite format 3", "an SQLite database"},
	{"wOF", "a web font"}, {"!<arch>", "a static library"},
}

// binary refuses content that is no text, with its size and type.
func binary(name string, content []byte, err error) error {
	kind := "binary"
	for _, m := range magic {
		if strings.HasPrefix(string(content[:min(len(content), 16)]), m.prefix) {
			kind = m.name
			break
		}
	}
	f := asFault(err)
	return fault.New(fault.NotText, fault.Model, fmt.Sprintf("%s is not text (%s, %d bytes): %s", name, kind, len(content), f.Message), f.SuggestedAction)
}
