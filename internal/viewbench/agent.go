package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// agent is the scripted model's mind: it works through a module's exported
// functions and writes down each step. What it does follows from the sources
// alone, so that a run can be made again.
type agent struct {
	root  string
	build string // the command that shows whether the sources are whole
	files map[string]string
	funcs []function
	steps []step
	todos []map[string]any
	done  []function // worked on so far, in order
}

// function is an exported function or method, and other files that mention it.
type function struct {
	name, file, line string // line is its first line, as it stands
	at               int    // number of that line
	users            []string
	note             string // the comment that the agent put above it last
}

// step is one response: the text and the calls.
type step struct {
	Text  string `json:"text,omitempty"`
	Calls []call `json:"calls,omitempty"`
}

type call struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
}

func (a *agent) say(text string, calls ...call) {
	a.steps = append(a.steps, step{Text: text, Calls: calls})
}

func do(tool string, args map[string]any) call { return call{tool, args} }

// newAgent reads the sources of the packages.
func newAgent(root, build string, packages []string) (*agent, error) {
	a := &agent{root: root, build: build, files: map[string]string{}}
	for _, p := range packages {
		files, err := filepath.Glob(filepath.Join(root, p, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			rel, err := filepath.Rel(root, f)
			if err != nil {
				return nil, err
			}
			a.files[filepath.ToSlash(rel)] = string(b)
		}
	}
	for f, text := range a.files {
		if !strings.HasSuffix(f, "_test.go") && !strings.Contains(text, "//go:build") && !strings.Contains(text, "Code generated") {
			a.scan(f, text)
		}
	}
	// The order jumps from place to place, as work on a backlog does.
	sort.Slice(a.funcs, func(i, j int) bool {
		return hash(a.funcs[i].file+a.funcs[i].name) < hash(a.funcs[j].file+a.funcs[j].name)
	})
	if len(a.funcs) == 0 {
		return nil, fmt.Errorf("no functions below %s", root)
	}
	return a, nil
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

// scan finds the exported functions of a file; of one name the first.
func (a *agent) scan(file, text string) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return
	}
	lines, named := strings.Split(text, "\n"), map[string]bool{}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !f.Name.IsExported() || len(f.Name.Name) < 5 || f.Body == nil {
			continue
		}
		at := set.Position(f.Pos()).Line
		line := lines[at-1]
		if named[f.Name.Name] || strings.Count(text, line+"\n") != 1 || !strings.HasSuffix(line, "{") {
			continue
		}
		named[f.Name.Name] = true
		fn := function{name: f.Name.Name, file: file, line: line, at: at}
		for other, content := range a.files {
			if other != file && mentions(content, f.Name.Name) {
				fn.users = append(fn.users, other)
			}
		}
		sort.Strings(fn.users)
		a.funcs = append(a.funcs, fn)
	}
}

// mentions reports whether a text holds a name as a word of its own.
func mentions(text, name string) bool {
	return regexp.MustCompile(`\b` + name + `\b`).MatchString(text)
}

// work is the whole run.
func (a *agent) work(rounds int) []step {
	a.say("I look around first.", do("list_files", map[string]any{}), do("search_text", map[string]any{"pattern": "TODO|FIXME"}))
	for i := range min(rounds, len(a.funcs)) {
		a.round(i, a.funcs[i])
	}
	a.review()
	a.say("", do("run_test", map[string]any{}))
	a.say("", do("finish", map[string]any{"summary": "every function was checked against its callers"}))
	return a.steps
}

// round checks one function against its callers: search, read, note the result
// in the source, look whether it is whole. Every third time the edit is wrong
// first.
func (a *agent) round(i int, f function) {
	id := fmt.Sprint(i + 1)
	if i%4 == 0 {
		a.plan(i)
	}
	a.say("Where is "+f.name+" used?", do("search_text", map[string]any{"pattern": `\b` + f.name + `\b`}))
	a.say("", do("read_file", map[string]any{"path": f.file, "offset": max(f.at-40, 1), "limit": 220}))
	var reads []call
	for _, u := range f.users[:min(2, len(f.users))] {
		reads = append(reads, do("read_file", map[string]any{"path": u, "offset": 1 + 20*(i%5), "limit": 160}))
	}
	if len(reads) > 0 {
		a.say("Its callers next.", reads...)
	}
	f.note = fmt.Sprintf("// Checked against its callers in round %s.", id)
	if i%3 == 1 {
		broken := f.note + "\n" + strings.TrimSuffix(f.line, "{") + "= {"
		a.patch(f.file, f.line, broken)
		a.say("", do("run_command", map[string]any{"command": a.build}))
		a.say("The compiler names the line.", do("read_file", map[string]any{"path": f.file, "offset": max(f.at-3, 1), "limit": 12}))
		a.patch(f.file, broken, f.note+"\n"+f.line)
	} else {
		a.patch(f.file, f.line, f.note+"\n"+f.line)
	}
	a.say("", do("run_command", map[string]any{"command": a.build}))
	a.done = append(a.done, f)
	if i%4 == 3 {
		a.revisit(i)
	}
	if i%6 == 5 {
		a.say("", do("record_decision", map[string]any{"decision": "keep " + f.name + " exported", "reason": "others than " + f.file + " may depend on it"}))
	}
	if i%15 == 14 {
		a.say("", do("run_test", map[string]any{}))
	}
}

// patch is an edit, and keeps the agent's own copy of the file.
func (a *agent) patch(file, old, repaired string) {
	a.files[file] = strings.Replace(a.files[file], old, repaired, 1)
	a.say("", do("file_patch", map[string]any{"path": file, "old_string": old, "new_string": repaired}))
}

// revisit goes back to something that was done a while ago.
func (a *agent) revisit(i int) {
	f := &a.done[int(hash(fmt.Sprint("revisit", i)))%len(a.done)]
	at := strings.Count(a.files[f.file][:strings.Index(a.files[f.file], f.line)], "\n") + 1
	if i%8 == 3 { // the other times it goes by what it knows
		a.say("One more look at "+f.name+".", do("read_file", map[string]any{"path": f.file, "offset": max(at-10, 1), "limit": 60}))
	}
	again := fmt.Sprintf("// Checked against its callers, and again after round %d.", i+1)
	a.patch(f.file, f.note+"\n"+f.line, again+"\n"+f.line)
	f.note = again
}

// plan writes down what is done and what comes next.
func (a *agent) plan(i int) {
	for j := range a.todos {
		a.todos[j]["status"], a.todos[j]["reason"] = "completed", "the sources are whole"
	}
	for j := i; j < min(i+4, len(a.funcs)); j++ {
		status := "pending"
		if j == i {
			status = "in_progress"
		}
		a.todos = append(a.todos, map[string]any{"id": fmt.Sprint(j + 1), "content": "check " + a.funcs[j].name + " in " + a.funcs[j].file, "status": status})
	}
	if len(a.todos) > 12 {
		a.todos = a.todos[len(a.todos)-12:]
	}
	var now []map[string]any
	for _, t := range a.todos {
		c := map[string]any{}
		for k, v := range t {
			c[k] = v
		}
		now = append(now, c)
	}
	a.say("", do("update_todos", map[string]any{"todos": now}))
}

// review reads what was changed, from the first to the last.
func (a *agent) review() {
	seen := map[string]bool{}
	for _, f := range a.done {
		if !seen[f.file] && len(seen) < 12 {
			seen[f.file] = true
			a.say("", do("read_file", map[string]any{"path": f.file, "limit": 80}), do("search_text", map[string]any{"pattern": "Checked against", "path": f.file}))
		}
	}
}
