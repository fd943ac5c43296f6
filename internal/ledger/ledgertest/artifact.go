package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"belay/internal/event"
	"belay/internal/ledger"
)

var artifactTests = map[string]func(*testing.T, Store){
	"what is put is opened by its address from any handle":  artifactPutOpen,
	"the same content is one artifact":                      artifactDedup,
	"an unknown address is not found":                       artifactNotFound,
	"a failing source stores nothing":                       artifactFailingSource,
	"content that does not match its address fails to read": artifactAltered,
	"artifacts of an append and put ones are the same kind": artifactOfAppend,
	"concurrent puts of one content agree":                  artifactConcurrent,
}

func readArtifact(t testing.TB, l ledger.Ledger, sha string) []byte {
	t.Helper()
	rc := must(l.OpenArtifact(background(t), sha))(t)
	defer rc.Close()
	return must(io.ReadAll(rc))(t)
}

// noise is content that does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	r.Read(b)
	return b
}

func artifactPutOpen(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	for name, content := range map[string][]byte{
		"empty": {}, "one byte": {0}, "text": []byte("hello\n"), "zeros": make([]byte, 5<<20), "256 KiB noise": noise(256 << 10),
		"noise": noise(3<<20 + 17), "long text": []byte(long(2 << 20)),
	} {
		ref := must(a.PutArtifact(background(t), iotest.OneByteReader(bytes.NewReader(content[:min(10, len(content))])), "text/plain"))(t)
		if want := event.RefOf(content[:min(10, len(content))], "text/plain"); ref != want {
			t.Errorf("%s: short ref %+v, want %+v", name, ref, want)
		}
		ref = must(a.PutArtifact(background(t), bytes.NewReader(content), "text/plain"))(t)
		if want := event.RefOf(content, "text/plain"); ref != want {
			t.Errorf("%s: ref %+v, want %+v", name, ref, want)
		}
		if got := readArtifact(t, b, ref.SHA256); !bytes.Equal(got, content) {
			t.Errorf("%s: read back %d bytes that differ", name, len(got))
		}
	}
}

func artifactDedup(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	for _, content := range [][]byte{[]byte("same"), noise(1 << 20)} {
		one := must(a.PutArtifact(background(t), bytes.NewReader(content), "text/plain"))(t)
		two := must(b.PutArtifact(background(t), bytes.NewReader(content), "text/plain"))(t)
		if one != two {
			t.Errorf("%+v and %+v", one, two)
		}
		if got := readArtifact(t, a, one.SHA256); !bytes.Equal(got, content) {
			t.Error("content differs")
		}
	}
}

func artifactNotFound(t *testing.T, s Store) {
	l := s.Open(t)
	for _, sha := range []string{event.RefOf([]byte("never put"), "").SHA256, "", "../../etc/passwd", strings.Repeat("z", 64)} {
		if _, err := l.OpenArtifact(background(t), sha); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("open %q: %v", sha, err)
		}
	}
}

func artifactFailingSource(t *testing.T, s Store) {
	l := s.Open(t)
	for _, content := range [][]byte{[]byte("part"), noise(2 << 20)} {
		broken := errors.New("the pipe broke")
		_, err := l.PutArtifact(background(t), io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken)), "")
		if !errors.Is(err, broken) {
			t.Errorf("put: %v", err)
		}
		if _, err := l.OpenArtifact(background(t), event.RefOf(content, "").SHA256); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("open: %v", err)
		}
	}
}

func artifactAltered(t *testing.T, s Store) {
	l := s.Open(t)
	for _, content := range [][]byte{[]byte("small"), []byte(long(50_000)), noise(2 << 20)} {
		ref := must(l.PutArtifact(background(t), bytes.NewReader(content), ""))(t)
		s.AlterArtifact(t, ref.SHA256)
		rc, err := l.OpenArtifact(background(t), ref.SHA256)
		if err == nil {
			_, err = io.ReadAll(rc)
			rc.Close()
		}
		if err == nil || errors.Is(err, ledger.ErrNotFound) || !strings.Contains(err.Error(), ref.SHA256) {
			t.Errorf("reading altered content of %d bytes: %v", len(content), err)
		}
	}
}

func artifactOfAppend(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	var arts []event.Artifact
	for _, content := range [][]byte{[]byte("x"), noise(1 << 20), []byte(long(100_000)), []byte("x")} {
		arts = append(arts, event.NewArtifact(content, "text/plain"))
	}
	must(b.PutArtifact(background(t), bytes.NewReader(arts[2].Content), "text/plain"))(t)
	must(a.Append(background(t), ledger.Append{Goal: "g", Events: []event.Event{Message("x")}, Artifacts: arts, Row: RowOf("g")}))(t)
	for _, art := range arts {
		if got := readArtifact(t, b, art.SHA256); !bytes.Equal(got, art.Content) {
			t.Errorf("artifact of %d bytes differs", art.Size)
		}
	}
}

func artifactConcurrent(t *testing.T, s Store) {
	handles := []ledger.Ledger{s.Open(t), s.Open(t)}
	contents := [][]byte{[]byte("small"), noise(1 << 20)}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			content := contents[i/2%2]
			ref, err := handles[i%2].PutArtifact(context.Background(), bytes.NewReader(content), "")
			if err != nil || ref != event.RefOf(content, "") {
				t.Errorf("put: %+v, %v", ref, err)
			}
		})
	}
	wg.Wait()
	for _, content := range contents {
		if got := readArtifact(t, handles[0], event.RefOf(content, "").SHA256); !bytes.Equal(got, content) {
			t.Error("content differs")
		}
	}
}
