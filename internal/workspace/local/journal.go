package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/failpoint"
)

// pendingDir holds a journal for each Apply that is under way.
const pendingDir = "pending"

// journal names everything that an Apply puts into the workspace for its
// duration, and what each file was and becomes, so that a later process can
// finish it or take it back.
type journal struct {
	path    string
	sync    bool
	Steps   []noted  `json:"steps"`
	Folders []string `json:"folders,omitempty"` // made, outermost first
}

type noted struct {
	Folder string `json:"folder"`
	Name   string `json:"name"`
	Temp   string `json:"temp"`
	// Base and Result are hashes, "" for absent; Link says that a symbolic
	// link is removed.
	Base   string `json:"base,omitempty"`
	Result string `json:"result,omitempty"`
	Link   bool   `json:"link,omitempty"`
}

func (w *Workspace) openJournal(steps []*step) (*journal, error) {
	// A single edit is whole by its one rename; several need the journal to be
	// on the disk before the first.
	j := &journal{path: filepath.Join(w.private, pendingDir, token()+".json"), sync: len(steps) > 1}
	for _, s := range steps {
		n := noted{Folder: parent(s.t.real), Name: s.name, Temp: s.temp, Base: s.edit.Base, Link: s.edit.Remove && s.t.link != ""}
		if !s.edit.Remove {
			n.Result = hashBytes(s.edit.Content)
		}
		j.Steps = append(j.Steps, n)
	}
	return j, j.write()
}

func (j *journal) write() error {
	b, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("local: journal: %w", err)
	}
	temp := j.path + ".tmp"
	if j.sync {
		err = writeSynced(temp, b, 0o600)
	} else {
		err = os.WriteFile(temp, b, 0o600)
	}
	if err == nil {
		err = os.Rename(temp, j.path)
	}
	if err == nil && j.sync {
		err = syncPath(filepath.Dir(j.path))
	}
	if err != nil {
		return storageFault(err)
	}
	return nil
}

// folder notes a folder before it is made.
func (j *journal) folder(path string) error {
	j.Folders = append(j.Folders, path)
	return j.write()
}

func (j *journal) done() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storageFault(err)
	}
	return nil
}

// Clean implements workspace.Workspace.
func (w *Workspace) Clean(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.sameRoot(); err != nil {
		return err
	}
	list, err := os.ReadDir(filepath.Join(w.private, pendingDir))
	if err != nil {
		return storageFault(err)
	}
	for _, e := range list {
		path := filepath.Join(w.private, pendingDir, e.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return storageFault(err)
		}
		j := &journal{path: path}
		// One that was cut off in writing preceded any change.
		if !strings.HasSuffix(path, ".json") || json.Unmarshal(b, j) != nil {
			if err := os.Remove(path); err != nil {
				return storageFault(err)
			}
			continue
		}
		failpoint.Hit(failpoint.CleanBefore)
		if err := w.settle(j); err != nil {
			return err
		}
		failpoint.Hit(failpoint.CleanAfter)
	}
	return w.sweep(ctx)
}

// settle finishes an interrupted Apply whose edits were all made, and takes
// back any other.
func (w *Workspace) settle(j *journal) error {
	dirs := make([]*os.File, len(j.Steps))
	defer func() {
		for _, d := range dirs {
			if d != nil {
				d.Close()
			}
		}
	}()
	all := true
	for i, n := range j.Steps {
		dir, err := w.root.OpenFile(orDot(n.Folder), os.O_RDONLY|unix.O_DIRECTORY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			all = false
			continue
		}
		if err != nil {
			return pathFault(join(n.Folder, n.Name), err)
		}
		dirs[i] = dir
		now, err := hashAt(dir, n.Name)
		if err != nil {
			return pathFault(join(n.Folder, n.Name), err)
		}
		all = all && now == n.Result
	}
	for i := len(j.Steps) - 1; i >= 0; i-- {
		if dirs[i] == nil {
			continue
		}
		if err := j.Steps[i].settle(dirs[i], all); err != nil {
			return err
		}
	}
	if !all {
		w.removeFolders(j.Folders)
	}
	return j.done()
}

// settle brings one file to the side that the whole Apply is on. What somebody
// wrote since then is left alone.
func (n noted) settle(dir *os.File, forward bool) error {
	fd := int(dir.Fd())
	second := n.Temp + ".was"
	if !forward {
		now, err := hashAt(dir, n.Name)
		if err != nil {
			return pathFault(n.Name, err)
		}
		if now == n.Result {
			if err := n.restore(dir, fd, second); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{n.Temp, second} {
		if err := unix.Unlinkat(fd, name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storageFault(fmt.Errorf("removing %s: %w", name, err))
		}
	}
	if err := dir.Sync(); err != nil {
		return storageFault(err)
	}
	return nil
}

func (n noted) restore(dir *os.File, fd int, second string) error {
	if n.Base == "" {
		// A new file that is in place has left its temporary name.
		if st, err := lstatAt(fd, n.Temp); err == nil && st.isRegular() {
			return nil
		}
		if err := unix.Unlinkat(fd, n.Name, 0); err != nil {
			return storageFault(err)
		}
		return nil
	}
	for _, name := range []string{second, n.Temp} {
		was, err := hashAt(dir, name)
		if err != nil {
			return pathFault(name, err)
		}
		if was == n.Base || n.Link && was == "link" {
			if err := unix.Renameat(fd, name, fd, n.Name); err != nil {
				return storageFault(fmt.Errorf("taking back the edit of %s: %w", n.Name, err))
			}
			return nil
		}
	}
	return nil
}

// sweep removes temporary files that no journal names (a power cut may have
// lost it) from every directory that is watched.
func (w *Workspace) sweep(ctx context.Context) error {
	if err := w.refresh(ctx, time.Now().UnixNano()); err != nil {
		return err
	}
	for _, d := range w.snap.dirs {
		n, err := w.readNames(d.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return unreadable(d.path, err)
		}
		for _, name := range n.temps {
			if err := w.root.Remove(join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return storageFault(err)
			}
		}
	}
	return nil
}
