package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// Commit implements workspace.Workspace. It is the only thing here that writes
// to the user's repository: objects, and one new branch. What a file looks like
// in a commit is for the user's git to say (line endings, filters), so their
// configuration is read; hooks are off, and nothing is checked out.
func (w *Workspace) Commit(ctx context.Context, c workspace.CommitOf) (workspace.Committed, error) {
	g := gitAbove(w.path)
	if !g.found() {
		return workspace.Committed{}, noRepository(w.path)
	}
	k := &commit{w: w, g: g, of: c}
	var err error
	if k.prefix, err = filepath.Rel(g.top, w.path); err != nil {
		return workspace.Committed{}, err
	}
	if k.prefix = filepath.ToSlash(k.prefix); k.prefix == "." {
		k.prefix = ""
	}
	if k.temp, err = os.MkdirTemp(w.private, "tmp_commit_"); err != nil {
		return workspace.Committed{}, storageFault(err)
	}
	defer os.RemoveAll(k.temp)
	return k.make(ctx)
}

type commit struct {
	w            *Workspace
	g            gitDir
	of           workspace.CommitOf
	prefix, temp string
}

// in prepares a call on the user's repository, with their configuration and an
// index of our own.
func (k *commit) in(args ...string) call {
	c := call{dir: k.g.top, gitDir: k.g.dir, workTree: k.g.top, userConfig: true, args: args,
		env: []string{"GIT_INDEX_FILE=" + filepath.Join(k.temp, "index")}}
	if k.of.Clone != "" && k.of.Dry {
		c.env = append(c.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(k.of.Clone, "objects"))
	}
	return c
}

func (k *commit) make(ctx context.Context) (out workspace.Committed, err error) {
	ref := "refs/heads/" + k.of.Branch
	if _, err := k.w.git.run(ctx, k.in("check-ref-format", "--branch", k.of.Branch)); err != nil {
		return out, fault.New(fault.InvalidArguments, fault.User, "git takes no branch named "+k.of.Branch, "choose another name")
	}
	there, err := k.w.Branch(ctx, k.of.Branch)
	if err != nil {
		return out, err
	}
	if there != "" && k.of.Dry {
		return out, taken(k.of.Branch)
	}
	if k.of.Clone != "" {
		if out.Commits, err = k.commits(ctx); err != nil {
			return out, err
		}
	}
	if k.of.Parent != "" {
		if _, err := k.w.git.run(ctx, k.in("read-tree", k.of.Parent)); err != nil {
			return out, err
		}
	}
	changed, conflicts, err := k.index(ctx)
	if err != nil {
		return out, err
	}
	if len(conflicts) > 0 || k.of.Dry {
		out.Conflicts, out.Changed = conflicts, changed
		return out, nil
	}
	id := k.of.Parent
	if changed > 0 {
		if id, err = k.write(ctx); err != nil {
			return out, err
		}
		out.Commits++
	}
	out.Commit, out.Changed = id, changed
	if there == id {
		return out, nil // a crash came after it
	}
	if there != "" {
		return out, taken(k.of.Branch)
	}
	zero := strings.Repeat("0", len(id))
	if _, err := k.w.git.run(ctx, k.in("update-ref", "-m", "belay apply", ref, id, zero)); err != nil {
		return out, err
	}
	return out, nil
}

func taken(branch string) error {
	return fault.New(fault.AlreadyExists, fault.User, "the branch "+branch+" exists already", "name another one")
}

// commits brings the commits that lead from the start to the parent, and counts
// them. They are read as objects: the configuration of the checkout, which its
// commands could write, has no say.
func (k *commit) commits(ctx context.Context) (int, error) {
	lent := "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(k.of.Clone, "objects")
	look := func(args ...string) call {
		c := k.in(args...)
		c.env = append(c.env, lent)
		return c
	}
	if k.of.Start != "" {
		base, err := k.w.git.run(ctx, look("merge-base", k.of.Start, k.of.Parent).with(""))
		if err != nil {
			return 0, err
		}
		if strings.TrimSpace(string(base)) != k.of.Start {
			return 0, fault.New(fault.Foreign, fault.User, "the goal's HEAD does not stand on the commit that it started from any more", "apply without --commits")
		}
	}
	revs := k.of.Parent + "\n"
	count := []string{"rev-list", "--count", k.of.Parent}
	if k.of.Start != "" {
		revs += "^" + k.of.Start + "\n"
		count = append(count, "^"+k.of.Start)
	}
	out, err := k.w.git.run(ctx, look(count...))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || n == 0 || k.of.Dry {
		return n, err
	}
	pack := look("pack-objects", "--revs", "--stdout", "-q", "--thin")
	pack.stdin = []byte(revs)
	packed, err := k.w.git.run(ctx, pack)
	if err != nil {
		return 0, err
	}
	take := k.in("index-pack", "--stdin", "--fix-thin", "--strict")
	take.stdin = packed
	if _, err := k.w.git.run(ctx, take); err != nil {
		return 0, fmt.Errorf("bring the goal's commits: %w", err)
	}
	return n, nil
}

// index puts what the goal changed over the parent's files. A file that was not
// in the parent as the goal found it cannot be told apart from what the user had
// not committed: it is a conflict.
func (k *commit) index(ctx context.Context) (changed int, conflicts []workspace.Conflict, err error) {
	list, err := k.w.deltas(ctx, k.of.Base, k.of.Result, false)
	if err != nil {
		return 0, nil, err
	}
	tracked, err := k.tracked(ctx)
	if err != nil {
		return 0, nil, err
	}
	started := tracked
	if k.of.Start != k.of.Parent && k.of.Start != "" {
		if started, err = k.entries(ctx, k.of.Start); err != nil {
			return 0, nil, err
		}
	}
	was, err := k.hash(ctx, "base", list, func(d delta) side { return sideOf(d.oldMode, d.oldID) }, false)
	if err != nil {
		return 0, nil, err
	}
	is, err := k.hash(ctx, "result", list, func(d delta) side { return sideOf(d.newMode, d.newID) }, !k.of.Dry)
	if err != nil {
		return 0, nil, err
	}
	var info bytes.Buffer
	for _, d := range list {
		path := join(k.prefix, d.path)
		now := is[d.path]
		switch sub := submodule(tracked, path); {
		case tracked[path] == now:
			continue // a commit of the goal has it
		case sub != "":
			conflicts = append(conflicts, workspace.Conflict{Path: d.path, Why: "lies in the submodule " + sub + ", which has commits of its own"})
		case started[path] != was[d.path]:
			conflicts = append(conflicts, workspace.Conflict{Path: d.path, Why: "had changes that were not committed when the goal started"})
		case now.absent():
			changed++
			fmt.Fprintf(&info, "0 %s\t%s\x00", strings.Repeat("0", max(40, len(k.of.Parent))), path)
		default:
			changed++
			fmt.Fprintf(&info, "%s %s\t%s\x00", now.mode, now.id, path)
		}
	}
	if len(conflicts) > 0 || k.of.Dry || info.Len() == 0 {
		return changed, conflicts, nil
	}
	// Removals first: a file may make room for a folder.
	recs := bytes.SplitAfter(info.Bytes(), []byte{0})
	var first, then []byte
	for _, r := range recs {
		if bytes.HasPrefix(r, []byte("0 ")) {
			first = append(first, r...)
		} else {
			then = append(then, r...)
		}
	}
	fill := k.in("update-index", "-z", "--index-info")
	fill.stdin = append(first, then...)
	_, err = k.w.git.run(ctx, fill)
	return changed, nil, err
}

func submodule(tracked map[string]side, path string) string {
	for p := path; p != ""; p = parent(p) {
		if tracked[p].mode == "160000" {
			return p
		}
	}
	return ""
}

func (k *commit) tracked(ctx context.Context) (map[string]side, error) {
	if k.of.Parent == "" {
		return map[string]side{}, nil
	}
	return k.entries(ctx, k.of.Parent)
}

func (k *commit) entries(ctx context.Context, commit string) (map[string]side, error) {
	out, err := k.w.git.run(ctx, k.in("ls-tree", "-r", "-z", "--full-tree", commit))
	if err != nil {
		return nil, err
	}
	m := map[string]side{}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		meta, path, ok := strings.Cut(rec, "\t")
		if f := strings.Fields(meta); ok && len(f) == 3 {
			m[path] = side{f[0], f[2]}
		}
	}
	return m, nil
}

// hash asks the user's git what the contents are called in a commit. They are
// laid into a folder of ours, with the paths that they have, so that attributes
// fit; those that the folder lacks come from the parent's files.
func (k *commit) hash(ctx context.Context, name string, list []delta, pick func(delta) side, write bool) (map[string]side, error) {
	dir := filepath.Join(k.temp, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, storageFault(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, storageFault(err)
	}
	defer root.Close()
	out := map[string]side{}
	var files, links []item
	for _, d := range list {
		s := pick(d)
		if s.absent() {
			continue
		}
		it := item{mode: s.mode, id: s.id, path: join(k.prefix, d.path)}
		if strings.ContainsAny(it.path, "\n\"") {
			return nil, fault.New(fault.InvalidArguments, fault.User, "the file "+strconv.Quote(d.path)+" has a name that cannot be told to git hash-object", "apply as a patch")
		}
		if s.mode == linkMode {
			links = append(links, it)
		} else {
			files = append(files, it)
		}
		out[d.path] = side{mode: s.mode}
	}
	if err := k.w.writeItems(ctx, root, files); err != nil {
		return nil, err
	}
	args := []string{"hash-object"}
	if write {
		args = append(args, "-w")
	}
	if len(files) > 0 {
		var paths bytes.Buffer
		for _, it := range files {
			paths.WriteString(it.path + "\n")
		}
		c := k.in(append(args, "--stdin-paths")...)
		c.dir, c.workTree, c.stdin = dir, dir, paths.Bytes()
		said, err := k.w.git.run(ctx, c)
		if err != nil {
			return nil, err
		}
		ids := strings.Fields(string(said))
		if len(ids) != len(files) {
			return nil, errors.New("local: git hash-object did not name every file")
		}
		for i, it := range files {
			out[k.below(it.path)] = side{it.mode, ids[i]}
		}
	}
	contents, err := k.contents(ctx, links)
	if err != nil {
		return nil, err
	}
	for _, it := range links {
		c := k.in(append(args, "--no-filters", "--stdin")...)
		c.stdin = contents[it.path]
		said, err := k.w.git.run(ctx, c)
		if err != nil {
			return nil, err
		}
		out[k.below(it.path)] = side{it.mode, strings.TrimSpace(string(said))}
	}
	return out, nil
}

func (k *commit) below(path string) string {
	if k.prefix == "" {
		return path
	}
	return strings.TrimPrefix(path, k.prefix+"/")
}

func (k *commit) contents(ctx context.Context, items []item) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := k.w.batch(ctx, items, collect(out))
	return out, err
}

// write makes the commit. Its times are given, so that making it again after a
// crash makes the same one.
func (k *commit) write(ctx context.Context) (string, error) {
	tree, err := k.w.git.run(ctx, k.in("write-tree"))
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", strings.TrimSpace(string(tree)), "-F", "-"}
	if k.of.Parent != "" {
		args = append(args, "-p", k.of.Parent)
	}
	c := k.in(args...)
	c.stdin = []byte(k.of.Message)
	at := strconv.FormatInt(k.of.At.Unix(), 10) + " +0000"
	c.env = append(c.env, "GIT_AUTHOR_DATE="+at, "GIT_COMMITTER_DATE="+at)
	id, err := k.w.git.run(ctx, c)
	if err != nil {
		return "", fault.New(fault.BadRequest, fault.User, "git makes no commit: "+err.Error(), "tell it who you are (git config user.name, user.email)")
	}
	return strings.TrimSpace(string(id)), nil
}
