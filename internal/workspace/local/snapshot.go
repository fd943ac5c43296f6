package local

import (
	"context"
	"crypto/sha256"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// snapshot is what the last observation saw: every directory that is not
// ignored, and every file in them that counts.
type snapshot struct {
	inputs []input
	// dirs are in path order, the root ("") first.
	dirs []*dir
	// unsettled says that something may have changed between git's reading and
	// ours, so that the list must be made again.
	unsettled bool
}

// dir is one watched directory.
type dir struct {
	path  string // "" for the root
	st    stamp
	racy  bool
	names digest // of the names and types in it
	// before is names as read in front of a listing, to tell whether git saw
	// the same; unset when it is not known.
	before digest
	files  []*entry // sorted by name
	// ignore is a .gitignore that is itself no counted file.
	ignore *entry
	parent *dir
	subs   []*dir
	tree   oid
	// stored says that tree is what the files are now, and stands in the store.
	stored bool
	empty  bool // no counted file at any depth
}

// entry is one counted file or link.
type entry struct {
	path, name string
	st         stamp
	id         oid
	// known says that id was computed for st.
	known bool
	racy  bool
	// before is the id as read in front of a listing, for ignore files.
	before oid
}

type digest [sha256.Size]byte

const ignoreName = ".gitignore"

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func orDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// walk compares the snapshot with the file system, without git and without
// opening what did not change. It returns false when the list of files may be
// another one. In any case it leaves in every dir and ignore file what stands
// there now, for the listing that follows.
func (w *Workspace) walk(s *snapshot, start int64) (same bool) {
	var relist atomic.Bool
	each(len(s.dirs), w.workers, func(i int) {
		if !w.walkDir(s.dirs[i], start) {
			relist.Store(true)
		}
	})
	return !relist.Load()
}

// walkDir looks at one directory and the files in it. What cannot be read is
// not the same; the listing that follows finds out why.
func (w *Workspace) walkDir(d *dir, start int64) (same bool) {
	same = true
	st, err := lstatAt(w.fd, orDot(d.path))
	if err != nil || !st.isDir() {
		return false
	}
	d.before = d.names
	if st != d.st || d.racy {
		listing, err := w.readNames(d.path)
		if err != nil {
			return false
		}
		d.before = listing.names
		if listing.names == d.names {
			d.st, d.racy = st, st.racy(start)
		} else {
			same = false
		}
	}
	for _, e := range d.files {
		st, err := lstatAt(w.fd, e.path)
		if err != nil || st.kind() != e.st.kind() {
			same = false
			continue
		}
		if st == e.st && !e.racy && e.known {
			e.before = e.id
			continue
		}
		if e.name == ignoreName {
			same = w.sameIgnore(e, st, start) && same
			continue
		}
		e.st, e.racy, e.known = st, st.racy(start), false
		d.touch()
	}
	if d.ignore != nil {
		st, err := lstatAt(w.fd, d.ignore.path)
		switch {
		case err != nil || st.kind() != d.ignore.st.kind():
			same = false
		case st == d.ignore.st && !d.ignore.racy:
			d.ignore.before = d.ignore.id
		default:
			same = w.sameIgnore(d.ignore, st, start) && same
		}
	}
	return same
}

// sameIgnore reads an ignore file whose stamp changed.
func (w *Workspace) sameIgnore(e *entry, st stamp, start int64) bool {
	id, err := w.hashFile(e.path, st, oid{}, nil)
	if err != nil {
		return false
	}
	e.before = id
	if id != e.id {
		return false
	}
	e.st, e.racy = st, st.racy(start)
	return true
}

// touch says that the tree of d and of every directory above it has to be
// computed again. Directories are walked side by side, so it marks only d;
// writeTrees carries the mark upwards.
func (d *dir) touch() { d.stored = false }

// names is what a directory holds.
type names struct {
	names  digest
	subs   []string // directories, sorted
	dotGit bool
	ignore bool // there is an entry .gitignore
	temps  []string
}

// readNames reads a directory's names and types. What belay itself puts there
// for the length of an edit does not count.
func (w *Workspace) readNames(path string) (names, error) {
	f, err := w.root.OpenFile(orDot(path), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return names{}, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return names{}, err
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var out names
	h := sha256.New()
	for _, e := range list {
		name, kind := e.Name(), byte('o')
		if isTemp(name) {
			out.temps = append(out.temps, name)
			continue
		}
		switch {
		case e.Type().IsRegular():
			kind = 'f'
		case e.IsDir():
			kind = 'd'
			if name != ".git" && !w.own[join(path, name)] {
				out.subs = append(out.subs, name)
			}
		case e.Type()&fs.ModeSymlink != 0:
			kind = 'l'
		}
		out.dotGit = out.dotGit || name == ".git"
		out.ignore = out.ignore || name == ignoreName
		h.Write([]byte{kind})
		h.Write([]byte(name))
		h.Write([]byte{0})
	}
	h.Sum(out.names[:0])
	return out, nil
}

// refresh brings the snapshot's list and stamps up to now; contents that
// changed are marked unknown.
func (w *Workspace) refresh(ctx context.Context, start int64) error {
	if w.snap == nil {
		w.snap = w.loadSnapshot()
	}
	if old := w.snap; old != nil {
		if w.walk(old, start) && !old.unsettled && !slices.ContainsFunc(old.inputs, func(in input) bool { return in.now() != in.st }) {
			return nil
		}
	}
	s, err := w.list(ctx, start, w.snap)
	if err == nil {
		w.snap, w.relisted = s, true
	}
	return err
}
