package index

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/recall"
)

const child = "BELAY_RECALL_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(child); path != "" {
		feedForEver(path)
	}
	os.Exit(m.Run())
}

// feedForEver searches, and so takes in, until it is killed: each time in a new
// part of the ledger, so that there is always something to take in.
func feedForEver(path string) {
	b := past()
	whole := b.streams["g1"]
	repo := &tree{root: "/repo", files: map[string]string{}}
	for n := 1; ; n++ {
		b.streams["g1"] = whole[:min(len(whole), 37*n)]
		for i := range 30 {
			repo.files[fmt.Sprintf("f%d.txt", i)] = fmt.Sprintf("wombat %d\n", n)
		}
		x := New(Config{Ledger: b, Path: path})
		if _, err := x.Search(noEnd{}, recall.Query{Text: "wombat", Goal: "g1"}, repo); err != nil {
			fmt.Println("failed:", err)
			os.Exit(3)
		}
		fmt.Println("searched")
		if err := x.Close(); err != nil {
			fmt.Println("failed:", err)
			os.Exit(3)
		}
	}
}

// noEnd is a context that nothing ends.
type noEnd struct{}

func (noEnd) Deadline() (t time.Time, ok bool) { return }
func (noEnd) Done() <-chan struct{}            { return nil }
func (noEnd) Err() error                       { return nil }
func (noEnd) Value(any) any                    { return nil }

func past() *book {
	b := newBook()
	for i := range 300 {
		b.does("g1", fmt.Sprintf("op%d", i), "run_command", "", event.Access{Command: fmt.Sprintf("echo %d", i)}, event.Succeeded, fmt.Sprintf("wombat number%d", i))
	}
	return b
}

func TestAKilledSearchLeavesAnIndexThatGoesOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	r := rand.New(rand.NewSource(time.Now().UnixNano()))
	for range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), child+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + r.Intn(6) {
			if !lines.Scan() || lines.Text() != "searched" {
				t.Errorf("the child said %q", lines.Text())
				break
			}
		}
		// At any instant of the next one.
		time.Sleep(time.Duration(r.Intn(4000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	agrees(t, path, past())
}

// agrees checks that an index holds what one made anew holds.
func agrees(t *testing.T, path string, b *book) {
	t.Helper()
	repo := &tree{root: "/repo", files: map[string]string{"f1.txt": "wombat final\n", "new.txt": "platypus\n"}}
	old, fresh := open2(t, Config{Ledger: b, Path: path}), open2(t, Config{Ledger: b})
	for _, text := range []string{"wombat", "number7", "number123", "echo", "platypus", "final"} {
		q := recall.Query{Text: text, Goal: "g1", Limit: 50}
		got, want := refs(find(t, old, q, repo)), refs(find(t, fresh, q, repo))
		slices.Sort(got)
		slices.Sort(want)
		if text != "wombat" && !slices.Equal(got, want) { // of the equally good ones any fifty
			t.Errorf("%s: %d hits, want %d:\n%q\n%q", text, len(got), len(want), got, want)
		}
	}
	for _, count := range []string{"SELECT count(*) FROM docs", "SELECT count(DISTINCT seq) FROM docs", "SELECT count(*) FROM doc_terms", "SELECT count(*) FROM chunks", "SELECT count(*) FROM chunk_terms", "SELECT count(*) FROM files"} {
		var got, want int
		if err := old.db.read.QueryRow(count).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if err := fresh.db.read.QueryRow(count).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %d, want %d", count, got, want)
		}
	}
}

func TestSeveralHandlesTakeInOneLedgerTogether(t *testing.T) {
	t.Parallel()
	b := past()
	path := filepath.Join(t.TempDir(), FileName)
	repo := &tree{root: "/repo", files: map[string]string{}}
	for i := range 300 {
		repo.files[fmt.Sprintf("d/f%d.txt", i)] = strings.Repeat("wombat\n", 100)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		x := open2(t, Config{Ledger: b, Path: path})
		wg.Go(func() {
			for n := range 5 {
				if i == 0 {
					b.add("g1", "", "", event.UserMessage{Text: fmt.Sprintf("koala %d", n)})
				}
				if _, err := x.Search(t.Context(), recall.Query{Text: "wombat koala", Goal: "g1"}, repo); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	agrees(t, path, b)
}
