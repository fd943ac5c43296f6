package policy

import "strings"

func init() { learn("git", (*call).git, "git") }

// gitGlobals take git's options that stand before the subcommand.
var gitGlobals = options("P C= c= h v --no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs " +
	"--no-replace-objects --version --help --no-lazy-fetch --no-advice")

// gitBare is a git command without its global options, for rules: a rule on
// `git push *` also sees `git -C . push`.
func gitBare(words []arg) []arg {
	i := 1
	for i < len(words) && words[i].isFlag() {
		switch v := words[i].val; v {
		case "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix", "--attr-source":
			i++
		}
		i++
	}
	return append([]arg{words[0]}, words[min(i, len(words)):]...)
}

// gitConfigSafe are configuration keys whose value runs nothing.
func gitConfigSafe(setting string) bool {
	key, val, _ := strings.Cut(strings.ToLower(setting), "=")
	switch key {
	case "core.quotepath", "core.abbrev", "diff.renames", "diff.renamelimit", "diff.noprefix", "diff.mnemonicprefix", "diff.algorithm", "log.date",
		"log.showsignature", "status.short", "status.relativepaths", "grep.linenumber", "blame.date", "core.precomposeunicode", "column.ui", "diff.context":
		return true
	case "core.pager", "pager.log", "pager.diff", "pager.show":
		return val == "cat" || val == "" || val == "false"
	}
	return strings.HasPrefix(key, "color.") || strings.HasPrefix(key, "advice.")
}

func (c *call) git() {
	p := gitGlobals.parse(c.args, true)
	for _, b := range p.bad {
		if b.plain() {
			c.ask(b.val, "git option "+b.val+" changes which repository, programs or configuration git uses", "leave the option out")
		} else {
			c.badWord(b)
		}
	}
	for _, o := range p.opts {
		switch o.name {
		case "-C":
			saved := c.w.cwd
			c.gitChdir(o.arg)
			defer func() { c.w.cwd = saved }()
		case "-c":
			if !o.arg.plain() || !gitConfigSafe(o.arg.val) {
				c.ask("-c", "git -c "+o.arg.val+" changes configuration, which can name programs to run", "leave -c out")
			}
		}
	}
	for _, d := range c.w.cwd {
		if z := c.w.zone(c.w.resolve(".", d)); z != inside {
			c.ask("", "git runs in a repository outside the workspace, whose configuration can name programs to run", "run git inside the workspace")
			break
		}
	}
	if len(p.operands) == 0 {
		return
	}
	sub := p.operands[0]
	if !sub.plain() {
		c.unclear(sub.src, "which git command this runs is not known before it runs", "write the git command out")
		return
	}
	c.gitCommand(sub.val, p.operands[1:])
}

func (c *call) gitChdir(dir arg) {
	if !dir.plain() {
		c.unclear("-C", "the directory that git runs in is not known before it runs", "name the directory")
		return
	}
	var dirs []string
	for _, d := range c.w.cwd {
		dirs = append(dirs, c.w.resolve(dir.val, d))
	}
	c.w.cwd = dirs
}

// gitReads are the subcommands that only read, with the options (without
// their dashes) that make them write or run something, beside those that all
// of them share.
var gitReads = map[string]string{
	"status": "", "diff": "", "log": "", "show": "", "blame": "contents", "annotate": "", "shortlog": "", "describe": "", "ls-files": "", "ls-tree": "",
	"cat-file": "filters", "rev-parse": "", "rev-list": "", "merge-base": "", "name-rev": "", "diff-tree": "", "diff-index": "", "diff-files": "",
	"for-each-ref": "", "show-ref": "exclude-existing", "show-branch": "", "whatchanged": "", "grep": "open-files-in-pager", "count-objects": "",
	"check-ignore": "", "check-attr": "", "check-mailmap": "", "range-diff": "", "cherry": "", "version": "", "var": "", "archive": "remote exec",
	"hash-object": "write path", "check-ref-format": "", "patch-id": "", "get-tar-commit-id": "", "ls-remote": "upload-pack exec",
}

// gitDanger are options that write a file or run a program in any of them.
var gitDanger = []string{"output", "ext-diff", "textconv", "exec-path", "upload-pack", "receive-pack", "output-directory"}

func (c *call) gitCommand(sub string, args []arg) {
	if extra, ok := gitReads[sub]; ok {
		c.gitFlags(sub, args, strings.Fields(extra))
		c.gitSecrets(sub, args)
		if sub == "ls-remote" {
			c.network("git ls-remote asks a remote repository")
		}
		return
	}
	if judge, ok := gitSome[sub]; ok {
		judge(c, args)
		return
	}
	if why, ok := gitChanges[sub]; ok {
		c.gitChange(sub, why, args)
		return
	}
	c.ask("", "git "+sub+" is not a git command that belay knows; it may be an alias or a program", c.rule())
}

// gitFlags asks about options that turn a reader into a writer or a runner.
// git accepts any unambiguous beginning of a long option.
func (c *call) gitFlags(sub string, args []arg, extra []string) {
	for _, a := range args {
		switch {
		case a.plain() && a.val == "--":
			return
		case a.mayBeFlag():
			c.badWord(a)
		case !a.isFlag():
		case strings.HasPrefix(a.val, "--"):
			name, _, _ := strings.Cut(a.val[2:], "=")
			if !a.static && !strings.Contains(a.val, "=") {
				c.badWord(a)
				continue
			}
			for _, d := range append(extra, gitDanger...) {
				if name != "" && strings.HasPrefix(d, name) && !gitHarmlessLong[name] {
					c.ask(a.val, "option "+a.val+" of git "+sub+" writes a file or runs a program", "leave the option out")
					if _, val, ok := strings.Cut(a.val, "="); ok && a.plain() && strings.HasPrefix("output", name) {
						c.writes(known(val))
					}
					break
				}
			}
		case sub == "grep" && strings.Contains(a.val, "O"), sub == "archive" && strings.HasPrefix(a.val, "-o"), sub == "hash-object" && strings.Contains(a.val, "w"):
			c.ask(a.val, "option "+a.val+" of git "+sub+" writes a file or runs a program", "leave the option out")
		case !a.static && sub != "log":
			c.badWord(a)
		}
	}
}

// gitHarmlessLong are whole options that are also the beginning of a
// dangerous one's name.
var gitHarmlessLong = map[string]bool{"text": true}

// gitSecrets asks when a reader shows the content of a file that usually
// holds secrets.
func (c *call) gitSecrets(sub string, args []arg) {
	switch sub {
	case "show", "cat-file", "blame", "annotate", "diff", "grep", "archive":
	default:
		return
	}
	for _, a := range args {
		if a.isFlag() || !a.static {
			continue
		}
		file := a
		if _, rest, ok := strings.Cut(a.val, ":"); ok && rest != "" {
			file.val = rest
		}
		c.reads(file)
	}
}

// gitChanges are the subcommands that change something, and what.
var gitChanges = map[string]string{
	"add": "changes the index", "commit": "makes a commit", "checkout": "switches branches or discards changes in files", "switch": "switches branches",
	"restore": "discards changes", "merge": "merges", "rebase": "rewrites history", "reset": "moves the branch", "revert": "makes a commit",
	"cherry-pick": "makes a commit", "clean": "deletes untracked files", "rm": "deletes files", "mv": "renames files", "push": "sends commits to a remote",
	"pull": "fetches and merges", "fetch": "fetches from a remote", "clone": "fetches a repository", "init": "makes a repository", "am": "makes commits",
	"gc": "removes unreachable objects", "prune": "removes unreachable objects", "repack": "rewrites the object store", "filter-branch": "rewrites history",
	"filter-repo": "rewrites history", "replace": "replaces objects", "update-ref": "moves a reference", "update-index": "changes the index",
	"read-tree": "changes the index", "write-tree": "writes objects", "commit-tree": "writes a commit", "fast-import": "writes history",
	"difftool": "runs a program", "mergetool": "runs a program", "instaweb": "starts a server", "daemon": "starts a server", "send-email": "sends mail",
	"sparse-checkout": "removes files from the working tree", "lfs": "runs git-lfs", "bundle": "writes a file", "format-patch": "writes files", "svn": "runs git-svn",
	"verify-commit": "runs gpg", "verify-tag": "runs gpg", "fsck": "may write lost objects", "maintenance": "changes the object store", "pack-refs": "rewrites references",
	"checkout-index": "writes files", "submodule": "changes submodules", "gui": "starts a program", "citool": "starts a program", "p4": "runs git-p4",
	"unpack-objects": "writes objects", "index-pack": "writes objects", "pack-objects": "writes objects", "mktag": "writes objects", "mktree": "writes objects",
	"rerere": "changes recorded resolutions", "credential": "handles credentials", "request-pull": "asks a remote", "interpret-trailers": "may change a file",
}

func (c *call) gitChange(sub, why string, args []arg) {
	has := func(names ...string) string { return gitHas(args, names...) }
	f := c.ask("", "git "+sub+" "+why, c.rule())
	switch sub {
	case "push":
		f.network = true
		if w := has("--force", "--force-with-lease", "--delete", "--mirror", "--prune", "-f", "-d"); w != "" || refspecForces(args) {
			f.destructive, f.reason = true, "git push overwrites or deletes what the remote has"
		}
	case "fetch", "pull", "clone":
		f.network = true
		f.destructive = sub == "pull" && has("--rebase", "-r", "--force", "-f") != ""
	case "reset":
		if has("--hard", "--merge", "--keep") != "" || unsure(args) {
			f.destructive, f.reason = true, "git reset can discard uncommitted work"
		}
	case "checkout":
		if has("-b", "--orphan") == "" || has("-f", "--force") != "" || unsure(args) {
			f.destructive, f.reason = true, "git checkout can discard uncommitted work"
		}
	case "switch":
		f.destructive = has("--force", "--discard-changes", "-f", "-C", "--force-create") != "" || unsure(args)
	case "restore":
		f.destructive = has("--staged", "-S") == "" || has("--worktree", "-W") != ""
	case "clean":
		f.destructive = true
		if has("-n", "--dry-run") != "" && has("-f", "--force", "-i") == "" && !unsure(args) {
			c.found = c.found[:len(c.found)-1]
		}
	case "rm":
		f.destructive = has("--cached") == ""
	case "rebase", "filter-branch", "filter-repo", "replace", "update-ref", "gc", "prune", "fast-import", "sparse-checkout", "checkout-index":
		f.destructive = true
	case "commit":
		if has("--amend", "--fixup", "--squash") != "" {
			f.destructive, f.reason = true, "git commit --amend rewrites the last commit"
		}
		if w := has("--no-verify", "-n"); w != "" {
			c.ask(w, "git commit "+w+" skips the hooks", "commit with the hooks")
		}
	case "submodule":
		c.found = c.found[:len(c.found)-1]
		c.gitSubmodule(args)
	}
}

func (c *call) gitSubmodule(args []arg) {
	if len(args) == 0 || args[0].plain() && (args[0].val == "status" || args[0].val == "summary") {
		c.gitFlags("submodule", args, nil)
		return
	}
	c.ask("", "git submodule "+args[0].val+" changes submodules, fetches, or runs a command in each", c.rule()).network = true
	if args[0].val == "foreach" && len(args) == 2 && args[1].plain() {
		c.shell(args[1].val, false)
	}
}

// gitHas returns the first option given of a list, looking into clusters of
// short options and through abbreviations of long ones.
func gitHas(args []arg, names ...string) string {
	for _, a := range args {
		if a.plain() && a.val == "--" {
			return ""
		}
		if !a.isFlag() {
			continue
		}
		given, _, _ := strings.Cut(a.val, "=")
		for _, n := range names {
			if strings.HasPrefix(n, "--") && len(given) > 3 && strings.HasPrefix(n, given) {
				return a.val
			}
			if len(n) == 2 && !strings.HasPrefix(given, "--") && strings.Contains(given[1:], n[1:]) {
				return a.val
			}
		}
	}
	return ""
}

// unsure reports whether some word may turn out to be an option.
func unsure(args []arg) bool {
	for _, a := range args {
		if a.mayBeFlag() {
			return true
		}
	}
	return false
}

// refspecForces reports whether a push forces or deletes by its refspec.
func refspecForces(args []arg) bool {
	for _, a := range args {
		if strings.HasPrefix(a.val, "+") || strings.HasPrefix(a.val, ":") || a.mayBeFlag() {
			return true
		}
	}
	return false
}

// gitSome are the subcommands that read or change depending on their words.
var gitSome = map[string]func(*call, []arg){
	"branch":       (*call).gitBranch,
	"tag":          (*call).gitTag,
	"stash":        (*call).gitStash,
	"remote":       (*call).gitRemote,
	"config":       (*call).gitConfig,
	"reflog":       (*call).gitReflog,
	"worktree":     (*call).gitWorktree,
	"notes":        (*call).gitNotes,
	"bisect":       (*call).gitBisect,
	"apply":        (*call).gitApply,
	"symbolic-ref": (*call).gitSymbolicRef,
	"help":         (*call).gitHelp,
}

var gitListOptions = options("a r v l i q n= # --list --show-current --all --remotes --verbose --contains= --no-contains= --merged= --no-merged= --points-at= --sort= --format= " +
	"--color --no-color --column --no-column --ignore-case --abbrev --no-abbrev --omit-empty")

// gitList handles branch and tag: without operands, or with --list, they list.
func (c *call) gitList(sub, changes string, args []arg) {
	p := gitListOptions.parse(args, false)
	_, list := p.get("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
	if len(p.bad) == 0 && (list || len(p.operands) == 0) {
		return
	}
	f := c.ask("", "git "+sub+" "+changes, c.rule())
	if gitHas(args, "-d", "-D", "-f", "-m", "-M", "-C", "--delete", "--force", "--move") != "" || unsure(args) {
		f.destructive, f.reason = true, "git "+sub+" deletes, moves or renames a "+sub
	}
}

func (c *call) gitBranch(args []arg) { c.gitList("branch", "makes a branch", args) }
func (c *call) gitTag(args []arg)    { c.gitList("tag", "makes a tag", args) }

func (c *call) gitStash(args []arg) {
	sub := ""
	if len(args) > 0 {
		sub = args[0].val
	}
	switch {
	case len(args) > 0 && args[0].plain() && (sub == "list" || sub == "show"):
		c.gitFlags("stash", args[1:], nil)
	case sub == "drop" || sub == "clear" || len(args) > 0 && !args[0].plain():
		c.destroys("", "git stash "+sub+" discards stashed work", "")
	default:
		c.ask("", "git stash "+sub+" moves uncommitted work", c.rule())
	}
}

func (c *call) gitRemote(args []arg) {
	switch {
	case len(args) == 0, args[0].plain() && len(args) == 1 && (args[0].val == "-v" || args[0].val == "--verbose"):
	case args[0].plain() && args[0].val == "get-url":
		c.gitFlags("remote", args[1:], nil)
	case args[0].plain() && (args[0].val == "show" || args[0].val == "update" || args[0].val == "prune"):
		c.network("git remote " + args[0].val + " asks the remote repository")
	default:
		c.ask("", "git remote changes the remotes", c.rule())
	}
}

var gitConfigOptions = options("l z e= --get= --get-all= --get-regexp= --list --null --name-only --show-origin --show-scope --local --global --system --worktree --type= --bool --int --path --default= --includes --no-includes")

func (c *call) gitConfig(args []arg) {
	p := gitConfigOptions.parse(args, false)
	_, reads := p.get("--get", "--get-all", "--get-regexp", "--list", "-l")
	if len(p.operands) > 0 && p.operands[0].plain() {
		switch p.operands[0].val {
		case "get", "list":
			reads = true
		}
	}
	_, editor := p.get("-e")
	if reads && len(p.bad) == 0 && !editor {
		return
	}
	if len(p.operands) == 1 && len(p.bad) == 0 && !editor && strings.Contains(p.operands[0].val, ".") {
		return // git config NAME prints it
	}
	c.ask("", "git config changes git's configuration, which can name hooks and programs to run", "")
}

func (c *call) gitReflog(args []arg) {
	if len(args) > 0 && (!args[0].plain() || args[0].val == "expire" || args[0].val == "delete") {
		c.destroys("", "git reflog "+args[0].val+" drops the record of where branches were", "")
		return
	}
	c.gitFlags("reflog", args, nil)
}

func (c *call) gitWorktree(args []arg) {
	if len(args) > 0 && args[0].plain() && args[0].val == "list" {
		c.gitFlags("worktree", args[1:], nil)
		return
	}
	f := c.ask("", "git worktree makes or removes a working tree", c.rule())
	f.destructive = len(args) > 0 && (args[0].val == "remove" || args[0].val == "prune")
}

func (c *call) gitNotes(args []arg) {
	if len(args) == 0 || args[0].plain() && (args[0].val == "list" || args[0].val == "show") {
		c.gitFlags("notes", args, nil)
		return
	}
	c.ask("", "git notes changes notes", c.rule())
}

func (c *call) gitBisect(args []arg) {
	if len(args) > 0 && args[0].plain() && args[0].val == "log" {
		return
	}
	f := c.ask("", "git bisect checks out commits and may run a command", c.rule())
	f.destructive = true
}

var gitApplyOptions = options("p= R v q z C= --check --stat --numstat --summary --reverse --verbose --quiet --directory= --include= --exclude= --recount --ignore-whitespace --3way")

func (c *call) gitApply(args []arg) {
	p := gitApplyOptions.parse(args, false)
	if _, looks := p.get("--check", "--stat", "--numstat", "--summary"); looks && len(p.bad) == 0 {
		return
	}
	c.ask("", "git apply changes files", "git apply --check")
}

func (c *call) gitSymbolicRef(args []arg) {
	n := 0
	for _, a := range args {
		if !a.isFlag() {
			n++
		}
	}
	if n > 1 || gitHas(args, "-d", "--delete", "-m") != "" || unsure(args) {
		c.destroys("", "git symbolic-ref moves a reference", "")
	}
}

func (c *call) gitHelp(args []arg) {
	for _, a := range args {
		if a.isFlag() && a.val != "-a" && a.val != "-g" {
			c.ask(a.val, "option "+a.val+" of git help starts a viewer", "git help NAME")
		} else if a.mayBeFlag() {
			c.badWord(a)
		}
	}
}
