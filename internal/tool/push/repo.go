package push

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"belay/internal/fault"
)

// Request is one operation.
type Request struct {
	// Root is the workspace: the top of a repository, or a folder in one.
	Root string
	// Scratch is a directory for private git directories. Name is the
	// operation's name in it and in the commit: goal/op.
	Scratch, Name string
	// Env is the environment of commands; what reaching a remote needs is
	// added from belay's own.
	Env []string
	// Remote is the name of a configured remote, Branch a branch's short name.
	Remote, Branch string
	Message        string
	// Paths limit what is committed; relative to Root, files or folders. Empty
	// means everything.
	Paths []string
	// Files lists what is not ignored, relative to Root.
	Files func(context.Context) ([]string, error)
	// AllowDefault lets the branch be the remote's default one, or the one that
	// is checked out.
	AllowDefault bool
}

// Session is an opened repository with a private git directory beside it.
type Session struct {
	Request
	git    git
	dir    string // the private git directory
	gitDir string // the user's; common is what its worktrees share
	common string
	top    string
	prefix string // of Root below top, with its slash; "" for the top itself
	config map[string]string
	head   string // commit id, "" before the first commit
	at     string // the branch that is checked out, "" when detached
	url    string
}

// Open looks at the repository and makes the private git directory. Errors are
// faults: nothing was pushed. The caller closes the session.
func Open(ctx context.Context, r Request) (_ *Session, err error) {
	s := &Session{Request: r}
	if s.git, err = newGit(r.Env); err != nil {
		return nil, err
	}
	if err := s.find(ctx); err != nil {
		return nil, unsent(err)
	}
	if err := s.resolve(ctx); err != nil {
		return nil, unsent(err)
	}
	if err := s.private(ctx); err != nil {
		s.Close()
		return nil, unsent(err)
	}
	return s, nil
}

// Close removes the private git directory.
func (s *Session) Close() {
	if s.dir != "" {
		// What cannot be removed is removed by the next session of this name.
		_ = os.RemoveAll(s.dir)
	}
}

// URL is the remote's address without credentials.
func (s *Session) URL() string { return withoutCredentials(s.url) }

func withoutCredentials(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User == nil {
		return raw
	}
	if _, secret := u.User.Password(); secret || u.Scheme != "ssh" {
		u.User = nil
	}
	return u.String()
}

// user is a run on the user's repository: it reads, and nothing else.
func (s *Session) user(args ...string) call {
	return call{dir: s.top, gitDir: s.gitDir, userConfig: true, args: args}
}

// find locates the repository and reads its configuration, which runs nothing.
func (s *Session) find(ctx context.Context) error {
	out, err := s.git.line(ctx, call{dir: s.Root, userConfig: true, args: []string{"rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--show-toplevel"}})
	var g *gitError
	if errors.As(err, &g) {
		return fault.New(fault.NotFound, fault.Environment, "the workspace is in no git repository: "+g.text, "push by another way, or ask the user")
	}
	if err != nil {
		return err
	}
	f := strings.Split(out, "\n")
	if len(f) != 3 {
		return fmt.Errorf("push: git rev-parse said %q", out)
	}
	s.gitDir, s.common, s.top = f[0], f[1], f[2]
	rel, err := filepath.Rel(s.top, s.Root)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("push: %s does not lie in %s", s.Root, s.top)
	}
	if rel != "." {
		s.prefix = filepath.ToSlash(rel) + "/"
	}
	list, err := s.git.run(ctx, s.user("config", "--null", "--list"))
	if err != nil {
		return err
	}
	s.config = map[string]string{}
	for _, kv := range split(list) {
		k, v, ok := strings.Cut(kv, "\n")
		if !ok {
			v = "true" // a key without a value
		}
		s.config[k] = v
	}
	for _, file := range []string{filepath.Join(s.common, "config"), filepath.Join(s.gitDir, "config.worktree")} {
		if _, err := os.Stat(file); err == nil {
			s.git.config = append(s.git.config, "include.path="+file)
		}
	}
	if s.head, err = s.git.line(ctx, okNothing(s.user("rev-parse", "--quiet", "--verify", "HEAD^{commit}"))); err != nil {
		return err
	}
	s.at, err = s.git.line(ctx, okNothing(s.user("symbolic-ref", "--quiet", "HEAD")))
	s.at = strings.TrimPrefix(s.at, "refs/heads/")
	return err
}

func okNothing(c call) call { c.okExit = 1; return c }

// resolve finds the one address of the remote, as the user's configuration
// spells and rewrites it.
func (s *Session) resolve(ctx context.Context) error {
	out, err := s.git.line(ctx, s.user("remote", "get-url", "--push", "--all", "--", s.Remote))
	var g *gitError
	if errors.As(err, &g) {
		names, nerr := s.git.line(ctx, s.user("remote"))
		if nerr != nil {
			return nerr
		}
		has := "it has none"
		if names != "" {
			has = "it has " + strings.ReplaceAll(names, "\n", ", ")
		}
		return fault.New(fault.NotFound, fault.Model, fmt.Sprintf("the repository has no remote %q; %s", s.Remote, has), "name one of the remotes that are configured, or ask the user")
	}
	if err != nil {
		return err
	}
	if strings.Contains(out, "\n") {
		return fault.New(fault.Ambiguous, fault.Environment, fmt.Sprintf("the remote %s pushes to %d addresses at once", s.Remote, strings.Count(out, "\n")+1),
			"name a remote with one address: what several of them took cannot be told as one outcome")
	}
	s.url = out
	return nil
}

// private makes the private git directory: the user's objects borrowed, the
// user's index copied.
func (s *Session) private(ctx context.Context) error {
	if err := os.MkdirAll(s.Scratch, 0o700); err != nil {
		return scratchFault(err)
	}
	sum := sha256.Sum256([]byte(s.Root + "\x00" + s.Name))
	dir := filepath.Join(s.Scratch, "push-"+hex.EncodeToString(sum[:10]))
	if err := os.RemoveAll(dir); err != nil { // of an attempt that was killed
		return scratchFault(err)
	}
	s.dir = dir
	format := s.config["extensions.objectformat"]
	if format == "" {
		format = "sha1"
	}
	if _, err := s.git.run(ctx, call{dir: s.Scratch, args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format, dir}}); err != nil {
		return err
	}
	for _, sub := range []string{"objects/info", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return scratchFault(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "objects/info/alternates"), []byte(filepath.Join(s.common, "objects")+"\n"), 0o600); err != nil {
		return scratchFault(err)
	}
	return s.copies(ctx)
}

// copies brings over what decides how the working tree is read.
func (s *Session) copies(ctx context.Context) error {
	common := s.common
	files := map[string]string{
		filepath.Join(s.gitDir, "index"):                   "index",
		filepath.Join(common, "shallow"):                   "shallow",
		filepath.Join(common, "info", "attributes"):        "info/attributes",
		filepath.Join(common, "info", "exclude"):           "info/exclude",
		filepath.Join(s.gitDir, "info", "sparse-checkout"): "info/sparse-checkout",
	}
	shared, err := filepath.Glob(filepath.Join(s.gitDir, "sharedindex.*"))
	if err != nil {
		return err
	}
	for _, p := range shared {
		files[p] = filepath.Base(p)
	}
	for from, to := range files {
		if err := copyFile(from, filepath.Join(s.dir, to)); err != nil {
			return scratchFault(err)
		}
	}
	if s.head == "" {
		return nil
	}
	// A name for HEAD tells a remote what need not be sent.
	_, err = s.git.run(ctx, s.inside("update-ref", "refs/belay/head", s.head))
	return err
}

// copyFile copies a file that may be absent, with its time: an index that looks
// younger than it is would hide changes made in the same instant.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

func scratchFault(err error) error {
	return fault.New(fault.Storage, fault.Environment, fmt.Sprintf("belay could not make its private git directory: %v", err), "check free space and permissions there")
}
