package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"belay/internal/core"
	"belay/internal/event"
)

// places are the state directories between which a goal travels, each as on a
// machine of its own. The repository has one path on both, so the directory of
// the place that the goal is not at stands aside.
var places = [2]string{"state", "state.b"}

func (w *world) aside(place int) string { return w.path("repo.of." + places[place]) }

// travel lets the machine that has the goal die, with all that runs there, and
// another one take it over. There the repository is as it was left, or as
// whoever clones it at the goal's start finds it.
func (p *player) travel() error {
	if err := p.endAll(); err != nil {
		return err
	}
	from, to := p.place, 1-p.place
	if err := os.Rename(p.path("repo"), p.aside(from)); err != nil {
		return err
	}
	err := os.Rename(p.aside(to), p.path("repo"))
	if os.IsNotExist(err) {
		err = p.clone()
	}
	if err == nil && p.server == nil {
		err = p.carry(places[from], places[to])
	}
	if err != nil {
		return fmt.Errorf("travel from %s to %s: %w", places[from], places[to], err)
	}
	p.place = to
	p.moves++
	p.log("the goal travels to %s", places[to])
	return nil
}

// here reports whether the goal's workspace is where the person is: not before
// a worker has moved it in.
func (p *player) here() (bool, error) {
	if p.moves == 0 {
		return true, nil
	}
	var me struct {
		Name string `json:"name"`
	}
	b, err := os.ReadFile(p.path(places[p.place] + "/place"))
	if err != nil || json.Unmarshal(b, &me) != nil {
		return false, nil // no worker has been here
	}
	o, err := p.ask("events", p.goal)
	at := ""
	for l := range strings.Lines(o.out) {
		var e record
		if json.Unmarshal([]byte(l), &e) != nil {
			continue
		}
		if m, ok := payload[event.WorkspaceMoved](e); ok {
			at = m.Place
		} else if a, ok := payload[event.WorkspaceAttached](e); ok {
			at = a.Place
		}
	}
	return at == me.Name, err
}

// clone puts the repository as the goal found it.
func (p *player) clone() error {
	if err := os.CopyFS(p.path("repo"), os.DirFS(filepath.Join(p.base, "repo"))); err != nil {
		return err
	}
	return moved(p.base, p.dir)
}

// carry takes the SQLite ledger to another state directory, and nothing else of
// the first.
func (p *player) carry(from, to string) error {
	if err := os.MkdirAll(p.path(to), 0o700); err != nil {
		return err
	}
	for _, name := range []string{"ledger.db", "ledger.db-wal", "ledger.db-shm", "artifacts"} {
		old := filepath.Join(p.path(to), name)
		if err := os.RemoveAll(old); err != nil {
			return err
		}
		path := filepath.Join(p.path(from), name)
		info, err := os.Stat(path)
		switch {
		case os.IsNotExist(err) || name == "ledger.db-shm":
			continue // another machine has no memory to share
		case err != nil:
			return err
		case info.IsDir():
			err = os.CopyFS(old, os.DirFS(path))
		default:
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(old, b, 0o600)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endAll kills every process of the run.
func (p *player) endAll() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		list := p.ours()
		if len(list) == 0 {
			return nil
		}
		for _, q := range list {
			if syscall.Kill(q.pid, syscall.SIGKILL) == nil && q.cmd == shimCommand {
				p.mu.Lock()
				p.random["shims"]++
				p.mu.Unlock()
			}
		}
	}
	return fmt.Errorf("processes of the run do not end: %v", p.ours())
}

// stranded does what a person does with a goal that cannot be had at the place
// where it is; false means that the goal is not in that plight.
func (p *player) stranded(s core.Snapshot) (bool, error) {
	if s.WaitReason != event.WaitRetry || p.moves == 0 || s.WaitUntil == p.helped {
		return false, nil
	}
	p.helped = s.WaitUntil // what is done now shows when the goal is tried again
	switch {
	case strings.Contains(s.WaitDetail, "was not packed before its worker ended"), strings.Contains(s.WaitDetail, "left there was not observed before"):
		// Only the other place has it.
		return true, p.travel()
	case strings.Contains(s.WaitDetail, "is not overwritten"):
		// What stands here is what a machine left that died in the middle of
		// something: out of the way with it.
		p.lost++
		if err := os.Rename(p.path("repo"), p.path(fmt.Sprintf("repo.lost.%d", p.lost))); err != nil {
			return true, err
		}
		return true, p.clone()
	}
	return false, nil
}

// due waits until a goal that waits for an instant can go on.
func due(s core.Snapshot) {
	if s.WaitReason == event.WaitRetry && !s.WaitUntil.IsZero() {
		time.Sleep(min(time.Until(s.WaitUntil.Std()), patience))
	}
}
