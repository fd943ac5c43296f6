package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
)

// What is staged in the user's repository is kept as what differs from a
// commit: its cost follows what is staged, not the size of the index. The
// commit is the user's own object and is only named. Entries are absolute all
// the same: a later commit or reset moves HEAD and leaves a record as it is.

// staged is what the index holds, as far as it differs from a commit's tree,
// by paths relative to the repository's top.
type staged struct {
	// head is a commit, "" before the first one.
	head  string
	paths map[string]stagedPath
}

// stagedPath is one path that the index has otherwise than the commit.
type stagedPath struct {
	// was is the commit's entry, is what the index has: none for a deletion,
	// several stages for a conflict.
	was slot
	is  []slot
}

// slot is one entry. The zero slot is none.
type slot struct {
	mode, id string
	stage    byte // '0', or '1' to '3' in a conflict
	// later says that only the intent to add the file is there.
	later bool
}

// stagedMemo is the index as it was last read.
type stagedMemo struct {
	at    string
	st    stamp
	racy  bool
	known bool
	id    string
}

// Staged implements workspace.Workspace.
func (w *Workspace) Staged(ctx context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.staged(ctx)
}

func (w *Workspace) staged(ctx context.Context) (string, error) {
	g := gitAbove(w.path)
	if !g.found() {
		return "", nil
	}
	m := stagedMemo{at: filepath.Join(g.dir, "index"), known: true}
	start := time.Now().UnixNano()
	if st, err := lstat(m.at); err == nil {
		m.st, m.racy = st, st.racy(start)
	}
	if old := w.index; old.known && !old.racy && old.at == m.at && old.st == m.st {
		return old.id, nil
	}
	s, err := w.readStaged(ctx, g)
	if err != nil {
		return "", err
	}
	b := s.bytes()
	m.id = hashObject(blobKind, b).String()
	to := newLooseSink(w.store)
	if err := to.add(blobKind, hashObject(blobKind, b), b); err != nil {
		to.abandon()
		return "", err
	}
	if err := to.finish(); err != nil {
		to.abandon()
		return "", err
	}
	w.index = m
	return m.id, nil
}

// readStaged asks git what differs between HEAD and the index. Neither is
// written, and no file of the working tree is read.
func (w *Workspace) readStaged(ctx context.Context, g gitDir) (staged, error) {
	s := staged{paths: map[string]stagedPath{}}
	head, err := w.git.run(ctx, w.repoCall(g, "rev-parse", "--quiet", "--verify", "HEAD^{commit}"))
	if err != nil {
		return s, err
	}
	s.head = strings.TrimSpace(string(head))
	against := s.head
	if against == "" {
		if against, err = w.noTree(ctx, g); err != nil {
			return s, err
		}
	}
	out, err := w.git.run(ctx, w.repoCall(g, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", "--ita-visible-in-index", against))
	if err != nil {
		return s, err
	}
	list, err := parseRaw(string(out))
	if err != nil {
		return s, err
	}
	var conflicts, empty bool
	for _, d := range list {
		p := stagedPath{was: slotOf(d.oldMode, d.oldID)}
		if is := slotOf(d.newMode, d.newID); is.mode != "" {
			p.is = []slot{is}
			empty = empty || d.newID == gitID(nil, len(d.newID))
		}
		conflicts = conflicts || d.letter == "U"
		s.paths[d.path] = p
	}
	if conflicts {
		if err := w.readConflicts(ctx, g, s); err != nil {
			return s, err
		}
	}
	if empty {
		return s, w.readIntents(ctx, g, s)
	}
	return s, nil
}

func slotOf(mode, id string) slot {
	if mode == noMode {
		return slot{}
	}
	return slot{mode: mode, id: id, stage: '0'}
}

// readConflicts puts the stages of unmerged paths in.
func (w *Workspace) readConflicts(ctx context.Context, g gitDir, s staged) error {
	out, err := w.git.run(ctx, w.topCall(g, "ls-files", "--unmerged", "--stage", "-z"))
	if err != nil {
		return err
	}
	cleared := map[string]bool{}
	for line := range strings.SplitSeq(string(out), "\x00") {
		meta, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 {
			continue
		}
		p := s.paths[path]
		if !cleared[path] {
			cleared[path], p.is = true, nil
		}
		p.is = append(p.is, slot{mode: f[0], id: f[1], stage: f[2][0]})
		s.paths[path] = p
	}
	return nil
}

// intentFlag is git's mark on an entry of which only the intent to add it is
// there, as ls-files --debug prints it.
const intentFlag = 0x20000000

// readIntents marks the entries that `git add -N` made.
func (w *Workspace) readIntents(ctx context.Context, g gitDir, s staged) error {
	out, err := w.git.run(ctx, w.topCall(g, "ls-files", "-z", "--stage", "--debug"))
	if err != nil {
		return err
	}
	for _, r := range parseIndex(out) {
		_, text, _ := strings.Cut(r.debug, "flags: ")
		var flags uint64
		fmt.Sscanf(text, "%x", &flags)
		if p, ok := s.paths[r.path]; ok && flags&intentFlag != 0 && len(p.is) == 1 {
			p.is[0].later = true
		}
	}
	return nil
}

// topCall is a call of the user's repository from its top, where paths are
// whole.
func (w *Workspace) topCall(g gitDir, args ...string) call {
	return call{dir: g.top, gitDir: g.dir, workTree: g.top, args: args}
}

// noTree is the tree without entries, as the user's repository names it.
func (w *Workspace) noTree(ctx context.Context, g gitDir) (string, error) {
	format, err := w.git.run(ctx, w.repoCall(g, "rev-parse", "--show-object-format"))
	if strings.TrimSpace(string(format)) == "sha256" {
		return emptyTree, err
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904", err
}

// rawDelta is a delta with git's letter for it.
type rawDelta struct {
	delta
	letter string
}

func parseRaw(out string) ([]rawDelta, error) {
	var list []rawDelta
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("local: git said %q of a change", fields[i])
		}
		list = append(list, rawDelta{delta{path: fields[i+1], oldMode: f[0], newMode: f[1], oldID: f[2], newID: f[3]}, f[4]})
	}
	return list, nil
}

// bytes is the record as it is kept: one form for one content.
func (s staged) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "belay index 1\nhead %s\n", orDash(s.head))
	for _, path := range slices.Sorted(maps.Keys(s.paths)) {
		p := s.paths[path]
		fmt.Fprintf(&b, "%s\x00%d", path, len(p.is))
		for _, e := range append([]slot{p.was}, p.is...) {
			later := byte('-')
			if e.later {
				later = 'n'
			}
			fmt.Fprintf(&b, " %s %s %c%c", orDash(e.mode), orDash(e.id), max(e.stage, '0'), later)
		}
		b.WriteByte('\x00')
	}
	return b.Bytes()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func noDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

func parseStaged(b []byte) (staged, error) {
	s := staged{paths: map[string]stagedPath{}}
	bad := errors.New("local: a record of an index is damaged")
	rest, ok := bytes.CutPrefix(b, []byte("belay index 1\nhead "))
	head, rest, ok2 := bytes.Cut(rest, []byte("\n"))
	if !ok || !ok2 {
		return s, bad
	}
	s.head = noDash(string(head))
	fields := strings.Split(string(rest), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(fields[i+1])
		if len(f) < 4 || (len(f)-1)%3 != 0 {
			return s, bad
		}
		var slots []slot
		for j := 1; j < len(f); j += 3 {
			e := slot{mode: noDash(f[j]), id: noDash(f[j+1])}
			if e.mode != "" {
				e.stage, e.later = f[j+2][0], f[j+2][1] == 'n'
			}
			slots = append(slots, e)
		}
		p := stagedPath{was: slots[0]}
		if len(slots) > 1 {
			p.is = slots[1:]
		}
		s.paths[fields[i]] = p
	}
	return s, nil
}

// loadStaged reads a kept record.
func (w *Workspace) loadStaged(ctx context.Context, id string) (staged, error) {
	var s staged
	err := w.batch(ctx, []item{{id: id, path: "the index"}}, func(_ item, _ int64, r io.Reader) error {
		b, err := io.ReadAll(r)
		if err == nil {
			s, err = parseStaged(b)
		}
		return err
	})
	return s, err
}

// stagedChange is a path whose entries differ between two records.
type stagedChange struct {
	path     string // relative to the repository's top
	old, new []slot
}

// stagedChanges compares two records: by what each says of a path, or by what
// its commit has there.
func (w *Workspace) stagedChanges(ctx context.Context, g gitDir, from, to staged) ([]stagedChange, error) {
	type sides struct{ a, b []slot }
	at := map[string]sides{}
	for path, p := range from.paths {
		at[path] = sides{p.is, slotList(p.was)}
	}
	for path, p := range to.paths {
		if _, both := at[path]; both {
			at[path] = sides{at[path].a, p.is}
		} else {
			at[path] = sides{slotList(p.was), p.is}
		}
	}
	if from.head != to.head {
		none, err := w.noTree(ctx, g)
		if err != nil {
			return nil, err
		}
		tree := func(head string) string {
			if head == "" {
				return none
			}
			return head + "^{tree}"
		}
		out, err := w.git.run(ctx, call{dir: w.path, gitDir: g.dir, args: []string{"diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", tree(from.head), tree(to.head)}})
		if err != nil {
			return nil, err
		}
		list, err := parseRaw(string(out))
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			s := sides{slotList(slotOf(d.oldMode, d.oldID)), slotList(slotOf(d.newMode, d.newID))}
			if p, ok := from.paths[d.path]; ok {
				s.a = p.is
			}
			if p, ok := to.paths[d.path]; ok {
				s.b = p.is
			}
			at[d.path] = s
		}
	}
	var list []stagedChange
	for _, path := range slices.Sorted(maps.Keys(at)) {
		if s := at[path]; !slices.Equal(s.a, s.b) {
			list = append(list, stagedChange{path, s.a, s.b})
		}
	}
	return list, nil
}

func slotList(s slot) []slot {
	if s.mode == "" {
		return nil
	}
	return []slot{s}
}

// StagedChanges implements workspace.Workspace.
func (w *Workspace) StagedChanges(ctx context.Context, from, to string) (changes []event.Change, lost []string, err error) {
	if from == to {
		return nil, nil, nil
	}
	g, list, err := w.compareStaged(ctx, from, to)
	if err != nil {
		return nil, nil, err
	}
	gone, err := w.lostBytes(ctx, g, list)
	if err != nil {
		return nil, nil, err
	}
	prefix := w.prefixIn(g)
	for _, c := range list {
		if path, ok := strings.CutPrefix(c.path, prefix); ok {
			status := "modified"
			if len(c.old) == 0 {
				status = "added"
			} else if len(c.new) == 0 {
				status = "deleted"
			}
			if changes = append(changes, event.Change{Path: path, Status: status}); gone[c.path] {
				lost = append(lost, path)
			}
		}
	}
	return changes, lost, nil
}

func (w *Workspace) compareStaged(ctx context.Context, from, to string) (gitDir, []stagedChange, error) {
	g := gitAbove(w.path)
	if !g.found() {
		return g, nil, noRepository(w.path)
	}
	a, err := w.loadStaged(ctx, from)
	if err != nil {
		return g, nil, lostIndex(err)
	}
	b, err := w.loadStaged(ctx, to)
	if err != nil {
		return g, nil, lostIndex(err)
	}
	list, err := w.stagedChanges(ctx, g, a, b)
	if err != nil {
		return g, nil, lostIndex(err)
	}
	return g, list, nil
}

// lostIndex says that what was staged cannot be had again.
func lostIndex(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.New(fault.NotFound, fault.Environment, "what was staged then cannot be told any more: "+err.Error(),
		"it was seen at another place, or its commit is gone from the repository; stage anew")
}

// prefixIn is where the workspace stands in its repository, "" at the top.
func (w *Workspace) prefixIn(g gitDir) string {
	rel, err := filepath.Rel(g.top, w.path)
	if err != nil || rel == "." {
		return ""
	}
	return filepath.ToSlash(rel) + "/"
}
