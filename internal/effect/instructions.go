package effect

import (
	"context"
	"path"
	"slices"
	"strings"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/workspace"
)

const (
	// maxNested is how much of the words in one folder is recorded at once; the
	// whole is an artifact.
	maxNested = 4 << 10
	// maxFolders is how many folders one operation can bring the goal to.
	maxFolders = 16
)

// instructions are the repository's words for agents in folders that an
// operation comes to for the first time, the outermost first. Those of the root
// were found when the workspace was attached.
func (g *Goal) instructions(ctx context.Context, s core.State, a event.Access, by string) ([]event.InstructionsFound, error) {
	var found []event.InstructionsFound
	for _, dir := range g.newFolders(a) {
		for _, name := range workspace.InstructionNames() {
			p := path.Join(dir, name)
			f, ok, err := g.words(ctx, p)
			if err != nil {
				return found, err
			}
			if !ok {
				continue
			}
			if f.By = by; !s.KnowsInstructions(p, f.Hash) {
				found = append(found, f)
			}
			break
		}
	}
	return found, nil
}

// newFolders are the folders on the way to what an operation touches that no
// operation has touched before in this process, and notes them.
func (g *Goal) newFolders(a event.Access) []string {
	paths := append(append([]string{a.Dir}, a.Reads...), a.Writes...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.folders == nil {
		g.folders = map[string]bool{}
	}
	var out []string
	for _, p := range paths {
		for _, dir := range folders(p) {
			if !g.folders[dir] && len(out) < maxFolders {
				g.folders[dir] = true
				out = append(out, dir)
			}
		}
	}
	return out
}

// folders are the folders on the way to a path and, because it may be one, the
// path itself, the outermost first, without the root.
func folders(p string) []string {
	p = path.Clean(p)
	if p == "." || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") {
		return nil
	}
	var out []string
	for i, c := range p {
		if c == '/' {
			out = append(out, p[:i])
		}
	}
	return append(out, p)
}

// words reads one file of the repository's words; ok is false when there is
// none that can be read as text.
func (g *Goal) words(ctx context.Context, p string) (event.InstructionsFound, bool, error) {
	f, err := g.Workspace.Read(ctx, p)
	if ctx.Err() != nil {
		return event.InstructionsFound{}, false, ctx.Err()
	}
	if err != nil || f.Absent || strings.TrimSpace(string(f.Bytes)) == "" {
		return event.InstructionsFound{}, false, nil
	}
	text, err := g.text(ctx, string(f.Bytes), maxNested)
	return event.InstructionsFound{Path: p, Text: text, Hash: f.Hash}, err == nil, err
}

// changedInstructions are the repository's words that changed with the tree:
// those that the goal was shown, and new ones in a folder that it knows.
func (g *Goal) changedInstructions(ctx context.Context, s core.State, changes []event.Change) ([]event.InstructionsFound, error) {
	var found []event.InstructionsFound
	for _, c := range changes {
		known := s.ShownInstructions(c.Path)
		if !known && !(slices.Contains(workspace.InstructionNames(), path.Base(c.Path)) && g.knowsFolder(path.Dir(c.Path))) {
			continue
		}
		f, ok, err := g.words(ctx, c.Path)
		if err != nil {
			return found, err
		}
		if !ok {
			f = event.InstructionsFound{Path: c.Path}
		}
		found = append(found, f)
	}
	return found, nil
}

func (g *Goal) knowsFolder(dir string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return dir == "." || g.folders[dir]
}
