package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// scope is one repository's part of the workspace: the root, a nested
// repository or a submodule.
type scope struct {
	prefix string // its directory relative to the root, "" for the root
	git    gitDir // not found: listed by the private directory
	// cwd and excludes are what its git calls get.
	cwd, excludes string
}

// lister makes one listing.
type lister struct {
	w     *Workspace
	start int64
	old   map[string]*dir
	dirs  map[string]*dir
	scope map[*dir]*scope
	snap  *snapshot
}

// list asks git which files count and looks at each of them. Content is not
// read; what the old snapshot knows is taken over where the stamp is the same.
func (w *Workspace) list(ctx context.Context, start int64, old *snapshot) (*snapshot, error) {
	l := &lister{w: w, start: start, old: map[string]*dir{}, dirs: map[string]*dir{}, scope: map[*dir]*scope{}, snap: &snapshot{}}
	if old != nil {
		for _, d := range old.dirs {
			l.old[d.path] = d
		}
	}
	config, ignore := userInputs()
	l.input(config...)
	if ignore != "" {
		l.input(input{path: ignore})
	}
	pending := []string{""}
	for len(pending) > 0 {
		nested, err := l.listScope(ctx, pending[0])
		if err != nil {
			return nil, err
		}
		pending = append(pending[1:], nested...)
	}
	if err := l.look(ctx); err != nil {
		return nil, err
	}
	return l.finish(), nil
}

func (l *lister) input(ins ...input) {
	for _, in := range ins {
		in.st = in.now()
		if !in.identity && in.st != (stamp{}) && in.st.racy(l.start) {
			l.snap.unsettled = true
		}
		l.snap.inputs = append(l.snap.inputs, in)
	}
}

// listScope lists one repository and returns the repositories nested in it.
func (l *lister) listScope(ctx context.Context, prefix string) ([]string, error) {
	sc, err := l.openScope(ctx, prefix)
	if err != nil {
		return nil, err
	}
	l.scope[l.dir(prefix)] = sc
	out, err := l.w.git.run(ctx, sc.call(l.w, "ls-files", "-z", "-t", "-c", "-o", "--exclude-standard"))
	if err != nil {
		return nil, err
	}
	var nested, doubtful []string
	seen := map[string]bool{}
	for _, line := range bytes.Split(out, []byte{0}) {
		if len(line) < 3 {
			continue
		}
		path, isDir := strings.CutSuffix(join(prefix, string(line[2:])), "/")
		if seen[path] || l.w.owned(path) {
			continue
		}
		seen[path] = true
		st, err := lstatAt(l.w.fd, path)
		switch {
		case err != nil:
			// Tracked but not there: deleted, or left out by a sparse checkout.
		case st.isDir() && l.realDirs(parent(path)):
			if isDir || gitAt(filepath.Join(l.w.path, path)).found() {
				nested = append(nested, path)
			} else {
				doubtful = append(doubtful, path)
			}
		case (st.isRegular() || st.isLink()) && !isTemp(base(path)):
			l.file(path, st)
		}
	}
	links, err := l.gitlinks(ctx, sc, doubtful)
	return append(nested, links...), err
}

// gitlinks picks the submodules out of tracked paths that are directories now;
// the others are files that gave way to a directory.
func (l *lister) gitlinks(ctx context.Context, sc *scope, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	out, err := l.w.git.run(ctx, sc.call(l.w, "ls-files", "-z", "-s"))
	if err != nil {
		return nil, err
	}
	var links []string
	for _, line := range strings.Split(string(out), "\x00") {
		if meta, path, ok := strings.Cut(line, "\t"); ok && strings.HasPrefix(meta, "160000 ") && slices.Contains(paths, join(sc.prefix, path)) {
			links = append(links, join(sc.prefix, path))
		}
	}
	return links, nil
}

// openScope finds the repository that governs a directory.
func (l *lister) openScope(ctx context.Context, prefix string) (*scope, error) {
	w := l.w
	abs := filepath.Join(w.path, filepath.FromSlash(prefix))
	sc := &scope{prefix: prefix, cwd: abs}
	if prefix == "" {
		sc.git = gitAbove(abs)
		for up := filepath.Dir(abs); up != sc.git.top && up != filepath.Dir(up); up = filepath.Dir(up) {
			l.input(input{path: filepath.Join(up, ".git"), identity: true})
		}
	} else {
		sc.git = gitAt(abs)
	}
	if sc.git.found() {
		l.input(gitInputs(sc.git)...)
		l.input(input{path: filepath.Join(sc.git.top, ".git"), identity: true})
	}
	var err error
	if sc.excludes, err = w.excludesFile(ctx, sc); err != nil {
		return nil, err
	}
	if sc.excludes != "" {
		l.input(input{path: sc.excludes})
	}
	if !sc.git.found() || sc.git.top == abs {
		return sc, nil
	}
	// The root is a folder inside a repository: the ignore files above it
	// count, unless they ignore the root itself. Then the repository has
	// nothing to say about it, and everything in it counts.
	for up := filepath.Dir(abs); ; up = filepath.Dir(up) {
		l.input(input{path: filepath.Join(up, ignoreName)})
		if up == sc.git.top {
			break
		}
	}
	rel, err := filepath.Rel(sc.git.top, abs)
	if err != nil {
		return nil, err
	}
	top := *sc
	top.cwd = sc.git.top
	ignored, err := w.git.run(ctx, top.call(w, "check-ignore", "-z", "--stdin").with("./"+filepath.ToSlash(rel)+"\x00"))
	if err != nil {
		return nil, err
	}
	if len(ignored) > 0 {
		sc.git = gitDir{}
	}
	return sc, nil
}

// call prepares a git call in the scope. The private directory stands in
// where there is no repository: it has no index, so every file is untracked.
func (sc *scope) call(w *Workspace, args ...string) call {
	c := call{dir: sc.cwd, excludes: sc.excludes, args: args}
	if sc.git.found() {
		c.gitDir, c.workTree = sc.git.dir, sc.git.top
		return c
	}
	c.gitDir, c.workTree = w.store.dir, sc.cwd
	c.env = []string{"GIT_INDEX_FILE=" + filepath.Join(w.store.dir, "no-index")}
	return c
}

// with gives check-ignore its paths; it answers 1 when none is ignored.
func (c call) with(stdin string) call {
	c.stdin, c.okExit = []byte(stdin), 1
	return c
}

// excludesFile asks which global ignore file the user has: the configuration
// is read by git, with nothing in it run.
func (w *Workspace) excludesFile(ctx context.Context, sc *scope) (string, error) {
	c := call{dir: w.store.dir, gitDir: w.store.dir, userConfig: true, okExit: 1,
		args: []string{"config", "--type=path", "--get", "core.excludesFile"}}
	config, ignore := userInputs()
	if sc.git.found() {
		c.gitDir = sc.git.dir
		config = append(config, input{path: filepath.Join(sc.git.common, "config")}, input{path: filepath.Join(sc.git.dir, "config.worktree")})
	}
	memo := excludesMemo{}
	for _, in := range config {
		memo.stamps = append(memo.stamps, in.now())
	}
	if was, ok := w.excludes[sc.prefix]; ok && slices.Equal(was.stamps, memo.stamps) && was.gitDir == c.gitDir {
		return was.path, nil
	}
	out, err := w.git.run(ctx, c)
	if err != nil {
		return "", err
	}
	memo.path, memo.gitDir = strings.TrimSuffix(string(out), "\n"), c.gitDir
	if memo.path == "" {
		memo.path = ignore
	} else if !filepath.IsAbs(memo.path) {
		memo.path = filepath.Join(sc.cwd, memo.path)
	}
	w.excludes[sc.prefix] = memo
	return memo.path, nil
}

type excludesMemo struct {
	stamps       []stamp
	gitDir, path string
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// dir returns the watched directory of a path, with all above it.
func (l *lister) dir(path string) *dir {
	if d, ok := l.dirs[path]; ok {
		return d
	}
	d := &dir{path: path}
	if path != "" {
		d.parent = l.dir(parent(path))
	}
	l.dirs[path] = d
	return d
}

// realDirs reports whether every component of a path is a directory and no
// link: the index may name paths that lie beyond a link by now.
func (l *lister) realDirs(path string) bool {
	for path != "" {
		if _, ok := l.dirs[path]; ok {
			return true
		}
		if st, err := lstatAt(l.w.fd, path); err != nil || !st.isDir() {
			return false
		}
		path = parent(path)
	}
	return true
}

func (l *lister) file(path string, st stamp) {
	up := parent(path)
	if !l.realDirs(up) {
		return
	}
	e := &entry{path: path, name: base(path), st: st, racy: st.racy(l.start)}
	d := l.dir(up)
	d.files = append(d.files, e)
}

// look stamps every directory, reads its names, and finds the directories
// that git did not name: those that hold no counted file but are not ignored
// either, where one may appear later.
func (l *lister) look(ctx context.Context) error {
	var todo []*dir
	for _, d := range l.dirs {
		todo = append(todo, d)
	}
	for len(todo) > 0 {
		found := make([]names, len(todo))
		errs := make([]error, len(todo))
		each(len(todo), l.w.workers, func(i int) { found[i], errs[i] = l.lookAt(todo[i]) })
		if err := errors.Join(errs...); err != nil {
			return err
		}
		unnamed := map[*scope][]string{}
		for i, d := range todo {
			if found[i].dotGit && l.scope[d] == nil {
				l.input(dotGitInputs(filepath.Join(l.w.path, d.path))...)
			}
			sc := l.scopeOf(d)
			for _, name := range found[i].subs {
				if path := join(d.path, name); l.dirs[path] == nil {
					unnamed[sc] = append(unnamed[sc], path)
				}
			}
		}
		todo = nil
		for sc, paths := range unnamed {
			ignored, err := l.ignored(ctx, sc, paths)
			if err != nil {
				return err
			}
			for _, p := range paths {
				if !ignored[p] {
					todo = append(todo, l.dir(p))
				}
			}
		}
	}
	return nil
}

func (l *lister) scopeOf(d *dir) *scope {
	for ; ; d = d.parent {
		if sc := l.scope[d]; sc != nil {
			return sc
		}
	}
}

func (l *lister) ignored(ctx context.Context, sc *scope, paths []string) (map[string]bool, error) {
	var in strings.Builder
	for _, p := range paths {
		// With a dot in front, no name can be read as git's path magic.
		in.WriteString("./" + strings.TrimPrefix(p, sc.prefix+"/") + "\x00")
	}
	out, err := l.w.git.run(ctx, sc.call(l.w, "check-ignore", "-z", "--stdin").with(in.String()))
	if err != nil {
		return nil, err
	}
	ignored := map[string]bool{}
	for _, p := range strings.Split(string(out), "\x00") {
		if p, ok := strings.CutPrefix(p, "./"); ok {
			ignored[join(sc.prefix, p)] = true
		}
	}
	return ignored, nil
}

func (l *lister) lookAt(d *dir) (names, error) {
	// The stamp in front of the names: what is added in between shows as a
	// changed stamp next time.
	st, err := lstatAt(l.w.fd, orDot(d.path))
	if err != nil || !st.isDir() {
		l.unsettle(d)
		return names{}, nil
	}
	n, err := l.w.readNames(d.path)
	if errors.Is(err, fs.ErrPermission) {
		return names{}, unreadable(d.path, err)
	}
	if err != nil {
		return names{}, fmt.Errorf("%s: %w (%w)", orDot(d.path), errChanging, err)
	}
	d.st, d.racy, d.names = st, st.racy(l.start), n.names
	old := l.old[d.path]
	if d.racy && (old == nil || old.before != d.names) {
		l.unsettle(d)
	}
	slices.SortFunc(d.files, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	if old != nil {
		d.tree, d.stored = old.tree, false
	}
	if n.ignore && d.find(ignoreName) == nil {
		st, err := lstatAt(l.w.fd, join(d.path, ignoreName))
		if err != nil {
			l.unsettle(d)
			return n, nil
		}
		d.ignore = &entry{path: join(d.path, ignoreName), name: ignoreName, st: st, racy: st.racy(l.start)}
	}
	for _, e := range d.files {
		if old != nil {
			if was := old.find(e.name); was != nil {
				e.id, e.known = was.id, was.st == e.st && was.known && !was.racy
			}
		}
		if e.name == ignoreName {
			l.settleIgnore(d, e, old)
		}
	}
	if d.ignore != nil {
		return n, l.settleHidden(d, old)
	}
	return n, nil
}

// settleIgnore decides whether git is sure to have read the ignore file that
// stands there now: if it is old enough, or was the same in front of the
// listing.
func (l *lister) settleIgnore(d *dir, e *entry, old *dir) {
	if !e.racy {
		return
	}
	if old != nil {
		if was := old.find(ignoreName); was != nil && was.before != (oid{}) {
			if id, err := l.w.hashFile(e.path, e.st, oid{}, nil); err == nil && id == was.before {
				return
			}
		}
	}
	l.unsettle(d)
}

func (l *lister) settleHidden(d *dir, old *dir) error {
	e := d.ignore
	if !e.st.isRegular() && !e.st.isLink() {
		return nil
	}
	id, err := l.w.hashFile(e.path, e.st, oid{}, nil)
	if err != nil {
		return fmt.Errorf("%s: %w (%w)", e.path, errChanging, err)
	}
	e.id, e.known = id, true
	if e.racy && (old == nil || old.ignore == nil || old.ignore.before != id) {
		l.unsettle(d)
	}
	return nil
}

// unsettle is called side by side; the mark on the dir is collected by finish.
func (l *lister) unsettle(d *dir) { d.before = unsettledMark }

var unsettledMark = digest{1}

func (d *dir) find(name string) *entry {
	i, ok := slices.BinarySearchFunc(d.files, name, func(e *entry, n string) int { return strings.Compare(e.name, n) })
	if !ok {
		return nil
	}
	return d.files[i]
}

// finish orders the directories and ties them together.
func (l *lister) finish() *snapshot {
	for _, d := range l.dirs {
		l.snap.unsettled = l.snap.unsettled || d.before == unsettledMark
		d.before = digest{}
		l.snap.dirs = append(l.snap.dirs, d)
	}
	l.snap.tie()
	return l.snap
}

// tie sorts the directories and links parents and children by their paths.
func (s *snapshot) tie() {
	slices.SortFunc(s.dirs, func(a, b *dir) int { return strings.Compare(a.path, b.path) })
	at := make(map[string]*dir, len(s.dirs))
	for _, d := range s.dirs {
		at[d.path] = d
	}
	for _, d := range s.dirs {
		if d.path != "" {
			d.parent = at[parent(d.path)]
			d.parent.subs = append(d.parent.subs, d)
		}
	}
}
