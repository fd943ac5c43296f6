package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"belay/internal/event"
)

// checkTimeout bounds a check that names no limit.
const checkTimeout = 5 * time.Minute

// before is the preflight: what a check lays over fits the start, and each check
// that says how it ends there ends so. Else the case is broken, and nothing can
// be said of any model.
func (r *Runner) before(ctx context.Context, c Case, w *world) string {
	for i, ch := range c.Checks {
		dir := filepath.Join(w.dir, "checks", fmt.Sprintf("before-%d", i))
		if err := c.lay(ctx, w, w.start, ch, dir); err != nil {
			return fmt.Sprintf("%s does not fit the start: %v", ch.name(i), err)
		}
		if ch.Before == "" {
			continue
		}
		bad, err := r.check(ctx, c, w, ch, dir)
		switch {
		case err != nil:
			return fmt.Sprintf("%s cannot be run on the start: %v", ch.name(i), err)
		case ch.Before == event.Pass && bad != "":
			return fmt.Sprintf("%s must pass on the start: %s", ch.name(i), bad)
		case ch.Before == event.Fail && bad == "":
			return ch.name(i) + " must fail on the start, and passes: there is nothing to repair"
		}
	}
	return ""
}

// after runs the checks on the end. failed are those that do not pass; broken
// says why they could not be run.
func (r *Runner) after(ctx context.Context, c Case, w *world) (failed []string, broken string) {
	for i, ch := range c.Checks {
		dir := filepath.Join(w.dir, "checks", fmt.Sprintf("after-%d", i))
		if err := c.lay(ctx, w, w.repo, ch, dir); err != nil {
			// It did fit the start: the run is what made it unfit.
			failed = append(failed, fmt.Sprintf("%s does not fit what the run left: %v", ch.name(i), err))
			continue
		}
		bad, err := r.check(ctx, c, w, ch, dir)
		if err != nil {
			return nil, fmt.Sprintf("%s cannot be run: %v", ch.name(i), err)
		}
		if bad != "" {
			failed = append(failed, ch.name(i)+": "+bad)
		}
	}
	return failed, ""
}

func (c Check) name(i int) string {
	if c.Name != "" {
		return "the check " + c.Name
	}
	return fmt.Sprintf("check %d", i+1)
}

// lay copies a tree and lays over it what the check brings.
func (c Case) lay(ctx context.Context, w *world, tree string, ch Check, dir string) error {
	if err := copyTree(tree, dir); err != nil {
		return err
	}
	if ch.Overlay != "" {
		if err := copyTree(filepath.Join(c.Dir, ch.Overlay), dir); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	}
	if err := putFiles(dir, ch.Files); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	if ch.Patch == "" {
		return nil
	}
	if err := applyPatch(ctx, w.start, dir, filepath.Join(c.Dir, ch.Patch)); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return nil
}

// check runs one check in a folder that was laid out for it, and says what is
// wrong, "" when it passes.
func (r *Runner) check(ctx context.Context, c Case, w *world, ch Check, dir string) (string, error) {
	defer os.RemoveAll(dir)
	limit := time.Duration(ch.Timeout)
	if limit == 0 {
		limit = checkTimeout
	}
	box := c.Run.Sandbox
	if box == "" {
		box = r.Sandbox
	}
	end, err := r.Command(ctx, Command{Shell: ch.Command, Dir: dir, Env: w.env, Sandbox: box, Timeout: limit})
	switch {
	case err != nil:
		return "", err
	case end.TimedOut:
		return fmt.Sprintf("`%s` did not end within %s", ch.Command, limit), nil
	case end.Exit != 0:
		return fmt.Sprintf("`%s` ended with exit code %d: %s", clip(ch.Command), end.Exit, lastWords(end.Output)), nil
	}
	for _, p := range ch.Refuse {
		if found := p.FindString(end.Output); found != "" {
			return fmt.Sprintf("`%s` ended with exit code 0, but prints %q", clip(ch.Command), clip(found)), nil
		}
	}
	return "", nil
}

// lastWords is the end of an output: where programs say what is wrong.
func lastWords(out string) string {
	const most = 300
	if out = strings.TrimSpace(out); out == "" {
		return "it printed nothing"
	}
	if len(out) > most {
		out = "…" + strings.ToValidUTF8(out[len(out)-most:], "")
	}
	return strings.Join(strings.Fields(out), " ")
}

// applyPatch lays a diff over the files as they were at the start: whatever the
// run did to them is gone.
func applyPatch(ctx context.Context, start, dir, patch string) error {
	b, err := os.ReadFile(patch)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range patched(string(b)) {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		from := filepath.Join(start, name)
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(root.MkdirAll(filepath.Dir(name), 0o755), copyFile(from, root, name, info.Mode().Perm()))
		}
		if err != nil {
			return err
		}
	}
	// The copy's own .git was within the run's reach: what it configures is none
	// of ours.
	return git(ctx, dir, "--git-dir=/dev/null", "apply", "--whitespace=nowarn", patch)
}

// patched lists the files that a git diff touches.
func patched(diff string) []string {
	var names []string
	seen := map[string]bool{}
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\r\n")
		for _, mark := range []string{"--- a/", "+++ b/", "rename from ", "rename to "} {
			if name, ok := strings.CutPrefix(line, mark); ok && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
