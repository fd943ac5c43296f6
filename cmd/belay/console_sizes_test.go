package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/sqlite"
	"belay/internal/model"
	"belay/internal/model/script"
	"belay/internal/runtime"
	"belay/internal/service"
)

// crowd fills a world with goals that are paused, so that no worker takes them,
// and gives the newest of them a long past.
func (w *world) crowd(goals, events int) string {
	w.t.Helper()
	ctx := w.t.Context()
	l, err := sqlite.Open(ctx, filepath.Join(w.dir, "state"), sqlite.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.Close()
	s := service.New(service.Config{Ledger: l, OpenModel: func(context.Context, string) (model.Model, error) { return script.New(&script.Script{}, "none"), nil }})
	goal := ""
	for i := range goals {
		g, err := s.Start(ctx, service.StartRequest{Spec: event.GoalSpec{Text: fmt.Sprintf("Goal %d of many", i)}, Repo: w.repo, Settings: event.Settings{Model: "script:none"}})
		if err == nil {
			goal = g.Goal
			err = s.Pause(ctx, goal, "")
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	row, err := l.Goal(ctx, goal)
	if err != nil {
		w.t.Fatal(err)
	}
	for head := int(row.Head); head < events; {
		var es []event.Event
		for i := range min(1000, events-head) {
			p := event.ProgressAlarm{Signal: "test", Detail: fmt.Sprintf("number %d", head+i+1)}
			es = append(es, event.Event{Goal: goal, ID: event.NewID(1, [16]byte{}, head+i), Type: p.EventType(), Version: event.CurrentVersion(p.EventType()),
				Actor: event.ActorRuntime, Fence: row.Fence, Payload: p})
		}
		if _, err := l.Append(ctx, ledger.Append{Goal: goal, Head: uint64(head), Fence: row.Fence, Events: es, Row: row}); err != nil {
			w.t.Fatal(err)
		}
		head += len(es)
	}
	st, err := runtime.Load(ctx, l, goal)
	if err != nil {
		w.t.Fatal(err)
	}
	runtime.Cache(ctx, l, st) // as the driver leaves it
	if err := l.Rebuild(ctx, core.Row(st)); err != nil {
		w.t.Fatal(err)
	}
	return goal
}

// The page holds only what is seen, whatever there is: with BELAY_SIZES set,
// 1,000 goals and 100,000 events.
func TestTheConsoleHoldsOnlyWhatIsSeen(t *testing.T) {
	t.Parallel()
	chromium(t)
	goals, events := 150, 6000
	if os.Getenv(envSizes) != "" {
		goals, events = 1000, 100_000
	}
	w := newWorld(t, toy())
	w.crowd(goals, events)
	s := w.serveAPI()
	page := newBrowser(t).open(t, s.url())
	began := time.Now()
	page.shows(fmt.Sprintf("%d of %d goals", goals, goals))
	t.Logf("%d goals are listed after %s", goals, time.Since(began).Round(time.Millisecond))
	few := func(what, selector string) {
		t.Helper()
		var n int
		page.eval(fmt.Sprintf("document.querySelectorAll(%s).length", quote(selector)), &n)
		if n == 0 || n > 60 {
			t.Errorf("%d rows of %s are in the page", n, what)
		}
	}
	few("goals", ".goal-list .row")
	// The last of them comes into view by scrolling.
	page.eval(`document.querySelector(".goal-list").scrollTop = 1e9`, nil)
	page.shows("Goal 0 of many")
	few("goals", ".goal-list .row")
	page.eval(`document.querySelector(".goal-list").scrollTop = 0`, nil)
	began = time.Now()
	page.press(fmt.Sprintf("Goal %d of many", goals-1))
	page.shows(fmt.Sprintf("number %d", events))
	t.Logf("a goal with %d events is shown after %s", events, time.Since(began).Round(time.Millisecond))
	few("the timeline", ".timeline .row")
	began = time.Now()
	page.press("Load from the start")
	page.until(`document.querySelector(".timeline").innerText.includes("task_received")`)
	t.Logf("its whole past is there after %s", time.Since(began).Round(time.Millisecond))
	few("the timeline", ".timeline .row")
	page.eval(`(() => { const f = document.querySelector(".timeline-card input[type=search]"); f.value = "number 777"; f.dispatchEvent(new Event("input")); })()`, nil)
	page.until(`document.querySelector(".timeline").innerText.includes("number 777")`)
	few("the timeline", ".timeline .row")
	var heap float64
	page.eval("performance.memory.usedJSHeapSize / 1e6", &heap)
	t.Logf("the page uses %.0f MB", heap)
	page.sound()
}
