package local

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"belay/internal/failpoint"
)

// packSink writes many objects into one pack file with its index, in git's
// formats (pack version 2, index version 2): a first observation writes two
// files instead of thousands.
type packSink struct {
	s     store
	mu    sync.Mutex
	f     *os.File
	w     *bufio.Writer
	at    int64
	taken map[oid]bool
	list  []packed
	err   error
}

type packed struct {
	id     oid
	offset int64
	crc    uint32
}

const packHeader = 12 // bytes in front of the first object

func newPackSink(s store) (*packSink, error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "objects", "pack"), "tmp_pack_")
	if err != nil {
		return nil, storageFault(err)
	}
	p := &packSink{s: s, f: f, w: bufio.NewWriterSize(f, 1<<18), at: packHeader, taken: map[oid]bool{}}
	_, p.err = p.w.Write(make([]byte, packHeader))
	return p, nil
}

func (p *packSink) add(kind string, id oid, content []byte) error {
	p.mu.Lock()
	seen := p.taken[id]
	p.taken[id] = true
	p.mu.Unlock()
	if seen || p.s.has(id) {
		return nil
	}
	var b bytes.Buffer
	b.Write(entryHeader(kind, len(content)))
	if err := deflate(&b, content); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return storageFault(p.err)
	}
	p.list = append(p.list, packed{id, p.at, crc32.ChecksumIEEE(b.Bytes())})
	p.at += int64(b.Len())
	if _, p.err = p.w.Write(b.Bytes()); p.err != nil {
		return storageFault(p.err)
	}
	return nil
}

// entryHeader is the type in three bits and the size in groups of 4, 7, 7, …
// bits, low ones first.
func entryHeader(kind string, size int) []byte {
	t := byte(3)
	if kind == treeKind {
		t = 2
	}
	b := t<<4 | byte(size&0xf)
	size >>= 4
	var out []byte
	for size > 0 {
		out = append(out, b|0x80)
		b = byte(size & 0x7f)
		size >>= 7
	}
	return append(out, b)
}

func (p *packSink) finish() error {
	if len(p.list) == 0 {
		p.abandon()
		return nil
	}
	sum, err := p.seal()
	if err != nil {
		p.abandon()
		return storageFault(err)
	}
	dir := filepath.Dir(p.f.Name())
	base := filepath.Join(dir, "pack-"+hex.EncodeToString(sum))
	idx := p.f.Name() + ".idx"
	if err := writeSynced(idx, p.index(sum), 0o400); err != nil {
		p.abandon()
		os.Remove(idx)
		return storageFault(err)
	}
	// The pack first: git opens a pack only through its index.
	for _, r := range [][2]string{{p.f.Name(), base + ".pack"}, {idx, base + ".idx"}} {
		if err := os.Rename(r[0], r[1]); err != nil {
			return storageFault(err)
		}
		failpoint.Hit(failpoint.PackNamed)
	}
	if err := syncPath(dir); err != nil {
		return storageFault(err)
	}
	return nil
}

// seal writes the header, now that the number of objects is known, and the
// checksum over the whole.
func (p *packSink) seal() ([]byte, error) {
	if p.err != nil {
		return nil, p.err
	}
	if err := p.w.Flush(); err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(p.list)))
	if _, err := p.f.WriteAt(head, 0); err != nil {
		return nil, err
	}
	if _, err := p.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, p.f); err != nil {
		return nil, err
	}
	sum := h.Sum(nil)
	if _, err := p.f.Write(sum); err != nil {
		return nil, err
	}
	if err := p.f.Chmod(0o400); err != nil {
		return nil, err
	}
	if err := p.f.Sync(); err != nil {
		return nil, err
	}
	return sum, p.f.Close()
}

func (p *packSink) index(sum []byte) []byte {
	slices.SortFunc(p.list, func(a, b packed) int { return bytes.Compare(a.id[:], b.id[:]) })
	out := []byte("\xfftOc\x00\x00\x00\x02")
	n := 0
	for first := range 256 {
		for n < len(p.list) && int(p.list[n].id[0]) <= first {
			n++
		}
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	for _, o := range p.list {
		out = append(out, o.id[:]...)
	}
	for _, o := range p.list {
		out = binary.BigEndian.AppendUint32(out, o.crc)
	}
	var far []byte
	for _, o := range p.list {
		at := uint32(o.offset)
		if o.offset >= 1<<31 {
			at = 1<<31 | uint32(len(far)/8)
			far = binary.BigEndian.AppendUint64(far, uint64(o.offset))
		}
		out = binary.BigEndian.AppendUint32(out, at)
	}
	out = append(out, far...)
	out = append(out, sum...)
	own := sha256.Sum256(out)
	return append(out, own[:]...)
}

func (p *packSink) abandon() {
	p.f.Close()
	os.Remove(p.f.Name())
}

// writeSynced writes a new file durably.
func writeSynced(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close())
}

var errChanging = fmt.Errorf("the file changed while it was read")
