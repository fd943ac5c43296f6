package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// Checkouts keeps the checkouts of goals in a directory: GOAL.XXXX/NAME, where
// NAME is what the user's directory is called. Beside NAME stands a file as long
// as the goal is not on record.
type Checkouts struct {
	Dir     string
	Options Options
}

var _ workspace.Checkouts = Checkouts{}

const halfMade = "half-made"

// abandonedAfter is how old a half-made checkout is whose maker is taken for
// dead: nothing takes so long.
const abandonedAfter = time.Hour

// Make implements workspace.Checkouts.
func (c Checkouts) Make(ctx context.Context, from, goal string, bring workspace.Bring) (workspace.Isolated, error) {
	var b [4]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	holder := filepath.Join(c.Dir, goal+"."+hex.EncodeToString(b[:]))
	name := filepath.Base(from)
	if abs, err := filepath.Abs(from); err == nil {
		if g := gitAbove(abs); g.found() {
			abs = g.top
		}
		name = filepath.Base(abs)
	}
	if name == string(filepath.Separator) || isGitName(name) {
		name = "root"
	}
	if err := os.MkdirAll(holder, 0o700); err != nil {
		return workspace.Isolated{}, storageFault(err)
	}
	if err := writeSynced(filepath.Join(holder, halfMade), []byte(goal+"\n"), 0o600); err != nil {
		return workspace.Isolated{}, storageFault(err)
	}
	out, err := Isolate(ctx, from, filepath.Join(holder, name), bring, c.Options)
	if err != nil {
		return out, errors.Join(err, c.remove(holder))
	}
	return out, nil
}

// Keep implements workspace.Checkouts.
func (c Checkouts) Keep(dir string) error {
	holder, err := c.holder(dir)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(holder, halfMade)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storageFault(err)
	}
	return nil
}

// Drop implements workspace.Checkouts.
func (c Checkouts) Drop(dir string) error {
	holder, err := c.holder(dir)
	if err != nil {
		return err
	}
	return c.remove(holder)
}

func (c Checkouts) remove(holder string) error {
	err := remove(holder)
	_ = os.Remove(c.Dir) // one that holds others stays
	return err
}

// holder is the folder of a checkout. Nothing but a folder of ours is ever
// removed.
func (c Checkouts) holder(dir string) (string, error) {
	ours, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		ours = c.Dir
	}
	holder := filepath.Dir(filepath.Clean(dir))
	for _, d := range []string{ours, c.Dir} {
		if filepath.Dir(holder) == filepath.Clean(d) {
			return holder, nil
		}
	}
	return "", fault.New(fault.Outside, fault.Runtime, dir+" is no worktree in "+c.Dir, "remove it by hand if it is not needed any more")
}

// Abandoned implements workspace.Checkouts.
func (c Checkouts) Abandoned() (map[string]string, error) {
	found, err := filepath.Glob(filepath.Join(escapeGlob(c.Dir), "*", halfMade))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, p := range found {
		info, err := os.Stat(p)
		b, rerr := os.ReadFile(p)
		if err != nil || rerr != nil || time.Since(info.ModTime()) < abandonedAfter {
			continue // kept meanwhile, or being made
		}
		out[strings.TrimSpace(string(b))] = filepath.Join(filepath.Dir(p), "-")
	}
	return out, nil
}

func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// remove removes a folder also where folders in it may not be written, as those
// of a module cache.
func remove(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) // what stays is told by RemoveAll
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return storageFault(fmt.Errorf("remove the worktree %s: %w", dir, err))
	}
	return nil
}
