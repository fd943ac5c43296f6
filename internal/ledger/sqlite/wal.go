package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	codes "modernc.org/sqlite/lib"

	"belay/internal/fault"
)

// SQLite reads its log up to the first frame whose checksum does not fit, and
// forgets what stands behind it. After a crash that is right: there stands at
// most the commit that was being written. After damage in the middle (a
// flipped bit, a hole) it loses every later commit without a word, durable
// ones too. Commits can be seen to stand behind the damage, so Open looks.

const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // the last bit says that the checksums are big-endian
)

// tear is damage in front of commits that the log holds.
type tear struct {
	at      int64 // the offset of the first frame that cannot be read
	commits int   // how many commits stand behind it
}

// findTear looks for damage in the middle of a log. pageSize is the
// database's, in case the log's header does not tell.
func findTear(log []byte, pageSize int) (t tear, torn bool) {
	if len(log) < walHeader {
		return t, false
	}
	be := binary.BigEndian
	magic := be.Uint32(log)
	order := binary.ByteOrder(binary.LittleEndian)
	if magic&1 == 1 {
		order = be
	}
	s0, s1 := walSum(order, log[:24], 0, 0)
	whole := magic&^1 == walMagic && s0 == be.Uint32(log[24:]) && s1 == be.Uint32(log[28:])
	if whole {
		pageSize = int(be.Uint32(log[8:]))
	}
	if pageSize < 512 || pageSize > 65536 {
		return t, false
	}
	salts, frame := string(log[16:24]), frameHeader+pageSize
	at := walHeader
	for whole && at+frame <= len(log) {
		f := log[at : at+frame]
		s0, s1 = walSum(order, f[:8], s0, s1)
		s0, s1 = walSum(order, f[frameHeader:], s0, s1)
		if string(f[8:16]) != salts || s0 != be.Uint32(f[16:]) || s1 != be.Uint32(f[20:]) {
			break
		}
		at += frame
	}
	t.at = int64(at)
	if !whole {
		t.at = 0
		// The frames know their salts better than a damaged header.
		if at+2*frame <= len(log) {
			salts = string(log[at+frame+8 : at+frame+16])
		}
		at -= frame
	}
	// Frames of an older use of the file have other salts.
	for at += frame; at+frame <= len(log); at += frame {
		if f := log[at:]; string(f[8:16]) == salts && be.Uint32(f[4:]) != 0 {
			t.commits++
		}
	}
	return t, t.commits > 0
}

// walSum is the log's checksum, continued over b, whose length is a multiple
// of eight.
func walSum(order binary.ByteOrder, b []byte, s0, s1 uint32) (uint32, uint32) {
	for ; len(b) >= 8; b = b[8:] {
		s0 += order.Uint32(b) + s1
		s1 += order.Uint32(b[4:]) + s0
	}
	return s0, s1
}

// tornLog reads the log and looks for damage.
func (l *Ledger) tornLog() (log []byte, t tear, torn bool, err error) {
	log, err = os.ReadFile(l.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(log) < walHeader {
		return nil, t, false, nil
	}
	if err != nil {
		return nil, t, false, err
	}
	head := make([]byte, 18)
	f, err := os.Open(l.path)
	if err != nil {
		return nil, t, false, err
	}
	defer f.Close()
	_, _ = f.ReadAt(head, 0) // too short means that the log alone tells
	size := int(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 65536
	}
	t, torn = findTear(log, size)
	return log, t, torn, nil
}

// saveTornLog refuses to open a ledger whose log is damaged in front of
// commits that it holds, and keeps a copy of the log, because SQLite is going
// to write over it. As long as nobody has settled that copy, every Open
// refuses: a service that is started again by itself would otherwise go on
// without those commits, and nobody would have been told.
func (l *Ledger) saveTornLog(ctx context.Context) error {
	for _, name := range l.damagedLogs() {
		if !strings.HasSuffix(name, settled) {
			return fault.New(fault.Storage, fault.Environment,
				fmt.Sprintf("the log of the ledger %s was damaged, and commits are missing that it held; it is kept as %s", l.path, name), settle(name))
		}
	}
	if _, _, torn, err := l.tornLog(); err != nil || !torn {
		return err
	}
	// Another process may have been writing it just now: look again where
	// nobody can.
	err := retry(ctx, l.opts.BusyTimeout, func() error { return l.writer.exec("BEGIN IMMEDIATE") })
	if err != nil && code(err) != codes.SQLITE_CORRUPT && code(err) != codes.SQLITE_NOTADB {
		return err
	}
	log, t, torn, err := l.tornLog()
	kept := ""
	if err == nil && torn {
		kept, err = l.keepLog(log)
	}
	_ = l.writer.exec("ROLLBACK")
	if err != nil || !torn {
		return err
	}
	// So that the damaged frames are not met again.
	_ = l.writer.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return fault.New(fault.Storage, fault.Environment,
		fmt.Sprintf("the log of the ledger %s is damaged at byte %d, and the %d commits behind it cannot be read; the log is kept as %s", l.path, t.at, t.commits, kept),
		settle(kept))
}

func settle(kept string) string {
	return "check the disk; restore a backup of both files, or, to go on with what stood before the damage, rename " + kept + " to end in " + settled +
		" (belay audit and the workspace tell what is missing)"
}

// damagedLog is the infix of the copies' names; a person adds settled when the
// ledger may go on without what was in one.
const (
	damagedLog = "-wal.damaged"
	settled    = ".settled"
)

func (l *Ledger) keepLog(log []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(l.path), filepath.Base(l.path)+damagedLog+"-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(log)
	return f.Name(), errors.Join(err, f.Sync(), f.Close())
}

// damagedLogs lists the copies.
func (l *Ledger) damagedLogs() []string {
	list, _ := filepath.Glob(escapeGlob(l.path) + damagedLog + "-*")
	return list
}

// losses are the copies in words, for Check.
func (l *Ledger) losses() []string {
	var out []string
	for _, name := range l.damagedLogs() {
		out = append(out, "commits were lost to a damaged log, which is kept as "+name+" (remove it when nobody needs it any more)")
	}
	return out
}

// escapeGlob takes the special meaning from a path's characters.
func escapeGlob(path string) string {
	var b []byte
	for _, c := range []byte(path) {
		if c == '*' || c == '?' || c == '[' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return string(b)
}
