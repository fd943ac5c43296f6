package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/model/openai"
	"belay/internal/model/wire"
	"belay/internal/prompt"
	"belay/internal/tool/builtin"
	"belay/internal/transcript"
)

// The targets.
const (
	maxFixed     = 12 << 10
	minStable    = 0.99
	minFewer     = 3.0
	answerTokens = 8192
)

// figures are what one run shows.
type figures struct {
	version         string
	files, requests int
	fixed           int             // bytes before the first word of the user
	compacted       []int           // bytes of the first request after each compaction
	took            []time.Duration // to build each view
	missing         []string        // what belay's view did not show when it was needed
	by              []sum           // in the order of strategies
}

// sum is what a strategy comes to over a run.
type sum struct {
	bytes, largest int64
	// stable of before are bytes that begin the next request as well, where no
	// compaction lies between the two.
	stable, before int64
	found, wanted  map[string]int
	last           []byte
	over           int // requests that the window would not have taken
}

// measure replays a run's ledger and composes each of its requests anew, in
// each way.
func measure(r recording, window int64) (figures, error) {
	f := figures{version: r.version, files: r.files}
	w, err := openai.New(openai.Config{Name: "m", BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		return f, err
	}
	tools := prompt.Tools(builtin.All())
	for range strategies {
		f.by = append(f.by, sum{found: map[string]int{}, wanted: map[string]int{}})
	}
	view, whole, needs := &transcript.Builder{}, &transcript.Builder{}, newNeeds()
	state := core.State{}
	texts := make([]string, len(strategies))
	compaction := false
	for _, e := range r.events {
		if p, ok := e.Payload.(event.ModelRequested); ok {
			began := time.Now()
			ms := view.Messages(p.Taken)
			req := prompt.Build(prompt.Input{State: state, Messages: ms, Tools: tools})
			body, _, err := w.Body(req)
			if err != nil {
				return f, err
			}
			f.took = append(f.took, time.Since(began))
			if f.requests++; f.requests == 1 {
				// The repository's own rules come on top, if it has some.
				f.fixed = strings.Index(string(body), state.Spec.Text[:20]) - len(wire.AppendText(nil, req.System)) + len(wire.AppendText(nil, prompt.System(core.State{})))
			}
			if compaction {
				f.compacted = append(f.compacted, len(body))
			}
			room := window - answerTokens - tokens(nil) - tokens([]model.Message{{Text: req.System}, {Text: req.State}})
			all := whole.Messages(p.Taken)
			for i, s := range strategies {
				req.Messages = s.of(all, ms, room)
				if err := f.by[i].send(w, req, compaction && i == 0, tokens(req.Messages) > room); err != nil {
					return f, fmt.Errorf("%s, request %s: %w", s.name, p.Request, err)
				}
				texts[i] = text(req.Messages, req.State)
			}
			compaction = false
		}
		if p, ok := e.Payload.(event.ModelResponded); ok {
			for kind, words := range needs.of(p) {
				for _, n := range words {
					f.count(kind, n, texts)
				}
			}
		}
		needs.learn(e)
		state = core.Fold(state, []event.Event{e})
		view.Add(e)
		if _, ok := e.Payload.(event.ContextCompacted); ok {
			compaction = true
			continue
		}
		whole.Add(e)
	}
	slices.Sort(f.took)
	return f, nil
}

// count looks for what an action needs. What not even the whole history shows
// comes from the model itself.
func (f *figures) count(kind, word string, texts []string) {
	if !strings.Contains(texts[1], word) {
		return
	}
	for i, t := range texts {
		f.by[i].wanted[kind]++
		if strings.Contains(t, word) {
			f.by[i].found[kind]++
		} else if i == 0 {
			f.missing = append(f.missing, fmt.Sprintf("request %d: %s %s", f.requests, kind, word))
		}
	}
}

func (s *sum) send(w model.Bodier, req model.Request, afresh, over bool) error {
	body, _, err := w.Body(req)
	if err != nil {
		return err
	}
	if s.last != nil && !afresh {
		s.before += int64(len(s.last))
		s.stable += int64(prompt.Measure(s.last, body))
	}
	s.bytes += int64(len(body))
	s.largest = max(s.largest, int64(len(body)))
	s.last = body
	if over {
		s.over++
	}
	return nil
}

func (s sum) stableShare() float64 { return float64(s.stable) / float64(max(s.before, 1)) }

func (s sum) grounded() float64 {
	found, wanted := 0, 0
	for kind, n := range s.wanted {
		found, wanted = found+s.found[kind], wanted+n
	}
	return float64(found) / float64(max(wanted, 1))
}

// within is how many milliseconds a view takes in this share of all cases.
func (f figures) within(share float64) float64 {
	return float64(f.took[int(share*float64(len(f.took)-1))].Microseconds()) / 1000
}

// print shows the figures and returns how many targets are missed.
func (f figures) print(out io.Writer, m module, verbose bool) int {
	fmt.Fprintf(out, "%s %s (%s): %d files, %d requests, %d compactions; a view was built in %.1f ms, 19 of 20 in %.1f\n",
		m.path, f.version, m.licence, f.files, f.requests, len(f.compacted), f.within(0.5), f.within(0.95))
	fmt.Fprintf(out, "  before the first word of the user: %d bytes; after each compaction: %v bytes\n", f.fixed, f.compacted)
	fmt.Fprintf(out, "  %-16s %9s %9s %8s %7s %7s %8s %9s %6s\n", "", "sent MB", "most KB", "stable", "paths", "symbols", "errors", "grounded", "over")
	for i, s := range f.by {
		fmt.Fprintf(out, "  %-16s %9.1f %9.0f %7.2f%% %s %s %s %8.2f%% %6d\n", strategies[i].name, float64(s.bytes)/1e6, float64(s.largest)/1e3,
			100*s.stableShare(), s.share("path"), s.share("symbol"), s.share("error"), 100*s.grounded(), s.over)
	}
	if verbose {
		for _, m := range f.missing {
			fmt.Fprintf(out, "  not in the view: %s\n", m)
		}
	}
	missed := 0
	target := func(met bool, format string, args ...any) {
		if !met {
			missed++
			fmt.Fprintf(out, "  MISSED: "+format+"\n", args...)
		}
	}
	b, whole, cut := f.by[0], f.by[1], f.by[3]
	target(f.requests >= 300, "a run has %d requests, 300 are wanted", f.requests)
	target(f.fixed < maxFixed, "%d bytes stand before the first word of the user, %d are allowed", f.fixed, maxFixed)
	target(b.stableShare() > minStable, "%.2f%% of a request begin the next one", 100*b.stableShare())
	target(float64(whole.bytes) >= minFewer*float64(b.bytes), "the whole history takes %.2f times as many bytes", float64(whole.bytes)/float64(b.bytes))
	target(b.grounded() >= cut.grounded(), "%.2f%% of what actions need stands in the view, %.2f%% in a history cut to the window", 100*b.grounded(), 100*cut.grounded())
	target(b.over == 0, "%d requests do not fit", b.over)
	return missed
}

func (s sum) share(kind string) string {
	return fmt.Sprintf("%6.2f%%", 100*float64(s.found[kind])/float64(max(s.wanted[kind], 1)))
}
