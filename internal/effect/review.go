package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/model"
	"belay/internal/prompt"
)

const (
	// reviewTime is how long a reviewer may take; what comes later is no
	// opinion.
	reviewTime = 5 * time.Minute
	// maxReviewDiff is how much of the diff a reviewer is shown, in bytes. A
	// change that is larger is not reviewed in part.
	maxReviewDiff = 256 << 10
)

// reviewRequest is what a reviewer is asked. It sees the goal, the diff and how
// the other criteria stand; it has no tools but the one that answers.
func (g *Goal) reviewRequest(ctx context.Context, s core.State, criterion string) (model.Request, error) {
	var c event.Criterion
	for _, x := range s.Criteria() {
		if x.ID == criterion {
			c = x
		}
	}
	diff, err := g.wholeDiff(ctx, s)
	if err != nil {
		return model.Request{}, err
	}
	if len(diff) > maxReviewDiff {
		return model.Request{}, fault.New(fault.TooLarge, fault.User, fmt.Sprintf("the diff has %d bytes, more than a reviewer is shown whole (%d)", len(diff), maxReviewDiff),
			"have a person judge it (kind: manual), or make the goal smaller")
	}
	return prompt.Review(s, c, diff), nil
}

func (g *Goal) wholeDiff(ctx context.Context, s core.State) (string, error) {
	if s.Diff.Diff.Whole.IsZero() {
		return s.Diff.Diff.Head, nil
	}
	r, err := g.Ledger.OpenArtifact(ctx, s.Diff.Diff.Whole.SHA256)
	if err != nil {
		if errors.Is(err, ledger.ErrNotFound) {
			err = fault.New(fault.NotFound, fault.Environment, "the diff is not in the ledger any more", "run belay audit")
		}
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxReviewDiff+1))
	return string(b), err
}

// prepareReview counts what the reviewer's request takes.
func (g *Goal) prepareReview(ctx context.Context, s core.State, e core.Prepare) (core.Body, error) {
	b := core.Prepared{Op: e.Op.ID}
	o, err := g.look(ctx, s, e.From, e.Baseline)
	if err == nil {
		b.Observation = o
		var req model.Request
		if req, err = g.reviewRequest(ctx, s, e.Op.Criterion); err == nil {
			b.Review, err = counted(ctx, g.Model, req)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		b.Fault = asFault(err, fault.Internal, fault.Environment)
	}
	return b, nil
}

func counted(ctx context.Context, m model.Model, req model.Request) (core.Counted, error) {
	info := m.Info()
	tokens, err := m.Count(ctx, req)
	if err != nil {
		return core.Counted{}, err
	}
	c := core.Counted{Tokens: tokens + int64(float64(tokens)*info.CountError), MaxOutput: info.MaxOutput}
	if info.Price != nil {
		c.InputPrice, c.OutputPrice, c.PriceKnown = max(info.Price.Input, info.Price.CacheWrite), info.Price.Output, true
	}
	return c, nil
}

// review asks the reviewer. Whatever does not come as one clear opinion, in
// time and whole, is none.
func (g *Goal) review(ctx context.Context, s core.State, e core.Run, c event.Criterion) (core.Body, error) {
	r := event.CheckResult{Tree: e.Op.Tree, Baseline: s.BaselineTree(), Opinion: event.ResultUnknown}
	ended := func(used event.Amount) core.Body {
		return core.Ended{Op: e.Op.ID, Attempt: e.Attempt, Outcome: event.Succeeded,
			Result: event.Result{Check: &r, Used: &used, Output: event.Text{Head: "the reviewer says " + r.Opinion + ": " + r.Reason}}}
	}
	req, err := g.reviewRequest(ctx, s, c.ID)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Reason = err.Error()
		return ended(event.Amount{}), nil
	}
	req.ID, req.MaxOutput, req.Attempt = g.ID+"."+e.Op.ID, e.Op.MaxOutput, e.Attempt
	late, end := context.WithTimeout(ctx, reviewTime)
	defer end()
	g.reviewing(e.Op.ID, end)
	defer g.reviewing(e.Op.ID, nil)
	resp, err := g.Model.Send(late, req, func(model.Delta) {})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return g.noOpinion(e, resp, err), nil
	}
	usage := resp.Usage
	if !resp.UsageKnown {
		usage = event.Usage{Input: e.Op.MaxOutput, Output: min(outputEstimate(resp.Parts), e.Op.MaxOutput)}
		if n, err := counted(ctx, g.Model, req); err == nil {
			usage.Input = n.Tokens
		}
	}
	used := event.Amount{Steps: 1, Tokens: usage.Total()}
	if p := g.Model.Info().Price; p != nil {
		used.CostMicros = p.Cost(usage)
	}
	r.Model = resp.Model
	r.Opinion, r.Reason = opinion(resp)
	return ended(used), nil
}

func (g *Goal) reviewing(op string, end context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked == nil {
		g.asked = map[string]context.CancelFunc{}
	}
	if end == nil {
		delete(g.asked, op)
		return
	}
	g.asked[op] = end
}

// noOpinion is a reviewer that could not be heard. A request that the provider
// turned away costs nothing; any other may have been answered.
func (g *Goal) noOpinion(e core.Run, resp model.Response, err error) core.Body {
	f := asFault(err, fault.Network, fault.Provider)
	if resp.UsageKnown {
		used := event.Amount{Steps: 1, Tokens: resp.Usage.Total()}
		if p := g.Model.Info().Price; p != nil {
			used.CostMicros = p.Cost(resp.Usage)
		}
		return core.Ended{Op: e.Op.ID, Attempt: e.Attempt, Outcome: event.Failed, Result: event.Result{Fault: f, Used: &used, Output: event.Text{Head: f.Error()}}}
	}
	switch f.Kind {
	case fault.RateLimited, fault.Overloaded, fault.BadCredentials, fault.BadRequest, fault.UnknownModel, fault.ContextOverflow:
		return g.failed(e.Op, e.Attempt, f)
	}
	return core.Ended{Op: e.Op.ID, Attempt: e.Attempt, Outcome: event.OutcomeUnknown, Result: event.Result{Fault: f,
		Output: event.Text{Head: "the reviewer was not heard to the end: " + f.Error()}}}
}

// opinion reads a reviewer's answer: exactly one call of the tool that answers,
// or exactly its arguments as the whole text.
func opinion(resp model.Response) (result, reason string) {
	if resp.StopReason == model.StopLength {
		return event.ResultUnknown, "the answer was cut at the output limit"
	}
	var answers []string
	text := ""
	for _, p := range resp.Parts {
		switch p.Kind {
		case event.PartCall:
			if p.Tool != prompt.ReviewTool {
				return event.ResultUnknown, "the answer calls " + p.Tool + ", which a reviewer does not have"
			}
			answers = append(answers, p.Arguments)
		case event.PartText:
			text += p.Text
		}
	}
	if len(answers) == 0 && strings.TrimSpace(text) != "" {
		answers = []string{unfenced(text)}
	}
	if len(answers) != 1 {
		return event.ResultUnknown, fmt.Sprintf("there are %d answers in the place of one", len(answers))
	}
	var v struct {
		Result *string `json:"result"`
		Reason *string `json:"reason"`
	}
	d := json.NewDecoder(bytes.NewReader([]byte(answers[0])))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return event.ResultUnknown, "the answer is malformed: " + err.Error()
	}
	if _, err := d.Token(); err != io.EOF {
		return event.ResultUnknown, "the answer is malformed: something follows it"
	}
	if v.Result == nil || v.Reason == nil || strings.TrimSpace(*v.Reason) == "" {
		return event.ResultUnknown, "the answer is malformed: result or reason is missing"
	}
	switch *v.Result {
	case event.Pass, event.Fail, event.ResultUnknown:
		return *v.Result, short(*v.Reason)
	}
	return event.ResultUnknown, fmt.Sprintf("the answer is malformed: result is %q", *v.Result)
}

// unfenced takes the fence of a code block off, which some models put around
// every JSON.
func unfenced(text string) string {
	t := strings.TrimSpace(text)
	for _, open := range []string{"```json\n", "```\n"} {
		if in, ok := strings.CutPrefix(t, open); ok {
			if in, ok = strings.CutSuffix(in, "```"); ok {
				return in
			}
		}
	}
	return t
}

func short(s string) string {
	const most = 2000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
