package policy

import "sort"

// Knowledge documents one family of programs that belay knows. Its examples
// are checked by the package's tests: each of Allowed needs no question, each
// of Asked is not allowed.
type Knowledge struct {
	ID       string   `json:"id"`
	Says     string   `json:"says"`
	Programs []string `json:"programs"`
	Allowed  []string `json:"allowed,omitempty"`
	Asked    []string `json:"asked,omitempty"`
}

// families says what the learn calls of the cmd files know, in words.
var families = []Knowledge{
	{ID: "builtin:read", Says: "Readers. Allowed, but for the few options that write or run something, a second operand that is written (uniq, xxd), and files or variables that hold secrets by their name.",
		Allowed: []string{"cat main.go", "grep -rn TODO . | head", "sort -u f", "rg foo", "ls -la .env"},
		Asked:   []string{"cat .env", "sort -o out f", "rg --pre ./x foo", "uniq in out", "date -s 12:00"}},
	{ID: "builtin:text", Says: "sed, awk and archives. Scripts are read: they may print, not write, run or load. Archives may be listed.",
		Allowed: []string{"sed -n '1,20p' f", "awk '{print $1}' f", "tar -tf a.tar"},
		Asked:   []string{"sed -i s/a/b/ f", "sed 's/a/b/w out' f", "awk 'BEGIN{system(\"x\")}'", "tar -xf a.tar"}},
	{ID: "builtin:find", Says: "find. Its tests are allowed; the command of -exec is judged by itself; -delete and the writing actions ask.",
		Allowed: []string{"find . -name '*.go' -exec grep -l x {} +"},
		Asked:   []string{"find . -delete", "find . -exec rm {} +", "find . -fprint out"}},
	{ID: "builtin:xargs", Says: "xargs. The command it runs is judged by itself, with unknown words at its end.",
		Allowed: []string{"git ls-files | xargs grep x"},
		Asked:   []string{"ls | xargs rm", "ls | xargs sh -c", "ls | xargs sort"}},
	{ID: "builtin:git", Says: "git. Reading subcommands are allowed inside the workspace, but for options that write or run something; configuration on the command line asks unless it only concerns display; everything that changes something asks.",
		Allowed: []string{"git status", "git diff --stat", "git log -3", "git branch --show-current", "git stash list"},
		Asked:   []string{"git commit -m x", "git diff --output=x", "git -c core.fsmonitor=./x status", "git -C /elsewhere status", "git reset --hard", "git co"}},
	{ID: "builtin:go", Says: "The go command. Reading subcommands and vet are allowed; build when its result goes nowhere; test as far as a test command of the goal already runs the same code.",
		Allowed: []string{"go vet ./...", "go list ./...", "go env GOPATH", "go build -o /dev/null ./...", "gofmt -d ."},
		Asked:   []string{"go run .", "go vet -vettool=./x ./...", "go env -w X=y", "go test ./...", "go mod tidy", "gofmt -w ."}},
	{ID: "builtin:cargo", Says: "cargo runs code of the repository: asked, but for runs of the goal's own tests.",
		Allowed: []string{"cargo --version"}, Asked: []string{"cargo build", "cargo run", "cargo add x"}},
	{ID: "builtin:test", Says: "pytest runs code of the repository: asked, but for runs of the goal's own tests.",
		Asked: []string{"pytest", "pytest -p evil"}},
	{ID: "builtin:wrapper", Says: "Wrappers. What follows their options is judged by itself.",
		Allowed: []string{"env LC_ALL=C sort f", "timeout 5 git status", "command -v go"},
		Asked:   []string{"env rm x", "env PATH=. ls", "env", "timeout 5 rm x", "nohup rm x"}},
	{ID: "builtin:shell", Says: "The shell's own commands, and shells. The text of sh -c and eval is judged by itself; files of commands ask, and so does what changes the meaning of later words.",
		Allowed: []string{"bash -c 'ls -la'", "echo 'a; rm b'", "cd src && ls", "set -euo pipefail"},
		Asked:   []string{"bash -c 'rm x'", "bash script.sh", "eval \"$x\"", "source x", "alias ls=rm", "trap 'x' EXIT", "set"}},
	{ID: "builtin:write", Says: "Programs that change files. Asked; what deletes is preceded by a checkpoint.",
		Asked: []string{"cp a b", "rm x", "tee out", "mkdir d", "chmod +x f", "vi f"}},
	{ID: "builtin:interpreter", Says: "Interpreters run code. Asked.",
		Allowed: []string{"python3 --version"}, Asked: []string{"python3 -c 'x'", "node x.js", "perl -e x"}},
	{ID: "builtin:task", Says: "Build tools and task runners run what the repository's files tell them to. Asked.",
		Allowed: []string{"make --version"}, Asked: []string{"make", "make -n", "eslint ."}},
	{ID: "builtin:package", Says: "Package managers fetch packages and run scripts. Asked.",
		Allowed: []string{"npm ls", "pip list"}, Asked: []string{"npm install", "npm test", "pip install x", "npx x"}},
	{ID: "builtin:network", Says: "Clients reach for the network. Asked.", Asked: []string{"curl x", "ssh h", "gh pr list"}},
	{ID: "builtin:container", Says: "Containers run outside of what belay can hold. Asked.", Asked: []string{"docker run x"}},
	{ID: "builtin:privilege", Says: "Other rights or another root. Asked; what they run is judged as well.", Asked: []string{"sudo ls", "su -c ls"}},
	{ID: "builtin:process", Says: "Signals to processes. Asked.", Asked: []string{"kill 1", "pkill x"}},
	{ID: "builtin:system", Says: "The machine itself. Asked, or denied where nothing else makes sense.", Asked: []string{"mount a b", "crontab -e", "mkfs /dev/sda"}},
	{ID: "builtin:desktop", Says: "The user's desktop. Asked.", Asked: []string{"xdg-open x"}},
}

// Builtin returns the built-in knowledge about programs, for documentation
// and for listings.
func Builtin() []Knowledge {
	out := make([]Knowledge, len(families))
	copy(out, families)
	for i := range out {
		for name, cmd := range knowledge {
			if cmd.id == out[i].ID {
				out[i].Programs = append(out[i].Programs, name)
			}
		}
		sort.Strings(out[i].Programs)
	}
	return out
}
