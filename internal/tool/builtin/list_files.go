package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/workspace"
)

const (
	maxListed    = 300 // lines
	maxListBytes = 12 << 10
)

var listFilesDef = &definition{
	name:   "list_files",
	effect: event.Read,
	doc:    "List files that git does not ignore. Big folders are summarised as `folder/ (N files)`.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "path", Aliases: append([]string{"dir"}, dirAliases...), Doc: "folder, default the root"},
		{Name: "glob", Aliases: []string{"pattern"}, Doc: "such as *.go or src/**/*_test.py"},
	}},
}

// listFiles shows what there is.
type listFiles struct{ base }

// Describe implements tool.Tool.
func (t listFiles) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	a, err := t.scope(v)
	if err != nil {
		return nil, event.Access{}, err
	}
	n, err := v.JSON()
	return n, a, err
}

// scope cleans the folder and checks the glob of a tool that goes over files.
func (b base) scope(v args.Values) (event.Access, error) {
	if err := b.cleanField(v, "path", "", true); err != nil {
		return event.Access{}, err
	}
	if g := v.String("glob"); g != "" {
		if _, err := compileGlob(g); err != nil {
			return event.Access{}, args.Invalid(b.def.name, "glob", err.Error())
		}
	}
	switch dir := v.String("path"); {
	case dir == "":
		return event.Access{Reads: []string{"."}}, nil
	case artifactOf(dir) != "":
		return event.Access{}, nil
	default:
		return event.Access{Reads: []string{dir}}, nil
	}
}

// selected are the files that a tool's path and glob name; dir is "" for the
// root or when path names one file.
func selected(ctx context.Context, ws workspace.Workspace, v args.Values) (dir string, files []string, err error) {
	all, err := ws.Files(ctx)
	if err != nil {
		return "", nil, err
	}
	dir = v.String("path")
	var g *glob
	if pattern := v.String("glob"); pattern != "" {
		if g, err = compileGlob(pattern); err != nil {
			return "", nil, err
		}
	}
	if dir != "" {
		n := under(all, dir)
		if i, found := slices.BinarySearch(all, dir); found {
			return "", all[i : i+1], nil
		}
		if n == 0 {
			return "", nil, noFolder(ctx, ws, all, dir)
		}
		i, _ := slices.BinarySearch(all, dir+"/")
		all = all[i : i+n]
	}
	if g == nil {
		return dir, all, nil
	}
	for _, f := range all {
		if g.match(dir, f) {
			files = append(files, f)
		}
	}
	return dir, files, nil
}

// noFolder explains a path under which nothing is listed.
func noFolder(ctx context.Context, ws workspace.Workspace, all []string, dir string) error {
	if f, err := ws.Stat(ctx, dir); err == nil && !f.Absent {
		return fault.New(fault.NotFound, fault.Model, dir+" is ignored by git and not listed", "read_file can read it all the same")
	}
	names := near(all, dir)
	if len(names) == 0 {
		names = nearFolders(all, dir)
	}
	if len(names) == 0 {
		return fault.New(fault.NotFound, fault.Model, "nothing is listed under "+dir+": it is not there, empty, or ignored by git", "list the root to see what there is")
	}
	return fault.New(fault.NotFound, fault.Model, "there is no "+dir, "there is "+strings.Join(names, ", "))
}

func nearFolders(all []string, dir string) []string {
	seen := map[string]bool{}
	var names []string
	for _, f := range all {
		for d := path.Dir(f); d != "." && !seen[d]; d = path.Dir(d) {
			seen[d] = true
			names = append(names, d)
		}
	}
	slices.Sort(names)
	return near(names, dir)
}

// Run implements tool.Runner.
func (t listFiles) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return failed(ctx, err)
	}
	dir, files, err := selected(ctx, env.Workspace, v)
	if err != nil {
		return failed(ctx, err)
	}
	if len(files) == 0 {
		if g := v.String("glob"); g != "" {
			return succeeded("no file fits " + g)
		}
		return succeeded("there are no files")
	}
	return succeeded(listing(dir, files))
}

// folder is one folder of a listing.
type folder struct {
	path    string
	entries []entry // in path order
	files   int     // in it and below
	open    bool    // its entries are listed, not only its count
}

type entry struct {
	name string
	dir  *folder // nil for a file
}

// listing shows all files when they fit, else opens folders from the top down
// for as long as there is room.
func listing(dir string, files []string) string {
	root := &folder{path: dir, open: true}
	for _, f := range files {
		root.add(f, strings.TrimPrefix(f, prefixOf(dir)))
	}
	room := maxListed - len(root.entries)
	for queue := []*folder{root}; len(queue) > 0; queue = queue[1:] {
		for _, e := range queue[0].entries {
			if e.dir != nil && len(e.dir.entries)-1 <= room {
				room -= len(e.dir.entries) - 1
				e.dir.open = true
				queue = append(queue, e.dir)
			}
		}
	}
	w := &lister{}
	w.folder(root)
	if w.left > 0 {
		fmt.Fprintf(&w.b, "[… %s not shown; narrow it down with path or glob]\n", plural(int64(w.left), "more file"))
	}
	fmt.Fprintf(&w.b, "[%s in all]\n", plural(int64(len(files)), "file"))
	return w.b.String()
}

func prefixOf(dir string) string {
	if dir == "" {
		return ""
	}
	return dir + "/"
}

func (d *folder) add(full, rest string) {
	d.files++
	name, below, nested := strings.Cut(rest, "/")
	if !nested {
		d.entries = append(d.entries, entry{name: full})
		return
	}
	// Files are sorted, so those of one folder come one after the other.
	if n := len(d.entries); n > 0 {
		if last := d.entries[n-1].dir; last != nil && path.Base(last.path) == name {
			last.add(full, below)
			return
		}
	}
	sub := &folder{path: strings.TrimSuffix(full, "/"+below)}
	d.entries = append(d.entries, entry{name: sub.path, dir: sub})
	sub.add(full, below)
}

type lister struct {
	b     strings.Builder
	lines int
	left  int // files that no line stands for
}

func (w *lister) folder(d *folder) {
	for _, e := range d.entries {
		switch {
		case e.dir != nil && e.dir.open:
			w.folder(e.dir)
		case e.dir != nil:
			w.line(fmt.Sprintf("%s/ (%s)", e.name, plural(int64(e.dir.files), "file")), e.dir.files)
		default:
			w.line(e.name, 1)
		}
	}
}

func (w *lister) line(s string, files int) {
	if w.lines >= maxListed || w.b.Len()+len(s) >= maxListBytes {
		w.left += files
		return
	}
	w.lines++
	w.b.WriteString(s)
	w.b.WriteByte('\n')
}
