package builtin

import (
	"context"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"belay/internal/fault"
	"belay/internal/tool/args"
	"belay/internal/workspace"
)

// artifactRef is how a model names stored output in place of a path.
var artifactRef = regexp.MustCompile(`^artifact:([0-9a-f]{64})$`)

// artifactOf returns the address that a path names, or "".
func artifactOf(p string) string {
	if m := artifactRef.FindStringSubmatch(p); m != nil {
		return m[1]
	}
	return ""
}

// clean brings a path to the form of workspace.Clean, relative to the root
// where that can be known.
func (b base) clean(p string) (string, error) {
	c, err := workspace.Clean(strings.TrimSpace(p))
	if err != nil || !path.IsAbs(c) || len(b.config.Roots) == 0 {
		return c, err
	}
	for _, root := range b.config.Roots {
		root = path.Clean(root)
		if c == root {
			return ".", nil
		}
		if rel, ok := strings.CutPrefix(c, strings.TrimSuffix(root, "/")+"/"); ok {
			return rel, nil
		}
	}
	return "", workspace.OutsideFault(p)
}

// cleanField cleans the path in a field of v in place. A path to the root
// itself is dropped where the field is optional, and refused where it is to be
// a file.
func (b base) cleanField(v args.Values, field, at string, dir bool) error {
	if !v.Has(field) {
		return nil
	}
	given := v.String(field)
	if artifactOf(given) != "" || field == "path" && isEvent(given) && b.def == readFileDef {
		return nil
	}
	c, err := b.clean(given)
	if err != nil {
		return err
	}
	switch {
	case c != ".":
		v[field] = c
	case dir:
		delete(v, field)
	default:
		return args.Invalid(b.def.name, at+field, "it names the workspace root; expected a file")
	}
	return nil
}

// maxNear is how many names a refusal suggests.
const maxNear = 3

// missing explains a path that could not be read: it is a folder, or it is not
// there and others look like it.
func missing(ctx context.Context, ws workspace.Workspace, p string, err error) error {
	f := asFault(err)
	files, ferr := ws.Files(ctx)
	if ferr != nil {
		return err
	}
	if under(files, p) > 0 {
		return fault.New(fault.InvalidArguments, fault.Model, p+" is a folder", "use list_files to see what is in it")
	}
	if f.Kind != fault.NotFound {
		return err
	}
	if names := near(files, p); len(names) > 0 {
		return fault.New(fault.NotFound, fault.Model, "there is no file "+p, "there is "+strings.Join(names, ", ")+"; use list_files or search_text to find others")
	}
	return fault.New(fault.NotFound, fault.Model, "there is no file "+p, "use list_files to see what there is")
}

// under counts the files below a folder; files are sorted.
func under(files []string, dir string) int {
	prefix := dir + "/"
	i := sort.SearchStrings(files, prefix)
	j := i + sort.Search(len(files)-i, func(k int) bool { return !strings.HasPrefix(files[i+k], prefix) })
	return j - i
}

// near finds the files whose names are most like a path: the same base name
// elsewhere, another case, or a few letters off.
func near(files []string, p string) []string {
	type candidate struct {
		name string
		cost int
	}
	var found []candidate
	want := strings.ToLower(path.Base(p))
	limit := max(len(want)/4, min(2, len(want)-1))
	for _, f := range files {
		have := strings.ToLower(path.Base(f))
		cost := 0
		if have != want {
			if cost = distance(want, have, limit); cost > limit {
				continue
			}
			cost *= 10
		}
		if path.Dir(f) != path.Dir(p) {
			cost++
		}
		found = append(found, candidate{f, cost})
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.cost - b.cost })
	var names []string
	for _, c := range found[:min(len(found), maxNear)] {
		names = append(names, c.name)
	}
	return names
}

// distance is the edit distance of two names, or something over limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		best := i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
			best = min(best, cost)
		}
		if best > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
