package local

import (
	"crypto/sha1" //nolint:gosec // the user's repository names its objects so
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"time"
)

// gitID names a blob as the user's repository does: by SHA-1, or SHA-256 when
// its names are that long.
func gitID(content []byte, hexLen int) string {
	var h hash.Hash = sha1.New()
	if hexLen == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", blobKind, len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// sameStamp compares the times, inode and size that the index recorded. A
// record in a form that is not understood never matches, and the bytes are
// compared instead.
func (r indexed) sameStamp(st stamp) bool {
	var cs, cn, ms, mn, dev, ino, uid, gid, size int64
	n, err := fmt.Sscanf(r.debug, "  ctime: %d:%d\n  mtime: %d:%d\n  dev: %d\tino: %d\n  uid: %d\tgid: %d\n  size: %d\t",
		&cs, &cn, &ms, &mn, &dev, &ino, &uid, &gid, &size)
	if err != nil || n != 9 {
		return false
	}
	sec := int64(time.Second)
	return st.ctime == cs*sec+cn && st.mtime == ms*sec+mn && uint32(st.ino) == uint32(ino) && uint32(st.size) == uint32(size)
}
