package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"belay/internal/fault"
)

// inside is a run on the private git directory with no user configuration.
func (s *Session) inside(args ...string) call {
	return call{dir: s.top, gitDir: s.dir, args: args}
}

// conversions are the settings by which git turns a working file's bytes into
// a commit's, or compares them. None of them runs a program.
var conversions = []string{
	"core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode", "core.trustctime",
	"core.checkstat", "core.excludesfile", "core.attributesfile", "core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse",
}

// onTree is inside, with the working tree and the copied index.
func (s *Session) onTree(args ...string) call {
	c := s.inside(args...)
	c.workTree = s.top
	c.conf = []string{"core.safecrlf=false", "core.bare=false"}
	for _, k := range conversions {
		if v, ok := s.config[k]; ok {
			c.conf = append(c.conf, k+"="+v)
		}
	}
	return c
}

// scope limits a run to the paths that the operation covers. A path may have
// gone: literal pathspecs need not match.
func (s *Session) scope() []string {
	var ps []string
	for _, p := range s.Paths {
		ps = append(ps, ":(top,literal)"+path.Join(s.prefix, p))
	}
	if len(ps) == 0 && s.prefix != "" {
		ps = []string{":(top,literal)" + strings.TrimSuffix(s.prefix, "/")}
	}
	return append([]string{"--"}, ps...)
}

func split(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// present brings the copied index to the present content of the working tree.
func (s *Session) present(ctx context.Context) error {
	unmerged, err := s.git.run(ctx, s.onTree("ls-files", "--unmerged", "-z"))
	if err != nil {
		return err
	}
	if len(unmerged) > 0 {
		return fault.New(fault.Ambiguous, fault.User, "the repository is in the middle of a merge with conflicts", "the user resolves or aborts the merge first")
	}
	changed, err := s.git.run(ctx, s.onTree(append([]string{"diff-files", "-z", "--name-only", "--no-ext-diff", "--ignore-submodules=all"}, s.scope()...)...))
	if err != nil {
		return err
	}
	found, err := s.git.run(ctx, s.onTree(append([]string{"ls-files", "-z", "--others", "--exclude-standard"}, s.scope()...)...))
	if err != nil {
		return err
	}
	// A file is new when both git and the workspace say that it is not ignored;
	// the workspace alone knows which files are belay's own. A nested repository
	// is listed by git as a folder and is no part of the commit.
	files, err := s.Files(ctx)
	if err != nil {
		return err
	}
	visible := make(map[string]bool, len(files))
	for _, f := range files {
		visible[s.prefix+f] = true
	}
	paths := split(changed)
	for _, p := range split(found) {
		if visible[p] {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	list := []byte(strings.Join(paths, "\x00") + "\x00")
	if err := s.unfiltered(ctx, list); err != nil {
		return err
	}
	c := s.onTree("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
	c.stdin = list
	_, err = s.git.run(ctx, c)
	return err
}

// unfiltered refuses files whose committed form is made by a program.
func (s *Session) unfiltered(ctx context.Context, list []byte) error {
	c := s.onTree("check-attr", "-z", "--stdin", "filter")
	c.stdin = list
	out, err := s.git.run(ctx, c)
	if err != nil {
		return err
	}
	f := split(out)
	for i := 0; i+2 < len(f); i += 3 {
		name := f[i+2]
		if s.config["filter."+name+".clean"] != "" || s.config["filter."+name+".process"] != "" {
			return fault.New(fault.Protected, fault.Environment, fmt.Sprintf("%s goes through the filter %q, a program that the repository's configuration names and belay does not run", f[i], name),
				"leave it out with paths, or let the user commit it")
		}
	}
	return nil
}

// empty is the id of the tree without files.
func (s *Session) empty(ctx context.Context) (string, error) {
	c := s.inside("hash-object", "-w", "-t", "tree", "--stdin")
	c.stdin = []byte{}
	return s.git.line(ctx, c)
}

// tree is the tree of a parent ("" for none) with the present content of what
// the operation covers laid over it.
func (s *Session) tree(ctx context.Context, parent string) (string, error) {
	base := parent
	if base == "" {
		var err error
		if base, err = s.empty(ctx); err != nil {
			return "", err
		}
	}
	out, err := s.git.run(ctx, s.onTree(append([]string{"diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", base}, s.scope()...)...))
	if err != nil {
		return "", err
	}
	var gone, there bytes.Buffer
	f := split(out)
	for i := 0; i+1 < len(f); i += 2 {
		m := strings.Fields(strings.TrimPrefix(f[i], ":")) // old mode, new mode, old id, new id, letter
		if len(m) != 5 {
			return "", fmt.Errorf("push: git diff-index said %q", f[i])
		}
		if m[4] == "D" {
			fmt.Fprintf(&gone, "0 %s\t%s\x00", m[3], f[i+1])
		} else {
			fmt.Fprintf(&there, "%s %s\t%s\x00", m[1], m[3], f[i+1])
		}
	}
	index := s.dir + "/index.commit"
	read := s.inside("read-tree", base)
	read.index = index
	if parent == "" {
		read.args = []string{"read-tree", "--empty"}
	}
	if _, err := s.git.run(ctx, read); err != nil {
		return "", err
	}
	// What goes makes room for what comes: a file may become a folder.
	lay := s.inside("update-index", "-z", "--index-info")
	lay.index, lay.stdin = index, append(gone.Bytes(), there.Bytes()...)
	if _, err := s.git.run(ctx, lay); err != nil {
		return "", err
	}
	write := s.inside("write-tree")
	write.index = index
	return s.git.line(ctx, write)
}

// commit makes the commit of the operation, or takes the parent where the tree
// is the parent's; that is "" where there is nothing at all.
func (s *Session) commit(ctx context.Context, parent string, date int64) (commit, tree string, err error) {
	if tree, err = s.tree(ctx, parent); err != nil {
		return "", "", err
	}
	var was string
	if parent != "" {
		was, err = s.git.line(ctx, s.inside("rev-parse", "--verify", parent+"^{tree}"))
	} else {
		was, err = s.empty(ctx)
	}
	if err != nil || was == tree {
		return parent, tree, err
	}
	name, mail := s.config["user.name"], s.config["user.email"]
	if name == "" || mail == "" {
		name, mail = "belay", "belay@localhost"
	}
	when := strconv.FormatInt(date, 10) + " +0000"
	c := s.inside("commit-tree", tree, "-F", "-")
	if parent != "" {
		c.args = append(c.args, "-p", parent)
	}
	c.env = []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail, "GIT_COMMITTER_DATE=" + when}
	c.stdin = []byte(message(s.Message, s.Name))
	commit, err = s.git.line(ctx, c)
	return commit, tree, err
}

// Trailer is the line of a commit's message that names its operation.
const Trailer = "Belay-Operation"

// message is the commit's message with the operation's name at its end.
func message(text, name string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\r")
	}
	// A block of trailers at the end is continued; anything else gets one.
	last := len(lines)
	for last > 0 && isTrailer(lines[last-1]) {
		last--
	}
	gap := "\n\n"
	if last < len(lines) && last > 1 && lines[last-1] == "" {
		gap = "\n"
	}
	return strings.Join(lines, "\n") + gap + Trailer + ": " + name + "\n"
}

func isTrailer(l string) bool {
	k, _, ok := strings.Cut(l, ": ")
	return ok && k != "" && !strings.ContainsFunc(k, func(r rune) bool {
		return r != '-' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// has reports whether a commit can be read here.
func (s *Session) has(ctx context.Context, id string) (bool, error) {
	_, err := s.git.run(ctx, s.inside("cat-file", "-e", id+"^{commit}"))
	var g *gitError
	if errors.As(err, &g) {
		return false, nil
	}
	return err == nil, err
}

// within reports whether a commit is another one or among its ancestors.
func (s *Session) within(ctx context.Context, old, recent string) (bool, error) {
	_, err := s.git.run(ctx, s.inside("merge-base", "--is-ancestor", old, recent))
	var g *gitError
	if errors.As(err, &g) && g.code == 1 {
		return false, nil
	}
	return err == nil, err
}

// ours reports whether every commit up to tip that base has not was made by
// this goal. base is "" for none.
func (s *Session) ours(ctx context.Context, base, tip string) (bool, error) {
	goal, _, _ := strings.Cut(s.Name, "/")
	span := []string{tip}
	if base != "" {
		span = append(span, "^"+base)
	}
	var n []string
	for _, grep := range [][]string{nil, {"--extended-regexp", "--grep=^" + Trailer + ": " + quoted(goal) + "/"}} {
		c := s.inside(append(append([]string{"rev-list", "--count"}, grep...), span...)...)
		count, err := s.git.line(ctx, c)
		if err != nil {
			return false, err
		}
		n = append(n, count)
	}
	return n[0] == n[1], nil
}

// quoted makes a goal's name literal in a regular expression.
func quoted(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if slices.Contains([]byte(`.[]()*+?{}|^$\`), c) {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
