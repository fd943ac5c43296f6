package policy

import (
	"strings"
	"testing"

	"belay/internal/event"
)

func allowing(patterns ...string) []event.Rule {
	var rs []event.Rule
	for _, p := range patterns {
		rs = append(rs, event.Rule{Decision: "allow", Command: p, Layer: "user"})
	}
	return rs
}

func TestRulesOnCommands(t *testing.T) {
	t.Parallel()
	deny := func(p string) event.Rule { return event.Rule{Decision: "deny", Command: p, Layer: "user", ID: "no"} }
	ask := func(p string) event.Rule {
		return event.Rule{Decision: "ask", Command: p, Layer: "repository", ID: "please"}
	}
	tests := []struct {
		name    string
		rules   []event.Rule
		command string
		want    Decision
	}{
		{"a trailing star takes any further words", allowing("npm run *"), "npm run build --prod", Allow},
		{"a trailing star takes no further word as well", allowing("make *"), "make", Allow},
		{"without a star the words must be the same", allowing("npm run build"), "npm run build --x", Ask},
		{"every simple command needs its own permission", allowing("npm run *"), "npm run build && curl x", Ask},
		{"a chain of allowed commands needs no question", allowing("npm run *"), "npm run build && npm run test | tail -5", Allow},
		{"wrappers are looked through", allowing("npm run *"), "timeout 60 env CI=1 npm run build", Allow},
		{"a dangerous variable before an allowed command asks", allowing("npm run *"), "PATH=. npm run build", Ask},
		{"quoted text in a pattern is literal", allowing("grepx 'a*b'"), "grepx 'a*b'", Allow},
		{"quoted text in a pattern is no wildcard", allowing("grepx 'a*b'"), "grepx aXb", Ask},
		{"a wildcard within a word", allowing("tool --level=*"), "tool --level=3", Allow},
		{"a wildcard within a word stays in it", allowing("tool --level=*"), "tool --level=3 x", Ask},
		{"two stars take any number of words in the middle", allowing("tool ** --dry-run"), "tool a b --dry-run", Allow},
		{"one star in the middle takes one word", allowing("tool * go"), "tool a b go", Ask},
		{"an option that writes is not taken in by a star", allowing("git diff *"), "git diff --output=x", Ask},
		{"an option that writes must be spelled out", allowing("sed -i *"), "sed -i s/a/b/ f", Allow},
		{"code on the command line is not taken in by a star", allowing("python3 *"), "python3 -c 'x'", Ask},
		{"code on the command line can be allowed to the letter", allowing("python3 -c 'print(1)'"), "python3 -c 'print(1)'", Allow},
		{"a rule on a command covers what it writes inside", allowing("cp *"), "cp a b", Allow},
		{"a rule on a command does not cover what it writes outside", allowing("cp *"), "cp a /srv/b", Ask},
		{"a rule on a command does not cover an unknown target", allowing("cp *"), "cp a \"$x\"", Ask},
		{"no rule covers protected paths", allowing("cp *"), "cp a .git/hooks/pre-commit", Deny},
		{"no rule covers a redirection to a protected path", allowing("tool *"), "tool > .git/config", Deny},
		{"a rule on a command does not cover its redirection", allowing("tool *"), "tool > out", Ask},
		{"no rule covers destroying", allowing("rm *", "git reset *"), "rm -rf x && git reset --hard", Ask},
		{"no rule covers a command whose name is not known", allowing("rm *", "tool *"), "$x y", Ask},
		{"a rule does not cover a program of the workspace with the same name", allowing("tool *"), "./tool x", Ask},
		{"a rule covers a program in the system's folders", allowing("tool *"), "/usr/bin/tool x", Allow},
		{"an unknown word is taken by a star", allowing("tool *"), "tool $x", Allow},
		{"an unknown word is not taken for a word of the pattern", allowing("tool run"), "tool $x", Ask},
		{"denial reaches through wrappers", []event.Rule{deny("rm *")}, "env A=1 nice rm x", Deny},
		{"denial reaches into substitutions", []event.Rule{deny("rm *")}, "echo \"$(rm x)\"", Deny},
		{"denial reaches into sh -c", []event.Rule{deny("rm *")}, "bash -c 'ls; rm x'", Deny},
		{"denial reaches into find -exec and xargs", []event.Rule{deny("rm *")}, "find . -exec rm {} + ; ls | xargs rm", Deny},
		{"denial looks through folders", []event.Rule{deny("rm *")}, "/opt/x/rm y", Deny},
		{"denial looks through quotes and variables", []event.Rule{deny("rm *")}, "x=rm; \"r\"m y; $x z", Deny},
		{"denial looks through git's global options", []event.Rule{deny("git push *")}, "git -C . --no-pager push", Deny},
		{"denial of a reader", []event.Rule{deny("cat *")}, "cat a", Deny},
		{"denial of a wrapper itself", []event.Rule{deny("xargs *")}, "ls | xargs cat", Deny},
		{"denial wins over permission", append(allowing("git push"), deny("git push *")), "git push", Deny},
		{"what may be denied asks", []event.Rule{deny("git log --all *")}, "git log -- $x", Allow},
		{"a word that may be the denied one asks", []event.Rule{deny("ls secret *")}, "ls $x", Ask},
		{"a known word cannot be the denied one", []event.Rule{deny("ls secret *")}, "ls src", Allow},
		{"asking wins over allowing", append(allowing("git diff *"), ask("git *")), "git diff", Ask},
		{"a repository narrows what is allowed by itself", []event.Rule{ask("ls *")}, "ls", Ask},
		{"a repository's permission is ignored", []event.Rule{{Decision: "allow", Command: "curl *", Layer: "repository"}}, "curl x", Ask},
		{"a goal's permission counts", []event.Rule{{Decision: "allow", Command: "npm test", Layer: "goal"}}, "npm test", Allow},
		{"a rule that cannot be read asks", []event.Rule{{Decision: "refuse", Command: "x *", Layer: "user"}}, "ls", Ask},
		{"F5: two allowed readers in a pipe", allowing("git diff *", "head *"), "git diff | head -5", Allow},
		{"F1: permission for ls is no permission for the rest", allowing("ls"), "ls && touch X", Ask},
		{"F3: a variable before the command", []event.Rule{ask("git *")}, "A=1 git push", Ask},
		{"F3: bash -c", []event.Rule{ask("git *")}, "bash -c \"git push\"", Ask},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := Explain(Config{Root: "/work/repo", Rules: tt.rules}, tt.command)
			if v.Decision != tt.want {
				t.Errorf("%q is judged %s, want %s: %s", tt.command, v.Decision, tt.want, v.Reason)
			}
		})
	}
}

func TestRulesOnPaths(t *testing.T) {
	t.Parallel()
	user := func(d, tool, path string) event.Rule {
		return event.Rule{Decision: d, Tool: tool, Path: path, Layer: "user"}
	}
	cmd := func(s string) event.Access { return event.Access{Command: s} }
	write := func(p string) event.Access { return event.Access{Writes: []string{p}} }
	read := func(p string) event.Access { return event.Access{Reads: []string{p}} }
	tests := []struct {
		name  string
		rules []event.Rule
		tool  string
		a     event.Access
		want  Decision
	}{
		{"reading is allowed", nil, "read_file", read("main.go"), Allow},
		{"reading a secret asks", nil, "read_file", read("a/.env"), Ask},
		{"reading outside is denied to file tools", nil, "read_file", read("../x"), Deny},
		{"writing asks", nil, "write_file", write("main.go"), Ask},
		{"writing git's own data is denied at any depth", nil, "write_file", write("a/b/.git/hooks/x"), Deny},
		{"writing the policy is denied", nil, "file_patch", write("belay.yaml"), Deny},
		{"writing CI workflows and lock files asks", nil, "file_patch", event.Access{Writes: []string{".github/workflows/ci.yml", "go.sum"}}, Ask},
		{"writing outside is denied to file tools", nil, "write_file", write("/etc/passwd"), Deny},
		{"a rule allows a folder", []event.Rule{user("allow", "write", "docs/**")}, "write_file", write("docs/a/b.md"), Allow},
		{"a rule allows a folder to commands as well", []event.Rule{user("allow", "write", "build/")}, "run_command", cmd("echo x > build/a; tee build/b < f"), Allow},
		{"a rule for one tool does not allow commands", []event.Rule{user("allow", "write_file", "docs/**")}, "run_command", cmd("echo x > docs/a"), Ask},
		{"a rule for one tool allows that tool", []event.Rule{user("allow", "write_file", "docs/**")}, "write_file", write("docs/a"), Allow},
		{"a tool may be allowed as a whole", []event.Rule{{Decision: "allow", Tool: "file_patch", Layer: "user"}}, "file_patch", write("a.go"), Allow},
		{"a tool allowed as a whole may not write protected paths", []event.Rule{{Decision: "allow", Tool: "file_patch", Layer: "user"}}, "file_patch", write(".git/config"), Deny},
		{"no path rule lifts protection", []event.Rule{user("allow", "write", "**")}, "write_file", write(".git/config"), Deny},
		{"a rule allows a place outside to commands", []event.Rule{user("allow", "write", "/tmp/**")}, "run_command", cmd("echo x > /tmp/a"), Allow},
		{"denial of a name at any depth", []event.Rule{user("deny", "read", "private.txt")}, "run_command", cmd("cat a/private.txt"), Deny},
		{"denial for a file tool holds for commands", []event.Rule{user("deny", "read_file", "private.txt")}, "run_command", cmd("cat private.txt"), Deny},
		{"F7: denial reaches a name in a variable", []event.Rule{user("deny", "read", ".env")}, "run_command", cmd("f=.env; cat $f"), Deny},
		{"F7: a name that is not known asks when a name is denied", []event.Rule{user("deny", "read", "private.txt")}, "run_command", cmd("cat $f"), Ask},
		{"a pattern asks when a name is denied", []event.Rule{user("deny", "read", "private.txt")}, "run_command", cmd("cat priv*"), Ask},
		{"denial of a folder", []event.Rule{user("deny", "", "secrets/**")}, "run_command", cmd("cd secrets && cat x"), Deny},
		{"denial for writing leaves reading alone", []event.Rule{user("deny", "write", "vendor/**")}, "run_command", cmd("cat vendor/x"), Allow},
		{"a secret can be allowed by its path", []event.Rule{user("allow", "read", "testdata/*.pem")}, "run_command", cmd("cat testdata/a.pem"), Allow},
		{"a tool is denied as a whole", []event.Rule{{Decision: "deny", Tool: "run_command", Layer: "user"}}, "run_command", cmd("ls"), Deny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			effect := event.Supervised
			if len(tt.a.Reads) > 0 {
				effect = event.Read
			} else if len(tt.a.Writes) > 0 {
				effect = event.Verifiable
			}
			v := Judge(Config{Root: "/work/repo", Rules: tt.rules}, tt.tool, effect, tt.a)
			if v.Decision != tt.want {
				t.Errorf("judged %s, want %s: %s", v.Decision, tt.want, v.Reason)
			}
		})
	}
}

func TestToolsWithoutPathsOrCommands(t *testing.T) {
	t.Parallel()
	judge := func(e event.EffectClass, a event.Access, rules ...event.Rule) Decision {
		return Judge(Config{Rules: rules}, "x_tool", e, a).Decision
	}
	if d := judge(event.Control, event.Access{}); d != Allow {
		t.Errorf("a control tool is judged %s", d)
	}
	if d := judge(event.Read, event.Access{}); d != Allow {
		t.Errorf("a reading tool is judged %s", d)
	}
	if d := judge(event.Opaque, event.Access{}); d != Ask {
		t.Errorf("an opaque tool is judged %s", d)
	}
	if d := judge(event.Keyed, event.Access{Remote: "github.com/a/b"}); d != Ask {
		t.Errorf("a remote change is judged %s", d)
	}
	allow := event.Rule{Decision: "allow", Tool: "x_*", Layer: "user"}
	if d := judge(event.Keyed, event.Access{Remote: "github.com/a/b"}, allow); d != Allow {
		t.Errorf("a remote change of an allowed tool is judged %s", d)
	}
	if d := judge(event.Opaque, event.Access{}, allow); d != Allow {
		t.Errorf("an allowed opaque tool is judged %s", d)
	}
	if v := Judge(Config{}, "run_command", event.Supervised, event.Access{Command: "ls", Network: "full"}); v.Decision != Ask || !v.Network {
		t.Errorf("asking for network is judged %s, network %v", v.Decision, v.Network)
	}
}

func TestGoalTestCommands(t *testing.T) {
	t.Parallel()
	c := Config{Root: "/work/repo", TestCommands: []string{"npm test", "cd web && rm -rf out && npx vitest", "pytest -q"}}
	for cmd, want := range map[string]Decision{
		"npm test": Allow, "  npm test\n": Allow, "npm test 2>&1 | tail -5": Allow, "npm test -- -u": Ask, "npm test; rm x": Ask,
		"cd web && npm test": Ask, "npm() { rm x; }; npm test": Ask, "PATH=. npm test": Ask,
		"cd web && rm -rf out && npx vitest": Allow, "rm -rf out": Ask,
		"pytest tests/test_a.py -k name -x": Allow, "pytest -p evil": Ask, "pytest ../other": Ask, "python -m pytest -q tests": Allow,
	} {
		if v := Explain(c, cmd); v.Decision != want {
			t.Errorf("%q is judged %s, want %s: %s", cmd, v.Decision, want, v.Reason)
		}
	}
	if v := Explain(c, "cd web && rm -rf out && npx vitest"); !v.Destructive {
		t.Error("a test command that deletes is not marked destructive, so no checkpoint would precede it")
	}
	if v := Judge(c, "run_command", event.Supervised, event.Access{Command: "npm test", Dir: "sub"}); v.Decision != Ask {
		t.Errorf("a test command in another folder is judged %s", v.Decision)
	}
	c.Rules = []event.Rule{{Decision: "deny", Command: "npm *", Layer: "user"}}
	if v := Explain(c, "npm test"); v.Decision != Deny {
		t.Errorf("a denied test command is judged %s", v.Decision)
	}
}

func TestDestructiveNetworkAndWritesAreReported(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"git reset --hard", "git clean -fd", "git push -f", "git branch -D x", "git stash drop", "git rebase x", "git commit --amend",
		"rm x", "find . -delete", "git checkout -- x", "git restore x", "git reflog expire --all", "env git reset --hard", "bash -c 'git clean -f'"} {
		if v := Explain(Config{}, cmd); !v.Destructive || v.Decision == Allow {
			t.Errorf("%q: destructive %v, %s", cmd, v.Destructive, v.Decision)
		}
	}
	for _, cmd := range []string{"git status", "ls", "git commit -m x", "cp a b", "git branch x", "git stash list", "git restore --staged x"} {
		if v := Explain(Config{}, cmd); v.Destructive {
			t.Errorf("%q is marked destructive", cmd)
		}
	}
	for _, cmd := range []string{"curl x", "git fetch", "npm install", "ssh h", "cat < /dev/tcp/h/1"} {
		if v := Explain(Config{}, cmd); !v.Network {
			t.Errorf("%q is not marked as reaching for the network", cmd)
		}
	}
	v := Explain(Config{}, "cd sub && echo x > a; cp b c && tee d/e < f")
	if got := strings.Join(v.Writes, " "); !strings.Contains(got, "sub/a") || !strings.Contains(got, "c") || !strings.Contains(got, "d/e") {
		t.Errorf("writes %v", v.Writes)
	}
}

func TestCheckRulesNamesRuleAndExample(t *testing.T) {
	t.Parallel()
	good := []event.Rule{
		{ID: "a", Decision: "allow", Command: "npm run *", Match: []string{"npm run build", "env A=1 npm run x"}, NotMatch: []string{"npm install", "echo npm run"}},
		{ID: "b", Decision: "deny", Path: "secrets/**", Match: []string{"secrets/a", "secrets"}, NotMatch: []string{"a/secrets/b"}},
		{ID: "c", Decision: "ask", Tool: "mcp_*", Match: []string{"mcp_x"}, NotMatch: []string{"read_file"}},
	}
	if err := CheckRules(good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule event.Rule
		want string
	}{
		{event.Rule{ID: "r", Decision: "allow", Command: "npm run *", Match: []string{"npm install"}}, `rule 1 (r): the match example "npm install"`},
		{event.Rule{ID: "r", Decision: "allow", Command: "npm run *", NotMatch: []string{"ls; npm run x"}}, `the not_match example "ls; npm run x"`},
		{event.Rule{Decision: "maybe", Command: "x"}, `decision "maybe"`},
		{event.Rule{Decision: "deny"}, "names no tool, command, path or network"},
		{event.Rule{Decision: "deny", Command: "x 'y"}, "not closed"},
		{event.Rule{Decision: "deny", Command: "  "}, "empty"},
		{event.Rule{Decision: "allow", Command: "*"}, "has to name the command"},
		{event.Rule{Decision: "allow", Tool: "run_command"}, "every command"},
		{event.Rule{Decision: "deny", Command: "x", Path: "y"}, "two rules"},
	} {
		err := CheckRules([]event.Rule{tt.rule})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one with %q", tt.rule, err, tt.want)
		}
	}
}

func TestNarrowDropsPermissionsWithAWarning(t *testing.T) {
	t.Parallel()
	kept, warnings := Narrow([]event.Rule{{Decision: "allow", Command: "curl *"}, {Decision: "deny", Command: "curl *"}, {Decision: "ask", Path: "x"}})
	if len(kept) != 2 || kept[0].Layer != "repository" || kept[1].Layer != "repository" {
		t.Errorf("kept %+v", kept)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "curl *") {
		t.Errorf("warnings %v", warnings)
	}
}

func TestSuggestedRulesAreNarrowAndSufficient(t *testing.T) {
	t.Parallel()
	for cmd, want := range map[string]string{
		"npm run build -- --prod":    "npm run build *",
		"npm install":                "npm install",
		"make test":                  "make test",
		"git commit -m x":            "git commit -m x",
		"git add a b":                "git add *",
		"cp a b":                     "cp *",
		"python3 -c 'print(1)'":      "python3 -c 'print(1)'",
		"curl http://x":              "curl http://x",
		"./script.sh a":              "./script.sh a",
		"unknowntool a b":            "unknowntool *",
		"make a && make b":           "make a|make b",
		"echo x > out":               "write out",
		"echo x > /tmp/out":          "write /tmp/out",
		"cat .env":                   "read .env",
		"timeout 5 npm run x":        "npm run x",
		"sed -i s/a/b/ f":            "sed -i s/a/b/ f",
		"rm x":                       "",
		"$x y":                       "",
		"echo x > .git/config":       "",
		"echo x > \"$f\"":            "",
		"unknowntool $(rm x)":        "",
		"ls | xargs -I{} python3 {}": "",
	} {
		rules := Suggest(Config{Root: "/work/repo"}, event.Access{Command: cmd})
		var got []string
		for _, r := range rules {
			if r.Path != "" {
				got = append(got, r.Tool+" "+r.Path)
			} else {
				got = append(got, r.Command)
			}
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q: suggested %q, want %q", cmd, got, want)
		}
		if err := CheckRules(rules); err != nil {
			t.Errorf("%q: %v", cmd, err)
		}
		for _, r := range rules {
			if r.Layer != "user" {
				t.Errorf("%q: suggested for layer %q", cmd, r.Layer)
			}
		}
	}
	rules := Suggest(Config{}, event.Access{Writes: []string{"a.go"}})
	if len(rules) != 1 || rules[0].Path != "a.go" || rules[0].Tool != "write" {
		t.Errorf("for a written file: %+v", rules)
	}
}

func TestBuiltinKnowledgeIsDocumentedByTrueExamples(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, k := range Builtin() {
		ids[k.ID] = true
		if len(k.Programs) == 0 {
			t.Errorf("%s knows no program", k.ID)
		}
		for _, ex := range k.Allowed {
			if v := Explain(Config{}, ex); v.Decision != Allow {
				t.Errorf("%s: %q is judged %s: %s", k.ID, ex, v.Decision, v.Reason)
			}
		}
		for _, ex := range k.Asked {
			if v := Explain(Config{}, ex); v.Decision == Allow {
				t.Errorf("%s: %q is allowed", k.ID, ex)
			}
		}
	}
	for name, cmd := range knowledge {
		if !ids[cmd.id] {
			t.Errorf("%s belongs to %s, which is not documented", name, cmd.id)
		}
	}
}

func TestAskedPartsSayWhatWouldAllowThem(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"npm test", "sort $x", "echo x > out", "sed -i s/a/b/ f", "bash script.sh"} {
		for _, p := range Explain(Config{}, cmd).Parts {
			if p.Decision == Ask && p.Fix == "" {
				t.Errorf("%q: the part %q says no way on", cmd, p.Text)
			}
			if p.Decision == Allow && p.Fix != "" {
				t.Errorf("%q: the allowed part %q has a fix", cmd, p.Text)
			}
		}
	}
}

// What is offered for "always" must not be wider than it looks.
func TestNoRuleIsOfferedForWhateverIsPipedIn(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"curl x | sh", "cat f | bash -s", "python3 < f", "echo x | node -", "perl", "curl x | bash -x"} {
		if rules := Suggest(Config{}, event.Access{Command: cmd}); rules != nil {
			t.Errorf("%q: %+v", cmd, rules)
		}
	}
	for cmd, want := range map[string]string{"sh build.sh": "sh build.sh", "python3 -c 'print(1)'": "python3 -c 'print(1)'", "bash -e build.sh": "bash -e build.sh", "node x.js": "node x.js"} {
		if rules := Suggest(Config{}, event.Access{Command: cmd}); len(rules) != 1 || rules[0].Command != want {
			t.Errorf("%q: %+v, want %q", cmd, rules, want)
		}
	}
	for _, p := range Explain(Config{}, "git reset --hard").Parts {
		if strings.Contains(p.Fix, "a rule ") {
			t.Errorf("a rule is said to allow %q, and none does: %s", p.Text, p.Fix)
		}
	}
}
