package local

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"

	"belay/internal/failpoint"
)

// The snapshot is kept beside the objects that it names, so that a new process
// does not read the whole workspace again. It is a cache: one that is missing,
// damaged or of another version costs a full observation.
const snapshotMagic = "belay snapshot 1\n"

// staleFiles is how many files of a written snapshot may be out of date: a new
// process reads them again, which is cheaper than writing it after every
// change. It is written whenever the list was made anew, and on Close.
const staleFiles = 32

func (w *Workspace) snapshotPath() string { return filepath.Join(w.store.dir, "belay-snapshot") }

// saveSnapshot writes the snapshot when that is worth it. A failure loses
// nothing but time.
func (w *Workspace) saveSnapshot(changed int) {
	w.unsaved += changed
	if w.relisted || w.unsaved > staleFiles {
		w.writeSnapshot()
	}
}

func (w *Workspace) writeSnapshot() {
	b := encodeSnapshot(w.snap)
	temp, err := os.CreateTemp(w.store.dir, "tmp_snapshot_")
	if err != nil {
		return
	}
	_, err = temp.Write(b)
	if err = errors.Join(err, temp.Close()); err == nil {
		failpoint.Hit(failpoint.SnapshotWritten)
		err = os.Rename(temp.Name(), w.snapshotPath())
	}
	if err != nil {
		os.Remove(temp.Name())
		return
	}
	w.unsaved, w.relisted = 0, false
}

func (w *Workspace) loadSnapshot() *snapshot {
	b, err := os.ReadFile(w.snapshotPath())
	if err != nil {
		return nil
	}
	s, err := decodeSnapshot(b)
	if err != nil {
		return nil
	}
	return s
}

type writer struct{ b []byte }

func (w *writer) int(v int64)     { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) string(s string) { w.int(int64(len(s))); w.b = append(w.b, s...) }
func (w *writer) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}
func (w *writer) stamp(s stamp) {
	for _, v := range []int64{int64(s.mode), s.size, int64(s.ino), s.mtime, s.ctime} {
		w.int(v)
	}
}

func (w *writer) entry(e *entry) {
	w.string(e.name)
	w.stamp(e.st)
	w.b = append(w.b, e.id[:]...)
	w.bool(e.known)
	w.bool(e.racy)
}

func encodeSnapshot(s *snapshot) []byte {
	w := &writer{b: []byte(snapshotMagic)}
	w.bool(s.unsettled)
	w.int(int64(len(s.inputs)))
	for _, in := range s.inputs {
		w.string(in.path)
		w.bool(in.identity)
		w.stamp(in.st)
	}
	w.int(int64(len(s.dirs)))
	for _, d := range s.dirs {
		w.string(d.path)
		w.stamp(d.st)
		w.bool(d.racy)
		w.b = append(w.b, d.names[:]...)
		w.b = append(w.b, d.tree[:]...)
		w.bool(d.stored)
		w.bool(d.empty)
		w.bool(d.ignore != nil)
		if d.ignore != nil {
			w.entry(d.ignore)
		}
		w.int(int64(len(d.files)))
		for _, e := range d.files {
			w.entry(e)
		}
	}
	return binary.BigEndian.AppendUint32(w.b, crc32.ChecksumIEEE(w.b))
}

var errSnapshot = errors.New("local: not a snapshot of this version")

// reader reads what writer wrote; after the first fault everything is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) string() string { return string(r.bytes(r.int())) }

func (r *reader) bool() bool {
	b := r.bytes(1)
	return len(b) == 1 && b[0] == 1
}

func (r *reader) stamp() stamp {
	return stamp{mode: uint32(r.int()), size: r.int(), ino: uint64(r.int()), mtime: r.int(), ctime: r.int()}
}

func (r *reader) entry(dir string) *entry {
	e := &entry{name: r.string(), st: r.stamp()}
	copy(e.id[:], r.bytes(int64(len(e.id))))
	e.known, e.racy, e.path = r.bool(), r.bool(), join(dir, e.name)
	return e
}

func decodeSnapshot(b []byte) (*snapshot, error) {
	n := len(b) - 4
	if n < len(snapshotMagic) || string(b[:len(snapshotMagic)]) != snapshotMagic || crc32.ChecksumIEEE(b[:n]) != binary.BigEndian.Uint32(b[n:]) {
		return nil, errSnapshot
	}
	r := &reader{b: b[len(snapshotMagic):n]}
	s := &snapshot{unsettled: r.bool()}
	for i := r.int(); i > 0 && !r.bad; i-- {
		s.inputs = append(s.inputs, input{path: r.string(), identity: r.bool(), st: r.stamp()})
	}
	for i := r.int(); i > 0 && !r.bad; i-- {
		d := &dir{path: r.string(), st: r.stamp(), racy: r.bool()}
		copy(d.names[:], r.bytes(int64(len(d.names))))
		copy(d.tree[:], r.bytes(int64(len(d.tree))))
		d.stored, d.empty = r.bool(), r.bool()
		if r.bool() {
			d.ignore = r.entry(d.path)
		}
		for k := r.int(); k > 0 && !r.bad; k-- {
			d.files = append(d.files, r.entry(d.path))
		}
		s.dirs = append(s.dirs, d)
	}
	if r.bad || len(s.dirs) == 0 || s.dirs[0].path != "" {
		return nil, errSnapshot
	}
	s.tie()
	return s, nil
}
