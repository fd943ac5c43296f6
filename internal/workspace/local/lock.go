package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/workspace"
)

// lock is the right of one goal to mutate one directory. It is two kernel
// locks: one on a file of ours, which names the holder, and one on the
// directory itself, which also holds against a belay with another state
// directory. The kernel releases both when the process ends, however it ends.
type lock struct{ file, dir *os.File }

func takeLock(root, private, goal string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(private, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storageFault(err)
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, storageFault(fmt.Errorf("locking %s: %w", f.Name(), err))
		}
		return nil, holder(root, f)
	}
	l := &lock{file: f}
	if l.dir, err = os.Open(root); err == nil {
		err = flock(l.dir)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		l.release()
		return nil, &workspace.Held{Root: root}
	}
	// A file system that cannot lock directories leaves the lock on our file.
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d %s\n", os.Getpid(), goal), 0)
	}
	if err != nil {
		l.release()
		return nil, storageFault(err)
	}
	return l, nil
}

// dying is how long a lock may outlive its holder: a killed process lets go of
// its descriptors one after the other, and a program that it was just starting
// has copies of them for an instant.
const dying = 200 * time.Millisecond

// flock takes a lock, or says that it is taken by somebody who stays.
func flock(f *os.File) error {
	for began := time.Now(); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == unix.EINTR:
		case err == unix.EWOULDBLOCK && time.Since(began) < dying:
			time.Sleep(5 * time.Millisecond) // the kernel tells of the end of a lock only those who wait for good
		default:
			return err
		}
	}
}

func holder(root string, f *os.File) error {
	h := &workspace.Held{Root: root}
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0)
	// A holder that is just writing its name is reported without it.
	fmt.Sscanf(string(b[:n]), "%d %s\n", &h.PID, &h.Goal)
	return h
}

func (l *lock) release() error {
	var errs []error
	for _, f := range []*os.File{l.dir, l.file} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
