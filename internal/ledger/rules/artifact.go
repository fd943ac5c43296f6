package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Verifier reads an artifact and fails, with ErrAltered, where the content
// turns out not to be what its address says. A reader that takes everything
// before it trusts anything is safe.
type Verifier struct {
	src  io.Reader
	done func() error
	sha  string
	size int64
	n    int64
	h    hash.Hash
}

// NewVerifier wraps src, whose content should have this SHA-256 and size.
// closeSrc may be nil.
func NewVerifier(src io.Reader, closeSrc func() error, sha string, size int64) *Verifier {
	return &Verifier{src: src, done: closeSrc, sha: sha, size: size, h: sha256.New()}
}

// Read implements io.Reader.
func (v *Verifier) Read(p []byte) (int, error) {
	n, err := v.src.Read(p)
	v.h.Write(p[:n])
	v.n += int64(n)
	switch {
	case err == nil && v.n <= v.size:
		return n, nil
	case err == nil || errors.Is(err, io.EOF):
		if sum := hex.EncodeToString(v.h.Sum(nil)); v.n != v.size || sum != v.sha {
			return n, fmt.Errorf("artifact %s of %d bytes: read %d bytes with the address %s: %w", v.sha, v.size, v.n, sum, ErrAltered)
		}
		return n, io.EOF
	default:
		return n, fmt.Errorf("artifact %s cannot be read: %w: %w", v.sha, ErrAltered, err)
	}
}

// Close implements io.Closer.
func (v *Verifier) Close() error {
	if v.done == nil {
		return nil
	}
	return v.done()
}
