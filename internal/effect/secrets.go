package effect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/redact"
	"belay/internal/tool"
)

// Whatever an effect brings back goes through here before the core sees it, so
// that no event, and nothing that is made from events, ever holds a secret.

// clean takes the secrets out of an input.
func (g *Goal) clean(b core.Body) core.Body {
	r := g.Secrets
	switch b := b.(type) {
	case core.Attached:
		b.Workspace.Instructions.Head = r.Text(b.Workspace.Instructions.Head)
		b.Workspace.Branch = r.Text(b.Workspace.Branch)
		for i := range b.Memory.Items {
			b.Memory.Items[i].Text = r.Text(b.Memory.Items[i].Text)
		}
		return b
	case core.AttachFailed:
		cleanFault(r, &b.Fault)
		return b
	case core.Prepared:
		b.Fault = cleanedFault(r, b.Fault)
		return b
	case core.Ended:
		cleanResult(r, &b.Result)
		return b
	case core.ReplyFailed:
		cleanFault(r, &b.Fault)
		return b
	}
	return b
}

func cleanFault(r *redact.Redactor, f *fault.Fault) {
	f.Message, f.SuggestedAction = r.Text(f.Message), r.Text(f.SuggestedAction)
}

func cleanedFault(r *redact.Redactor, f *fault.Fault) *fault.Fault {
	if f == nil {
		return nil
	}
	c := *f
	cleanFault(r, &c)
	return &c
}

func cleanResult(r *redact.Redactor, res *event.Result) {
	res.Output.Head = r.Text(res.Output.Head)
	res.Fault = cleanedFault(r, res.Fault)
	res.Remote = r.Text(res.Remote)
	res.Test = cleanedTest(r, res.Test)
	if k := res.Check; k != nil {
		c := *k
		c.Reason = r.Text(c.Reason)
		c.Findings = nil
		for _, f := range k.Findings {
			c.Findings = append(c.Findings, r.Text(f))
		}
		res.Check = &c
	}
	if rec := res.Reconciles; rec != nil {
		c := *rec
		c.Reason, c.Output.Head, c.Remote = r.Text(c.Reason), r.Text(c.Output.Head), r.Text(c.Remote)
		c.Fault, c.Test = cleanedFault(r, c.Fault), cleanedTest(r, c.Test)
		res.Reconciles = &c
	}
}

func cleanedTest(r *redact.Redactor, t *event.TestCounts) *event.TestCounts {
	if t == nil || len(t.Failing) == 0 {
		return t
	}
	c := *t
	c.Failing = nil
	for _, name := range t.Failing {
		c.Failing = append(c.Failing, r.Text(name))
	}
	return &c
}

// cleanParts takes the secrets out of a response. A call whose arguments held
// one is listed by its place with the kind: it cannot run, because what would
// run is not what can be recorded. Data that only its provider can read is
// left as it is; where a secret stands in it in clear, the part is dropped.
func cleanParts(r *redact.Redactor, parts []event.Part) ([]event.Part, map[int]string) {
	out := make([]event.Part, 0, len(parts))
	held := map[int]string{}
	for _, p := range parts {
		if len(p.Data) > 0 {
			if _, kind := r.JSON(p.Data); kind != "" {
				continue
			}
		}
		p.Text = r.Text(p.Text)
		if p.Kind == event.PartCall {
			clean, kind := r.JSON([]byte(p.Arguments))
			if kind != "" {
				p.Arguments = string(clean)
				held[len(out)] = kind
			}
		}
		out = append(out, p)
	}
	return out, held
}

// secretFault refuses a call whose arguments hold a secret.
func secretFault(kind string) *fault.Fault {
	return fault.New(fault.SecretArgument, fault.Model, fmt.Sprintf("the arguments hold a secret (%s); belay neither records nor runs them", kind),
		"leave the secret where it is: read it from a file or a variable when the code runs, edit the text around it with file_patch, or ask the user to put it in place")
}

// artifacts is the store that tools get.
type artifacts struct {
	store   tool.ArtifactStore
	secrets *redact.Redactor
}

func (a artifacts) PutArtifact(ctx context.Context, r io.Reader, media string) (event.Ref, error) {
	from := &source{r: r}
	ref, err := a.store.PutArtifact(ctx, a.secrets.Reader(from), media)
	if err != nil && from.err == nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errUnkept, err)
	}
	return ref, err
}

// errUnkept marks that the ledger did not take an artifact. It says nothing of
// what the artifact belongs to: an operation has then not failed, its result is
// still where it was found, and whoever looks again can keep it.
var errUnkept = errors.New("the ledger did not keep an artifact")

func (a artifacts) OpenArtifact(ctx context.Context, sha256 string) (io.ReadCloser, error) {
	return a.store.OpenArtifact(ctx, sha256)
}

// shown passes on the last line of a live output, which may have no end.
func shown(e tool.Env) {
	if w, ok := e.Progress.(io.Closer); ok {
		_ = w.Close()
	}
}

// progress shows output as it appears, whole lines of it at a time.
type progress struct {
	live Live
	op   string
}

func (p progress) Write(b []byte) (int, error) {
	p.live.Output(p.op, b)
	return len(b), nil
}

// deltas shows a response as it appears. Text and thinking are streams of
// their own.
type deltas struct {
	live           Live
	request        string
	text, thinking *redact.Writer
}

type deltaText struct{ d *deltas }
type deltaThinking struct{ d *deltas }

func (t deltaText) Write(p []byte) (int, error) {
	t.d.live.Delta(t.d.request, model.Delta{Text: string(p)})
	return len(p), nil
}

func (t deltaThinking) Write(p []byte) (int, error) {
	t.d.live.Delta(t.d.request, model.Delta{Thinking: string(p)})
	return len(p), nil
}

func newDeltas(live Live, request string, r *redact.Redactor) *deltas {
	d := &deltas{live: live, request: request}
	d.text, d.thinking = r.Writer(deltaText{d}), r.Writer(deltaThinking{d})
	return d
}

func (d *deltas) show(x model.Delta) {
	// A view takes everything.
	_, _ = io.WriteString(d.text, x.Text)
	_, _ = io.WriteString(d.thinking, x.Thinking)
	if x.Tool != "" {
		d.live.Delta(d.request, model.Delta{Tool: x.Tool})
	}
}

func (d *deltas) close() {
	_ = d.text.Close()
	_ = d.thinking.Close()
}
