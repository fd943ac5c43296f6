package core

import (
	"belay/internal/core/operation"
	"belay/internal/core/progress"
	"belay/internal/event"
	"belay/internal/fault"
)

// alarm warns the model of a way that leads nowhere; when it was warned before
// and went on, the goal is handed off.
func (w *step) alarm(a progress.Alarm) bool {
	p := event.ProgressAlarm{Signal: string(a.Signal), Count: a.Count, Detail: a.Detail}
	if !a.Stop {
		p.Advice = "Change the strategy, or ask the user. If this goes on, the goal is handed to the user."
	}
	w.emitBy(event.ActorRuntime, "", p)
	if a.Stop {
		w.handOff("no progress: "+a.Detail, fault.New(fault.NoProgress, fault.Model, a.Detail, "say what to do differently, or raise --patience"),
			event.PausedNoProg, event.StopNoProgress)
	}
	return !a.Stop
}

// afresh forgets what failed and what led nowhere so far: a reason for it is
// gone.
func (s *State) afresh() {
	s.Progress.Afresh()
	s.Way.Afresh()
}

// wayOf is a finished operation as the watch over the way sees it.
func wayOf(o operation.Op, p event.OperationFinished) progress.Done {
	d := progress.Done{Tool: o.Tool, Arguments: string(semantic(o.Args)), Round: o.Request, Observation: p.Result.Output.Head,
		Edits: o.Effect == event.Verifiable, Acts: o.Effect.SideEffect(), Tests: o.Access.Test || p.Result.Test != nil}
	if p.Outcome != event.Succeeded && p.Result.Fault != nil {
		d.Error = p.Result.Fault.Signature
	}
	return d
}

func doneTodos(ts []event.Todo) []string {
	var ids []string
	for _, t := range ts {
		if t.Status == event.TodoCompleted {
			ids = append(ids, t.ID+"\n"+t.Content)
		}
	}
	return ids
}

func pathsOf(cs []event.Change) []string {
	var ps []string
	for _, c := range cs {
		ps = append(ps, c.Path)
	}
	return ps
}
