package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// Options say where belay keeps what belongs to a workspace, and how it is
// opened.
type Options struct {
	// State is belay's directory for workspaces. Open makes a private directory
	// for this one in it, named after the root's real path, so that every
	// spelling of the root leads to the same.
	State string
	// Lock takes the directory for mutation by one goal. Without it a
	// workspace is for reading and observing; Apply does not check.
	Lock bool
	// Goal is the holder's name, told to whoever finds the directory taken.
	Goal string
	// Protected are further absolute paths that are belay's own: off limits,
	// and no part of a revision.
	Protected []string
	// MaxRead is the largest file that Read returns, in bytes; 0 means 64 MiB.
	MaxRead int64
}

const defaultMaxRead = 64 << 20

// Workspace is a directory of the local file system. It is safe for use by
// several goroutines.
type Workspace struct {
	path    string // real path
	given   string // absolute path as given
	private string // our directory under Options.State
	info    os.FileInfo
	root    *os.Root
	handle  *os.File // the root, for calls relative to it
	fd      int
	git     git
	store   store
	lock    *lock
	use     *os.File
	own     map[string]bool // paths relative to the root that are belay's
	maxRead int64
	workers int

	mu       sync.Mutex // guards what follows, and one Apply at a time
	snap     *snapshot
	closed   bool
	relisted bool
	unsaved  int
	excludes map[string]excludesMemo
	index    stagedMemo

	// crash, where a test sets it, is told of each instant of a restore: a
	// panic there is as near to a kill as one process comes.
	crash func(instant)
}

// instant is a moment at which a crash is hardest to survive: a failpoint where
// tests of this package can die too, many thousand times in one process. It is
// a number, so that no failpoint's name gets into a release.
type instant int

const (
	moveRemoved instant = iota
	moveStaged
	moveNamed
	indexStaged
	indexLocked
	indexNamed
	storePacked
	storeForgot
	storeSwept
)

func (w *Workspace) hit(i instant) {
	if w.crash != nil {
		w.crash(i)
	}
}

var _ workspace.Workspace = (*Workspace)(nil)

// Open opens a directory as a workspace. With Options.Lock it fails with a
// *workspace.Held while another goal has the directory.
func Open(ctx context.Context, root string, opts Options) (workspace.Workspace, error) {
	w, err := open(ctx, root, opts)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func open(ctx context.Context, root string, opts Options) (_ *Workspace, err error) {
	if opts.State == "" {
		return nil, errors.New("local: Options.State is empty")
	}
	w := &Workspace{own: map[string]bool{}, excludes: map[string]excludesMemo{}, maxRead: opts.MaxRead, workers: runtime.GOMAXPROCS(0)}
	if w.maxRead <= 0 {
		w.maxRead = defaultMaxRead
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err := w.openRoot(root); err != nil {
		return nil, err
	}
	if w.git, err = newGit(); err != nil {
		return nil, err
	}
	if err := w.openState(ctx, opts); err != nil {
		return nil, err
	}
	if opts.Lock {
		if w.lock, err = takeLock(w.path, w.private, opts.Goal); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *Workspace) openRoot(root string) error {
	abs, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("opening workspace %s: %w", root, err)
	}
	w.given = abs
	if w.path, err = filepath.EvalSymlinks(abs); err == nil {
		w.info, err = os.Stat(w.path)
	}
	if err == nil && !w.info.IsDir() {
		return fault.New(fault.NotFound, fault.User, root+" is a file", "name the directory that the goal works on")
	}
	if err != nil {
		return fault.New(fault.NotFound, fault.User, fmt.Sprintf("the directory %s cannot be opened: %v", root, err), "name an existing directory")
	}
	for _, part := range strings.Split(filepath.ToSlash(w.path), "/") {
		if isGitName(part) {
			return fault.New(fault.Protected, fault.User, w.path+" lies in a .git directory", "name the working tree itself")
		}
	}
	if w.root, err = os.OpenRoot(w.path); err == nil {
		w.handle, err = os.Open(w.path)
	}
	if err != nil {
		return fmt.Errorf("opening workspace %s: %w", w.path, err)
	}
	w.fd = int(w.handle.Fd())
	return nil
}

// openState makes the private directory with its git directory, complete or
// not at all.
func (w *Workspace) openState(ctx context.Context, opts Options) error {
	sum := sha256.Sum256([]byte(w.path))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, filepath.Base(w.path))
	name = name[:min(len(name), 40)]
	state, err := filepath.Abs(opts.State)
	if err != nil {
		return storageFault(err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return storageFault(err)
	}
	if state, err = filepath.EvalSymlinks(state); err != nil {
		return storageFault(err)
	}
	w.private = filepath.Join(state, name+"-"+hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(filepath.Join(w.private, pendingDir), 0o700); err != nil {
		return storageFault(err)
	}
	for _, p := range append([]string{state, w.private}, opts.Protected...) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		if rel, err := filepath.Rel(w.path, p); err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../") {
			w.own[filepath.ToSlash(rel)] = true
		}
	}
	if w.use, err = takeUse(ctx, w.private); err != nil {
		return err
	}
	w.store = store{filepath.Join(w.private, "git")}
	if _, err := os.Stat(w.store.dir); err == nil {
		return nil
	}
	return w.initStore(ctx)
}

// attributes switch off, above anything a repository says, every conversion
// and every driver: a diff shows bytes.
const attributes = "* -text !eol -filter -ident !diff !working-tree-encoding !merge\n"

func (w *Workspace) initStore(ctx context.Context) error {
	temp, err := os.MkdirTemp(w.private, "tmp_git_")
	if err != nil {
		return storageFault(err)
	}
	defer os.RemoveAll(temp)
	if _, err := w.git.run(ctx, call{dir: temp, args: []string{"init", "--quiet", "--bare", "--shared=0600", "--object-format=sha256", "--template=", temp}}); err != nil {
		return fmt.Errorf("making the private git directory (git 2.31 or newer is needed): %w", err)
	}
	if err := os.MkdirAll(filepath.Join(temp, "info"), 0o700); err != nil {
		return storageFault(err)
	}
	if err := writeSynced(filepath.Join(temp, "info", "attributes"), []byte(attributes), 0o600); err != nil {
		return storageFault(err)
	}
	for _, sub := range []string{"pack", "info"} {
		if err := os.MkdirAll(filepath.Join(temp, "objects", sub), 0o700); err != nil {
			return storageFault(err)
		}
	}
	failpoint.Hit(failpoint.StoreMade)
	if err := os.Rename(temp, w.store.dir); err != nil {
		if _, serr := os.Stat(w.store.dir); serr == nil {
			return nil // another process was first
		}
		return storageFault(err)
	}
	return nil
}

// Root implements workspace.Workspace.
func (w *Workspace) Root() string { return w.path }

// Close implements workspace.Workspace.
func (w *Workspace) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if w.snap != nil && w.unsaved > 0 {
		w.writeSnapshot()
	}
	w.snap = nil
	var errs []error
	if w.handle != nil {
		errs = append(errs, w.handle.Close())
	}
	if w.root != nil {
		errs = append(errs, w.root.Close())
	}
	if w.use != nil {
		errs = append(errs, w.use.Close())
	}
	if w.lock != nil {
		errs = append(errs, w.lock.release())
	}
	return errors.Join(errs...)
}

// sameRoot notices that the directory was moved away or exchanged: the open
// handle would go on with the old one, git with the new one.
func (w *Workspace) sameRoot() error {
	if w.closed {
		return fmt.Errorf("local: the workspace %s: %w", w.path, os.ErrClosed)
	}
	fi, err := os.Lstat(w.path)
	if err != nil || !os.SameFile(fi, w.info) {
		return fault.New(fault.NotFound, fault.Environment, "the directory "+w.path+" was moved or exchanged since the workspace was opened",
			"put it back, or open the workspace again")
	}
	return nil
}

// owned reports whether a path is belay's own or lies below such a path.
func (w *Workspace) owned(path string) bool {
	if len(w.own) == 0 {
		return false
	}
	for p := path; p != ""; p = parent(p) {
		if w.own[p] {
			return true
		}
	}
	return false
}

func storageFault(err error) error {
	var f *fault.Fault
	if errors.As(err, &f) || errors.Is(err, errChanging) {
		return err
	}
	return fault.New(fault.Storage, fault.Environment, fmt.Sprintf("belay could not write: %v", err),
		"check free space and permissions there")
}

func unreadable(path string, err error) error {
	if !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("reading %s: %w", orDot(path), err)
	}
	return fault.New(fault.Storage, fault.Environment, fmt.Sprintf("%s cannot be read: permission denied", orDot(path)),
		"make it readable or ignore it: a revision covers every file that is not ignored")
}
