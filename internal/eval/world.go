package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// brokenCase marks what is the case's or the machine's trouble: infra.
type brokenCase struct{ err error }

func (b brokenCase) Error() string { return b.err.Error() }
func (b brokenCase) Unwrap() error { return b.err }

func infra(format string, args ...any) error { return brokenCase{fmt.Errorf(format, args...)} }

// world is what one run has for itself.
type world struct {
	dir string // of everything
	// repo is the workspace, start a copy of it as it was before the run.
	repo, start string
	goal        string // the goal file
	model       string // the value of --model
	env         []string
}

// newWorld makes the directories of one run. Whatever goes wrong is infra.
func (r *Runner) newWorld(ctx context.Context, c Case) (*world, error) {
	for _, program := range c.Needs {
		if _, err := exec.LookPath(program); err != nil {
			return nil, infra("needs: %w", err)
		}
	}
	dir, err := os.MkdirTemp(r.Scratch, "belay-eval-")
	if err != nil {
		return nil, infra("make a directory for the run: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, infra("%w", err)
	}
	w := &world{dir: dir, repo: filepath.Join(dir, "repo"), start: filepath.Join(dir, "start")}
	err = errors.Join(w.folders(), r.fixture(ctx, c, w.repo), copyInto(w.repo, w.start), w.files(r, c))
	if err != nil {
		return w, brokenCase{fmt.Errorf("set up: %w", err)}
	}
	w.env = r.environment(w, c)
	return w, nil
}

func (w *world) folders() error {
	for _, d := range []string{w.repo, filepath.Join(w.dir, "home"), filepath.Join(w.dir, "config"), filepath.Join(w.dir, "tmp")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyInto(from, to string) error {
	if !exists(from) {
		return nil
	}
	return copyTree(from, to)
}

// files are those beside the repository: goal, script, configuration.
func (w *world) files(r *Runner, c Case) error {
	var err error
	if w.goal, err = w.inline(c, c.Goal, "goal.yaml"); err != nil {
		return err
	}
	switch {
	case r.Model != "":
		w.model = r.Model
	case c.Model.Body == nil && c.Model.File == "":
		return errors.New("model: the case has no script and names no model; give one with --model PROVIDER:NAME")
	case c.Model.Body == nil && strings.Contains(c.Model.File, ":"):
		w.model = c.Model.File
	default:
		path, err := w.inline(c, c.Model, "model.yaml")
		if err != nil {
			return err
		}
		w.model = "script:" + path
	}
	if c.Policy.File != "" || c.Policy.Body != nil {
		if _, err := w.inline(c, c.Policy, "config/policy.yaml"); err != nil {
			return err
		}
	}
	if models := filepath.Join(r.Config, "models.yaml"); r.Config != "" && exists(models) {
		return copyOut(models, filepath.Join(w.dir, "config", "models.yaml"))
	}
	return nil
}

// inline puts a file of the case, or what stands in case.yaml, into the run's
// directory and returns its path.
func (w *world) inline(c Case, i Inline, name string) (string, error) {
	path := filepath.Join(w.dir, name)
	if i.Body != nil {
		return path, os.WriteFile(path, i.Body, 0o600)
	}
	return path, copyOut(filepath.Join(c.Dir, i.File), path)
}

// kept are the variables that a run takes over: where the tools are, where
// their caches are, and what a provider needs.
var kept = []string{
	"PATH", "LANG", "LC_ALL", "TZ", "GOCACHE", "GOPATH", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "GORACE",
	"OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "NO_PROXY",
}

// environment is what belay sees in a run: nothing of the person who evaluates
// but the tools and the providers' keys.
func (r *Runner) environment(w *world, c Case) []string {
	env := []string{"HOME=" + filepath.Join(w.dir, "home"), "TMPDIR=" + filepath.Join(w.dir, "tmp"), "BELAY_STATE=" + filepath.Join(w.dir, "state"),
		"BELAY_CONFIG=" + filepath.Join(w.dir, "config"), "BELAY_DB=sqlite", "GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1"}
	for _, key := range kept {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	for k, v := range c.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// fixture makes the repository.
func (r *Runner) fixture(ctx context.Context, c Case, dir string) error {
	if c.Repo.Git != "" {
		if err := r.checkout(ctx, c, dir); err != nil {
			return err
		}
	} else {
		if c.Repo.Folder != "" {
			if err := copyTree(filepath.Join(c.Dir, c.Repo.Folder), dir); err != nil {
				return fmt.Errorf("repo.folder: %w", err)
			}
		}
		if err := putFiles(dir, c.Repo.Files); err != nil {
			return fmt.Errorf("repo.files: %w", err)
		}
		if !c.Repo.Plain {
			if err := commitAll(ctx, dir); err != nil {
				return err
			}
		}
	}
	if c.Repo.Overlay != "" {
		if err := copyTree(filepath.Join(c.Dir, c.Repo.Overlay), dir); err != nil {
			return fmt.Errorf("repo.overlay: %w", err)
		}
	}
	if err := putFiles(dir, c.Repo.Dirty); err != nil {
		return fmt.Errorf("repo.dirty: %w", err)
	}
	return nil
}

// commitAll makes the folder a git repository with one commit.
func commitAll(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"init", "-q", "--template=", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "--allow-empty", "-m", "start"}} {
		if err := git(ctx, dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// checkout fetches one commit without what came before or after it: a model
// must not find the solution in the history.
func (r *Runner) checkout(ctx context.Context, c Case, dir string) error {
	from := c.Repo.Git
	if !strings.Contains(from, "://") {
		local := from
		if !filepath.IsAbs(local) {
			local = filepath.Join(c.Dir, local)
		}
		// A path gets its whole history whatever depth is asked for; a URL does not.
		if exists(local) {
			from = "file://" + local
		}
	}
	for _, args := range [][]string{{"init", "-q", "--template=", "-b", "main"},
		{"-c", "protocol.file.allow=always", "fetch", "-q", "--depth", "1", from, c.Repo.Commit}, {"checkout", "-q", "-B", "main", "FETCH_HEAD"}} {
		if err := git(ctx, dir, args...); err != nil {
			return fmt.Errorf("repo.git: %w", err)
		}
	}
	return nil
}

// git runs git without the settings of the person who evaluates.
func git(ctx context.Context, dir string, args ...string) error {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "GIT_SSH") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
		"GIT_AUTHOR_NAME=belay eval", "GIT_AUTHOR_EMAIL=eval@localhost", "GIT_COMMITTER_NAME=belay eval", "GIT_COMMITTER_EMAIL=eval@localhost",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
