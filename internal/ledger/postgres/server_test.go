package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
	"belay/internal/ledger/postgres/pgtest"
)

// TestAServerKilledInMidRunLosesAndDoublesNothing kills a durable server and
// shuts it down at once, again and again, while goals are appended to,
// followed and claimed. Calls ride it out; what was acknowledged is there,
// once, in its place.
func TestAServerKilledInMidRunLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Fsync: true})
	const goals, rounds = 4, 6
	opts := Options{Patience: 2 * time.Minute}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	acked := make([][]event.Event, goals)
	var total atomic.Int64
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for g := range goals {
		l := open(t, server.DSN(), opts)
		wg.Go(func() {
			goal := fmt.Sprintf("g%d", g)
			for ctx.Err() == nil {
				head := uint64(len(acked[g]))
				a := ledger.Append{Goal: goal, Head: head, Fence: min(head, 1), Durable: head%4 == 0, Row: ledgertest.RowOf(goal)}
				for range 1 + head%3 {
					a.Events = append(a.Events, ledgertest.Message("x"))
				}
				out, err := l.Append(context.Background(), a)
				if err != nil {
					t.Errorf("goal %s at %d: %v", goal, head, err)
					return
				}
				acked[g] = append(acked[g], out...)
				total.Add(1)
				poke(progress)
			}
		})
	}
	follower := open(t, server.DSN(), opts)
	followed, followCtx := uint64(0), ctx
	wg.Go(func() {
		for item, err := range follower.Follow(followCtx, "g0", 0) {
			switch {
			case err != nil:
				t.Errorf("follow: %v", err)
			case !item.CaughtUp && item.Event.Seq != followed+1:
				t.Errorf("followed seq %d after %d", item.Event.Seq, followed)
			case !item.CaughtUp:
				followed++
			}
		}
	})
	for round := range rounds {
		// Some appends pass between two ends of the server.
		for enough := total.Load() + 40; total.Load() < enough && !t.Failed(); {
			<-progress
		}
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT, syscall.SIGINT}[round%3]
		if err := server.Stop(sig); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for enough := total.Load() + 20; total.Load() < enough && !t.Failed(); {
		<-progress
	}
	stop()
	wg.Wait()
	if followed == 0 {
		t.Error("nothing was followed")
	}
	t.Logf("%d appends, followed to %d", total.Load(), followed)
	check := open(t, server.DSN(), opts)
	for g := range goals {
		goal := fmt.Sprintf("g%d", g)
		ledgertest.CheckChain(t, check, goal, uint64(len(acked[g])))
		events, err := check.Read(context.Background(), goal, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range events {
			if e.ID != acked[g][i].ID || e.Hash != acked[g][i].Hash || e.Time != acked[g][i].Time {
				t.Errorf("goal %s seq %d is %+v, acknowledged was %+v", goal, i+1, e, acked[g][i])
			}
		}
	}
}

// TestADeadListenerLosesNothing ends the follower's connections all the time.
func TestADeadListenerLosesNothing(t *testing.T) {
	t.Parallel()
	server, opts := pgtest.Shared(t), Options{Schema: pgtest.Schema()}
	a := open(t, server.DSN(), opts)
	b := open(t, server.DSN()+"&application_name="+opts.Schema, opts)
	const events = 150
	ledgertest.Create(t, a, "g", 1)
	killer := connect(t, server.DSN())
	kill := func() {
		if _, err := killer.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", opts.Schema); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var last uint64
	started := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		<-started
		for head := uint64(1); head < events; head++ {
			if _, err := a.Append(ctx, ledger.Append{Goal: "g", Head: head, Fence: 1, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g")}); err != nil {
				t.Error(err)
				return
			}
			if head%10 == 0 {
				kill()
			}
		}
	})
	for item, err := range b.Follow(ctx, "g", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if item.CaughtUp {
			close(started)
			continue
		}
		if item.Event.Seq != last+1 {
			t.Fatalf("seq %d after %d", item.Event.Seq, last)
		}
		if last++; last == events {
			break
		}
	}
	wg.Wait()
	if last != events {
		t.Errorf("followed to %d of %d", last, events)
	}
}

// TestPollingFindsWhatNoNotificationTells takes the notifications away.
func TestPollingFindsWhatNoNotificationTells(t *testing.T) {
	t.Parallel()
	server, opts := pgtest.Shared(t), Options{Schema: pgtest.Schema(), Poll: 50 * time.Millisecond}
	a, b := open(t, server.DSN(), opts), open(t, server.DSN(), opts)
	// A closed sender says nothing, as after a kill between commit and notice.
	a.sender.close()
	ledgertest.Create(t, a, "g", 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var last uint64
	for item, err := range b.Follow(ctx, "g", 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = max(last, item.Event.Seq)
		if last == 10 {
			return
		}
		if item.CaughtUp || last > 1 {
			if _, err := a.Append(ctx, ledger.Append{Goal: "g", Head: last, Fence: 1, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Errorf("followed to %d", last)
}

// TestAReadOnlyServerIsNamedAndRiddenOut: writes are refused with 25006, as by
// a standby, and go on when the server takes writes again.
func TestAReadOnlyServerIsNamedAndRiddenOut(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	patient, hasty := open(t, server.DSN(), Options{}), open(t, server.DSN(), Options{Patience: 200 * time.Millisecond})
	ledgertest.Create(t, patient, "g", 1)
	admin := connect(t, server.DSN())
	readOnly := func(v string) {
		for _, q := range []string{"SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = " + v, "SELECT pg_reload_conf()"} {
			if _, err := admin.Exec(context.Background(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := func(head uint64) ledger.Append {
		return ledger.Append{Goal: "g", Head: head, Fence: 1, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g")}
	}
	readOnly("on")
	var err error
	head := uint64(1)
	for deadline := time.Now().Add(20 * time.Second); err == nil && time.Now().Before(deadline); head++ {
		// The server takes up its new setting when it pleases.
		_, err = hasty.Append(context.Background(), a(head))
	}
	head--
	f := (*fault.Fault)(nil)
	if !errors.As(err, &f) || f.Kind != fault.Storage || !f.Retryable || !bytes.Contains([]byte(f.SuggestedAction), []byte("takes no writes")) || errors.Is(err, ErrInDoubt) {
		t.Fatalf("append to a read-only server: %v", err)
	}
	if _, err := hasty.Claim(context.Background(), ledger.Claim{Goal: "g", Owner: "w", Lease: time.Minute}); !errors.As(err, &f) {
		t.Errorf("claim on a read-only server: %v", err)
	}
	if _, problems, err := hasty.Check(context.Background()); err != nil || len(problems) == 0 {
		t.Errorf("check: %q, %v", problems, err)
	}
	if got, err := hasty.Read(context.Background(), "g", 0, 0); err != nil || uint64(len(got)) != head {
		t.Errorf("read from a read-only server: %d events, %v", len(got), err)
	}
	// Opening an up-to-date ledger writes nothing.
	open(t, server.DSN(), Options{Patience: 200 * time.Millisecond})
	result := make(chan error, 1)
	go func() {
		_, err := patient.Append(context.Background(), a(head))
		result <- err
	}()
	readOnly("off")
	if err := <-result; err != nil {
		t.Errorf("append while the server takes writes again: %v", err)
	}
	ledgertest.CheckChain(t, patient, "g", head+1)
}

// TestAFailoverToAStandbyIsFollowed runs a primary with a synchronous standby,
// kills the primary and promotes the standby under appends: an address with
// both hosts finds the new primary, and what was acknowledged is there.
func TestAFailoverToAStandbyIsFollowed(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Options{Settings: []string{"wal_level=replica", "synchronous_standby_names=standby"}})
	standby, err := primary.Standby("standby")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Remove)
	dsn := fmt.Sprintf("host=%s,%s port=%d,%d user=belay dbname=postgres sslmode=disable target_session_attrs=read-write", standby.Dir, primary.Dir, pgtest.Port, pgtest.Port)
	l := open(t, dsn, Options{Patience: time.Minute})
	var acked []event.Event
	promoted := make(chan error, 1)
	for head := uint64(0); head < 120; head++ {
		if head == 40 {
			go func() {
				err := primary.Stop(syscall.SIGKILL)
				promoted <- errors.Join(err, standby.Promote())
			}()
		}
		out, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: head, Fence: min(head, 1), Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g"), Durable: true})
		if err != nil {
			t.Fatalf("append at %d: %v", head, err)
		}
		acked = append(acked, out...)
		if head == 80 {
			if err := <-promoted; err != nil {
				t.Fatal(err)
			}
		}
	}
	check := open(t, standby.DSN(), Options{})
	ledgertest.CheckChain(t, check, "g", 120)
	events, err := check.Read(context.Background(), "g", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.ID != acked[i].ID || e.Hash != acked[i].Hash {
			t.Errorf("seq %d is %s, acknowledged was %s", i+1, e.ID, acked[i].ID)
		}
	}
}

// TestADamagedPageLeavesTheRestReadable spoils one page of the table on disk.
func TestADamagedPageLeavesTheRestReadable(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Checksums: true})
	l := open(t, server.DSN(), Options{})
	const events = 200
	ledgertest.Create(t, l, "g", events)
	ledgertest.Create(t, l, "other", 3)
	conn := connect(t, server.DSN())
	var path string
	var low, high uint64
	for q, dest := range map[string][]any{
		"SELECT pg_relation_filepath('belay.events')":                                                 {&path},
		"SELECT min(seq), max(seq) FROM belay.events WHERE goal = 'g' AND (ctid::text::point)[0] = 1": {&low, &high},
	} {
		if err := conn.QueryRow(context.Background(), q).Scan(dest...); err != nil {
			t.Fatal(err)
		}
	}
	if low < 2 || high >= events {
		t.Fatalf("the second page holds seq %d to %d of %d", low, high, events)
	}
	if err := server.Stop(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(server.Data(), path)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[8192+4000] ^= 0xff
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	got, err := l.Read(context.Background(), "g", 0, 0)
	if err != nil || len(got) != events {
		t.Fatalf("%d events, %v", len(got), err)
	}
	for i, e := range got {
		_, damaged := e.Payload.(event.Damaged)
		if seq := uint64(i) + 1; e.Seq != seq || damaged != (seq >= low && seq <= high) {
			t.Errorf("event %d has seq %d, damaged %v; the page holds %d to %d", i, e.Seq, damaged, low, high)
		}
	}
	if a, err := l.Audit(context.Background(), "g"); err != nil || a.Broken == nil || a.Broken.Seq != low {
		t.Errorf("audit %+v, %v", a.Broken, err)
	}
	ledgertest.CheckChain(t, l, "other", 3)
}

// TestAServerWithoutAFreeConnectionIsWaitedFor: another client's connections
// fill it, and go.
func TestAServerWithoutAFreeConnectionIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Settings: []string{"max_connections=8", "superuser_reserved_connections=0"}})
	l := open(t, server.DSN(), Options{})
	ledgertest.Create(t, l, "g", 1)
	l.pool.Reset()
	var taken []*pgx.Conn
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		conn, err := pgx.Connect(ctx, server.DSN())
		cancel()
		if err != nil {
			if sqlState(err) != stateTooMany {
				t.Fatal(err)
			}
			break
		}
		taken = append(taken, conn)
	}
	l.pool.Reset()
	result := make(chan error, 1)
	go func() {
		_, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g")})
		result <- err
	}()
	for _, conn := range taken {
		conn.Close(context.Background())
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	ledgertest.CheckChain(t, l, "g", 2)
}
