package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"belay/internal/event"
)

// Bounds keep a file that is no export, or a hostile one, from taking a machine.
const (
	maxManifest = 64 << 20
	maxLine     = 1 << 20
	maxEvents   = 4 << 30
	// DefaultMax is how much a file may hold unpacked.
	DefaultMax = int64(16) << 30
	// window is the most memory that unpacking may ask for.
	window = 128 << 20
)

// Broken says that a file is not what it was when it was made, and where.
type Broken struct{ Where, Why string }

func (b *Broken) Error() string {
	return fmt.Sprintf("the export is damaged or was changed: %s: %s", b.Where, b.Why)
}

// Read reads a file from its beginning and checks all of it: every size and
// hash, the chain over every record, and that records and contents are of each
// other. What it is given to is called with each piece as it comes; a nil
// function looks only. Nothing should be kept of a file until one Read of the
// whole has returned without an error.
func Read(r io.Reader, limit int64, take func(Manifest, []Stored) error, piece func(kind, name string, r io.Reader) error) (Manifest, []Stored, error) {
	f := &file{limit: limit, take: take, piece: piece}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return f.m, nil, err
	}
	defer z.Close()
	f.t = tar.NewReader(z)
	err = f.read()
	if err == nil {
		// Nothing may stand behind the last piece: not even what tar would pass over.
		if n, rerr := io.Copy(io.Discard, io.LimitReader(z, 64<<10)); rerr != nil || n > 32<<10 {
			err = &Broken{"the end of the file", "something follows the last piece"}
		}
	}
	return f.m, f.records, err
}

type file struct {
	t       *tar.Reader
	limit   int64
	take    func(Manifest, []Stored) error
	piece   func(kind, name string, r io.Reader) error
	m       Manifest
	records []Stored
	named   map[string]int64
}

func (f *file) read() error {
	if err := f.manifest(); err != nil {
		return err
	}
	if err := f.events(); err != nil {
		return err
	}
	if f.take != nil {
		if err := f.take(f.m, f.records); err != nil {
			return err
		}
	}
	for _, a := range f.m.Artifacts {
		if err := f.next(artifactsDir+a.SHA256, Content{SHA256: a.SHA256, Size: a.Size}, "artifact", a.SHA256); err != nil {
			return err
		}
	}
	for i, p := range f.m.Trees {
		if err := f.next(treeName(i), p.Content, "tree", p.Tree); err != nil {
			return err
		}
	}
	if h, err := f.t.Next(); err != io.EOF {
		if err == nil {
			return &Broken{h.Name, "the manifest does not name it"}
		}
		return broken("the end of the file", err)
	}
	return nil
}

func broken(where string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Broken{where, "the file ends there"}
	}
	return &Broken{where, err.Error()}
}

// enter moves to the next piece, which must be this one.
func (f *file) enter(name string, size int64) error {
	h, err := f.t.Next()
	if err != nil {
		return broken(name, err)
	}
	if h.Name != name || h.Typeflag != tar.TypeReg {
		return &Broken{name, fmt.Sprintf("%q stands in its place", h.Name)}
	}
	if size >= 0 && h.Size != size {
		return &Broken{name, fmt.Sprintf("it has %d bytes, not %d", h.Size, size)}
	}
	if size < 0 && h.Size > maxManifest {
		return &Broken{name, "it is too large"}
	}
	return nil
}

func (f *file) manifest() error {
	if err := f.enter(manifestName, -1); err != nil {
		return err
	}
	b, err := io.ReadAll(f.t)
	if err != nil {
		return broken(manifestName, err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&f.m); err != nil {
		return &Broken{manifestName, err.Error()}
	}
	m := f.m
	switch {
	case m.Format != Format:
		return &Broken{manifestName, "it is no export of belay"}
	case m.Version != Version:
		return fmt.Errorf("the export has the form %d, and this belay reads %d: use the belay that is as new", m.Version, Version)
	case m.Goal == "" || m.Records == 0 || m.Events.Size < 0 || m.Events.Size > maxEvents:
		return &Broken{manifestName, "it names no goal or no events"}
	}
	total := m.Events.Size
	f.named = map[string]int64{}
	for _, a := range m.Artifacts {
		if !isHash(a.SHA256) || a.Size < 0 {
			return &Broken{manifestName, "it names an artifact " + fmt.Sprintf("%q", a.SHA256)}
		}
		f.named[a.SHA256] = a.Size
		total += a.Size
	}
	for _, t := range m.Trees {
		if !isHash(t.Tree) || t.Base != "" && !isHash(t.Base) || t.Size < 0 {
			return &Broken{manifestName, "it names a tree " + fmt.Sprintf("%q", t.Tree)}
		}
		total += t.Size
	}
	if total > f.limit || total < 0 {
		return fmt.Errorf("the export holds %d MiB unpacked, more than the %d MiB that are taken (--max-size)", total>>20, f.limit>>20)
	}
	return nil
}

func (f *file) events() error {
	if err := f.enter(eventsName, f.m.Events.Size); err != nil {
		return err
	}
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(f.t, sum), 1<<16)
	prev := event.Genesis
	for {
		line, err := readLine(in)
		if err == io.EOF {
			break
		}
		where := fmt.Sprintf("event %d", len(f.records)+1)
		if err != nil {
			return broken(where, err)
		}
		s, err := decodeLine(line)
		if err != nil {
			return &Broken{where, err.Error()}
		}
		r := s.Record
		switch {
		case r.Goal != f.m.Goal:
			return &Broken{where, "it is of another goal"}
		case r.Seq != uint64(len(f.records))+1:
			return &Broken{where, fmt.Sprintf("it has the number %d", r.Seq)}
		case event.Chain(prev, r) != s.Hash:
			return &Broken{where, fmt.Sprintf("the hash chain does not hold (%s)", r.Type)}
		case len(f.records) > 0 && r.Time < f.records[len(f.records)-1].Record.Time:
			return &Broken{where, "its time lies before that of the event before it"}
		}
		for _, ref := range Refs(r.Payload) {
			if err := f.mustName(ref, where); err != nil {
				return err
			}
		}
		f.records, prev = append(f.records, s), s.Hash
	}
	switch {
	case uint64(len(f.records)) != f.m.Records || prev != f.m.Head:
		return &Broken{eventsName, fmt.Sprintf("it has %d events up to %s, not %d up to %s", len(f.records), prev, f.m.Records, f.m.Head)}
	case hex.EncodeToString(sum.Sum(nil)) != f.m.Events.SHA256:
		return &Broken{eventsName, "its content is not what the manifest names"}
	}
	return nil
}

func (f *file) mustName(ref event.Ref, where string) error {
	if size, ok := f.named[ref.SHA256]; !ok || size != ref.Size {
		return &Broken{where, "it needs the artifact " + ref.SHA256 + ", which is not in the file"}
	}
	return nil
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, more, err := in.ReadLine()
		if err != nil {
			return nil, err
		}
		if line = append(line, part...); len(line) > maxLine {
			return nil, errors.New("it is too long")
		}
		if !more {
			return line, nil
		}
	}
}

// next reads one piece, hands it on, and checks it.
func (f *file) next(name string, c Content, kind, key string) error {
	if err := f.enter(name, c.Size); err != nil {
		return err
	}
	sum := sha256.New()
	r := io.TeeReader(f.t, sum)
	if f.piece != nil {
		if err := f.piece(kind, key, r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return broken(name, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != c.SHA256 {
		return &Broken{name, "its content does not have the hash that it is named by"}
	}
	return nil
}
