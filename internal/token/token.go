// Package token keeps the bearer tokens that let somebody in at the faces that
// listen: made once, shown once, stored as hashes in one file that only its
// owner can read.
//
// It must not know what is behind the door, nor how a token is carried.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Scope is what a token allows; each one allows what those before it do.
type Scope string

// The scopes.
const (
	// Watch reads everything and changes nothing.
	Watch Scope = "watch"
	// Answer also answers what a goal asks: approvals, questions, doubts.
	Answer Scope = "answer"
	// Operate also starts, steers and ends goals. It is as good as a shell on
	// the machine: a goal can be started without a sandbox or a question.
	Operate Scope = "operate"
)

// Scopes lists them, the narrowest first.
func Scopes() []Scope { return []Scope{Watch, Answer, Operate} }

// Allows reports whether a token of scope s may do what needs another.
func (s Scope) Allows(need Scope) bool { return rank(s) >= rank(need) && rank(s) > 0 }

func rank(s Scope) int {
	for i, known := range Scopes() {
		if s == known {
			return i + 1
		}
	}
	return 0
}

// Token is a token without its secret.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scope   Scope     `json:"scope"`
	Created time.Time `json:"created"`
	// Expires is zero for a token that holds until it is revoked.
	Expires time.Time `json:"expires,omitzero"`
}

type stored struct {
	Token
	// Hash is hex SHA-256 of the secret, which is 256 random bits.
	Hash string `json:"sha256"`
}

// Errors that callers tell apart.
var (
	// ErrUnknown: no such token, or it was revoked or has expired.
	ErrUnknown = errors.New("no such token")
	// ErrInput: what was asked for cannot be.
	ErrInput = errors.New("not possible")
)

// prefix lets a leaked token be recognised, by people and by scanners.
const prefix = "belay_"

// Store is the file of tokens.
type Store struct {
	path string

	mu   sync.Mutex
	seen fs.FileInfo
	list []stored
}

// Open returns the store at a path; the file is made by the first New.
func Open(path string) *Store { return &Store{path: path} }

// New makes a token and returns its secret, which is not stored. A life of 0
// never ends.
func (s *Store) New(name string, scope Scope, life time.Duration) (secret string, t Token, err error) {
	switch {
	case rank(scope) == 0:
		return "", t, fmt.Errorf("%w: the scopes are watch, answer and operate, not %q", ErrInput, scope)
	case strings.TrimSpace(name) == "" || len(name) > 80:
		return "", t, fmt.Errorf("%w: give the token a name of 1 to 80 characters, to know it by", ErrInput)
	case life < 0:
		return "", t, fmt.Errorf("%w: a token cannot expire before it is made", ErrInput)
	}
	var id [4]byte
	var key [32]byte
	_, _ = rand.Read(id[:]) // documented never to fail
	_, _ = rand.Read(key[:])
	secret = prefix + base64.RawURLEncoding.EncodeToString(key[:])
	t = Token{ID: hex.EncodeToString(id[:]), Name: name, Scope: scope, Created: time.Now().UTC().Truncate(time.Second)}
	if life > 0 {
		t.Expires = t.Created.Add(life)
	}
	err = s.change(func(list []stored) ([]stored, error) { return append(list, stored{t, hash(secret)}), nil })
	return secret, t, err
}

// List returns the tokens, oldest first.
func (s *Store) List() ([]Token, error) {
	list, err := s.load()
	out := []Token{}
	for _, t := range list {
		out = append(out, t.Token)
	}
	return out, err
}

// Revoke removes a token by its id; whoever holds it is out at once.
func (s *Store) Revoke(id string) error {
	return s.change(func(list []stored) ([]stored, error) {
		kept := []stored{}
		for _, t := range list {
			if t.ID != id {
				kept = append(kept, t)
			}
		}
		if len(kept) == len(list) {
			return nil, fmt.Errorf("%w: %q (belay token list)", ErrUnknown, id)
		}
		return kept, nil
	})
}

// Check finds the token of a secret. It looks at the file each time, so that a
// revocation by another process holds from the next request on.
func (s *Store) Check(secret string) (Token, error) {
	list, err := s.load()
	if err != nil {
		return Token{}, err
	}
	want := []byte(hash(secret))
	found := -1
	for i, t := range list {
		if subtle.ConstantTimeCompare(want, []byte(t.Hash)) == 1 {
			found = i
		}
	}
	if found < 0 || !list[found].Expires.IsZero() && time.Now().After(list[found].Expires) {
		return Token{}, ErrUnknown
	}
	return list[found].Token, nil
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (s *Store) load() ([]stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the tokens in %s can be reached by others (%s): chmod 600 it, and make new ones if they may have been changed", s.path, info.Mode().Perm())
	}
	if s.seen != nil && os.SameFile(s.seen, info) && s.seen.ModTime().Equal(info.ModTime()) && s.seen.Size() == info.Size() {
		return s.list, nil
	}
	list, err := read(s.path)
	if err != nil {
		return nil, err
	}
	s.seen, s.list = info, list
	return list, nil
}

func read(path string) ([]stored, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	var list []stored
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("the tokens in %s cannot be read (remove the file to begin anew): %w", path, err)
	}
	return list, nil
}

// change rewrites the file under a lock, as a whole.
func (s *Store) change(f func([]stored) ([]stored, error)) error {
	lock, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("change the tokens: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("change the tokens: %w", err)
	}
	if _, err := s.load(); err != nil { // refuses a file that others can change
		return err
	}
	list, err := read(s.path)
	if err != nil {
		return err
	}
	if list, err = f(list); err != nil {
		return err
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return replace(s.path, append(b, '\n'))
}

// replace writes a file so that it is whole at any instant.
func replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return fmt.Errorf("change the tokens: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("change the tokens: %w", err)
	}
	return nil
}
