package index

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"belay/internal/recall"
)

const (
	// chunkLines and chunkBytes bound one chunk, the part of a file that is found.
	chunkLines = 60
	chunkBytes = 4 << 10
	// maxFile is the largest file that is searched, maxLine the longest ordinary
	// line: generated files and data are left out.
	maxFile = 512 << 10
	maxLine = 2000
	// maxFiles is how many files of a repository are searched.
	maxFiles = 50_000
	// batch is how many files are read, and taken in by one transaction.
	batch = 200
	// perFile is how many parts of one file an answer shows.
	perFile = 2
)

// chunk is a part of a file.
type chunk struct {
	line int
	text string
}

// chunks cuts a text at line ends. A line that is longer than a chunk may be is
// cut: it is still found by what it begins with.
func chunks(text string) []chunk {
	var out []chunk
	var b strings.Builder
	n, from := 0, 1
	flush := func(next int) {
		if strings.TrimSpace(b.String()) != "" {
			out = append(out, chunk{from, b.String()})
		}
		b.Reset()
		n, from = 0, next
	}
	no := 0
	for l := range strings.Lines(text) {
		no++
		if l = clip(l, maxLine); b.Len()+len(l) > chunkBytes && b.Len() > 0 {
			flush(no)
		}
		b.WriteString(l)
		if n++; n == chunkLines {
			flush(no + 1)
		}
	}
	flush(no + 1)
	return out
}

// searchable returns a file's text, false for what is no text or made by a
// program.
func searchable(content []byte) (string, bool) {
	if len(content) >= maxFile || bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content[:min(len(content), 4096)-partial(content[:min(len(content), 4096)])]) {
		return "", false
	}
	if lines := bytes.Count(content, []byte{'\n'}) + 1; len(content)/lines > 400 {
		return "", false
	}
	return strings.ToValidUTF8(string(content), "\uFFFD"), true
}

// partial is how many bytes at the end are the beginning of a character.
func partial(b []byte) int {
	for n := 1; n <= min(3, len(b)); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// tree brings a repository's part of the index to a tree, until the deadline, and
// says what is not in it.
func (x *Index) tree(ctx context.Context, s *store, files recall.Files, until time.Time) (note string, err error) {
	tree, err := files.Tree(ctx)
	if err != nil {
		return "", err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	root := files.Root()
	var has string
	var skipped int
	err = s.write.QueryRowContext(ctx, "SELECT tree, skipped FROM trees WHERE root = ?", root).Scan(&has, &skipped)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", err
	}
	if has == tree {
		return leftOut(skipped), nil
	}
	now, err := files.List(ctx, tree)
	if err != nil {
		return "", err
	}
	skipped = max(0, len(now)-maxFiles)
	now = now[:min(len(now), maxFiles)]
	gone, fresh, err := s.changed(ctx, root, now)
	if err != nil {
		return "", err
	}
	if err := s.drop(ctx, root, gone); err != nil {
		return "", err
	}
	for len(fresh) > 0 {
		if time.Now().After(until) {
			return fmt.Sprintf("%d files of the repository are not indexed yet; search again to take in more", len(fresh)), nil
		}
		n := min(len(fresh), batch)
		if err := x.takeFiles(ctx, s, files, tree, fresh[:n]); err != nil {
			return "", err
		}
		fresh = fresh[n:]
	}
	_, err = s.write.ExecContext(ctx, "INSERT INTO trees VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tree = excluded.tree, skipped = excluded.skipped", root, tree, skipped)
	return leftOut(skipped), err
}

func leftOut(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d files past the first %d of the repository are not searched", n, maxFiles)
}

// changed tells which indexed files are no longer as they were, and which files
// are to be read.
func (s *store) changed(ctx context.Context, root string, now []recall.FileID) (gone []string, fresh []recall.FileID, err error) {
	rows, err := s.write.QueryContext(ctx, "SELECT path, id FROM files WHERE root = ?", root)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	has := map[string]string{}
	for rows.Next() {
		var p, id string
		if err := rows.Scan(&p, &id); err != nil {
			return nil, nil, err
		}
		has[p] = id
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	for _, f := range now {
		if has[f.Path] != f.ID {
			fresh = append(fresh, f)
		} else {
			delete(has, f.Path)
		}
	}
	for p := range has {
		gone = append(gone, p)
	}
	slices.Sort(gone)
	return gone, fresh, nil
}

// drop removes files from the index. The tree that is recorded no longer fits.
func (s *store) drop(ctx context.Context, root string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := remove(ctx, tx, root, paths); err != nil {
		return err
	}
	return tx.Commit()
}

func remove(ctx context.Context, tx *sql.Tx, root string, paths []string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM trees WHERE root = ?", root); err != nil {
		return err
	}
	for _, do := range []string{
		"DELETE FROM chunk_terms WHERE rowid IN (SELECT id FROM chunks WHERE root = ? AND path IN (SELECT value FROM json_each(?)))",
		"DELETE FROM chunks WHERE root = ? AND path IN (SELECT value FROM json_each(?))",
		"DELETE FROM files WHERE root = ? AND path IN (SELECT value FROM json_each(?))",
	} {
		if _, err := tx.ExecContext(ctx, do, root, list(paths)); err != nil {
			return err
		}
	}
	return nil
}

// takeFiles reads files and takes them in, in one transaction.
func (x *Index) takeFiles(ctx context.Context, s *store, files recall.Files, tree string, fresh []recall.FileID) error {
	paths := make([]string, len(fresh))
	for i, f := range fresh {
		paths[i] = f.Path
	}
	content, err := files.Read(ctx, tree, paths, maxFile)
	if err != nil {
		return err
	}
	root := files.Root()
	type ready struct {
		chunk
		path, terms string
	}
	var in []ready
	for _, f := range fresh {
		text, ok := searchable(content[f.Path])
		if !ok {
			continue
		}
		marks := []string{mark('r', root)}
		for _, p := range recall.Places(f.Path) {
			marks = append(marks, mark('f', p))
		}
		for _, c := range chunks(x.Secrets.Text(text)) {
			in = append(in, ready{c, f.Path, strings.Join(append(slices.Clone(marks), recall.Terms(f.Path+"\n"+c.text)...), " ")})
		}
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// Another process may have taken them in meanwhile.
	if err := remove(ctx, tx, root, paths); err != nil {
		return err
	}
	for _, f := range fresh {
		if _, err := tx.ExecContext(ctx, "INSERT INTO files VALUES (?, ?, ?)", root, f.Path, f.ID); err != nil {
			return err
		}
	}
	row, err := tx.PrepareContext(ctx, "INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer row.Close()
	terms, err := tx.PrepareContext(ctx, "INSERT INTO chunk_terms (rowid, terms) VALUES (last_insert_rowid(), ?)")
	if err != nil {
		return err
	}
	defer terms.Close()
	for _, c := range in {
		if _, err := row.ExecContext(ctx, root, c.path, c.line, c.text, hashOf(embedded(c.path, c.text))); err != nil {
			return err
		}
		if _, err := terms.ExecContext(ctx, c.terms); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// part is a chunk that was found.
type part struct {
	id    int64
	path  string
	line  int
	text  string
	score float64
	share float64
}

func (p part) key() string { return fmt.Sprintf("%s:%d", p.path, p.line) }

// parts reads chunks.
func (s *store) parts(ctx context.Context, ids []int64) ([]part, error) {
	rows, err := s.query(ctx, "SELECT id, path, line, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))", list(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []part
	for rows.Next() {
		var p part
		if err := rows.Scan(&p.id, &p.path, &p.line, &p.text); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// files ranks what of a repository fits a query.
func (s *store) files(ctx context.Context, q recall.Query, want []recall.Wanted, root string) ([]part, error) {
	if len(want) == 0 {
		return nil, nil
	}
	last, err := s.last(ctx, "chunks")
	if err != nil || last == 0 {
		return nil, err
	}
	fs := []string{quote(mark('r', root))}
	if q.File != "" {
		fs = append(fs, quote(mark('f', recall.CleanPath(q.File))))
	}
	found, weights, err := s.candidates(ctx, chunkTerms, want, fs, last)
	if err != nil {
		return nil, err
	}
	ps, err := s.parts(ctx, best(found, weights, short))
	if err != nil {
		return nil, err
	}
	phrase := strings.ToLower(phraseOf(want))
	for i := range ps {
		p := &ps[i]
		p.score, p.share = score(found[p.id].words, weights)
		p.score *= 1 + closeness(p.path, p.text, want, phrase)
		if secondHand(p.path) {
			p.score *= 0.6
		}
	}
	slices.SortFunc(ps, func(a, b part) int {
		if a.score != b.score {
			return sign(b.score - a.score)
		}
		return strings.Compare(a.key(), b.key())
	})
	shown := map[string]int{}
	return slices.DeleteFunc(ps, func(p part) bool { shown[p.path]++; return shown[p.path] > perFile }), nil
}

// secondHand reports whether a file is most likely not where an answer is: copies
// of other projects, fixtures, locks.
func secondHand(p string) bool {
	for _, dir := range []string{"vendor/", "node_modules/", "third_party/", "testdata/", "fixtures/"} {
		if strings.HasPrefix(p, dir) || strings.Contains(p, "/"+dir) {
			return true
		}
	}
	base := path.Base(p)
	return strings.HasSuffix(base, ".lock") || strings.HasSuffix(base, "-lock.json") || base == "go.sum"
}
