package policy

import (
	"path"
	"strings"
)

// A resolved path is relative and clean when it lies inside the workspace ("."
// is the root), else absolute, or begins with "~" (the home folder), "../" (the
// root's own place is not known) or "?/" (the working directory is not known).

type zone int

const (
	inside zone = iota
	outside
	unknownDir
)

func (s *sink) zone(p string) zone {
	switch {
	case strings.HasPrefix(p, "?"):
		return unknownDir
	case p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~"):
		return outside
	default:
		return inside
	}
}

// resolve reads p as seen from dir, itself a resolved path.
func (s *sink) resolve(p, dir string) string { return resolvePath(p, dir, s.cfg.Root) }

func resolvePath(p, dir, root string) string {
	if dir == "" {
		dir = "."
	}
	switch {
	case p == "" || p == ".":
		return dir
	case p == "~" || strings.HasPrefix(p, "~/"):
		return "~" + strings.TrimSuffix(path.Clean("/"+p[1:]), "/")
	case strings.HasPrefix(p, "/"):
		return fromAbs(path.Clean(p), root)
	case strings.HasPrefix(dir, "~"), strings.HasPrefix(dir, "?"):
		// Climbing above a folder whose place is not known must not come out
		// as a path that looks relative to the root.
		return dir[:1] + strings.TrimSuffix(path.Clean("/"+dir[1:]+"/"+p), "/")
	case strings.HasPrefix(dir, "/"):
		return fromAbs(path.Join(dir, p), root)
	}
	rel := path.Join(dir, p)
	if (rel == ".." || strings.HasPrefix(rel, "../")) && root != "" {
		return fromAbs(path.Join(root, rel), root)
	}
	return rel
}

func fromAbs(abs, root string) string {
	root = strings.TrimSuffix(path.Clean(root), "/")
	if root == "" || root == "." {
		return abs
	}
	if abs == root {
		return "."
	}
	if rel, ok := strings.CutPrefix(abs, root+"/"); ok {
		return rel
	}
	return abs
}

// protectedNames are components that make a path protected wherever they
// stand. Comparison ignores case, because file systems may.
var protectedNames = []string{".git", ".belay", "belay.yaml", "belay.yml"}

// protected reports whether no operation may write the path.
func (c *compiled) protected(p string) bool {
	comps := strings.Split(p, "/")
	for i, comp := range comps {
		for _, name := range protectedNames {
			if strings.EqualFold(comp, name) || hiddenBy(comp, name) {
				return true
			}
		}
		if strings.EqualFold(comp, "belay") && i > 0 {
			// The user's configuration and state: ~/.config/belay,
			// ~/.local/state/belay and what XDG variables make of them.
			switch before := strings.ToLower(comps[i-1]); before {
			case ".config", "state", "share":
				return true
			}
		}
	}
	for _, pat := range c.Protected {
		if matchPath(pat, p) || matchPath(fromAbs(pat, c.Root), p) {
			return true
		}
	}
	return false
}

// hiddenBy reports whether a component with wildcards, as a shell would read
// it, can stand for the name. A bare * cannot be told from everyday use and
// does not match names that begin with a dot.
func hiddenBy(comp, name string) bool {
	if !strings.ContainsAny(comp, "*?[") || strings.Trim(comp, "*?") == "" {
		return false
	}
	if name[0] == '.' && comp[0] != '.' {
		return false
	}
	return wild(widen(strings.ToLower(comp)), name)
}

// widen turns bracket expressions of a shell pattern into a *, so that the
// pattern matches at least what the shell's would.
func widen(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			b.WriteString(pattern[i : i+2])
			i++
			continue
		}
		if pattern[i] == '[' {
			// The longest reading: up to the last ] of the component.
			if end := strings.LastIndexByte(pattern[i:], ']'); end > 1 {
				b.WriteByte('*')
				i += end
				continue
			}
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// device reports whether a path is one of the special files whose writing
// changes nothing.
func device(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full":
		return true
	}
	n, ok := strings.CutPrefix(p, "/dev/fd/")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}

var systemDirs = []string{"/dev", "/proc", "/sys", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/root/.ssh", "~/.ssh", "~/.gnupg"}

var startupFiles = []string{".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile",
	".gitconfig", ".inputrc", ".ssh/authorized_keys", ".ssh/config", ".config/git", ".config/fish", ".config/autostart"}

// system reports whether a path outside belongs to the machine, or runs
// something for the user at login.
func system(p string) bool {
	if p == "/" || p == "~" {
		return true
	}
	for _, d := range systemDirs {
		if p == d || strings.HasPrefix(p, d+"/") {
			return true
		}
	}
	if rest, ok := homeRelative(p); ok {
		for _, f := range startupFiles {
			if rest == f || strings.HasPrefix(rest, f+"/") {
				return true
			}
		}
	}
	return false
}

// homeRelative cuts the home folder off a path, where it can be recognised.
func homeRelative(p string) (string, bool) {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return rest, true
	}
	if rest, ok := strings.CutPrefix(p, "/root/"); ok {
		return rest, true
	}
	if rest, ok := strings.CutPrefix(p, "/home/"); ok {
		if _, rest, ok := strings.Cut(rest, "/"); ok {
			return rest, true
		}
	}
	return "", false
}

// secretSamples stand for the secret files when a wildcard is judged: a
// pattern that can match one of them may read it.
var secretSamples = []string{".env", ".env.local", ".env.production", "server.pem", "server.key", "cert.p12", "id_rsa", "id_ed25519",
	".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".vault-token"}

var secretFolders = []string{".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", "gcloud", ".password-store"}

// secret reports whether a path, by its name, usually holds credentials. Names
// only: that a file is a secret whatever it is called, the sandbox must hold.
func secret(p string) bool {
	comps := strings.Split(p, "/")
	base := strings.ToLower(comps[len(comps)-1])
	if strings.ContainsAny(base, "*?[") {
		if strings.Trim(base, "*?") == "" {
			return false
		}
		for _, s := range secretSamples {
			if s[0] == '.' && base[0] != '.' {
				continue
			}
			if wild(widen(base), s) {
				return true
			}
		}
		return false
	}
	for i, c := range comps[:len(comps)-1] {
		for _, f := range secretFolders {
			if strings.EqualFold(c, f) {
				return !publicIn(f, base)
			}
		}
		if c == "proc" && i == 1 && comps[0] == "" && (base == "environ" || base == "mem" || base == "auxv") {
			return true
		}
		if c == "run" && i == 1 && comps[i+1] == "secrets" {
			return true
		}
		if c == "gh" && base == "hosts.yml" {
			return true
		}
	}
	return secretName(base) || p == "/etc/shadow" || p == "/etc/gshadow" || p == "/etc/sudoers"
}

func publicIn(folder, base string) bool {
	return folder == ".ssh" && (base == "known_hosts" || base == "config" || strings.HasSuffix(base, ".pub"))
}

func secretName(base string) bool {
	switch base {
	case ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".dockercfg", ".htpasswd", ".vault-token",
		".envrc", "credentials.json", "service-account.json":
		return true
	}
	if base == ".env" {
		return true
	}
	if rest, ok := strings.CutPrefix(base, ".env."); ok {
		switch rest {
		case "example", "sample", "template", "dist", "defaults", "schema":
			return false
		}
		return true
	}
	for _, ext := range []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"} {
		if strings.HasSuffix(base, ext) && base != ext {
			return true
		}
	}
	for _, k := range []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"} {
		if strings.HasPrefix(base, k) && !strings.HasSuffix(base, ".pub") {
			return true
		}
	}
	return false
}

// matchPath matches a rule's path pattern. A pattern without a slash matches a
// name at any depth; others are anchored at the root, or absolute, or begin
// with ~. ** stands for any number of folders, * for anything within one name.
// A pattern that ends in / or /** covers the folder itself and all below it.
func matchPath(pattern, p string) bool {
	if pattern == "**" {
		return true
	}
	pattern = strings.TrimPrefix(pattern, "./")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	if !strings.Contains(pattern, "/") {
		for _, c := range strings.Split(p, "/") {
			if wild(pattern, c) {
				return true
			}
		}
		return false
	}
	return matchComps(strings.Split(pattern, "/"), strings.Split(p, "/"))
}

func matchComps(pat, comps []string) bool {
	for len(pat) > 0 {
		if pat[0] == "**" {
			if len(pat) == 1 {
				return true
			}
			for i := 0; i <= len(comps); i++ {
				if matchComps(pat[1:], comps[i:]) {
					return true
				}
			}
			return false
		}
		if len(comps) == 0 || !wild(pat[0], comps[0]) {
			return false
		}
		pat, comps = pat[1:], comps[1:]
	}
	return len(comps) == 0
}

// wild matches text against a pattern in which * stands for any text, ? for
// any byte, and a backslash takes the next byte literally.
func wild(pattern, text string) bool {
	p, t := 0, 0
	star, mark := -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
			continue
		case p < len(pattern) && pattern[p] == '?':
			p, t = p+1, t+1
			continue
		case p+1 < len(pattern) && pattern[p] == '\\' && pattern[p+1] == text[t]:
			p, t = p+2, t+1
			continue
		case p < len(pattern) && pattern[p] != '\\' && pattern[p] == text[t]:
			p, t = p+1, t+1
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, t = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Unreadable are the files that rules deny commands to read, for a sandbox to
// hide: a name can be put together by a program where no words show it.
type Unreadable struct {
	root     string
	patterns []string
}

// UnreadableBy collects what the rules deny to be read.
func UnreadableBy(c Config) Unreadable {
	u := Unreadable{root: c.Root}
	for _, r := range compile(c).rules {
		if r.broken == nil && r.decision == Deny && r.Path != "" && (appliesTo(r.Tool, KindRead, "run_command", Deny) || appliesTo(r.Tool, KindRead, "run_test", Deny)) {
			u.patterns = append(u.patterns, r.Path)
		}
	}
	return u
}

// Any reports whether there is anything to look for.
func (u Unreadable) Any() bool { return len(u.patterns) > 0 }

// Holds reports whether a path of the workspace, relative to its root, is among
// them.
func (u Unreadable) Holds(path string) bool {
	for _, p := range u.patterns {
		if matchPath(fromAbs(p, u.root), path) {
			return true
		}
	}
	return false
}

// Outside are those that are named outright and lie elsewhere: absolute paths,
// or paths that begin with ~.
func (u Unreadable) Outside() []string {
	var out []string
	for _, p := range u.patterns {
		p = strings.TrimSuffix(strings.TrimSuffix(p, "**"), "/")
		if (strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~/")) && !strings.ContainsAny(p, "*?[\\") && fromAbs(p, u.root) == p {
			out = append(out, p)
		}
	}
	return out
}
