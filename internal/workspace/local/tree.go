package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/fault"
)

const (
	// packAt is how many changed files make an observation write a pack.
	packAt = 64
	// wholeMax is the largest file that is read into memory at once.
	wholeMax = 8 << 20
	// rereads is how often a file that changes under the reading is tried.
	rereads = 5
)

// Observe implements workspace.Workspace.
func (w *Workspace) Observe(ctx context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.observe(ctx)
}

// observe repeats an observation during which files came and went.
func (w *Workspace) observe(ctx context.Context) (string, error) {
	for try := 0; ; try++ {
		if err := w.sameRoot(); err != nil {
			return "", err
		}
		start := time.Now().UnixNano()
		err := w.refresh(ctx, start)
		if err == nil {
			var id oid
			var changed int
			if id, changed, err = w.storeChanged(ctx); err == nil {
				w.saveSnapshot(changed)
				return id.String(), nil
			}
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errChanging) || ctx.Err() != nil {
			return "", err
		}
		if try == rereads {
			return "", fault.New(fault.Storage, fault.Environment, fmt.Sprintf("%s changes faster than it can be read: %v", w.path, err),
				"stop what writes into it, or ignore those files").Retry()
		}
		if w.snap != nil {
			w.snap.unsettled = true
		}
	}
}

// Files implements workspace.Workspace.
func (w *Workspace) Files(ctx context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.files(ctx)
}

func (w *Workspace) files(ctx context.Context) ([]string, error) {
	if err := w.sameRoot(); err != nil {
		return nil, err
	}
	if err := w.refresh(ctx, time.Now().UnixNano()); err != nil {
		return nil, err
	}
	var out []string
	for _, d := range w.snap.dirs {
		for _, e := range d.files {
			out = append(out, e.path)
		}
	}
	slices.Sort(out)
	return out, nil
}

// storeChanged reads what changed, stores it and computes the tree.
func (w *Workspace) storeChanged(ctx context.Context) (oid, int, error) {
	type job struct {
		d *dir
		e *entry
	}
	var jobs []job
	for _, d := range w.snap.dirs {
		for _, e := range d.files {
			if !e.known || e.racy {
				jobs = append(jobs, job{d, e})
			}
		}
	}
	var to sink = newLooseSink(w.store)
	if len(jobs) > packAt {
		p, err := newPackSink(w.store)
		if err != nil {
			return oid{}, 0, err
		}
		to = p
	}
	ids := make([]oid, len(jobs))
	errs := make([]error, len(jobs))
	var bad failures
	each(len(jobs), w.workers, func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			ids[i], errs[i] = w.hashFile(jobs[i].e.path, jobs[i].e.st, jobs[i].e.id, to)
		}
		if errs[i] != nil {
			bad.add(jobs[i].e.path, errs[i])
		}
	})
	if err := bad.err(); err != nil {
		to.abandon()
		return oid{}, 0, err
	}
	changed := 0
	for i, j := range jobs {
		if ids[i] != j.e.id || !j.e.known {
			changed++
			j.d.stored = false
		}
		j.e.id = ids[i]
	}
	top, trees, err := w.writeTrees(to)
	if err == nil {
		err = to.finish()
	}
	if err != nil {
		// The snapshot now names objects that are not there: forget it.
		to.abandon()
		w.snap = nil
		return oid{}, 0, err
	}
	// Only now does the store hold what the snapshot says.
	for _, j := range jobs {
		j.e.known = true
	}
	for _, d := range trees {
		d.stored = true
	}
	return top, changed, nil
}

// writeTrees computes the tree objects of the directories that changed, deepest
// first, and returns the root's.
func (w *Workspace) writeTrees(to sink) (oid, []*dir, error) {
	dirs := w.snap.dirs
	var done []*dir
	for i := len(dirs) - 1; i >= 0; i-- {
		d := dirs[i]
		if d.stored {
			continue
		}
		if d.parent != nil {
			d.parent.stored = false
		}
		content := d.object()
		d.empty = len(content) == 0
		id := hashObject(treeKind, content)
		// A tree that is equal to the last one stands in the store already.
		if id != d.tree && (!d.empty || d.path == "") {
			if err := to.add(treeKind, id, content); err != nil {
				return oid{}, nil, err
			}
		}
		d.tree = id
		done = append(done, d)
	}
	return dirs[0].tree, done, nil
}

// object is a directory as a tree object: mode, name, NUL, id, in the order of
// names with a slash behind those of directories.
func (d *dir) object() []byte {
	type item struct {
		key  string
		mode string
		name string
		id   *oid
	}
	items := make([]item, 0, len(d.files)+len(d.subs))
	for _, e := range d.files {
		items = append(items, item{e.name, e.mode(), e.name, &e.id})
	}
	for _, s := range d.subs {
		if !s.empty {
			name := base(s.path)
			items = append(items, item{name + "/", "40000", name, &s.tree})
		}
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.key, b.key) })
	var out []byte
	for _, it := range items {
		out = append(append(append(out, it.mode...), ' '), it.name...)
		out = append(append(out, 0), it.id[:]...)
	}
	return out
}

func (e *entry) mode() string {
	switch {
	case e.st.isLink():
		return "120000"
	case e.st.mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// hashFile computes the id of the present content of a file or link that was
// seen with the given stamp. It gives the bytes to the sink, when there is one
// and they are not those of the object had, which the store has. When another
// file stands there by now, or the bytes change under the reading, it says so:
// a tree must not hold a content that never was.
func (w *Workspace) hashFile(path string, seen stamp, had oid, to sink) (oid, error) {
	if seen.isLink() {
		target, err := w.root.Readlink(path)
		if err != nil {
			return oid{}, err
		}
		return keep(had, to, []byte(target))
	}
	f, err := w.root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return oid{}, err
	}
	defer f.Close()
	for range rereads {
		st, err := fstat(int(f.Fd()))
		if err != nil {
			return oid{}, err
		}
		was := stampOf(&st)
		if !was.isRegular() || was.ino != seen.ino {
			return oid{}, errChanging
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return oid{}, err
		}
		id, err := hashOpen(f, st.Size, had, to, w.store)
		if err == nil {
			if st, err = fstat(int(f.Fd())); err == nil && stampOf(&st).sameBytes(was) {
				return id, nil
			}
		} else if err != errChanging {
			return oid{}, err
		}
	}
	return oid{}, errChanging
}

func hashOpen(f *os.File, size int64, had oid, to sink, s store) (oid, error) {
	if size > wholeMax {
		return hashLarge(f, size, had, to, s)
	}
	content := make([]byte, size, size+1)
	if _, err := io.ReadFull(f, content); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errChanging
		}
		return oid{}, err
	}
	return keep(had, to, content)
}

// hashLarge streams. A large file is first only hashed, since storing it again
// for nothing is the dearer of the two mistakes.
func hashLarge(f *os.File, size int64, had oid, to sink, s store) (oid, error) {
	h := newHash(blobKind, size)
	n, err := io.Copy(h, io.LimitReader(f, size))
	if err != nil {
		return oid{}, err
	}
	if n != size {
		return oid{}, errChanging
	}
	id := oid(h.Sum(nil))
	if to == nil || id == had || s.has(id) {
		return id, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return oid{}, err
	}
	l := newLooseSink(s)
	id, err = l.stream(f, size)
	if err == nil {
		err = l.finish()
	}
	if err != nil {
		l.abandon()
	}
	return id, err
}

func keep(had oid, to sink, content []byte) (oid, error) {
	id := hashObject(blobKind, content)
	if to == nil || id == had {
		return id, nil
	}
	return id, to.add(blobKind, id, content)
}

// failures collects what could not be read, to name it all at once.
type failures struct {
	mu    sync.Mutex
	paths []string
	first error
	other error
}

func (f *failures) add(path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(err, os.ErrPermission) {
		f.paths = append(f.paths, path)
		if f.first == nil {
			f.first = err
		}
		return
	}
	if f.other == nil {
		f.other = fmt.Errorf("observing %s: %w", path, err)
	}
}

func (f *failures) err() error {
	if f.other != nil {
		return f.other
	}
	if f.first == nil {
		return nil
	}
	slices.Sort(f.paths)
	return unreadable(strings.Join(f.paths[:min(len(f.paths), 5)], ", "), f.first)
}
