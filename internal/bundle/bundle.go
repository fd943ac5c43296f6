// Package bundle is the one portable file of a goal: its events, the artifacts
// that they name, and the trees of its workspace. It knows the file's form and
// nothing else: not where events come from, nor what becomes of them.
//
// # The form
//
// A tar file compressed with zstd. First belay-export.json, which names
// everything else with size and SHA-256; then events.jsonl, a record and its
// chain hash a line; artifacts/SHA256; trees/NNNN.pack. A reader takes nothing
// else, in no other order, and no byte more than was named: names that lead
// elsewhere, links and bombs have no place to stand in.
//
// The chain hash covers every byte of every record, and records name artifacts
// and trees by their content. So whoever changes one thing has to change all
// that follows: the head hash, told by export and import, is the name of it all.
package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"belay/internal/event"
	"belay/internal/moment"
)

// Format and Version are what a manifest begins with.
const (
	Format  = "belay-export"
	Version = 1
)

const (
	manifestName = "belay-export.json"
	eventsName   = "events.jsonl"
	artifactsDir = "artifacts/"
	treesDir     = "trees/"
)

// Manifest names everything in the file.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Goal    string `json:"goal"`
	Title   string `json:"title,omitempty"`
	// Place is the state directory that it comes from.
	Place string      `json:"place,omitempty"`
	Made  moment.Time `json:"made"`
	// Head is the hash of the last event.
	Head      string      `json:"head_hash"`
	Events    Content     `json:"events"`
	Records   uint64      `json:"records"`
	Artifacts []event.Ref `json:"artifacts"`
	Trees     []Tree      `json:"trees"`
	// Missing are trees that the goal knows and that were not kept.
	Missing []string `json:"missing_trees,omitempty"`
}

// Content is a size and a hash.
type Content struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Tree is a pack of what one tree has more than another.
type Tree struct {
	Tree string `json:"tree"`
	Base string `json:"base,omitempty"`
	Content
}

// Stored is a record with its chain hash, as a ledger keeps them.
type Stored struct {
	Record event.Record `json:"record"`
	Hash   string       `json:"hash"`
}

// Open gives the bytes of what a manifest names: an artifact by its hash, a tree
// by its name.
type Open func(name string) (io.ReadCloser, error)

// Writer collects what a file is made of.
type Writer struct {
	Manifest Manifest
	events   *os.File
	buffer   *bufio.Writer
	sum      hash.Hash
}

// NewWriter begins a file; dir is for what does not fit into memory.
func NewWriter(m Manifest, dir string) (*Writer, error) {
	f, err := os.CreateTemp(dir, "events-*")
	if err != nil {
		return nil, err
	}
	m.Format, m.Version = Format, Version
	w := &Writer{Manifest: m, events: f, sum: sha256.New()}
	w.buffer = bufio.NewWriter(io.MultiWriter(f, w.sum))
	return w, nil
}

// Close removes what was collected.
func (w *Writer) Close() error {
	err := w.events.Close()
	_ = os.Remove(w.events.Name()) // it is ours and temporary
	return err
}

// Add takes the next record.
func (w *Writer) Add(s Stored) error {
	line, err := encodeLine(s)
	if err != nil {
		return err
	}
	w.Manifest.Records++
	w.Manifest.Head = s.Hash
	w.Manifest.Events.Size += int64(len(line))
	_, err = w.buffer.Write(line)
	return err
}

// lineOf keeps the payload's bytes as they are: the hash is over them.
type lineOf struct {
	Record  event.Record `json:"record"`
	Payload []byte       `json:"payload"`
	Hash    string       `json:"hash"`
}

func encodeLine(s Stored) ([]byte, error) {
	l := lineOf{Record: s.Record, Payload: s.Record.Payload, Hash: s.Hash}
	l.Record.Payload = nil
	b, err := json.Marshal(l)
	return append(b, '\n'), err
}

func decodeLine(b []byte) (Stored, error) {
	var l lineOf
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Stored{}, err
	}
	l.Record.Payload = l.Payload
	return Stored{Record: l.Record, Hash: l.Hash}, nil
}

// Write writes the file. artifact and tree give the contents that the manifest
// names; contents of another size or hash are an error.
func (w *Writer) Write(out io.Writer, artifact, tree Open) error {
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	w.Manifest.Events.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	head, err := json.Marshal(w.Manifest)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	if err := put(t, manifestName, Content{Size: int64(len(head))}, bytes.NewReader(head)); err != nil {
		return err
	}
	if _, err := w.events.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := put(t, eventsName, w.Manifest.Events, w.events); err != nil {
		return err
	}
	for _, a := range w.Manifest.Artifacts {
		if err := putOpened(t, artifactsDir+a.SHA256, Content{SHA256: a.SHA256, Size: a.Size}, artifact, a.SHA256); err != nil {
			return err
		}
	}
	for i, p := range w.Manifest.Trees {
		if err := putOpened(t, treeName(i), p.Content, tree, p.Tree); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

func treeName(i int) string { return fmt.Sprintf("%s%04d.pack", treesDir, i) }

func putOpened(t *tar.Writer, name string, c Content, open Open, key string) error {
	r, err := open(key)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	return put(t, name, c, r)
}

func put(t *tar.Writer, name string, c Content, r io.Reader) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: c.Size, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(t, sum), r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n != c.Size || c.SHA256 != "" && hex.EncodeToString(sum.Sum(nil)) != c.SHA256 {
		return fmt.Errorf("%s: its content is not what it was when it was named", name)
	}
	return nil
}

// Refs lists the artifacts that a record names, and those that these name.
func Refs(payload json.RawMessage) []event.Ref {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return refsIn(v, nil)
}

func refsIn(v any, out []event.Ref) []event.Ref {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = refsIn(e, out)
		}
	case map[string]any:
		sha, named := v["sha256"].(string)
		n, sized := v["size"].(json.Number)
		if size, err := n.Int64(); named && sized && err == nil && isHash(sha) {
			media, _ := v["media"].(string)
			out = append(out, event.Ref{SHA256: sha, Size: size, Media: media})
		}
		for _, e := range v {
			out = refsIn(e, out)
		}
	}
	return out
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}
