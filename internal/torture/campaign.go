package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"belay/internal/failpoint"
	"belay/internal/ledger/postgres/pgtest"
)

type options struct {
	store   string
	kills   int
	seed    uint64
	only    int
	jobs    int
	dir     string
	verbose bool
	log     io.Writer
}

// campaign is many runs against one undisturbed one.
type campaign struct {
	options
	program string
	base    string            // a laid world that runs are copied from
	server  *pgtest.Server    // that has the ledgers; nil for SQLite
	want    map[string]string // the final tree of the undisturbed run
	hits    map[failpoint.Name]int

	mu     sync.Mutex
	report report
}

func newCampaign(o options) (*campaign, error) {
	dir, err := os.MkdirTemp(o.dir, "belay-torture-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	o.dir = dir
	c := &campaign{options: o, program: filepath.Join(dir, "belay"), base: filepath.Join(dir, "base")}
	if err := c.prepare(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *campaign) close() {
	if c.server != nil {
		c.server.Remove()
	}
	if len(c.report.violations) == 0 {
		os.RemoveAll(c.dir)
	}
}

// prepare builds the program, lays the world and plays it once undisturbed.
func (c *campaign) prepare() error {
	build := exec.Command("go", "build", "-tags", "failpoints", "-o", c.program, "belay/cmd/belay")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build belay with failpoints (run this inside the repository): %w\n%s", err, out)
	}
	if err := lay(c.base); err != nil {
		return err
	}
	if c.store == onPostgres {
		var err error
		if c.server, err = pgtest.New(pgtest.Options{Fsync: true}); err != nil {
			return fmt.Errorf("start a private server (TORTURE_DB=sqlite goes without): %w", err)
		}
	}
	c.hits = map[failpoint.Name]int{}
	c.report = report{store: c.store, seed: c.seed, points: map[string]int{}, random: map[string]int{}, effects: map[string]int{}, reached: map[failpoint.Name]bool{}}
	for name, moves := range map[string]int{"calm": 0, "journey": 2} {
		if err := c.undisturbed(name, moves); err != nil {
			return fmt.Errorf("the undisturbed run (%s): %w", name, err)
		}
	}
	return nil
}

// undisturbed plays the goal without a kill, and counts how often it comes to
// each failpoint.
func (c *campaign) undisturbed(name string, moves int) error {
	p, err := c.world(name, plan{sandbox: "none", moves: moves}, rand.New(rand.NewPCG(0, 0)))
	if err != nil {
		return err
	}
	if err := p.play(); err != nil {
		return err
	}
	got, err := tree(p.path("repo"), notCompared)
	if err != nil {
		return err
	}
	if c.want == nil {
		c.want = got
	}
	if _, err := p.check(c.want, moves > 0); err != nil {
		return err
	}
	if p.moves < moves {
		p.violation("it travelled %d times, not %d", p.moves, moves)
	}
	if len(p.bad) > 0 {
		return errors.New(strings.Join(p.bad, "\n"))
	}
	for n, hits := range p.hits() {
		c.hits[n] = max(c.hits[n], hits)
		c.report.reached[n] = true
	}
	return os.RemoveAll(p.dir)
}

func (c *campaign) world(name string, pl plan, rng *rand.Rand) (*player, error) {
	dir := filepath.Join(c.dir, name)
	if err := os.CopyFS(dir, os.DirFS(c.base)); err != nil {
		return nil, err
	}
	if err := moved(c.base, dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "points"), 0o755); err != nil {
		return nil, err
	}
	log := func(string, ...any) {}
	if c.verbose {
		log = func(format string, a ...any) {
			c.mu.Lock()
			defer c.mu.Unlock()
			fmt.Fprintf(c.log, "["+name+"] "+format+"\n", a...)
		}
	}
	points := slices.Clone(pl.points)
	for _, n := range names(c.store) {
		points = append(points, string(n)+"=kill@0") // counts, and does nothing
	}
	w := &world{dir: dir, base: c.base, name: name, server: c.server, program: c.program, points: strings.Join(points, ";"), acked: map[uint64]string{}, log: log}
	return &player{world: w, plan: pl, rng: rng, random: map[string]int{}, put: map[string]bool{}}, nil
}

// play plays runs until enough was killed, or somebody has seen enough: the
// runs that have begun then come to their ends.
func (c *campaign) play(enough context.Context) (report, error) {
	if c.only >= 0 {
		return c.report, errors.Join(c.one(c.only), nil)
	}
	began := time.Now()
	ctx, calm := context.WithCancel(context.Background())
	shaken := c.shaken(ctx)
	var wg sync.WaitGroup
	var next int
	var failed error
	for range max(1, c.jobs) {
		wg.Go(func() {
			for {
				c.mu.Lock()
				if c.report.kills() >= c.kills || enough.Err() != nil || failed != nil || c.report.bad >= 20 {
					c.mu.Unlock()
					return
				}
				i := next
				next++
				c.mu.Unlock()
				if err := c.one(i); err != nil {
					c.mu.Lock()
					failed = errors.Join(failed, err)
					c.mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	calm()
	failed = errors.Join(failed, <-shaken)
	c.report.took = time.Since(began)
	return c.report, failed
}

// shaken lets the server, if there is one, end now and then until the context
// ends; what went wrong with it comes after that.
func (c *campaign) shaken(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	if c.server == nil {
		ended <- nil
		return ended
	}
	go func() {
		n, err := shake(ctx, c.server, rand.New(rand.NewPCG(c.seed, 0)))
		c.report.shaken = n
		ended <- err
	}()
	return ended
}

// one plays run i.
func (c *campaign) one(i int) error {
	rng := rand.New(rand.NewPCG(c.seed, uint64(i)))
	return c.planned(i, c.planOf(i, rng), rng)
}

// planned plays a run by a plan.
func (c *campaign) planned(i int, pl plan, rng *rand.Rand) error {
	p, err := c.world(fmt.Sprintf("run%d", i), pl, rng)
	if err != nil {
		return err
	}
	p.log("%v, %d kills at random instants, %d cut connections, %d journeys, sandbox %s", pl.points, pl.kills, pl.drops, pl.moves, pl.sandbox)
	playErr := p.play()
	if playErr != nil {
		p.violation("%v", playErr)
	}
	taken, err := p.taken()
	if err != nil {
		return err
	}
	lost := p.shims || p.moves > 0
	for n := range taken {
		lost = lost || strings.HasPrefix(n, "shim.") && !strings.HasPrefix(n, "shim.client.")
	}
	var a account
	if playErr == nil {
		if a, err = p.check(c.want, lost); err != nil {
			return err
		}
	}
	if len(p.bad) > 0 || c.only >= 0 {
		// A server is gone with its campaign; what the ledger said is kept.
		if o, err := p.ask("events", p.goal); err == nil {
			_ = os.WriteFile(p.path("events.jsonl"), []byte(o.out), 0o600)
			_ = os.WriteFile(p.path("violations.txt"), []byte(strings.Join(p.bad, "\n")), 0o600)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.add(i, p, taken, a)
	if len(p.bad) == 0 && c.only < 0 {
		return os.RemoveAll(p.dir)
	}
	for _, q := range p.ours() {
		fmt.Fprintf(c.log, "run %d left process %d: %s\n", i, q.pid, q.cmd)
	}
	fmt.Fprintf(c.log, "run %d is kept in %s (again: go run ./internal/torture -db %s -seed %d -run %d -v)\n", i, p.dir, c.store, c.seed, i)
	return nil
}

// doors are failpoints after which something is left to look at, so that the
// ones on the way of recovery are reached at all.
var doors = []failpoint.Name{failpoint.RunBefore, failpoint.RunAfter, failpoint.EditMade, failpoint.EditBefore, failpoint.JournalWritten,
	failpoint.RecordNamed, failpoint.RecordPrepared, failpoint.LaunchedShim, failpoint.DurableAfter, failpoint.ShimTold, failpoint.HandedOver, failpoint.PushSent, failpoint.PushRehearsed}

const (
	pointsPerRun = 7
	mixedEvery   = 3 // each such run is disturbed at random instants instead
	travelEvery  = 4 // each such run goes on at another place now and then
)

// planOf draws the plan of run i. The runs with failpoints go through all of
// them in turn, each time at another of its hits.
func (c *campaign) planOf(i int, rng *rand.Rand) plan {
	pl := plan{sandbox: sandboxOf(i)}
	if i%travelEvery == travelEvery-1 {
		pl.moves = 1 + rng.IntN(3)
	}
	if i%mixedEvery == mixedEvery-1 {
		pl.kills = 2 + rng.IntN(6)
		if c.server != nil {
			pl.drops = 3 + rng.IntN(4)
		}
		return pl
	}
	list := names(c.store)
	turn := i - i/mixedEvery // how many runs with failpoints came before
	recovery := false
	for k := range pointsPerRun {
		// A stride that has no factor in common with the number of names visits
		// each of them, and puts distant ones into one run.
		at := (turn*pointsPerRun + k) * stride(len(list)) % len(list)
		n := list[at]
		hits := c.hits[n]
		recovery = recovery || hits == 0
		if slices.Contains(onTheWay, n) {
			pl.moves = max(pl.moves, 2)
		}
		pl.points = append(pl.points, fmt.Sprintf("%s=%s@%d", n, c.action(n, rng), 1+rng.IntN(max(hits, 1))))
	}
	for range 3 {
		if recovery {
			d := doors[rng.IntN(len(doors))]
			pl.points = append(pl.points, fmt.Sprintf("%s=kill@%d", d, 1+rng.IntN(max(c.hits[d], 1))))
		}
	}
	return pl
}

// onTheWay are the failpoints that only a goal that travels comes to.
var onTheWay = []failpoint.Name{failpoint.PackTaken, failpoint.MoveRemoved, failpoint.MoveStaged, failpoint.MoveNamed}

// sandboxOf confines the commands of every second run as strongly as this
// machine can.
func sandboxOf(i int) string {
	if i%2 == 0 {
		return "none"
	}
	return "auto"
}

func stride(n int) int {
	for s := 29; ; s++ {
		a, b := s, n
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return s
		}
	}
}

func (c *campaign) action(n failpoint.Name, rng *rand.Rand) string {
	inShim := strings.HasPrefix(string(n), "shim.") && !strings.HasPrefix(string(n), "shim.client.")
	switch {
	case (n == failpoint.CommitBefore || n == failpoint.PgCommitBefore) && rng.IntN(3) == 0:
		return "error"
	case inShim && rng.IntN(2) == 0:
		return "both"
	}
	return "kill"
}

// report is what a campaign found.
type report struct {
	store      string
	seed       uint64
	runs       int
	took       time.Duration
	points     map[string]int // kills by failpoint
	random     map[string]int // kills at random instants, by what was killed
	effects    map[string]int // effects seen
	expected   int
	unknown    int
	events     int
	moves      int // journeys to another place
	cut        int // connections that were cut
	shaken     int // ends of the server
	reached    map[failpoint.Name]bool
	bad        int // runs with violations
	violations []string
}

// missed are the failpoints that no run came to.
func (r *report) missed() (list []failpoint.Name) {
	for _, n := range names(r.store) {
		if !r.reached[n] {
			list = append(list, n)
		}
	}
	return list
}

// spared are the failpoints at which nobody was killed.
func (r *report) spared() (list []failpoint.Name) {
	for _, n := range names(r.store) {
		if r.points[string(n)] == 0 {
			list = append(list, n)
		}
	}
	return list
}

func (r *report) kills() int {
	n := 0
	for _, m := range []map[string]int{r.points, r.random} {
		for _, k := range m {
			n += k
		}
	}
	return n
}

func (r *report) add(i int, p *player, taken map[string]int, a account) {
	r.runs++
	for n, k := range taken {
		r.points[n] += k
	}
	for n, k := range p.random {
		r.random[n] += k
	}
	for _, e := range effects {
		r.expected++
		r.effects[e.name] += e.seen(p.world)
	}
	for n := range p.hits() {
		r.reached[n] = true
	}
	r.moves += p.moves
	r.cut += p.cut
	r.unknown += a.unknown
	r.events += len(a.events)
	if len(p.bad) > 0 {
		r.bad++
	}
	for _, v := range p.bad {
		r.violations = append(r.violations, fmt.Sprintf("run %d: %s", i, v))
	}
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s, kills by failpoint:\n", r.store)
	for _, n := range slices.Sorted(maps.Keys(r.points)) {
		fmt.Fprintf(w, "  %-32s %5d\n", n, r.points[n])
	}
	seen := 0
	for _, n := range r.effects {
		seen += n
	}
	fmt.Fprintf(w, "kills at random instants: worker %d, shims %d, both %d\n", r.random["worker"], r.random["shims"], r.random["both"])
	fmt.Fprintf(w, "failpoints that no run came to: %d %v\n", len(r.missed()), r.missed())
	fmt.Fprintf(w, "failpoints that killed nobody: %d %v\n", len(r.spared()), r.spared())
	if r.store == onPostgres {
		fmt.Fprintf(w, "besides: the server was ended and started again %d times, %d connections were cut\n", r.shaken, r.cut)
	}
	fmt.Fprintf(w, "besides: the goals went on at another place %d times\n", r.moves)
	fmt.Fprintf(w, "%s, seed %d: %d runs, %d kills in %s (%d events)\n", r.store, r.seed, r.runs, r.kills(), r.took.Round(time.Second), r.events)
	fmt.Fprintf(w, "effects expected %d, seen %d; outcomes declared unknown %d\n", r.expected, seen, r.unknown)
	fmt.Fprintf(w, "violations %d, in %d runs\n", len(r.violations), r.bad)
	for _, v := range r.violations {
		fmt.Fprintln(w, "  "+strings.ReplaceAll(v, "\n", "\n    "))
	}
}
