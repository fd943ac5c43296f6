// Package tui is the live view of a goal in a terminal, and of all goals: a
// person sees what goes on, why it waits, what it has cost and what is shown,
// and answers from there.
//
// Screen and List are values: what a key means and what is drawn are functions
// of them. The rest feeds them from the service and sends the commands there.
// It must not decide anything about a goal, and everything that a model, a
// repository or a command wrote is made harmless before it is drawn.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/service"
)

// Options are what a view needs.
type Options struct {
	Service service.Door
	Goal    string
	In      io.Reader
	Out     io.Writer
	Color   bool
	// Work advances the goal until it comes to rest. Nil: another process works
	// on it, and the view only watches and answers.
	Work func(ctx context.Context, o service.AttendOptions) error
}

// ErrLeft says that the person left the view of a goal that this process works
// on: what runs goes on under its shim, and the goal can be resumed.
var ErrLeft = errors.New("the view was left")

// The messages of the program.
type (
	happened struct{ e event.Event }
	streamed struct{ of, text string }
	took     struct {
		s    core.Snapshot
		held bool
		text string // the preview
	}
	said struct {
		text    string
		problem bool
	}
	offered struct {
		rules []event.Rule
		save  bool
	}
	rested  struct{ err error }
	resumed struct{ err error }
	ticked  time.Time
)

// Show runs the view until the goal has ended, the person leaves, or the
// context ends.
func Show(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	snap, err := o.Service.Snapshot(ctx, o.Goal)
	if err != nil {
		return err
	}
	v := &view{Options: o, ctx: ctx, watched: map[string]bool{}, dirty: make(chan struct{}, 1), flow: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	v.screen = Screen{Width: 80, Height: 24, Color: o.Color, Now: time.Now(), Entries: snap.Timeline, Attached: o.Work == nil}.Took(snap)
	v.program = tea.NewProgram(v, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler())
	var feeds sync.WaitGroup
	feeds.Go(v.refresh)
	feeds.Go(v.stream)
	if o.Work != nil {
		feeds.Go(func() { v.work(snap.Head) })
	} else {
		feeds.Go(func() { v.follow(snap.Head) })
	}
	v.look()
	_, err = v.program.Run()
	cancel()
	feeds.Wait()
	v.watches.Wait()
	switch {
	case v.failed != nil:
		return v.failed
	case errors.Is(err, tea.ErrProgramKilled):
		return context.Cause(ctx)
	case err != nil:
		return err
	case v.left && o.Work != nil && !v.screen.over():
		return ErrLeft
	}
	return nil
}

// view is the program: the screen, and what feeds it.
type view struct {
	Options
	ctx     context.Context
	program *tea.Program
	screen  Screen
	left    bool
	failed  error
	// idle says that the work has come to rest and waits to be taken up again;
	// resuming that the person has asked for that before it had come to rest.
	idle, resuming bool

	watched map[string]bool // attempts whose output streams
	watches sync.WaitGroup

	dirty chan struct{} // the snapshot is to be read again
	again chan struct{} // the goal is to be worked on again
	flow  chan struct{} // something streams
	mu    sync.Mutex
	of    string
	text  []byte
}

// look asks for a new snapshot.
func (v *view) look() {
	select {
	case v.dirty <- struct{}{}:
	default:
	}
}

// refresh reads the snapshot as often as something has happened, never twice
// for the same.
func (v *view) refresh() {
	for {
		select {
		case <-v.ctx.Done():
			return
		case <-v.dirty:
		}
		s, err := v.Service.Snapshot(v.ctx, v.Goal)
		if err != nil {
			if v.ctx.Err() == nil {
				v.program.Send(said{err.Error(), true})
			}
			continue
		}
		m := took{s: s, held: true}
		if v.Work == nil {
			m.held, _ = v.Service.Held(v.ctx, v.Goal) // a hint for the person; the next look asks again
		}
		if len(s.PendingApprovals) > 0 {
			if text, err := v.Service.Whole(v.ctx, s.PendingApprovals[0].Intent.Preview); err == nil {
				m.text = text
			}
		}
		v.program.Send(m)
		if v.Work == nil {
			v.watch(s)
		}
	}
}

// watch lets the output of what others run stream in.
func (v *view) watch(s core.Snapshot) {
	for _, o := range s.OpenOperations {
		key := fmt.Sprint(o.Op, ".", o.Attempt)
		if o.Phase != operation.Started || o.Effect != event.Supervised || v.watched[key] {
			continue
		}
		v.watched[key] = true
		v.watches.Go(func() {
			if err := v.Service.Watch(v.ctx, v.Goal, o.Op, o.Attempt, v); err != nil && v.ctx.Err() == nil {
				v.program.Send(said{err.Error(), true})
			}
		})
	}
}

// work advances the goal, and again each time that it was resumed.
func (v *view) work(after uint64) {
	o := service.AttendOptions{After: after, Live: v, OnEvent: func(e event.Event) { v.program.Send(happened{e}); v.look() },
		Ask: func(ctx context.Context, _ core.Snapshot) error { <-ctx.Done(); return nil }}
	for {
		err := v.Work(v.ctx, o)
		v.program.Send(rested{err})
		select {
		case <-v.ctx.Done():
			return
		case <-v.again:
		}
		if s, err := v.Service.Snapshot(v.ctx, v.Goal); err == nil {
			o.After = max(o.After, s.Head-1) // what was seen is not shown twice
		}
	}
}

// follow watches a goal that others work on.
func (v *view) follow(after uint64) {
	for it, err := range v.Service.Follow(v.ctx, v.Goal, after) {
		switch {
		case err != nil:
			if v.ctx.Err() == nil {
				v.program.Send(said{err.Error(), true})
			}
			return
		case it.CaughtUp:
		default:
			v.program.Send(happened{it.Event})
		}
		v.look()
	}
}

// Delta implements effect.Live.
func (v *view) Delta(request string, d model.Delta) { v.pour(request, d.Thinking+d.Text) }

// Output implements effect.Live.
func (v *view) Output(op string, p []byte) { v.pour(op, string(p)) }

// maxPoured bounds what waits to be drawn: nobody reads faster.
const maxPoured = 64 << 10

func (v *view) pour(of, text string) {
	if text == "" {
		return
	}
	v.mu.Lock()
	if of != v.of {
		v.of, v.text = of, nil
	}
	v.text = append(v.text, text...)
	if n := len(v.text) - maxPoured; n > 0 {
		v.text = v.text[n:]
	}
	v.mu.Unlock()
	select {
	case v.flow <- struct{}{}:
	default:
	}
}

// drawEvery is the shortest time between two pieces of a stream.
const drawEvery = 50 * time.Millisecond

func (v *view) stream() {
	pace := time.NewTicker(drawEvery)
	defer pace.Stop()
	for {
		select {
		case <-v.ctx.Done():
			return
		case <-v.flow:
		}
		v.mu.Lock()
		m := streamed{v.of, string(v.text)}
		v.text = nil
		v.mu.Unlock()
		v.program.Send(m)
		select {
		case <-v.ctx.Done():
			return
		case <-pace.C:
		}
	}
}

// Init implements tea.Model.
func (v *view) Init() tea.Cmd { return tick() }

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return ticked(t) })
}

// View implements tea.Model.
func (v *view) View() tea.View {
	w := tea.NewView(v.screen.Render())
	w.AltScreen = true
	return w
}

// Update implements tea.Model.
func (v *view) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		v.screen.Width, v.screen.Height = m.Width, m.Height
	case ticked:
		v.screen.Now = time.Time(m)
		return v, tick()
	case happened:
		v.screen = v.screen.Happened(m.e)
	case streamed:
		v.screen = v.screen.Streamed(m.of, m.text)
	case took:
		v.screen.Now = time.Now()
		v.screen = v.screen.Took(m.s)
		v.screen.Preview, v.screen.Held = m.text, m.held
	case said:
		v.screen = v.screen.Said(m.text, m.problem)
		v.look()
	case offered:
		v.screen = v.screen.Offer(m.rules, m.save)
	case resumed:
		if m.err != nil {
			v.idle, v.resuming = v.idle || !v.resuming, false // nothing was taken up
			v.screen = v.screen.Said(m.err.Error(), true)
			v.look()
			return v, nil
		}
		v.look()
		if v.Work != nil {
			select {
			case v.again <- struct{}{}:
			default:
			}
		}
	case rested:
		return v, v.atRest(m.err)
	case tea.PasteMsg:
		v.screen, _ = v.screen.Key("", m.Content)
	case tea.KeyPressMsg:
		next, c := v.screen.Key(m.String(), m.Text)
		v.screen = next
		if c != nil {
			if c.Act == Resume && v.Work != nil {
				// The goal may be active again before its work has come to rest.
				v.idle, v.resuming = false, !v.idle
			}
			return v, v.do(*c)
		}
	}
	return v, nil
}

// atRest ends the view, unless the person paused the goal and may go on, or has
// asked for that already.
func (v *view) atRest(err error) tea.Cmd {
	if err == nil && v.resuming {
		v.resuming = false
		v.look()
		return nil
	}
	if err != nil {
		if v.ctx.Err() == nil {
			v.failed = err
		}
		return tea.Quit
	}
	s, err := v.Service.Snapshot(v.ctx, v.Goal)
	if err == nil && s.Status == lifecycle.Paused && s.PauseReason == event.PausedByUser {
		v.idle = true
		v.look()
		return nil
	}
	return tea.Quit
}

// do sends a command.
func (v *view) do(c Command) tea.Cmd {
	if c.Act == Quit {
		v.left = true
		return tea.Quit
	}
	return func() tea.Msg {
		s, a := v.Service, service.Answer{Op: c.Op, Intent: c.Intent, Reason: c.Text}
		var err error
		var done string
		switch c.Act {
		case Approve:
			err, done = s.Approve(v.ctx, v.Goal, a), "approved"
		case Deny:
			err, done = s.Deny(v.ctx, v.Goal, a), "denied"
		case Suggest:
			rules, err := s.Suggest(v.ctx, v.Goal, c.Op)
			if err != nil {
				return said{err.Error(), true}
			}
			return offered{rules, c.Save}
		case Always:
			err, done = s.Always(v.ctx, v.Goal, a, c.Rules, c.Save), "saved and approved"
		case Say:
			err, done = s.Say(v.ctx, v.Goal, c.Text, c.Mode), "said"
		case Pause:
			err, done = s.Pause(v.ctx, v.Goal, ""), "paused: what runs is let end"
		case Resume:
			return resumed{s.Resume(v.ctx, v.Goal)}
		case Cancel:
			err, done = s.Cancel(v.ctx, v.Goal, ""), "cancel requested"
		}
		if err != nil {
			return said{err.Error(), true}
		}
		return said{done, false}
	}
}
