package scope

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// credentials are files and folders of a home directory that hold secrets, or
// the history of what was typed. To hide one too many costs a command a file;
// to miss one costs a key.
var credentials = []string{
	".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
	".aws", ".azure", ".config/gcloud", ".boto", ".s3cfg", ".config/rclone", ".oci", ".aliyun", ".bluemix", ".config/doctl",
	".config/hcloud", ".config/linode-cli", ".fly", ".config/heroku", ".vercel", ".config/netlify", ".config/wrangler", ".wrangler",
	".kube", ".docker/config.json", ".dockercfg", ".config/containers/auth.json", ".config/helm", ".minikube",
	".terraform.d/credentials.tfrc.json", ".terraformrc", ".vault-token", ".pulumi/credentials.json", ".config/op", ".config/sops",
	".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub", ".config/tea",
	".npmrc", ".yarnrc.yml", ".pypirc", ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml",
	".m2/settings-security.xml", ".gradle/gradle.properties", ".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet/NuGet.Config",
	".hex/hex.config", ".config/pypoetry/auth.toml", ".jupyter",
	".pgpass", ".my.cnf", ".mylogin.cnf", ".mongorc.js", ".dbshell", ".snowflake", ".databrickscfg", ".kaggle", ".huggingface/token",
	".cache/huggingface/token",
	".anthropic", ".openai", ".claude", ".claude.json", ".codex", ".gemini", ".config/github-copilot",
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/Slack",
	".config/discord", ".config/Signal", ".bitcoin", ".ethereum", ".config/solana", ".electrum", ".Xauthority", ".ICEauthority",
	".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history", ".node_repl_history", ".psql_history",
	".mysql_history", ".sqlite_history", ".rediscli_history", ".lesshst", ".viminfo",
}

// systemSecrets are the machine's own; they can only be read by root, and
// commands may run as root.
var systemSecrets = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private",
	"/etc/krb5.keytab", "/var/lib/docker", "/var/lib/containers", "/var/spool/cron", "/proc/kcore", "/proc/sysrq-trigger"}

func (s *set) credentials(homes []string) {
	for _, h := range homes {
		for _, c := range credentials {
			s.hide(filepath.Join(h, c))
		}
	}
	for _, p := range systemSecrets {
		s.hide(p)
	}
	keys, _ := filepath.Glob("/etc/ssh/ssh_host_*_key")
	for _, k := range keys {
		s.hide(k)
	}
}

// runKept are what programs need of /run: where names are looked up, and the
// links of systems that keep their programs there. Files, not the folders that
// they lie in: a resolver's socket lies beside its file.
var runKept = []string{"/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf", "/run/resolvconf/resolv.conf",
	"/run/NetworkManager/resolv.conf", "/run/current-system", "/run/opengl-driver"}

// run hides /run: the sockets of the user's agents, of the message bus and of
// container engines lie there, and a read-only mount does not keep anybody
// from talking through a socket.
func (s *set) run() {
	for _, dir := range []string{"/run", "/var/run"} {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			s.add(Rule{Path: dir, Kind: Hidden})
		}
	}
	for _, p := range runKept {
		if info, err := os.Lstat(p); err == nil && info.Mode()&os.ModeSymlink == 0 {
			s.add(Rule{Path: p, Kind: ReadOnly, File: !info.IsDir()})
		}
	}
}

// maxSockets bounds the rules for sockets elsewhere; machines have a few.
const maxSockets = 200

// sockets hides every socket with a path that somebody listens on now. Those
// in the workspace stay: a test's own server may be among them, and the user
// put them there.
func (s *set) sockets(root string) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return
	}
	defer f.Close()
	n := 0
	for in := bufio.NewScanner(f); in.Scan() && n < maxSockets; {
		i := strings.Index(in.Text(), " /")
		if i < 0 {
			continue
		}
		path := in.Text()[i+1:]
		if under(path, "/run", "/var/run", "/tmp", "/var/tmp") || root != "" && Within(path, root) {
			continue
		}
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			s.hide(path)
			n++
		}
	}
}

func under(path string, dirs ...string) bool {
	for _, d := range dirs {
		if Within(path, d) {
			return true
		}
	}
	return false
}
