package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

func TestOpenTakesADirectoryOrAFile(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for path, want := range map[string]string{
		"state/deep":       "state/deep/ledger.db",
		"other/name.db":    "other/name.db",
		"odd ?#% ü/x.db":   "odd ?#% ü/x.db",
		"dotted.dir/state": "dotted.dir/state/ledger.db",
	} {
		l := open(t, filepath.Join(base, path), Options{})
		if l.Path() != filepath.Join(base, want) {
			t.Errorf("Open(%q) uses %s", path, l.Path())
		}
		ledgertest.Create(t, l, "g", 2)
		again := open(t, filepath.Join(base, path), Options{})
		ledgertest.CheckChain(t, again, "g", 2)
		if _, err := os.Stat(filepath.Join(base, want)); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(context.Background(), "", Options{}); err == nil {
		t.Error("the empty path was opened")
	}
}

func TestEverythingIsReadableByTheOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	l := open(t, dir, Options{})
	ledgertest.Create(t, l, "g", 1)
	if _, err := l.PutArtifact(context.Background(), bytes.NewReader(noise(1<<20)), ""); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n++
		if got, want := mode(t, path), map[bool]string{true: "drwx------", false: "-rw-------"}[d.IsDir()]; got != want {
			t.Errorf("%s has mode %s, want %s", path, got, want)
		}
		return nil
	})
	// The directory, the file with its log and index, artifacts/, tmp/, one
	// prefix and one artifact; and the lock under which artifacts get their names.
	if err != nil || n != 9 {
		t.Errorf("%d paths, %v", n, err)
	}
	wide := filepath.Join(t.TempDir(), "wide.db")
	if err := os.WriteFile(wide, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, wide, Options{})
	if got := mode(t, wide); got != "-rw-------" {
		t.Errorf("a file that was there keeps mode %s", got)
	}
}

func TestTheFileIsSetUpAsDesigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, Options{})
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "application_id": fmt.Sprint(applicationID), "user_version": fmt.Sprint(len(migrations))} {
		if got := pragma(t, l.writer.conn, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	ledgertest.Create(t, l, "g", 1)
	if got := pragma(t, l.writer.conn, "synchronous"); got != "1" {
		t.Errorf("a soft append ran with synchronous %s; OFF would let a checkpoint go unsynced", got)
	}
	if _, err := l.readDB.Exec("DELETE FROM events"); err == nil {
		t.Error("a reading connection can write")
	}
	rows, err := l.readDB.Query("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		t.Errorf("table %s is not STRICT", name)
	}
}

func TestTheLastToCloseLeavesOneWholeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := open(t, dir, Options{}), open(t, dir, Options{})
	ledgertest.Create(t, a, "g", 3)
	ledgertest.CheckChain(t, b, "g", 3)
	for _, l := range []*Ledger{a, b} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != FileName {
		t.Fatalf("left %v, %v", entries, err)
	}
}

// noise is content that does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	newNoise().Read(b)
	return b
}

func TestAnOlderSchemaIsBackedUpAndMigratedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, Options{})
	ledgertest.Create(t, l, "g", 5)
	next := append(append([]string{}, migrations...), "ALTER TABLE goals ADD COLUMN color TEXT NOT NULL DEFAULT 'red'", "CREATE TABLE extra (x INTEGER) STRICT; INSERT INTO extra VALUES (7)")
	for range 2 {
		if err := l.migrate(context.Background(), next); err != nil {
			t.Fatal(err)
		}
	}
	if got := pragma(t, l.writer.conn, "user_version"); got != fmt.Sprint(len(next)) {
		t.Errorf("schema %s", got)
	}
	var n int
	if err := l.writer.conn.QueryRowContext(context.Background(), "SELECT count(*) FROM extra, goals WHERE color = 'red' AND x = 7").Scan(&n); err != nil || n != 1 {
		t.Errorf("after the migration: %d, %v", n, err)
	}
	ledgertest.CheckChain(t, l, "g", 5)

	backups, err := filepath.Glob(filepath.Join(dir, "*.bak"))
	if err != nil || len(backups) != 1 || mode(t, backups[0]) != "-rw-------" {
		t.Fatalf("backups %v, %v", backups, err)
	}
	// The backup is a ledger of the old schema.
	restored := filepath.Join(t.TempDir(), "restored.db")
	if err := os.Rename(backups[0], restored); err != nil {
		t.Fatal(err)
	}
	old := open(t, restored, Options{})
	ledgertest.CheckChain(t, old, "g", 5)

	// The binary of the older schema refuses the migrated file and leaves it.
	_, err = Open(context.Background(), dir, Options{})
	if !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "newer belay") {
		t.Errorf("opening a newer schema: %v", err)
	}
}

func TestAFailedMigrationChangesNothing(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	ledgertest.Create(t, l, "g", 1)
	next := append(append([]string{}, migrations...), "CREATE TABLE extra (x INTEGER) STRICT", "CREATE TABLE nonsense (")
	if err := l.migrate(context.Background(), next); err == nil {
		t.Fatal("nonsense was migrated")
	}
	if got := pragma(t, l.writer.conn, "user_version"); got != fmt.Sprint(len(migrations)) {
		t.Errorf("schema %s", got)
	}
	if _, err := l.readDB.Exec("SELECT * FROM extra"); err == nil {
		t.Error("half of the migration is there")
	}
	ledgertest.CheckChain(t, l, "g", 1)
}

func TestWhatIsNoLedgerIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db := openDB(foreign, "mode=rw")
	if _, err := db.Exec("CREATE TABLE bookmarks (url TEXT)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{foreign, text} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(context.Background(), path, Options{})
		var f *fault.Fault
		if err == nil || !errors.As(err, &f) || f.Kind != fault.Storage || f.SuggestedAction == "" || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := Open(context.Background(), foreign, Options{}); !errors.Is(err, ErrForeign) {
		t.Errorf("foreign database: %v", err)
	}
}

// TestAFileThatBecomesALedgerIsNeverForeign: many processes start on a new
// state directory at once, and each looks at what the others are making.
func TestAFileThatBecomesALedgerIsNeverForeign(t *testing.T) {
	t.Parallel()
	for range 25 {
		path := filepath.Join(t.TempDir(), FileName)
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		db := openDB(path, "mode=rw")
		conn, err := db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		looks := &Ledger{path: path, opts: Options{BusyTimeout: 30 * time.Second}}
		looks.writer.conn = conn
		made := make(chan error, 1)
		go func() {
			l, err := Open(context.Background(), path, Options{})
			if err == nil {
				err = l.Close()
			}
			made <- err
		}()
		for looking := true; looking; {
			select {
			case err := <-made:
				if err != nil {
					t.Fatal(err)
				}
				looking = false
			default:
			}
			if _, err := looks.schema(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(conn.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// damagedFile makes a closed ledger with one long goal and one short one, and
// overwrites the page that holds the given text.
func damagedFile(t *testing.T, events int, text string) string {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	ledgertest.Create(t, l, "g", events)
	ledgertest.Create(t, l, "h", 3)
	l.Close()
	path := filepath.Join(dir, FileName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, []byte(text))
	if i < 0 {
		t.Fatalf("%q is not in the file", text)
	}
	const page = 4096
	copy(b[i/page*page:], bytes.Repeat([]byte{0xee}, page))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestADamagedPageIsReportedAndTheRestStaysReadable(t *testing.T) {
	t.Parallel()
	l := open(t, damagedFile(t, 400, "message 200 of g"), Options{})
	events, err := l.Read(context.Background(), "g", 0, 0)
	if err != nil || len(events) != 400 {
		t.Fatalf("read %d events, %v", len(events), err)
	}
	first, damage := uint64(0), 0
	for i, e := range events {
		if e.Seq != uint64(i)+1 {
			t.Fatalf("event %d has seq %d", i, e.Seq)
		}
		if d, ok := e.Payload.(event.Damaged); ok {
			if damage++; first == 0 {
				first = e.Seq
			}
			if d.Reason == "" {
				t.Error("no reason")
			}
		}
	}
	if _, ok := events[199].Payload.(event.Damaged); !ok || damage > 40 {
		t.Errorf("%d events read as damaged", damage)
	}
	page, err := l.Read(context.Background(), "g", first-3, 10)
	if err != nil || len(page) != 10 || page[0].Seq != first-2 || page[9].Seq != first+7 {
		t.Errorf("a page over the damage: %d events, %v", len(page), err)
	}
	audit, err := l.Audit(context.Background(), "g")
	if err != nil || audit.Broken == nil || audit.Broken.Seq != first {
		t.Errorf("audit %+v, %v; the damage begins at seq %d", audit.Broken, err, first)
	}
	if problems, err := l.Check(context.Background()); err != nil || len(problems) == 0 {
		t.Errorf("check: %v, %v", problems, err)
	}
	ledgertest.CheckChain(t, l, "h", 3)
}

func TestACutFileIsAClearErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, Options{})
	ledgertest.Create(t, l, "g", 300)
	l.Close()
	path := filepath.Join(dir, FileName)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := info.Size() - 1; size > 0; size -= info.Size() / 9 {
		cut := filepath.Join(t.TempDir(), "cut.db")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cut, b[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(context.Background(), cut, Options{})
		if err == nil {
			_, err = l.Read(context.Background(), "g", 0, 0)
			if err == nil {
				var a ledger.Audit
				if a, err = l.Audit(context.Background(), "g"); err == nil && a.Broken == nil {
					t.Errorf("cut to %d of %d bytes: the audit holds", size, info.Size())
				}
			}
			l.Close()
		}
		if err != nil && (!strings.Contains(err.Error(), cut) || !strings.Contains(err.Error(), "restore a backup")) {
			t.Errorf("cut to %d of %d bytes: %v", size, info.Size(), err)
		}
	}
}
