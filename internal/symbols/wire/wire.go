// Package wire is what belay and the program belay-symbols say to each other
// over stdin and stdout: frames of a length and that many bytes. The program
// says hello first; then one answer follows each request. It must not know
// processes or parsers.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"belay/internal/symbols"
)

// Protocol is the version of these messages. Another one is not spoken to.
const Protocol = 1

// MaxFrame bounds what either side believes of a length.
const MaxFrame = 64 << 20

// Hello is the program's first word.
type Hello struct {
	Protocol  int      `json:"protocol"`
	Version   string   `json:"version"` // what results depend on beside the content
	Languages []string `json:"languages"`
}

// Request asks for one file; the content follows in a frame of its own.
type Request struct {
	ID       int    `json:"id"`
	Language string `json:"language"`
}

// Answer is a file, or why it cannot be read.
type Answer struct {
	ID         int          `json:"id"`
	File       symbols.File `json:"file"`
	Unreadable string       `json:"unreadable,omitempty"`
}

// Write sends one frame.
func Write(w io.Writer, b []byte) error {
	if len(b) > MaxFrame {
		return fmt.Errorf("symbols: a message of %d bytes is too long", len(b))
	}
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(b)))
	if _, err := w.Write(n[:]); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// WriteJSON sends a value as one frame.
func WriteJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Write(w, b)
}

// Read receives one frame. io.EOF means that the other side is done.
func Read(r io.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > MaxFrame {
		return nil, fmt.Errorf("symbols: a message of %d bytes is announced, more than %d", size, MaxFrame)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return b, nil
}

// ReadJSON receives a value.
func ReadJSON(r io.Reader, v any) error {
	b, err := Read(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("symbols: a message that is none: %w", err)
	}
	return nil
}
