package local

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zlib"

	"belay/internal/failpoint"
)

// oid names an object: the SHA-256 of its kind, length and bytes, as git
// computes it in a repository of that format.
type oid [sha256.Size]byte

func (o oid) String() string { return hex.EncodeToString(o[:]) }

// The kinds of objects that a store holds.
const (
	blobKind = "blob"
	treeKind = "tree"
)

func newHash(kind string, size int64) hash.Hash {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

func hashObject(kind string, content []byte) oid {
	h := newHash(kind, int64(len(content)))
	h.Write(content)
	return oid(h.Sum(nil))
}

// store is the private git directory. Its objects are ours alone: nothing is
// borrowed from the user's repository, so that no gc there can take a
// revision away.
type store struct{ dir string }

func (s store) loose(id oid) string {
	h := id.String()
	return filepath.Join(s.dir, "objects", h[:2], h[2:])
}

// has reports whether the object stands by itself. One that stands in a pack
// only is written again, which costs space once and is never wrong.
func (s store) has(id oid) bool {
	fi, err := os.Stat(s.loose(id))
	return err == nil && fi.Size() > 0
}

// sink takes the new objects of one observation and makes all of them durable
// at its end. add and stream may be called side by side.
type sink interface {
	// add takes a whole object.
	add(kind string, id oid, content []byte) error
	// finish makes everything durable; after an error nothing counts.
	finish() error
	// abandon removes what was written, when there is no finish.
	abandon()
}

var zlibWriters = sync.Pool{New: func() any {
	w, err := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant that exists
	}
	return w
}}

// deflate writes the pieces compressed to w.
func deflate(w io.Writer, pieces ...[]byte) error {
	z := zlibWriters.Get().(*zlib.Writer)
	defer zlibWriters.Put(z)
	z.Reset(w)
	for _, p := range pieces {
		if _, err := z.Write(p); err != nil {
			return err
		}
	}
	return z.Close()
}

// looseSink writes each object to a file of its own: right for a few.
type looseSink struct {
	s  store
	mu sync.Mutex
	// staged maps temporary names to objects.
	staged map[string]oid
	taken  map[oid]bool
}

func newLooseSink(s store) *looseSink {
	return &looseSink{s: s, staged: map[string]oid{}, taken: map[oid]bool{}}
}

func (l *looseSink) add(kind string, id oid, content []byte) error {
	l.mu.Lock()
	seen := l.taken[id]
	l.taken[id] = true
	l.mu.Unlock()
	if seen || l.s.has(id) {
		return nil
	}
	f, err := l.temp()
	if err != nil {
		return err
	}
	err = deflate(f, fmt.Appendf(nil, "%s %d\x00", kind, len(content)), content)
	return l.stage(f, id, err)
}

func (l *looseSink) temp() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Join(l.s.dir, "objects"), "tmp_obj_")
	if err != nil {
		return nil, storageFault(err)
	}
	return f, nil
}

// stage syncs and closes a written temporary file and remembers it.
func (l *looseSink) stage(f *os.File, id oid, err error) error {
	if cerr := f.Chmod(0o400); err == nil {
		err = cerr
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return storageFault(err)
	}
	l.mu.Lock()
	l.staged[f.Name()] = id
	l.mu.Unlock()
	if err := f.Close(); err != nil {
		return storageFault(err)
	}
	failpoint.Hit(failpoint.ObjectStaged)
	return nil
}

// stream takes a blob of a known size that is too large for memory and
// returns its name.
func (l *looseSink) stream(r io.Reader, size int64) (oid, error) {
	f, err := l.temp()
	if err != nil {
		return oid{}, err
	}
	h := newHash(blobKind, size)
	z := zlibWriters.Get().(*zlib.Writer)
	defer zlibWriters.Put(z)
	z.Reset(f)
	fmt.Fprintf(z, "%s %d\x00", blobKind, size)
	n, err := io.Copy(io.MultiWriter(h, z), io.LimitReader(r, size))
	if err == nil && n != size {
		err = errChanging
	}
	if cerr := z.Close(); err == nil {
		err = cerr
	}
	id := oid(h.Sum(nil))
	if err == errChanging {
		f.Close()
		os.Remove(f.Name())
		return oid{}, err
	}
	return id, l.stage(f, id, err)
}

// finish syncs side by side: the file system then commits them together.
func (l *looseSink) finish() error {
	type pair struct {
		temp string
		id   oid
	}
	var all []pair
	for temp, id := range l.staged {
		all = append(all, pair{temp, id})
	}
	errs := make([]error, len(all))
	each(len(all), syncers, func(i int) { errs[i] = syncPath(all[i].temp) })
	dirs := map[string]bool{}
	for i, p := range all {
		if errs[i] != nil {
			return storageFault(errs[i])
		}
		final := l.s.loose(p.id)
		dir := filepath.Dir(final)
		if !dirs[dir] {
			if err := os.Mkdir(dir, 0o700); err == nil {
				dirs[filepath.Dir(dir)] = true
			} else if !os.IsExist(err) {
				return storageFault(err)
			}
			dirs[dir] = true
		}
		if err := os.Rename(p.temp, final); err != nil {
			return storageFault(err)
		}
		failpoint.Hit(failpoint.ObjectNamed)
		delete(l.staged, p.temp)
	}
	list := make([]string, 0, len(dirs))
	for d := range dirs {
		list = append(list, d)
	}
	errs = make([]error, len(list))
	each(len(list), syncers, func(i int) { errs[i] = syncPath(list[i]) })
	for _, err := range errs {
		if err != nil {
			return storageFault(err)
		}
	}
	return nil
}

func (l *looseSink) abandon() {
	for temp := range l.staged {
		os.Remove(temp)
	}
}

// syncers is how many files are synced side by side; they wait for the disk,
// not for the processor.
const syncers = 16

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// each calls f for 0..n-1 from at most workers goroutines.
func each(n, workers int, f func(i int)) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
