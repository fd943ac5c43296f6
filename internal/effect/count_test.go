package effect

import (
	"context"
	"errors"
	"strings"
	"testing"

	"belay/internal/core"
	"belay/internal/model"
)

// counted is a model that estimates one token for two bytes, which may be half
// too little, and whose provider counts one for three.
type countedModel struct {
	model.Model
	counts bool
	fails  bool
	asked  int
}

func size(r model.Request) int64 {
	n := len(r.System) + len(r.State)
	for _, m := range r.Messages {
		n += len(m.Text)
	}
	return int64(n)
}

func (m *countedModel) Info() model.Info {
	return model.Info{Window: 100_000, CountError: 0.5, Counts: m.counts}
}

func (m *countedModel) Count(_ context.Context, r model.Request) (int64, error) {
	return size(r) / 2, nil
}

func (m *countedModel) CountExactly(ctx context.Context, r model.Request) (int64, error) {
	if _, limited := ctx.Deadline(); !limited {
		return 0, errors.New("the request would be held up for ever")
	}
	m.asked++
	if m.fails {
		return 0, errors.New("the server does not count today")
	}
	return size(r) / 3, nil
}

func conversationOf(bytes int) model.Request {
	return model.Request{System: "s", State: "<state>", Messages: []model.Message{{Role: model.User, Text: strings.Repeat("x", bytes)}}}
}

func TestAProviderIsAskedToCountOnlyWhenItDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		counts, fails bool
		bytes         int
		asked         int
		least, most   int64
	}{
		"far from the window":        {counts: true, bytes: 60_000, asked: 0, least: 45_000, most: 45_100},
		"near the window":            {counts: true, bytes: 150_000, asked: 1, least: 50_000, most: 51_100},
		"near, and it cannot count":  {counts: false, bytes: 150_000, asked: 0, least: 112_500, most: 112_600},
		"near, and it does not tell": {counts: true, fails: true, bytes: 150_000, asked: 1, least: 112_500, most: 112_600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &countedModel{counts: c.counts, fails: c.fails}
			n, err := NewComposer(&Goal{Model: m}).count(context.Background(), conversationOf(c.bytes), core.State{}, false)
			if err != nil || n < c.least || n > c.most || m.asked != c.asked {
				t.Errorf("%d tokens, asked %d times, %v", n, m.asked, err)
			}
		})
	}
}

// TestTheCountIsNeverBelowTheTruth: what the provider told of the request before
// makes the number smaller, and never too small.
func TestTheCountIsNeverBelowTheTruth(t *testing.T) {
	t.Parallel()
	m := &countedModel{counts: true}
	c := NewComposer(&Goal{Model: m})
	asked := 0
	for bytes := 10_000; bytes < 225_000; bytes += 5_000 {
		req := conversationOf(bytes)
		n, err := c.count(context.Background(), req, core.State{}, true)
		if truth := size(req) / 3; err != nil || n < truth || n > truth+truth/5+4_000 && bytes > 15_000 {
			t.Fatalf("%d bytes: %d tokens for %d, %v", bytes, n, truth, err)
		}
		asked = m.asked
		c.told(size(req) / 3)
	}
	if asked > 3 {
		t.Errorf("the provider was asked %d times, although each answer told its size", asked)
	}
	// After a compaction, or from a server that counts its own way, nothing is taken over.
	c.told(3)
	if n, err := c.count(context.Background(), conversationOf(60_000), core.State{}, false); err != nil || n < 45_000 {
		t.Errorf("%d tokens, %v", n, err)
	}
}
