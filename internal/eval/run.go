package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"belay/internal/core"
	"belay/internal/event"
)

// Outcome is what a run came out as.
type Outcome string

// The four outcomes.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Infra   Outcome = "infra"
	TimeOut Outcome = "time_out"
)

// Outcomes lists them in the order in which tables show them.
var Outcomes = []Outcome{Pass, Fail, TimeOut, Infra}

// Runner plays cases.
type Runner struct {
	// Belay is the program's path.
	Belay string
	// Model, if set, plays every case instead of its own.
	Model string
	// Sandbox is the --sandbox of cases that name none.
	Sandbox  string
	Repeat   int
	Parallel int
	// Out is where results are kept; "" keeps none.
	Out string
	// Scratch is where runs have their directories; "" is the system's. Keep
	// leaves them there.
	Scratch string
	Keep    bool
	// Config is the folder whose models.yaml runs get.
	Config string
	// Command runs a check's command, contained like the commands of a goal.
	Command func(ctx context.Context, c Command) (Ended, error)
	// OnResult sees each result as it comes, one at a time.
	OnResult func(Result)
}

// Command is a check's command.
type Command struct {
	Shell   string
	Dir     string
	Env     []string
	Sandbox string
	Timeout time.Duration
}

// Ended is how it ended.
type Ended struct {
	Exit     int
	TimedOut bool
	Output   string
}

// retries is how often a run that came out as infra is tried again.
const retries = 1

// Suite plays every case Repeat times, Parallel at a time. The results are in
// the order of the cases whatever order they come in.
func (r *Runner) Suite(ctx context.Context, cases []Case, broken []Broken) (Results, error) {
	repeat, parallel := max(r.Repeat, 1), r.Parallel
	if parallel < 1 {
		parallel = max(runtime.NumCPU(), 1)
	}
	var all []Result
	for _, b := range broken {
		res := Result{Case: b.Name, Repeat: 1, Outcome: Infra, Class: Fixture, Why: []string{b.Err.Error()}, Tries: 1}
		all = append(all, res)
		r.tell(res)
	}
	first := len(all)
	all = append(all, make([]Result, len(cases)*repeat)...)
	begun := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, parallel)
	for i := range cases {
		for n := range repeat {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				res := Result{Case: cases[i].Name, Repeat: n + 1, Outcome: Infra, Why: []string{"not run: interrupted"}}
				if ctx.Err() == nil {
					res = r.one(ctx, cases[i], n+1)
				}
				mu.Lock()
				defer mu.Unlock()
				all[first+i*repeat+n] = res
				r.tell(res)
			})
		}
	}
	wg.Wait()
	return Results{Header: Header{Format: Format, Begun: begun.UTC().Truncate(time.Second), WallMS: time.Since(begun).Milliseconds(),
		Model: r.Model, Repeat: repeat, Parallel: parallel, System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}, Runs: all}, ctx.Err()
}

func (r *Runner) tell(res Result) {
	if r.OnResult != nil {
		r.OnResult(res)
	}
}

// one is one run, tried again when nothing could be said of it.
func (r *Runner) one(ctx context.Context, c Case, n int) Result {
	var res Result
	for try := 1; ; try++ {
		res = r.try(ctx, c, n)
		res.Tries = try
		if res.Outcome != Infra || try > retries || ctx.Err() != nil {
			return res
		}
	}
}

func (r *Runner) try(ctx context.Context, c Case, n int) (res Result) {
	begun := time.Now()
	res = Result{Case: c.Name, Title: c.Title, Shows: c.Why, Field: c.Field, Repeat: n}
	defer func() { res.WallMS = time.Since(begun).Milliseconds() }()
	limited, cancel := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer cancel()
	w, err := r.newWorld(limited, c)
	if w != nil && !r.Keep {
		defer os.RemoveAll(w.dir)
	}
	if err != nil {
		res.settle(Infra, Fixture, err.Error())
		return res
	}
	if r.Keep {
		res.Scratch = w.dir
	}
	if why := r.before(limited, c, w); why != "" {
		res.settle(Infra, Fixture, "preflight: "+why)
		return res
	}
	p := r.newPlayer(c, w)
	err = p.play(limited)
	res.read(p)
	switch {
	case timedOut(err):
		res.settle(TimeOut, res.Class, fmt.Sprintf("not over after %s", time.Duration(c.Timeout)))
	case errors.As(err, new(brokenCase)), ctx.Err() != nil:
		res.settle(Infra, Environment, err.Error())
	case err != nil:
		res.settle(Fail, res.Class, err.Error())
	default:
		r.judge(limited, c, w, p, &res)
	}
	r.keep(p, &res)
	return res
}

// judge holds the end against what the case expects.
func (r *Runner) judge(ctx context.Context, c Case, w *world, p *player, res *Result) {
	unmet := c.Expect.Unmet(End{Exit: p.exit, Snapshot: p.snapshot(), Events: p.events, Said: p.said.String(), Class: res.Class, Repo: w.repo, Start: w.start})
	if len(p.events) == 0 && (c.Expect.Exit == nil || *c.Expect.Exit != p.exit) {
		res.settle(Infra, NotBegun, fmt.Sprintf("belay did not begin (exit %d): %s", p.exit, short(p.said.String())))
		return
	}
	failed, broken := r.after(ctx, c, w)
	switch {
	case broken != "" && timedOut(ctx.Err()):
		res.settle(TimeOut, res.Class, fmt.Sprintf("its checks were not over after %s", time.Duration(c.Timeout)))
		return
	case broken != "":
		res.settle(Infra, Environment, broken)
		return
	}
	if len(failed) > 0 {
		res.Class, res.ClassWhy = Classify(p.events, failed)
	}
	promises := BrokenPromises(p.events)
	why := append(append(promises, failed...), unmet...)
	switch {
	case len(why) == 0:
		res.Outcome = Pass
	case len(promises) > 0:
		res.settle(Fail, BrokenPromise, why...)
	case c.Expect.Class != Environment && NotStarted(p.events) != "":
		res.settle(Infra, Environment, append(why, NotStarted(p.events))...)
	case res.Class == ProviderFault && strings.HasPrefix(w.model, "script:"):
		// A script has no moods: the run differed from what it expects.
		res.settle(Fail, Unmet, append(why, res.ClassWhy)...)
	case c.Expect.Class == "" && (res.Class == ProviderFault || res.Class == Environment):
		// Neither the model nor belay has been seen at work to the end.
		res.settle(Infra, res.Class, why...)
	case res.Class == None:
		res.settle(Fail, Unmet, why...)
	default:
		res.settle(Fail, res.Class, why...)
	}
}

// keep writes what a person wants to see of a run.
func (r *Runner) keep(p *player, res *Result) {
	if r.Out == "" {
		return
	}
	rel := filepath.Join("runs", fmt.Sprintf("%s-%d", strings.ReplaceAll(res.Case, "/", "_"), res.Repeat))
	dir := filepath.Join(r.Out, rel)
	note := func(err error) {
		if err != nil {
			res.Why = append(res.Why, "its files could not be kept: "+err.Error())
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		note(err)
		return
	}
	var events, timeline strings.Builder
	for _, e := range p.events {
		b, err := jsonLine(e)
		note(err)
		events.Write(b)
	}
	for _, t := range core.Timeline(p.events) {
		fmt.Fprintf(&timeline, "%5d %s %s  %s\n", t.Seq, t.Name, t.Op, t.Detail)
	}
	res.Files = map[string]string{}
	write := func(name, content string) {
		if content == "" {
			return
		}
		note(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		res.Files[strings.TrimSuffix(name, filepath.Ext(name))] = filepath.ToSlash(filepath.Join(rel, name))
	}
	write("events.jsonl", events.String())
	write("timeline.txt", timeline.String())
	write("diff.patch", p.snapshot().LatestDiff)
	if p.goal != "" {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		page, _, err := p.ask(ctx, "report", p.goal, "--html")
		note(err)
		write("report.html", page)
	}
	write("log.txt", p.log.String()+"\n"+errorsOnly(p.said.String()))
}

// errorsOnly drops the events from what was printed: they have their own file.
func errorsOnly(said string) string {
	var b strings.Builder
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "{") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// count counts events of one type.
func count(es []event.Event, t event.Type) int {
	n := 0
	for _, e := range es {
		if e.Type == t {
			n++
		}
	}
	return n
}
