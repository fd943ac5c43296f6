package sqlite

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
	"belay/internal/moment"
)

// TestCollectDropsWhatNoEventNames: artifacts in the database and in files, by
// age; what an event names stays, also when the name stands in a payload that was
// spilled, and so do the events.
func TestCollectDropsWhatNoEventNames(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	now := time.Now()
	l := open(t, dir, Options{Clock: func() time.Time { return now }})
	put := func(text string) event.Ref {
		t.Helper()
		r, err := l.PutArtifact(ctx, strings.NewReader(text), "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	noise := func(seed byte) string {
		b := make([]byte, 2*maxInline)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
		return string(b)
	}
	loose, named, inSpill := put("nobody names it"), put("named"), put("named in a payload that was spilled")
	looseFile, namedFile := put(noise(1)), put(noise(2))
	goal := ledgertest.NewID()
	text := strings.Repeat("x", event.SpillThreshold+1)
	es := []event.Event{
		{Goal: goal, Payload: event.UserMessage{Mode: event.Message, Text: named.SHA256 + " " + namedFile.SHA256}},
		{Goal: goal, Payload: event.UserMessage{Mode: event.Message, Text: text + " " + inSpill.SHA256}},
	}
	for i := range es {
		es[i].ID, es[i].Type, es[i].Version, es[i].Actor, es[i].Fence = ledgertest.NewID(), es[i].Payload.EventType(), 1, event.ActorUser, 1
	}
	if _, err := l.Append(ctx, ledger.Append{Goal: goal, Events: es, Row: ledger.Row{Goal: goal, Status: "active", Fence: 1}, Durable: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.SaveCache(ctx, goal, ledger.Cache{Seq: 2, Schema: 1, Blob: []byte("state")}); err != nil {
		t.Fatal(err)
	}
	collect := func(before time.Time, dry bool) ledger.Collected {
		t.Helper()
		got, err := l.Collect(ctx, ledger.Collect{Before: moment.Of(before), Caches: []string{goal, "none"}, Dry: dry})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	there := func(r event.Ref) bool {
		t.Helper()
		rc, err := l.OpenArtifact(ctx, r.SHA256)
		if errors.Is(err, ledger.ErrNotFound) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		if _, err := io.Copy(io.Discard, rc); err != nil {
			t.Fatal(err)
		}
		return true
	}
	young := collect(now.Add(-time.Hour), true)
	if young.Artifacts != 0 || young.Caches != 1 {
		t.Errorf("what is young: %+v", young)
	}
	for _, r := range []event.Ref{looseFile, namedFile} { // the file system's own time
		if err := os.Chtimes(l.file(r.SHA256), now.Add(-time.Minute), now.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if got := collect(now.Add(time.Second), true); got.Artifacts != 2 || got.Bytes < 2*maxInline || !there(loose) || !there(looseFile) {
		t.Errorf("dry: %+v", got)
	}
	if got := collect(now.Add(time.Second), false); got.Artifacts != 2 || got.Caches != 1 {
		t.Errorf("%+v", got)
	}
	for r, want := range map[event.Ref]bool{loose: false, looseFile: false, named: true, namedFile: true, inSpill: true} {
		if there(r) != want {
			t.Errorf("artifact %+v is there: %t", r, !want)
		}
	}
	if _, err := os.Stat(l.file(looseFile.SHA256)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its file: %v", err)
	}
	if _, err := l.LoadCache(ctx, goal); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the cache: %v", err)
	}
	if a, err := l.Audit(ctx, goal); err != nil || a.Broken != nil || a.Events != 2 {
		t.Errorf("%+v %v", a, err)
	}
	put(noise(1)) // and it can be put again
	if !there(looseFile) {
		t.Error("it is not there again")
	}
}
