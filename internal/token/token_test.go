package token

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestATokenIsShownOnceAndHoldsUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := Open(path)
	secret, made, err := s.New("phone", Answer, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), secret) || strings.Contains(string(b), strings.TrimPrefix(secret, prefix)) {
		t.Errorf("the file holds the secret:\n%s", b)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got, err := s.Check(secret); err != nil || got != made {
		t.Errorf("%+v %v, want %+v", got, err, made)
	}
	for _, wrong := range []string{"", secret + "x", secret[:len(secret)-1], "belay_", made.ID} {
		if _, err := s.Check(wrong); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	// Another process revokes it: this store must see that at once.
	if err := Open(path).Revoke(made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("a revoked token is let in: %v", err)
	}
	if err := s.Revoke(made.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("revoked twice: %v", err)
	}
}

func TestTokensEndAndAreNarrow(t *testing.T) {
	t.Parallel()
	s := Open(filepath.Join(t.TempDir(), "tokens.json"))
	secret, _, err := s.New("short", Watch, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("an expired token is let in: %v", err)
	}
	for _, bad := range []struct {
		name  string
		scope Scope
		life  time.Duration
	}{{"", Watch, 0}, {strings.Repeat("x", 81), Watch, 0}, {"n", "root", 0}, {"n", "", 0}, {"n", Watch, -1}} {
		if _, _, err := s.New(bad.name, bad.scope, bad.life); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, c := range []struct {
		have, need Scope
		want       bool
	}{{Watch, Watch, true}, {Watch, Answer, false}, {Answer, Watch, true}, {Answer, Operate, false}, {Operate, Answer, true}, {"", Watch, false}, {"root", Watch, false}} {
		if got := c.have.Allows(c.need); got != c.want {
			t.Errorf("%q allows %q: %t", c.have, c.need, got)
		}
	}
}

func TestAFileThatOthersCanReachIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := Open(path)
	secret, _, err := s.New("n", Operate, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(secret); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	if _, _, err := s.New("m", Operate, 0); err == nil {
		t.Error("a token was made in it")
	}
}

func TestTokensMadeAtOnceAreAllKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, _, err := Open(path).New("n", Watch, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := Open(path).List(); err != nil || len(list) != 16 {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}
