//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// View builds a view of the file system in the mount namespace that the
// calling thread has for itself: first what is to be shown is taken, then
// everything is made read-only, then it is put in place.
type View struct {
	steps []step
	masks []string
}

type step struct {
	path string
	tree int // a detached mount; -1 for an empty folder in memory
	file bool
}

// Take keeps a place, as it is now, to be shown at path. readOnly says how.
func (v *View) Take(source, path string, readOnly, file bool) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil // gone since it was seen
	}
	if err != nil {
		return fmt.Errorf("kernel: take %s: %w", source, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := setAttr(tree, &attr); err != nil {
		return fmt.Errorf("kernel: take %s: %w", source, err)
	}
	v.steps = append(v.steps, step{path: path, tree: tree, file: file})
	return nil
}

// Hide shows an empty folder, or an empty file, in place of path.
func (v *View) Hide(path string, file bool) error {
	if file {
		return v.Take(os.DevNull, path, false, true)
	}
	v.steps = append(v.steps, step{path: path, tree: -1})
	v.masks = append(v.masks, path)
	return nil
}

// Memory shows an empty, writable folder in memory.
func (v *View) Memory(path string) { v.steps = append(v.steps, step{path: path, tree: -1}) }

func setAttr(fd int, attr *unix.MountAttr) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr)
}

// Show puts the view in place.
func (v *View) Show() error {
	// What happens here must not reach the machine's own view.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("kernel: make the mounts private: %w", err)
	}
	all := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &all); err != nil {
		return fmt.Errorf("kernel: make the file system read-only: %w", err)
	}
	for _, s := range v.steps {
		if err := s.put(); err != nil {
			return err
		}
	}
	for _, m := range v.masks {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, m, 0, &attr); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("kernel: close %s: %w", m, err)
		}
	}
	return nil
}

func (s step) put() error {
	if err := s.place(); err != nil {
		return err
	}
	if s.tree < 0 {
		if _, err := os.Lstat(s.path); os.IsNotExist(err) {
			return nil // an outer rule hides it already
		}
		if err := unix.Mount("tmpfs", s.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return fmt.Errorf("kernel: hide %s: %w", s.path, err)
		}
		return nil
	}
	defer unix.Close(s.tree)
	if _, err := os.Lstat(s.path); s.file && os.IsNotExist(err) {
		return nil
	}
	if err := unix.MoveMount(s.tree, "", unix.AT_FDCWD, s.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("kernel: show %s: %w", s.path, err)
	}
	return nil
}

// place makes the folders that lead to a place which an outer rule emptied.
// Elsewhere the file system is read-only by now, and they are there.
func (s step) place() error {
	if s.tree < 0 {
		return nil
	}
	dir := s.path
	if s.file {
		dir = filepath.Dir(s.path)
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil && s.file {
		var f *os.File
		if f, err = os.OpenFile(s.path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
		}
	}
	if err != nil && !os.IsExist(err) && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("kernel: make a place for %s: %w", s.path, err)
	}
	return nil
}
