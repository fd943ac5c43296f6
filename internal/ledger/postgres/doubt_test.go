package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
	"belay/internal/ledger/postgres/pgtest"
)

const ofAppend, ofClaim = "INSERT INTO", "lease_owner = $3"

var cuts = []cut{beforeCommit, afterForward, beforeAnswer, lateCommit, neverCommit}

// doubtful is a ledger behind a proxy and one that sees the server directly.
func doubtful(t testing.TB, more string, opts Options) (p *proxy, through, direct *Ledger) {
	server := pgtest.Shared(t)
	opts.Schema = pgtest.Schema()
	p = newProxy(t, server.Dir)
	return p, open(t, pgtest.DSN(p.dir)+more, opts), open(t, server.DSN(), Options{Schema: opts.Schema})
}

// waiter returns when a transaction waits for a lock on the schema's tables.
func waiter(t testing.TB, schema string) {
	t.Helper()
	conn := connect(t, pgtest.Shared(t).DSN())
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var n int
		err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'", schema).Scan(&n)
		if err != nil {
			t.Error(err)
			return
		}
		if n > 0 {
			return
		}
	}
	t.Error("nobody waits for the lock of the transaction in doubt")
}

// release ends a held COMMIT once the retry waits behind it.
func (p *proxy) release(t testing.TB, schema string) {
	end := <-p.held
	waiter(t, schema)
	end()
}

// TestACommitInDoubtIsFoundOut cuts the connection at every place around the
// COMMIT, for a goal that exists and for one that the append creates.
func TestACommitInDoubtIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, c := range cuts {
		for _, head := range []uint64{0, 2} {
			for _, durable := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, head %d, durable %v", c, head, durable), func(t *testing.T) {
					t.Parallel()
					p, l, direct := doubtful(t, "", Options{})
					if head > 0 {
						ledgertest.Create(t, direct, "g", int(head))
					}
					big := ledgertest.Message(string(bytes.Repeat([]byte("x"), 20_000)))
					a := ledger.Append{Goal: "g", Head: head, Fence: min(head, 1), Events: []event.Event{ledgertest.Message("in doubt"), big},
						Row: ledgertest.RowOf("g"), Durable: durable}
					p.arm(c, ofAppend)
					if c == lateCommit || c == neverCommit {
						go p.release(t, l.opts.Schema)
					}
					got, err := l.Append(context.Background(), a)
					if err != nil {
						t.Fatal(err)
					}
					if at := <-p.cuts; at != c {
						t.Fatalf("cut %s", at)
					}
					ledgertest.CheckChain(t, direct, "g", head+2)
					stored, err := direct.Read(context.Background(), "g", head, 0)
					if err != nil || !reflect.DeepEqual(got, stored) {
						t.Errorf("returned %+v, stored %+v, %v", got, stored, err)
					}
					// The same append once more is what it would be for anyone.
					if _, err := l.Append(context.Background(), a); head == 0 && !errors.Is(err, ledger.ErrExists) || head > 0 && !errors.Is(err, ledger.ErrConflict) {
						t.Errorf("the same append again: %v", err)
					}
				})
			}
		}
	}
}

// TestAnAppendThatOthersOvertookWhileInDoubtIsStillKnown: the commit was made,
// its answer lost, and before the look someone else appended and raised the
// fence. The answer is still "appended", not "fenced".
func TestAnAppendThatOthersOvertookWhileInDoubtIsStillKnown(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{true, false} {
		p, l, direct := doubtful(t, "", Options{})
		ledgertest.Create(t, direct, "g", 1)
		p.arm(map[bool]cut{true: beforeAnswer, false: beforeCommit}[made], ofAppend)
		overtaken := make(chan error, 1)
		go func() {
			<-p.cuts
			p.refuse(true)
			row := ledgertest.RowOf("g")
			row.Fence = 2
			head := uint64(1)
			if made {
				head = 2
			}
			_, err := direct.Append(context.Background(), ledger.Append{Goal: "g", Head: head, Fence: 1, Events: []event.Event{ledgertest.Message("pause")}, Row: row})
			p.refuse(false)
			overtaken <- err
		}()
		got, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{ledgertest.Message("in doubt")}, Row: ledgertest.RowOf("g")})
		other := <-overtaken
		switch {
		case made && (err != nil || other != nil || got[0].Seq != 2):
			t.Errorf("made: %+v, %v; the other: %v", got, err, other)
		case !made && other == nil && !errors.Is(err, ledger.ErrFenced):
			t.Errorf("not made and overtaken: %v", err)
		case !made && other != nil && err != nil:
			t.Errorf("neither append was made: %v, %v", err, other)
		}
		ledgertest.CheckChain(t, direct, "g", map[bool]uint64{true: 3, false: 2}[made])
	}
}

// TestACommitWhoseCallerWentAwayIsFoundOut: a context that ends in the middle
// of the doubt does not leave it.
func TestACommitWhoseCallerWentAwayIsFoundOut(t *testing.T) {
	t.Parallel()
	// The caller leaves at the cut, or in a pause between two tries at a server
	// that is away for the moment.
	for _, away := range []bool{false, true} {
		p, l, direct := doubtful(t, "", Options{})
		ledgertest.Create(t, direct, "g", 1)
		p.arm(beforeAnswer, ofAppend)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			<-p.cuts
			if !away {
				cancel()
				return
			}
			p.refuse(true)
			for range 3 {
				<-p.refused
			}
			cancel()
			<-p.refused
			p.refuse(false)
		}()
		got, err := l.Append(ctx, ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{ledgertest.Message("2")}, Row: ledgertest.RowOf("g")})
		if err != nil || got[0].Seq != 2 {
			t.Errorf("server away %t: %+v, %v", away, got, err)
		}
		ledgertest.CheckChain(t, direct, "g", 2)
	}
}

// TestDoubtThatCannotBeResolvedIsSaid: the server stays away after the cut.
func TestDoubtThatCannotBeResolvedIsSaid(t *testing.T) {
	t.Parallel()
	p, l, direct := doubtful(t, "", Options{Patience: 300 * time.Millisecond})
	ledgertest.Create(t, direct, "g", 1)
	p.arm(beforeAnswer, ofAppend)
	go func() {
		<-p.cuts
		p.refuse(true)
	}()
	a := ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{ledgertest.Message("2")}, Row: ledgertest.RowOf("g")}
	// The proxy may cut before it refuses; then the outcome is found after all.
	_, err := l.Append(context.Background(), a)
	if err != nil {
		f := (*fault.Fault)(nil)
		if !errors.Is(err, ErrInDoubt) || !errors.As(err, &f) || f.Kind != fault.Storage || f.SuggestedAction == "" {
			t.Errorf("unresolved doubt: %v", err)
		}
		for _, refusal := range []error{ledger.ErrConflict, ledger.ErrFenced, ledger.ErrExists} {
			if errors.Is(err, refusal) {
				t.Errorf("unresolved doubt looks like a refusal: %v", err)
			}
		}
	}
	ledgertest.CheckChain(t, direct, "g", 2)
}

// TestAClaimInDoubtIsFoundOut: the ticket is the one that was committed, with
// what it says of a take-over, and no goal stays held by nobody.
func TestAClaimInDoubtIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, c := range cuts {
		for _, name := range []string{"", "g"} {
			t.Run(fmt.Sprintf("%s, named %q", c, name), func(t *testing.T) {
				t.Parallel()
				p, l, direct := doubtful(t, "", Options{})
				ledgertest.Create(t, direct, "g", 1)
				ledgertest.Create(t, direct, "h", 1)
				if _, err := direct.Claim(context.Background(), ledger.Claim{Goal: "g", Owner: "dead", Lease: time.Hour}); err != nil {
					t.Fatal(err)
				}
				p.arm(c, ofClaim)
				if c == lateCommit || c == neverCommit {
					go func() {
						end := <-p.held
						if name != "" || c == lateCommit {
							// The search for the most urgent goal locks the same
							// row first when it looks for its own claim.
							waiter(t, l.opts.Schema)
						}
						end()
					}()
				}
				got, err := l.Claim(context.Background(), ledger.Claim{Goal: name, Owner: "w", Lease: time.Minute, Evict: "dead"})
				if err != nil {
					t.Fatal(err)
				}
				<-p.cuts
				if got.Goal != "g" || !got.Takeover || got.Previous != "dead" || got.Fence != 2 {
					t.Errorf("ticket %+v", got)
				}
				rows, err := direct.Goals(context.Background(), ledger.Filter{})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range rows {
					if r.Goal == "g" && (r.LeaseOwner != "w" || r.LeaseUntil != got.Until || r.Fence != 2) || r.Goal == "h" && r.LeaseOwner != "" {
						t.Errorf("row %+v, ticket %+v", r, got)
					}
				}
			})
		}
	}
}

// TestALargeArtifactSurvivesBrokenConnections cuts commits of chunks and of
// the row, and drops all connections while it is written and read.
func TestALargeArtifactSurvivesBrokenConnections(t *testing.T) {
	t.Parallel()
	p, l, direct := doubtful(t, "", Options{})
	content := make([]byte, 3<<20+7)
	rand.NewChaCha8([32]byte{1}).Read(content)
	r := &hooked{r: bytes.NewReader(content), every: 300_000, do: func(i int) {
		p.arm(cuts[i%3], map[bool]string{true: "chunks", false: "artifacts"}[i < 9])
		if i%4 == 3 {
			p.dropAll()
		}
	}}
	ref, err := l.PutArtifact(context.Background(), r, "application/octet-stream")
	if err != nil || ref != event.RefOf(content, "application/octet-stream") {
		t.Fatalf("%+v, %v", ref, err)
	}
	if len(p.cuts) < 5 {
		t.Errorf("only %d cuts", len(p.cuts))
	}
	for _, from := range []*Ledger{l, direct} {
		rc, err := from.OpenArtifact(context.Background(), ref.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(&hooked{r: rc, every: 500_000, do: func(int) { p.dropAll() }}); err != nil || !bytes.Equal(got.Bytes(), content) {
			t.Errorf("read %d bytes, %v", got.Len(), err)
		}
		rc.Close()
	}
}

// hooked calls do after every so many bytes read.
type hooked struct {
	r        interface{ Read([]byte) (int, error) }
	every, n int
	calls    int
	do       func(call int)
}

func (h *hooked) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if h.n += n; h.n >= h.every {
		h.n = 0
		h.do(h.calls)
		h.calls++
	}
	return n, err
}

// TestNoHistoryOfCutsAppendsTwiceOrNever plays random appends, right and wrong
// ones, with random cuts, against a model of two numbers.
func TestNoHistoryOfCutsAppendsTwiceOrNever(t *testing.T) {
	t.Parallel()
	p, l, direct := doubtful(t, "&pool_max_conns=2", Options{})
	rapid.Check(t, func(rt *rapid.T) {
		goal := ledgertest.NewID()
		var head uint64
		var ids []string
		for range rapid.IntRange(1, 6).Draw(rt, "appends") {
			a := ledger.Append{Goal: goal, Head: head, Fence: min(head, 1), Row: ledgertest.RowOf(goal), Durable: rapid.Bool().Draw(rt, "durable")}
			if head > 0 && rapid.IntRange(0, 4).Draw(rt, "stale") == 0 {
				a.Head--
			}
			for range rapid.IntRange(1, 3).Draw(rt, "events") {
				a.Events = append(a.Events, ledgertest.Message("x"))
			}
			p.arm(rapid.SampledFrom([]cut{"", beforeCommit, afterForward, beforeAnswer}).Draw(rt, "cut"), ofAppend)
			got, err := l.Append(context.Background(), a)
			p.arm("", "")
			switch {
			case a.Head == head && err == nil:
				for _, e := range got {
					ids = append(ids, e.ID)
				}
				head += uint64(len(got))
			case a.Head != head && (errors.Is(err, ledger.ErrConflict) || a.Head == 0 && errors.Is(err, ledger.ErrExists)):
			default:
				rt.Fatalf("append at %d on %d: %v", a.Head, head, err)
			}
		}
		for len(p.cuts) > 0 {
			<-p.cuts
		}
		events, err := direct.Read(context.Background(), goal, 0, 0)
		if err != nil || uint64(len(events)) != head {
			rt.Fatalf("%d events, want %d: %v", len(events), head, err)
		}
		for i, e := range events {
			if e.ID != ids[i] {
				rt.Fatalf("seq %d is event %s, want %s", e.Seq, e.ID, ids[i])
			}
		}
		if head > 0 {
			ledgertest.CheckChain(t, direct, goal, head)
		}
	})
}
