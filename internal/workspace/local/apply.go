package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// step is one edit on its way to the disk.
//
// Before it is made, the new content stands in the folder of its target under
// a temporary name. Making it exchanges the two names in one step, so that the
// original stands under the temporary name afterwards: it can be checked (did
// somebody write in between?), put back (another edit failed) or dropped (all
// went well). A new file is moved to a name that must be free.
type step struct {
	edit workspace.Edit
	t    target
	dir  *os.File // the target's folder
	name string   // in dir
	temp string   // in dir
	was  stamp    // zero when the file is new
	made bool
}

// Apply implements workspace.Workspace.
func (w *Workspace) Apply(ctx context.Context, edits []workspace.Edit) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.sameRoot(); err != nil {
		return err
	}
	if len(edits) == 0 {
		return nil
	}
	steps, err := w.compare(ctx, edits)
	if err != nil {
		return err
	}
	j, err := w.openJournal(steps)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.JournalWritten)
	defer func() {
		for _, s := range steps {
			if s.dir != nil {
				s.dir.Close()
			}
		}
	}()
	if err := w.makeAll(ctx, steps, j); err != nil {
		return errors.Join(err, w.takeBack(steps, j))
	}
	for _, s := range steps {
		// What still stands under a temporary name is an original.
		unix.Unlinkat(int(s.dir.Fd()), s.temp, 0)
		failpoint.Hit(failpoint.TempRemoved)
	}
	err = j.done()
	failpoint.Hit(failpoint.JournalRemoved)
	return err
}

// compare finds every target and holds it against its base, before anything
// is written.
func (w *Workspace) compare(ctx context.Context, edits []workspace.Edit) ([]*step, error) {
	taken := map[string]string{}
	var steps []*step
	for _, e := range edits {
		t, err := w.locate(e.Path)
		if err != nil {
			return nil, err
		}
		if e.Remove && t.link != "" {
			// Removing a link removes the link.
			t.real = t.link
		}
		if t.real == "" {
			return nil, fault.New(fault.InvalidArguments, fault.Model, "the path "+t.path+" is the workspace itself", "name a file in it")
		}
		if other, ok := taken[t.real]; ok {
			return nil, fault.New(fault.InvalidArguments, fault.Model, fmt.Sprintf("%s and %s are the same file", other, t.path), "send one edit for each file")
		}
		taken[t.real] = t.path
		s := &step{edit: e, t: t, name: base(t.real), temp: tempPrefix + token()}
		if err := w.compareOne(ctx, s); err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func (w *Workspace) compareOne(ctx context.Context, s *step) error {
	e, t := s.edit, s.t
	if t.absent() {
		if e.Base != "" {
			return staleFault(t.path, "it does not exist any more")
		}
		if e.Remove {
			return notFound(t.path)
		}
		return nil
	}
	if err := t.regular(); err != nil {
		return err
	}
	f, st, err := w.digest(ctx, t, nil)
	if err != nil {
		return err
	}
	if e.Base == "" {
		return fault.New(fault.AlreadyExists, fault.Model, "the file "+t.path+" exists already", "read it and edit it")
	}
	if f.Hash != e.Base {
		return staleFault(t.path, "its bytes are not the ones last read")
	}
	s.was = st
	if e.Remove && t.link != "" {
		if s.was, err = lstatAt(w.fd, t.link); err != nil {
			return pathFault(t.path, err)
		}
	}
	return nil
}

func staleFault(path, why string) error {
	return fault.New(fault.StaleEdit, fault.Model, "the file "+path+" changed since it was read: "+why, "read it again and base the edit on what is there now")
}

func token() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// makeAll writes every new content, then makes the edits, then makes the
// names durable.
func (w *Workspace) makeAll(ctx context.Context, steps []*step, j *journal) error {
	for _, s := range steps {
		if err := w.openFolder(s, j); err != nil {
			return err
		}
		if !s.edit.Remove {
			if err := w.stage(s); err != nil {
				return err
			}
			failpoint.Hit(failpoint.EditStaged)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("applying edits: %w", err)
	}
	for _, s := range steps {
		failpoint.Hit(failpoint.EditBefore)
		if err := s.make(); err != nil {
			return err
		}
		failpoint.Hit(failpoint.EditMade)
	}
	for i, s := range steps {
		if i > 0 && parent(s.t.real) == parent(steps[i-1].t.real) {
			continue
		}
		if err := s.dir.Sync(); err != nil {
			return storageFault(err)
		}
	}
	failpoint.Hit(failpoint.EditsMade)
	return nil
}

// openFolder opens the target's folder, made if need be. The path has no link
// in it; os.Root holds it below the root should one appear now.
func (w *Workspace) openFolder(s *step, j *journal) error {
	up := parent(s.t.real)
	var missing []string
	for p := up; p != ""; p = parent(p) {
		if _, err := w.root.Lstat(p); err == nil {
			break
		}
		missing = append(missing, p)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := j.folder(missing[i]); err != nil {
			return err
		}
		if err := w.root.Mkdir(missing[i], 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return pathFault(s.t.path, err)
		}
		failpoint.Hit(failpoint.FolderMade)
		if err := w.syncFolder(parent(missing[i])); err != nil {
			return err
		}
	}
	var err error
	if s.dir, err = w.root.OpenFile(orDot(up), os.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return pathFault(s.t.path, err)
	}
	return nil
}

func (w *Workspace) syncFolder(path string) error {
	f, err := w.root.Open(orDot(path))
	if err != nil {
		return storageFault(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return storageFault(err)
	}
	return nil
}

// stage writes the new content under the temporary name, with the mode and
// owner it is going to have.
func (w *Workspace) stage(s *step) error {
	fd := int(s.dir.Fd())
	tfd, err := unix.Openat(fd, s.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return writeFault(s.t.path, err)
	}
	f := os.NewFile(uintptr(tfd), s.temp)
	defer f.Close()
	if _, err := f.Write(s.edit.Content); err != nil {
		return writeFault(s.t.path, err)
	}
	mode := uint32(0o644)
	if s.edit.Mode != 0 {
		mode = uint32(s.edit.Mode.Perm())
	}
	if s.was != (stamp{}) {
		mode = s.was.mode & 0o7777
		if err := s.likeOriginal(fd, tfd); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(tfd, mode); err != nil {
		return writeFault(s.t.path, err)
	}
	if err := f.Sync(); err != nil {
		return writeFault(s.t.path, err)
	}
	return nil
}

// likeOriginal gives the new file the owner and the extended attributes
// (access lists among them) of the one whose place it takes.
func (s *step) likeOriginal(fd, tfd int) error {
	ofd, err := unix.Openat(fd, s.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathFault(s.t.path, err)
	}
	defer unix.Close(ofd)
	was, err := fstat(ofd)
	if err != nil {
		return pathFault(s.t.path, err)
	}
	now, err := fstat(tfd)
	if err != nil {
		return pathFault(s.t.path, err)
	}
	if was.Uid != now.Uid || was.Gid != now.Gid {
		if err := unix.Fchown(tfd, int(was.Uid), int(was.Gid)); err != nil {
			return fault.New(fault.Storage, fault.Environment,
				fmt.Sprintf("the file %s belongs to user %d and group %d, which an edit by this user could not keep", s.t.path, was.Uid, was.Gid),
				"change its owner, or run belay as that user")
		}
	}
	copyAttributes(ofd, tfd)
	return nil
}

// copyAttributes is as good as the file system and our rights allow: some
// attributes are the system's own and come back by themselves.
func copyAttributes(from, to int) {
	n, err := unix.Flistxattr(from, nil)
	if err != nil || n <= 0 {
		return
	}
	list := make([]byte, n)
	if n, err = unix.Flistxattr(from, list); err != nil {
		return
	}
	for _, name := range strings.Split(string(list[:n]), "\x00") {
		if name == "" {
			continue
		}
		if n, err := unix.Fgetxattr(from, name, nil); err == nil {
			value := make([]byte, n)
			if n, err = unix.Fgetxattr(from, name, value); err == nil {
				_ = unix.Fsetxattr(to, name, value[:n], 0)
			}
		}
	}
}

// make makes the edit, unless the file is another one by now.
func (s *step) make() error {
	fd := int(s.dir.Fd())
	if s.was == (stamp{}) {
		err := place(fd, s.temp, s.name)
		if errors.Is(err, fs.ErrExist) {
			return fault.New(fault.AlreadyExists, fault.Model, "the file "+s.t.path+" was made by somebody else just now", "read it and edit it")
		}
		if err != nil {
			return writeFault(s.t.path, err)
		}
		s.made = true
		return nil
	}
	now, err := lstatAt(fd, s.name)
	if err != nil || now != s.was {
		return staleFault(s.t.path, "it was written to just now")
	}
	return s.swap(fd)
}

// swap takes the original away and only then looks whether it was still the
// one that was compared: a write in the last instant shows there.
func (s *step) swap(fd int) error {
	var err error
	if s.edit.Remove {
		err = unix.Renameat(fd, s.name, fd, s.temp)
	} else {
		err = exchange(fd, s.temp, s.name)
	}
	if err != nil {
		return writeFault(s.t.path, err)
	}
	s.made = true
	if moved, err := lstatAt(fd, s.temp); err != nil || !moved.sameBytes(s.was) {
		return staleFault(s.t.path, "it was written to just now")
	}
	return nil
}

// undo puts the original back.
func (s *step) undo() error {
	fd := int(s.dir.Fd())
	var err error
	switch {
	case s.was == (stamp{}):
		err = unix.Unlinkat(fd, s.name, 0)
	case s.edit.Remove:
		err = unix.Renameat(fd, s.temp, fd, s.name)
	default:
		err = exchange(fd, s.temp, s.name)
	}
	if err != nil {
		return fmt.Errorf("taking back the edit of %s (the original stands beside it as %s): %w", s.t.path, s.temp, err)
	}
	s.made = false
	return nil
}

// takeBack undoes what was made, last first, and removes what was staged.
func (w *Workspace) takeBack(steps []*step, j *journal) error {
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		if s.dir == nil {
			continue
		}
		if s.made {
			if err := s.undo(); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if err := unix.Unlinkat(int(s.dir.Fd()), s.temp, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, storageFault(err))
		}
		if err := s.dir.Sync(); err != nil {
			errs = append(errs, storageFault(err))
		}
	}
	if len(errs) > 0 {
		// The journal stays, for Clean to try again.
		return errors.Join(errs...)
	}
	w.removeFolders(j.Folders)
	return j.done()
}

// removeFolders removes folders that were made, as far as they are empty.
func (w *Workspace) removeFolders(made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		if unix.Unlinkat(w.fd, made[i], unix.AT_REMOVEDIR) != nil {
			return
		}
	}
}

func writeFault(p string, err error) error {
	if errors.Is(err, unix.ENAMETOOLONG) {
		return pathFault(p, err)
	}
	return fault.New(fault.Storage, fault.Environment, fmt.Sprintf("the file %s could not be written: %v; nothing was changed", p, err),
		"check free space and permissions there")
}

// hashAt is the SHA-256 of a regular file in an open folder, "" when there is
// none.
func hashAt(dir *os.File, name string) (string, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if errors.Is(err, unix.ELOOP) {
		return "link", nil
	}
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashBytes(b []byte) string {
	h := sha256.New()
	_, _ = io.Copy(h, bytes.NewReader(b))
	return hex.EncodeToString(h.Sum(nil))
}
