package effect

import (
	"context"
	"time"

	"belay/internal/environment"
	"belay/internal/symbols"
	"belay/internal/workspace"
)

// deepPatience is how long a look waits for the index of symbols, which may be
// at work: facts that come late are no reason to wait.
const deepPatience = 50 * time.Millisecond

// facts are the light depth of the environment: what the tree is made of, and
// the versions of the programs that it needs. Nil when nobody is there to say.
func (g *Goal) facts(ctx context.Context, root string, files []workspace.Entry) map[string]string {
	if g.Versions == nil || root == "" {
		return nil
	}
	list := make([]environment.File, len(files))
	for i, f := range files {
		list[i] = environment.File{Path: f.Path, ID: f.ID}
	}
	out := environment.Of(list)
	for name, v := range g.Versions(ctx, root, environment.Needs(list)) {
		out[environment.PrefixToolchain+name] = v
	}
	return out
}

// deepFacts are the deep depth: how much of the symbols is known.
func (g *Goal) deepFacts(ctx context.Context) map[string]string {
	if g.Symbols == nil {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, deepPatience)
	defer cancel()
	said := make(chan symbols.Status, 1)
	go func() {
		st, err := g.Symbols.Status(soon)
		if err != nil {
			st = symbols.Status{} // nothing is known of it now
		}
		said <- st
	}()
	select {
	case st := <-said:
		return environment.Deep(st)
	case <-soon.Done():
		return environment.Deep(symbols.Status{})
	}
}
