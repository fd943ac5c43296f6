package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// borrowAbove is how many bytes of objects a checkout copies; of a larger
// repository it borrows them.
var borrowAbove int64 = 256 << 20

// cloneGit gives a directory a git directory of its own with what another one
// holds: HEAD, refs (but the stash), index, remotes, ignore rules, objects.
// Nothing is run that the repository names, and nothing is written there.
//
// The objects are copied, not linked: through a hard link the agent could reach
// the user's. Those of a large repository are borrowed (alternates); then a gc
// in the user's repository can take away what no ref there leads to any more,
// which belay's own revisions do not depend on.
func (w *Workspace) cloneGit(ctx context.Context, g gitDir, dir string) error {
	inSrc := func(args ...string) call {
		return call{dir: g.dir, gitDir: g.dir, args: args, okExit: 1}
	}
	format, err := w.git.run(ctx, inSrc("rev-parse", "--show-object-format"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return storageFault(err)
	}
	to := filepath.Join(dir, ".git")
	if _, err := w.git.run(ctx, call{dir: dir, args: []string{"init", "--quiet", "--template=", "--object-format=" + strings.TrimSpace(string(format)), dir}}); err != nil {
		return err
	}
	if err := copyObjects(filepath.Join(g.common, "objects"), filepath.Join(to, "objects")); err != nil {
		return storageFault(err)
	}
	if err := w.cloneRefs(ctx, inSrc, to); err != nil {
		return err
	}
	if err := w.cloneConfig(ctx, inSrc, dir, to); err != nil {
		return err
	}
	files := []struct{ from, to string }{}
	for _, name := range []string{"HEAD", "index", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "ORIG_HEAD", "info/sparse-checkout"} {
		files = append(files, struct{ from, to string }{filepath.Join(g.dir, name), name})
	}
	for _, name := range []string{"shallow", "info/exclude", "info/attributes"} {
		files = append(files, struct{ from, to string }{filepath.Join(g.common, name), name})
	}
	shared, _ := filepath.Glob(filepath.Join(g.dir, "sharedindex.*")) // the pattern is a constant
	for _, p := range shared {
		files = append(files, struct{ from, to string }{p, filepath.Base(p)})
	}
	for _, f := range files {
		if err := copyIfThere(f.from, filepath.Join(to, f.to)); err != nil {
			return storageFault(err)
		}
	}
	return w.emptyLinks(ctx, dir, to)
}

func copyIfThere(from, to string) error {
	b, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// cloneRefs writes the refs as git packs them. The stash, and what belongs to
// one worktree, stay the user's.
func (w *Workspace) cloneRefs(ctx context.Context, inSrc func(...string) call, to string) error {
	out, err := w.git.run(ctx, inSrc("for-each-ref", "--format=%(objectname) %(refname) %(symref)"))
	if err != nil {
		return err
	}
	var packed strings.Builder
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 { // a name for another ref
			continue
		}
		if f[1] == "refs/stash" || strings.HasPrefix(f[1], "refs/bisect/") || strings.HasPrefix(f[1], "refs/worktree/") || strings.HasPrefix(f[1], "refs/rewritten/") {
			continue
		}
		packed.WriteString(f[0] + " " + f[1] + "\n")
	}
	if err := os.WriteFile(filepath.Join(to, "packed-refs"), []byte(packed.String()), 0o644); err != nil {
		return storageFault(err)
	}
	return nil
}

// kept are the parts of a repository's configuration that a checkout of it needs:
// who commits, where to, and how contents are read. What names a place (a
// working tree, hooks, a monitor) stays.
var kept = []string{"user.", "author.", "committer.", "remote.", "branch.", "url.", "filter.", "diff.", "merge.", "push.", "pull.", "fetch.", "submodule.", "commit.",
	"core.autocrlf", "core.eol", "core.safecrlf", "core.ignorecase", "core.filemode", "core.symlinks", "core.precomposeunicode", "core.excludesfile", "core.attributesfile",
	"core.sparsecheckout", "core.sparsecheckoutcone", "index.", "extensions.partialclone"}

func (w *Workspace) cloneConfig(ctx context.Context, inSrc func(...string) call, dir, to string) error {
	out, err := w.git.run(ctx, inSrc("config", "--local", "--includes", "--list", "-z"))
	if err != nil {
		return err
	}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		key, value, ok := strings.Cut(rec, "\n")
		if !ok {
			value = "true" // a key alone
		}
		keep := false
		for _, k := range kept {
			keep = keep || key == k || strings.HasSuffix(k, ".") && strings.HasPrefix(key, k)
		}
		if key == "" || !keep {
			continue
		}
		if _, err := w.git.run(ctx, call{dir: dir, gitDir: to, args: []string{"config", "--local", "--add", key, value}}); err != nil {
			return err
		}
	}
	return nil
}

// emptyLinks makes the folders of submodules that the user has not filled: they
// have no file, and to git a missing folder is a deletion.
func (w *Workspace) emptyLinks(ctx context.Context, dir, to string) error {
	out, err := w.git.run(ctx, call{dir: dir, gitDir: to, workTree: dir, args: []string{"ls-files", "-z", "-s"}})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return storageFault(err)
	}
	defer root.Close()
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if meta, path, ok := strings.Cut(rec, "\t"); ok && strings.HasPrefix(meta, "160000 ") {
			if err := root.MkdirAll(path, 0o755); err != nil {
				return storageFault(err)
			}
		}
	}
	return nil
}

// copyObjects copies objects and packs, or borrows them when they are many.
func copyObjects(from, to string) error {
	var size int64
	var files []string
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a repack there has just removed it
		}
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), "tmp_") || strings.HasSuffix(e.Name(), ".lock") || e.Name() == "alternates" {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		size += info.Size()
		files = append(files, path)
		return nil
	})
	if err != nil {
		return err
	}
	lent, err := alternates(from)
	if err != nil {
		return err
	}
	if size > borrowAbove {
		lent, files = append(lent, from), nil
	}
	for _, path := range files {
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		if err := copyFile(path, dst, 0o444); err != nil {
			return fmt.Errorf("copy %s: %w", path, err)
		}
	}
	if len(lent) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(to, "info"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "info", "alternates"), []byte(strings.Join(lent, "\n")+"\n"), 0o644)
}

// alternates are the absolute paths from which a repository borrows itself.
func alternates(objects string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(objects, "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		p := strings.TrimRight(line, "\r\n")
		if p == "" || p[0] == '#' {
			continue
		}
		if !filepath.IsAbs(p) {
			p = filepath.Join(objects, p)
		}
		out = append(out, p)
	}
	return out, err
}

// copyFile copies a regular file to a new name, sharing its blocks where the
// file system can.
func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if cloneBlocks(out, in) != nil {
		_, err = io.Copy(out, in)
	}
	return errors.Join(err, out.Chmod(mode), out.Close())
}
