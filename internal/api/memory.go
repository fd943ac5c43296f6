package api

import (
	"path/filepath"

	"belay/client"
	"belay/internal/memory"
	"belay/internal/token"
)

// memoryRoutes are about what outlives the goals of a repository.
func memoryRoutes() []route {
	forget := tell("/v1/memory/forget", token.Operate, "have things remembered no longer: recorded as a person's word, and kept by every rebuild", forget)
	forget.command = false // what is forgotten is not known any more the second time
	return []route{
		ask("/v1/memory", token.Watch, "what earlier goals in a repository left for later ones, best first", remembered,
			query{"repo", "string", "the repository (absolute path)"}),
		forget,
	}
}

func remembered(c *call) ([]memory.Item, error) {
	repo := c.r.URL.Query().Get("repo")
	if repo == "" {
		repo = string(filepath.Separator)
	}
	if !filepath.IsAbs(repo) {
		return nil, bad("repo is an absolute path")
	}
	items, err := c.Service.Memory(c.ctx, repo)
	if items == nil {
		items = []memory.Item{}
	}
	return items, err
}

func forget(c *call, in client.Forget) (client.Forgotten, error) {
	if !filepath.IsAbs(in.Repo) || in.All == (len(in.IDs) > 0) {
		return client.Forgotten{}, bad("repo as an absolute path, and either ids or all, are needed")
	}
	f, err := c.Service.Forget(c.ctx, in.Repo, in.IDs, in.All)
	return client.Forgotten(f), err
}
