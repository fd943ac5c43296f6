package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/internal/ledger/postgres/pgtest"
)

// onPostgres is a world whose ledger is in a private server.
func onPostgres(t *testing.T, files map[string]string) (*world, *pgtest.Server) {
	w, server := newWorld(t, files), pgtest.Start(t, pgtest.Options{Fsync: true})
	w.env = append(w.env, envDB+"="+server.DSN())
	return w, server
}

// goalLine takes the goal's id from what a detached run prints.
func goalLine(r result) string { return strings.TrimSpace(r.out) }

func TestAGoalLivesInPostgreSQLAndIsSeenFromAnotherStateDirectory(t *testing.T) {
	t.Parallel()
	w, server := onPostgres(t, toy())
	// The address comes by the flag here, and has to reach the background
	// worker; the environment names nothing.
	w.env = w.env[:len(w.env)-1]
	db := "--db=" + server.DSN()
	goal := goalLine(w.must(0, runToy(w.script(repair), "--detach", db)...))
	if out := w.must(0, "timeline", goal, "-f", db).out; !strings.Contains(out, "goal_completed: verified") {
		t.Errorf("timeline: %s", out)
	}
	if a := w.must(0, "audit", goal, db); !strings.Contains(a.out, "the chain holds") {
		t.Errorf("%v", a)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "state", "ledger.db")); !os.IsNotExist(err) {
		t.Errorf("a goal in PostgreSQL left a ledger in the state directory: %v", err)
	}
	if d := w.belay("doctor", db); !strings.Contains(d.out, "schema belay, server 1") || strings.Contains(d.out, "ledger.db") {
		t.Errorf("%v", d)
	}
	elsewhere := "--state=" + filepath.Join(w.dir, "another")
	if out := w.must(0, "goals", elsewhere, db).out; !strings.Contains(out, goal[:8]) {
		t.Errorf("another host sees %s", out)
	}
	// Without the flag, and with sqlite against the environment, there is none.
	if out := w.must(0, "goals").out; strings.Contains(out, goal[:8]) {
		t.Errorf("the local ledger has the goal: %s", out)
	}
	w.env = append(w.env, envDB+"="+server.DSN())
	if out := w.must(0, "goals").out; !strings.Contains(out, goal[:8]) {
		t.Errorf("BELAY_DB is not heard: %s", out)
	}
	if out := w.must(0, "goals", "--db=sqlite").out; strings.Contains(out, goal[:8]) {
		t.Errorf("--db sqlite does not win over BELAY_DB: %s", out)
	}
}

func TestAServerKilledInMidRunIsRiddenOutAndTheCommandRunsOnce(t *testing.T) {
	t.Parallel()
	w, server := onPostgres(t, toy())
	steps := "steps:\n" + stepRead + stepCommand("echo effect >> ../effects.log; echo started; sleep 1.5; echo over") + stepFix + stepTest + stepDone
	p := w.start(runToy(w.script(steps), "--json")...)
	p.await(`run_command`)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT} {
		if err := server.Stop(sig); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if r := p.wait(); r.code != 0 {
		t.Fatalf("%v", r)
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "effects.log")); err != nil || string(b) != "effect\n" {
		t.Errorf("the command left %q, %v", b, err)
	}
	if a := w.must(0, "audit", w.goal()); !strings.Contains(a.out, "the chain holds") {
		t.Errorf("%v", a)
	}
}

func TestADatabaseThatIsNoneIsAClearErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	for _, db := range []string{"mysql://u:s3cret@h/x", "postgres://u:s3cret@127.0.0.1:1/x?sslmode=disable"} {
		r := w.belay("goals", "--db", db)
		if r.code == 0 || strings.Contains(r.out+r.err, "s3cret") || !strings.Contains(r.err, "PostgreSQL") && !strings.Contains(r.err, "check that the server runs") {
			t.Errorf("%v", r)
		}
	}
}
