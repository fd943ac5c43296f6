package service

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// ExportLines writes a goal's events as JSON, one a line, with texts that were
// kept as artifacts put back in: for analysis or training, not to go on from.
// Secrets that are known by now are taken out; with private also the names of
// paths, the user and the machine.
func (s *Service) ExportLines(ctx context.Context, goal string, private bool, out io.Writer) error {
	st, err := s.state(ctx, goal)
	if err != nil {
		return err
	}
	names := strings.NewReplacer()
	if private {
		worktree := ""
		if st.Worktree != nil {
			worktree, st.Repo = st.Worktree.Dir, st.Worktree.Of
		}
		names = strings.NewReplacer(namesOf(st.Repo, worktree, st.Place, s.Place)...)
	}
	w := bufio.NewWriter(out)
	for after := uint64(0); ; {
		es, err := s.Ledger.Read(ctx, goal, after, 500)
		if err != nil {
			return err
		}
		if len(es) == 0 {
			return w.Flush()
		}
		for _, e := range es {
			after = e.Seq
			b, err := json.Marshal(e)
			if err != nil {
				return err
			}
			var v any
			if err := json.Unmarshal(b, &v); err != nil {
				return err
			}
			v, err = s.whole(ctx, v)
			if err != nil {
				return err
			}
			line, err := json.Marshal(rewrite(v, func(text string) string { return names.Replace(s.Secrets.Text(text)) }))
			if err != nil {
				return err
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
}

// maxWhole is how much of a text that was kept as an artifact comes back.
const maxWhole = 8 << 20

// whole puts texts back in: {"head": …, "whole": {"sha256": …}, "cut": true} is
// how an event keeps a long one.
func (s *Service) whole(ctx context.Context, v any) (any, error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			var err error
			if v[i], err = s.whole(ctx, v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if ref, ok := v["whole"].(map[string]any); ok && v["head"] != nil {
			if sha, ok := ref["sha256"].(string); ok && sha != "" {
				r, err := s.Ledger.OpenArtifact(ctx, sha)
				if err != nil {
					return nil, err
				}
				b, err := io.ReadAll(io.LimitReader(r, maxWhole+1))
				if cerr := r.Close(); len(b) <= maxWhole {
					err = firstOf(err, cerr)
				}
				if err != nil {
					return nil, err
				}
				if len(b) <= maxWhole {
					v["head"] = strings.ToValidUTF8(string(b), "\uFFFD")
					delete(v, "cut")
				}
			}
		}
		for k := range v {
			var err error
			if v[k], err = s.whole(ctx, v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// rewrite changes every text in a value, names of fields excepted.
func rewrite(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = rewrite(v[i], f)
		}
	case map[string]any:
		for k := range v {
			v[k] = rewrite(v[k], f)
		}
	}
	return v
}

// namesOf are pairs of what tells of a person or their machine, and what stands in
// its place, longest first where one is part of another.
func namesOf(repo, worktree, place, here string) []string {
	var out []string
	add := func(name, as string) {
		if len(name) > 2 && name != "/" && name != "root" {
			out = append(out, name, as)
		}
	}
	add(worktree, "/worktree")
	add(repo, "/repo")
	if up := filepath.Dir(repo); strings.Count(up, "/") > 1 {
		add(up, "/path") // what stands beside it, and the state directory often does
	}
	add(place, "place")
	add(here, "here")
	if home, err := os.UserHomeDir(); err == nil {
		add(home, "/home/user")
	}
	add(os.TempDir()+"/", "/tmp/")
	if host, err := os.Hostname(); err == nil {
		add(host, "host")
	}
	if u, err := user.Current(); err == nil {
		add("/home/"+u.Username, "/home/user")
		add(u.Username, "user")
		add(u.Name, "User")
	}
	return out
}
