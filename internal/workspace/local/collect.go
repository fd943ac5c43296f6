package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// Stores are the private directories of all workspaces of a state directory.
type Stores struct {
	Dir string
	// crash, where a test sets it, is told of each instant.
	crash func(instant)
}

var _ workspace.Stores = Stores{}

// useFile is held shared by every open workspace of a directory, and alone by
// whoever removes objects there: an observation leaves out what it finds in the
// store, so nothing may go between its look and its event.
const useFile = "use"

// useWait is how long an opening waits for a collection to end.
const useWait = 5 * time.Second

// takeUse opens a private directory for use.
func takeUse(ctx context.Context, private string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(private, useFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storageFault(err)
	}
	for began := time.Now(); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case err == unix.EINTR:
		case err == unix.EWOULDBLOCK && time.Since(began) < useWait && ctx.Err() == nil:
			time.Sleep(20 * time.Millisecond) // the kernel tells only those who wait for good
		case err == unix.EWOULDBLOCK:
			f.Close()
			return nil, fault.New(fault.Storage, fault.Environment, "belay gc is at work on the states of this workspace", "wait until it has ended").Retry()
		default:
			f.Close()
			return nil, storageFault(fmt.Errorf("locking %s: %w", f.Name(), err))
		}
	}
}

// Collect implements workspace.Stores. Every directory that nobody uses is
// locked before keep is asked, so that whatever was observed there has been
// recorded by then or never will be.
func (s Stores) Collect(ctx context.Context, keep func(context.Context) (workspace.Keep, error), dry bool) ([]workspace.Collected, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storageFault(err)
	}
	g, err := newGit()
	if err != nil {
		return nil, err
	}
	var out []workspace.Collected
	var mine []*collection
	defer func() {
		for _, c := range mine {
			c.lock.Close()
		}
	}()
	for _, e := range entries {
		dir := filepath.Join(s.Dir, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "git")); !e.IsDir() || err != nil {
			continue
		}
		lock, err := takeAlone(dir)
		if err != nil {
			return out, err
		}
		if lock == nil {
			out = append(out, workspace.Collected{Store: e.Name(), Skipped: "it is in use"})
			continue
		}
		mine = append(mine, &collection{git: g, dir: dir, store: store{filepath.Join(dir, "git")}, lock: lock, dry: dry, crash: s.crash})
	}
	k, err := keep(ctx)
	if err != nil {
		return out, err
	}
	for _, c := range mine {
		done, err := c.run(ctx, k)
		if err != nil {
			return out, fmt.Errorf("collecting %s: %w", c.dir, err)
		}
		out = append(out, done)
		c.lock.Close() // whoever waits need not wait for the others
	}
	return out, nil
}

// takeAlone locks a private directory against every use, also by goals of a
// belay that does not know the file; nil when it is in use.
func takeAlone(dir string) (*os.File, error) {
	old, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storageFault(err)
	}
	defer old.Close()
	f, err := os.OpenFile(filepath.Join(dir, useFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storageFault(err)
	}
	for _, l := range []*os.File{old, f} {
		if err := flock(l); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, nil
			}
			return nil, storageFault(fmt.Errorf("locking %s: %w", l.Name(), err))
		}
	}
	return f, nil
}

// collection is one private directory on its way. What is kept is packed anew
// first; only then goes what is not, and the packs and files that the new pack
// stands for. A kill leaves everything that is kept in at least one place.
type collection struct {
	git   git
	dir   string
	store store
	lock  *os.File
	dry   bool
	crash func(instant)
}

func (c *collection) hit(i instant) {
	if c.crash != nil {
		c.crash(i)
	}
}

func (c *collection) call(in []byte, args ...string) call {
	return call{dir: c.store.dir, gitDir: c.store.dir, stdin: in, args: args}
}

func (c *collection) run(ctx context.Context, k workspace.Keep) (workspace.Collected, error) {
	out := workspace.Collected{Store: filepath.Base(c.dir)}
	refs, foreign, err := c.refs(ctx, k)
	if err != nil {
		return out, err
	}
	if foreign != "" {
		out.Skipped = "it has states of goal " + foreign + ", which this ledger does not know"
		return out, nil
	}
	sizes, err := c.sizes(ctx)
	if err != nil {
		return out, err
	}
	kept, err := c.reachable(ctx, k, sizes)
	if err != nil {
		return out, err
	}
	for id, size := range sizes {
		if !kept[id] {
			out.Objects++
			out.Bytes += size
		}
	}
	if c.dry {
		return out, nil
	}
	if err := c.dropTemps(); err != nil {
		return out, err
	}
	if out.Objects == 0 {
		return out, nil
	}
	return out, c.drop(ctx, kept, refs)
}

// refs are the names of checkpoints whose tree is not kept, with the first goal
// that the ledger does not know.
func (c *collection) refs(ctx context.Context, k workspace.Keep) (drop []string, foreign string, err error) {
	list, err := c.git.run(ctx, c.call(nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/belay/"))
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(string(list)) {
		id, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		goal, _, _ := strings.Cut(strings.TrimPrefix(ref, "refs/belay/"), "%2f")
		if !k.Knows(goal) {
			return nil, goal, nil
		}
		if !k.Names[id] {
			drop = append(drop, ref)
		}
	}
	return drop, "", nil
}

// sizes are all objects, with what they take on the disk.
func (c *collection) sizes(ctx context.Context) (map[string]int64, error) {
	out, err := c.git.run(ctx, c.call(nil, "cat-file", "--batch-all-objects", "--unordered", "--buffer", "--batch-check=%(objectname) %(objectsize:disk)"))
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		id, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		if sizes[id], err = strconv.ParseInt(size, 10, 64); err != nil {
			return nil, fmt.Errorf("git cat-file said %q", line)
		}
	}
	return sizes, nil
}

// reachable are the objects that are kept: those named, and what their trees
// hold. One that is named and not here belongs to another workspace.
func (c *collection) reachable(ctx context.Context, k workspace.Keep, sizes map[string]int64) (map[string]bool, error) {
	var roots bytes.Buffer
	for id := range k.Names {
		if _, here := sizes[id]; here {
			roots.WriteString(id + "\n")
		}
	}
	kept := map[string]bool{}
	if roots.Len() == 0 {
		return kept, nil
	}
	cmd := c.git.command(ctx, c.call(roots.Bytes(), "rev-list", "--objects", "--no-object-names", "--stdin"))
	var said bytes.Buffer
	cmd.Stderr = &said
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git rev-list: %w", err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		kept[strings.TrimSpace(lines.Text())] = true
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		return nil, fmt.Errorf("git rev-list: %w: %s (nothing was removed)", err, strings.TrimSpace(said.String()))
	}
	return kept, nil
}

// drop packs what is kept and removes everything else.
func (c *collection) drop(ctx context.Context, kept map[string]bool, refs []string) error {
	objects := filepath.Join(c.store.dir, "objects")
	pack := ""
	if len(kept) > 0 {
		var ids bytes.Buffer
		for id := range kept {
			ids.WriteString(id + "\n")
		}
		out, err := c.git.run(ctx, c.call(ids.Bytes(), "-c", "core.fsync=all", "pack-objects", "-q", "--threads=1", filepath.Join(objects, "pack", "pack")))
		if err != nil {
			return err
		}
		pack = "pack-" + strings.TrimSpace(string(out))
		if err := c.holds(ctx, pack, len(kept)); err != nil {
			return err
		}
	}
	if err := syncPath(filepath.Join(objects, "pack")); err != nil {
		return storageFault(err)
	}
	failpoint.Hit(failpoint.StorePacked)
	c.hit(storePacked)
	// The snapshot says what the store holds; one that says too much would have
	// the next observation leave objects out.
	if err := c.dropSnapshot(kept); err != nil {
		return err
	}
	failpoint.Hit(failpoint.StoreForgot)
	c.hit(storeForgot)
	if err := c.dropRefs(ctx, refs); err != nil {
		return err
	}
	return c.sweep(objects, pack)
}

// holds checks that a new pack has what it shall have, before anything that it
// stands for goes.
func (c *collection) holds(ctx context.Context, pack string, want int) error {
	base := filepath.Join(c.store.dir, "objects", "pack", pack)
	out, err := c.git.run(ctx, c.call(nil, "verify-pack", "-v", base+".idx"))
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		if id, _, ok := strings.Cut(line, " "); ok && len(id) == 2*len(oid{}) {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("the new pack %s holds %d objects of %d (nothing was removed)", pack, n, want)
	}
	return errors.Join(syncPath(base+".pack"), syncPath(base+".idx"))
}

func (c *collection) dropSnapshot(kept map[string]bool) error {
	path := filepath.Join(c.store.dir, "belay-snapshot")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if s, derr := decodeSnapshot(b); derr == nil && s.within(kept) {
			return nil
		}
		err = os.Remove(path)
	}
	return storageErr(errors.Join(err, syncPath(c.store.dir)))
}

// within reports whether everything that a snapshot takes for stored is kept.
func (s *snapshot) within(kept map[string]bool) bool {
	for _, d := range s.dirs {
		if d.stored && !d.empty && !kept[d.tree.String()] {
			return false
		}
		for _, e := range d.files {
			if e.id != (oid{}) && !kept[e.id.String()] {
				return false
			}
		}
	}
	return true
}

func (c *collection) dropRefs(ctx context.Context, refs []string) error {
	if len(refs) == 0 {
		return nil
	}
	var in bytes.Buffer
	for _, r := range refs {
		fmt.Fprintf(&in, "delete %s\n", r)
	}
	_, err := c.git.run(ctx, c.call(in.Bytes(), "update-ref", "--stdin"))
	return err
}

// sweep removes every loose object and every pack but the new one. A pack's
// index goes first: without it git does not see the pack.
func (c *collection) sweep(objects, pack string) error {
	list, err := os.ReadDir(filepath.Join(objects, "pack"))
	if err != nil {
		return storageFault(err)
	}
	slices.SortFunc(list, func(a, b os.DirEntry) int {
		return strings.Compare(filepath.Ext(a.Name())+a.Name(), filepath.Ext(b.Name())+b.Name())
	}) // .idx, then .pack and .rev
	for _, e := range list {
		if pack != "" && strings.HasPrefix(e.Name(), pack+".") {
			continue
		}
		if err := os.Remove(filepath.Join(objects, "pack", e.Name())); err != nil {
			return storageFault(err)
		}
		failpoint.Hit(failpoint.StoreSwept)
		c.hit(storeSwept)
	}
	for i := range 256 {
		dir := filepath.Join(objects, fmt.Sprintf("%02x", i))
		loose, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return storageFault(err)
		}
		for _, e := range loose {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return storageFault(err)
			}
			failpoint.Hit(failpoint.StoreSwept)
			c.hit(storeSwept)
		}
		if err := os.Remove(dir); err != nil {
			return storageFault(err)
		}
	}
	return nil
}

// dropTemps removes what crashes left half-made. Nobody else is here.
func (c *collection) dropTemps() error {
	for _, pattern := range []string{"tmp_*", "git/tmp_*", "git/objects/tmp_*", "git/objects/pack/tmp_*", "git/objects/pack/.tmp-*"} {
		found, err := filepath.Glob(filepath.Join(c.dir, pattern))
		if err != nil {
			return err
		}
		for _, p := range found {
			if err := os.RemoveAll(p); err != nil {
				return storageFault(err)
			}
		}
	}
	return nil
}
