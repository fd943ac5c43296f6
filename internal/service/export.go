package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"belay/internal/bundle"
	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/workspace"
)

// GiveUp ends the right to advance a goal here: it goes on where the file it is
// exported to is imported. It can be exported again, and resumed here no more.
func (s *Service) GiveUp(ctx context.Context, goal, to string) error {
	st, err := s.settled(ctx, goal)
	if err != nil {
		return err
	}
	if st.Left != nil {
		return nil // a crash came between this and the file
	}
	look, err := s.lookOnce(ctx, st)
	if err != nil {
		return fmt.Errorf("the workspace has to be looked at before the goal is given up: %w", err)
	}
	_, err = s.do(ctx, goal, core.GiveUp{To: to, Observation: look})
	return err
}

// Bundle writes a goal as one portable file: its events byte for byte, the
// artifacts that they name, and the trees of its workspace.
func (s *Service) Bundle(ctx context.Context, goal string, out io.Writer) error {
	st, err := s.state(ctx, goal)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "belay-export-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	w, err := bundle.NewWriter(bundle.Manifest{Goal: goal, Title: core.Row(st).Title, Place: s.Place, Made: moment.Of(time.Now())}, temp)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := s.exportEvents(ctx, st, w); err != nil {
		return err
	}
	if err := s.exportTrees(ctx, st, w, temp); err != nil {
		return err
	}
	artifact := func(sha string) (io.ReadCloser, error) { return s.Ledger.OpenArtifact(ctx, sha) }
	pack := func(tree string) (io.ReadCloser, error) { return os.Open(filepath.Join(temp, tree)) }
	return w.Write(out, artifact, pack)
}

// exportEvents takes the records up to the state's head, and checks the chain:
// what is broken here is not carried on.
func (s *Service) exportEvents(ctx context.Context, st core.State, w *bundle.Writer) error {
	prev, seen := event.Genesis, map[string]bool{}
	for after := uint64(0); after < st.Head; {
		records, err := s.Ledger.Records(ctx, st.Goal, after, int(min(1000, st.Head-after)))
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return fmt.Errorf("goal %s: the events from %d on are missing; belay audit %s tells more", st.Goal, after+1, st.Goal)
		}
		for _, r := range records {
			if event.Chain(prev, r.Record) != r.Hash || r.Record.Seq != after+1 {
				return fmt.Errorf("goal %s: the hash chain does not hold at event %d; belay audit %s tells more", st.Goal, r.Record.Seq, st.Goal)
			}
			if err := w.Add(bundle.Stored(r)); err != nil {
				return err
			}
			if err := s.name(ctx, w, seen, r.Record.Payload, r.Record.Spilled); err != nil {
				return fmt.Errorf("event %d: %w", r.Record.Seq, err)
			}
			prev, after = r.Hash, r.Record.Seq
		}
	}
	return nil
}

// name takes the artifacts that a payload names into the manifest; a payload that
// is an artifact itself names more.
func (s *Service) name(ctx context.Context, w *bundle.Writer, seen map[string]bool, payload json.RawMessage, spilled bool) error {
	for _, ref := range bundle.Refs(payload) {
		if !seen[ref.SHA256] {
			seen[ref.SHA256] = true
			w.Manifest.Artifacts = append(w.Manifest.Artifacts, ref)
		}
		if !spilled {
			continue
		}
		b, err := s.content(ctx, ref.SHA256)
		if err != nil {
			return err
		}
		if err := s.name(ctx, w, seen, b, false); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) content(ctx context.Context, sha string) ([]byte, error) {
	r, err := s.Ledger.OpenArtifact(ctx, sha)
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", sha, err)
	}
	defer r.Close()
	return io.ReadAll(r)
}

// exportTrees packs the trees that the goal can be taken to: the present one, the
// one that it found, and its checkpoints. Each builds on the one before.
func (s *Service) exportTrees(ctx context.Context, st core.State, w *bundle.Writer, temp string) error {
	if st.Workspace == nil {
		return nil
	}
	trees := []string{st.BaselineTree()}
	for _, c := range st.Checkpoints {
		trees = append(trees, c.Tree)
	}
	trees = append(trees, st.Revision.Tree)
	ws, err := s.kept(ctx, st)
	if err != nil {
		return err
	}
	defer ws.Close()
	base := ""
	for i, t := range trees {
		if slices.Contains(trees[:i], t) {
			continue
		}
		held, err := ws.Holds(ctx, t)
		if err != nil {
			return err
		}
		if !held {
			if t == st.Revision.Tree {
				return fault.New(fault.NotFound, fault.Environment, "the present tree of goal "+st.Goal+" is not kept here", "export where its workspace is: at "+st.Place)
			}
			w.Manifest.Missing = append(w.Manifest.Missing, t)
			continue
		}
		c, err := packTo(ctx, ws, t, base, filepath.Join(temp, t))
		if err != nil {
			return err
		}
		w.Manifest.Trees = append(w.Manifest.Trees, bundle.Tree{Tree: t, Base: base, Content: c})
		base = t
	}
	return nil
}

// kept opens a goal's workspace to look at objects alone, beside whoever works
// there.
func (s *Service) kept(ctx context.Context, st core.State) (workspace.Workspace, error) {
	if f := st.Gone(); f != nil {
		return nil, f
	}
	return s.ReadWorkspace(ctx, st.Repo)
}

func packTo(ctx context.Context, ws workspace.Workspace, tree, base, path string) (c bundle.Content, err error) {
	pack, err := ws.Export(ctx, tree, base)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, pack.Close()) }()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return c, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), pack)
	return bundle.Content{SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n}, errors.Join(err, f.Close())
}

// ImportRequest says where a goal that comes in a file is to be.
type ImportRequest struct {
	Path string
	// Repo is the directory that gets the tree; "" is the goal's own path, if that
	// is a directory here.
	Repo string
	// Head, if set, is the hash of the last event that the exporter was told.
	Head string
	// Max is how much the file may hold unpacked; 0 is bundle.DefaultMax.
	Max int64
	// Sandbox is the user's setting for the goal; "" is the strongest that holds.
	Sandbox string
}

// Imported is what came in.
type Imported struct {
	Goal string `json:"goal"`
	Repo string `json:"repo,omitempty"`
	Head string `json:"head_hash"`
	// Copy says that the goal goes on where it was exported.
	Copy bool `json:"copy,omitempty"`
	// Commands are what the goal's criteria run; they count as tests.
	Commands []string `json:"commands,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Import takes in a goal. The whole file is checked before anything of it is
// kept; then its tree is laid into the directory, over nothing that is somebody
// else's, and at last the events are appended, all or none.
func (s *Service) Import(ctx context.Context, r ImportRequest) (Imported, error) {
	if r.Max <= 0 {
		r.Max = bundle.DefaultMax
	}
	var m bundle.Manifest
	var records []bundle.Stored
	err := s.eachPiece(r, func(f io.Reader) (err error) {
		m, records, err = bundle.Read(f, r.Max, nil, nil)
		return err
	})
	out := Imported{Goal: m.Goal, Head: m.Head}
	if err != nil {
		return out, err
	}
	if r.Head != "" && r.Head != m.Head {
		return out, &bundle.Broken{Where: "the last event", Why: "it has the hash " + m.Head + ", not " + r.Head}
	}
	known, err := s.Ledger.Records(ctx, m.Goal, 0, 0)
	if err != nil {
		return out, err
	}
	if err := s.fits(ctx, m, known, records); err != nil {
		return out, err
	}
	if err := s.importArtifacts(ctx, r, m); err != nil {
		return out, err
	}
	events, err := s.decode(ctx, records)
	if err != nil {
		return out, err
	}
	stored := make([]ledger.Stored, len(records))
	for i, r := range records {
		stored[i] = ledger.Stored(r)
	}
	same, err := s.verbatim(ctx, m.Goal, stored)
	if err != nil {
		return out, err
	}
	for i := range same {
		same[i].Hash = records[i].Hash
	}
	st := core.Fold(core.State{}, events)
	if st.Refuse != "" {
		return out, fmt.Errorf("goal %s: %w: %s", m.Goal, core.ErrRefused, st.Refuse)
	}
	b := core.Import{Place: s.Place, Copy: st.Left == nil}
	out.Copy, out.Commands = b.Copy, st.TestCommands()
	if !b.Copy || r.Repo != "" {
		if b.Repo, err = s.importTree(ctx, r, m, st); err != nil {
			return out, err
		}
		out.Repo = b.Repo
	}
	if !b.Copy {
		if b.Mine, out.Warnings, err = s.mine(ctx, b.Repo, r.Sandbox); err != nil {
			return out, err
		}
	}
	return out, s.appendImport(ctx, st, same, len(known), b)
}

func (s *Service) eachPiece(r ImportRequest, do func(io.Reader) error) error {
	f, err := os.Open(r.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	defer f.Close()
	return do(f)
}

// fits refuses a goal that goes on here, or whose history here is another one.
func (s *Service) fits(ctx context.Context, m bundle.Manifest, known []ledger.Stored, records []bundle.Stored) error {
	if len(known) == 0 {
		return nil
	}
	st, err := s.state(ctx, m.Goal)
	if err != nil {
		return err
	}
	if st.Left == nil && !st.Copy {
		return fmt.Errorf("%w: goal %s is here already and goes on here", ErrUsage, m.Goal)
	}
	// A copy has one event more than it came with: that it is a copy.
	if st.Copy {
		return fmt.Errorf("%w: goal %s is here already, as a copy", ErrUsage, m.Goal)
	}
	if len(known) >= len(records) || known[len(known)-1].Hash != records[len(known)-1].Hash {
		return fmt.Errorf("%w: goal %s is here already, and the file does not go on from where it was given up", ErrUsage, m.Goal)
	}
	return nil
}

func (s *Service) importArtifacts(ctx context.Context, r ImportRequest, m bundle.Manifest) error {
	media := map[string]string{}
	for _, a := range m.Artifacts {
		media[a.SHA256] = a.Media
	}
	return s.eachPiece(r, func(f io.Reader) error {
		_, _, err := bundle.Read(f, r.Max, nil, func(kind, name string, piece io.Reader) error {
			if kind != "artifact" {
				return nil
			}
			ref, err := s.Ledger.PutArtifact(ctx, piece, media[name])
			if err == nil && ref.SHA256 != name {
				err = &bundle.Broken{Where: "artifact " + name, Why: "its content has another hash"}
			}
			return err
		})
		return err
	})
}

// decode reads the events, their payloads kept byte for byte.
func (s *Service) decode(ctx context.Context, records []bundle.Stored) ([]event.Event, error) {
	out := make([]event.Event, len(records))
	for i, r := range records {
		out[i] = event.Decode(r.Record, r.Hash, func(ref event.Ref) ([]byte, error) { return s.content(ctx, ref.SHA256) })
		if d, bad := out[i].Payload.(event.Damaged); bad {
			return nil, &bundle.Broken{Where: fmt.Sprintf("event %d", r.Record.Seq), Why: d.Reason}
		}
	}
	return out, nil
}

// verbatim are events that are stored again as the same bytes.
func (s *Service) verbatim(ctx context.Context, goal string, records []ledger.Stored) ([]event.Event, error) {
	out := make([]event.Event, len(records))
	for i, r := range records {
		raw := r.Record.Payload
		if r.Record.Spilled {
			var sp event.Spill
			if err := json.Unmarshal(raw, &sp); err != nil {
				return nil, fmt.Errorf("event %d: %w", r.Record.Seq, err)
			}
			var err error
			if raw, err = s.content(ctx, sp.Artifact.SHA256); err != nil {
				return nil, err
			}
		}
		c := r.Record
		out[i] = event.Event{Goal: goal, Seq: c.Seq, ID: c.ID, Type: c.Type, Version: c.Version, Time: c.Time, Turn: c.Turn, Op: c.Op, Cause: c.Cause,
			Actor: c.Actor, Fence: c.Fence, Payload: event.Unknown{Type: c.Type, Version: c.Version, Raw: raw}}
	}
	return out, nil
}
