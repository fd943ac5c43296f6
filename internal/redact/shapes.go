package redact

import (
	"belay/internal/lazyre"
	"strings"
)

// detector knows one shape.
type detector struct {
	kind string
	// any of these must be in the line, in lower case if fold is set.
	literals []string
	fold     bool
	re       *lazyre.Regexp
	// secret is the group that holds the secret, 0 for the whole match.
	secret int
	// ok, if set, looks at the match with its groups once more.
	ok func(m []string) bool
	// follows, if set, says cheaply whether what follows a literal can match: an
	// expression costs a thousand times as much as a look.
	follows func(rest string) bool
}

const (
	kindAssigned = "password"
	kindPEM      = "private key"
)

// shape is a detector. An expression that begins with a word boundary is the
// secret itself, and begins also after the n of an escaped newline; of any
// other one, the first group is.
func shape(kind, re string, literals ...string) detector {
	if word, ok := strings.CutPrefix(re, `\b`); ok {
		re = `(?:\b|\\[nrt])(` + word + `)`
	}
	return detector{kind: kind, literals: literals, re: lazyre.New(re), secret: 1}
}

func (d detector) when(ok func(m []string) bool) detector { d.ok = ok; return d }
func (d detector) folded() detector                       { d.fold = true; return d }
func (d detector) group(n int) detector                   { d.secret = n; return d }

func (d detector) before(f func(rest string) bool) detector { d.follows = f; return d }

// assignment reports whether the rest of a name ends in something that
// assigns.
func assignment(rest string) bool {
	for i := 0; i < len(rest) && i < 48; i++ {
		switch c := rest[i]; {
		case c == '=' || c == ':':
			return true
		case wordByte(c) || c == '"' || c == '\'' || c == ' ' || c == '\t':
		default:
			return false
		}
	}
	return false
}

// userInfo reports whether a URL has a part before an @.
func userInfo(rest string) bool {
	rest = strings.TrimPrefix(rest, "://")
	i := strings.IndexAny(rest, "@/ \t\"'<>\n")
	return i > 0 && rest[i] == '@'
}

// detectors are the documented shapes of tokens, each with a literal that its
// issuer put there to be recognised by, and credentials by what they stand
// beside.
var detectors = []detector{
	shape("anthropic key", `\bsk-ant-[A-Za-z0-9_-]{16,}`, "sk-ant-"),
	shape("api key", `\bsk-(?:proj-|svcacct-|admin-|or-v1-|test-|live-)?[A-Za-z0-9_-]{16,}`, "sk-").when(drawnAfterDash),
	shape("stripe key", `\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}`, "_live_", "_test_").when(secretHalf),
	shape("webhook secret", `\bwhsec_[A-Za-z0-9+/=]{20,}`, "whsec_"),
	shape("github token", `\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
	shape("gitlab token", `\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[A-Za-z0-9_.-]{20,}`, "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-"),
	shape("slack token", `\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9.-]{10,}`, "xox", "xapp-").when(func(m []string) bool { return digits(m[0]) >= 4 }),
	shape("slack webhook", `hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,})`, "hooks.slack.com"),
	shape("aws access key", `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`, "AKIA", "ASIA", "ABIA", "ACCA").when(func(m []string) bool { return !strings.Contains(m[0], "EXAMPLE") && digits(m[0]) > 0 }),
	shape("aws secret key", `aws[a-z_. -]{0,20}(?:secret|session)[a-z_. -]{0,20}(?:key|token)?["']?\s{0,4}(?:=|:|=>)\s{0,4}["']?([a-z0-9/+=]{40,})`, "aws").folded().when(func(m []string) bool { return !strings.Contains(lower(m[1]), "example") }),
	shape("google key", `\bAIza[A-Za-z0-9_-]{35}`, "AIza"),
	shape("google token", `\b(?:GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,})`, "GOCSPX-", "ya29.", "1//0"),
	shape("npm token", `\bnpm_[A-Za-z0-9]{36}\b`, "npm_"),
	shape("pypi token", `\bpypi-[A-Za-z0-9_-]{50,}`, "pypi-"),
	shape("api key", `\b(?:hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|dop_v1_[a-f0-9]{64}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32}|lin_api_[A-Za-z0-9]{32,}|sntrys_[A-Za-z0-9+/=_]{40,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|hv[sbr]\.[A-Za-z0-9_-]{24,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{37}|fo1_[A-Za-z0-9_-]{40,}|figd_[A-Za-z0-9_-]{36,}|ATATT3[A-Za-z0-9_=-]{80,}|rubygems_[a-f0-9]{48})`,
		"hf_", "gsk_", "xai-", "dop_v1_", "dckr_", "dapi", "lin_api_", "sntrys_", "shpat_", "shpca_", "shppa_", "shpss_", "hvs.", "hvb.", "hvr.", "pplx-", "r8_", "fo1_", "figd_", "ATATT3", "rubygems_"),
	shape("sendgrid key", `\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,64}`, "SG."),
	shape("age key", `\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`, "AGE-SECRET-KEY-"),
	shape("storage key", `(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})`, "AccountKey=", "SharedAccessKey="),
	shape("json web token", `\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`, "eyJ").when(func(m []string) bool { return !strings.HasPrefix(m[1], knownJWT) }),
	shape(kindPEM, `-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----((?:\\[nr]|[A-Za-z0-9+/=:, ]|-[A-Za-z0-9])+)`, "PRIVATE KEY").when(func(m []string) bool { return longRun.MatchString(m[1]) }),
	shape("url password", `[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>]+)@`, "://").when(func(m []string) bool { return !placeholder(m[1]) }).before(userInfo),
	shape("url token", `https?://([A-Za-z0-9_-]{20,})@`, "://").when(func(m []string) bool { return drawn(m[1]) }).before(userInfo),
	shape("bearer token", `bearer\s{1,4}([a-z0-9._~+/-]{16,}=*)`, "bearer").folded().when(func(m []string) bool { return drawn(m[1]) }),
	shape("basic credentials", `authorization["']?\s{0,4}[:=]\s{0,4}["']?basic\s{1,4}([a-z0-9+/]{8,}={0,2})`, "authorization").folded(),
	shape(kindAssigned, `^\s*(?:export\s+|set\s+|-e\s+|env\s+)?([A-Z][A-Z0-9_]*)=["']?([^\s"'#]{6,})`, "PASS", "SECRET", "TOKEN", "KEY", "CREDENTIAL").when(func(m []string) bool { return secretSetting(m[1], m[2]) }).group(2).before(assignment),
	shape(kindAssigned, `([A-Za-z0-9_.-]*(?:`+credentialWords+`)[A-Za-z0-9_]*)["']?\s{0,8}(?::=|=>|=|:)\s{0,8}["']([^\s"'\\]+)["']`, credentialLiterals...).folded().when(func(m []string) bool { return assigned(m[1], m[2]) }).group(2).before(assignment),
	shape(kindAssigned, `(?:^|[\s&?;,{(])([A-Za-z0-9_.-]*(?:`+credentialWords+`)[A-Za-z0-9_]*)(?:=|:\s{0,4})([^\s"'&;,<>(){}\[\]]+)`, credentialLiterals...).folded().when(func(m []string) bool { return assigned(m[1], m[2]) && drawn(m[2]) }).group(2).before(assignment),
}

// credentialWords are the words in a name that make what is assigned to it a
// credential.
const credentialWords = `password|passwd|passphrase|secret|api_?-?key|access_?-?key|private_?-?key|auth_?-?token|access_?-?token|refresh_?-?token|session_?-?token|client_?-?secret|token`

var credentialLiterals = []string{"passw", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key",
	"privatekey", "private_key", "private-key"}

var longRun = lazyre.New(`[A-Za-z0-9+/=]{40}`)

// knownJWT is the example that documentation and test suites share.
const knownJWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lI"

const (
	// A long line is only looked at around the literals in it: this much before
	// one, and this much after it.
	before, after = 320, 1200
	longLine      = 2 * (before + after)
)

func (d *detector) find(s, low string, fs []finding) []finding {
	if d.follows != nil && !d.likely(s, low) {
		return fs
	}
	if d.fold {
		return d.around(low, s, fs)
	}
	return d.around(s, s, fs)
}

// likely looks at what follows each literal.
func (d *detector) likely(s, low string) bool {
	if d.fold {
		s = low
	}
	for _, l := range d.literals {
		for at := 0; ; {
			i := strings.Index(s[at:], l)
			if i < 0 {
				break
			}
			if d.follows(s[at+i:]) {
				return true
			}
			at += i + len(l)
		}
	}
	return false
}

// around looks at the neighbourhoods of the literals. text is what expressions
// are matched with, s the same line as it is.
func (d *detector) around(text, s string, fs []finding) []finding {
	if len(s) <= longLine {
		return d.in(text, s, 0, len(s), fs)
	}
	for at := 0; at < len(s); {
		first := -1
		for _, l := range d.literals {
			if i := strings.Index(text[at:], l); i >= 0 && (first < 0 || i < first) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		from, to := max(0, at+first-before), min(len(s), at+first+after)
		for to < len(s) && to-from < maxLine && wordByte(s[to]) {
			to++ // a token is not cut
		}
		for from > 0 && wordByte(s[from-1]) && at+first-from < 2*before {
			from--
		}
		fs = d.in(text, s, from, to, fs)
		at = max(at+first+1, to-before)
	}
	return fs
}

func wordByte(c byte) bool { return base64Char(c) || c == '_' || c == '-' || c == '.' }

// in looks at a part of a line.
func (d *detector) in(text, s string, from, to int, fs []finding) []finding {
	for _, at := range d.re.FindAllStringSubmatchIndex(text[from:to], -1) {
		if d.ok != nil {
			m := make([]string, len(at)/2)
			for i := range m {
				if at[2*i] >= 0 {
					m[i] = s[from+at[2*i] : from+at[2*i+1]]
				}
			}
			if !d.ok(m) {
				continue
			}
		}
		if a, b := at[2*d.secret], at[2*d.secret+1]; a < b {
			fs = append(fs, finding{from + a, from + b, from + at[0], from + at[1], d.kind})
		}
	}
	return fs
}

// drawnAfterDash tells keys from names with dashes, like those of style
// sheets: somewhere in it stands a long run that looks drawn at random.
func drawnAfterDash(m []string) bool {
	for _, run := range strings.FieldsFunc(m[0], func(c rune) bool { return c == '-' || c == '_' }) {
		if len(run) >= 12 && digits(run) >= 2 {
			return true
		}
	}
	return false
}

// secretHalf leaves the publishable keys alone, which are meant to be seen.
func secretHalf(m []string) bool { return !strings.HasPrefix(m[1], "pk_") }

func digits(s string) int {
	n := 0
	for _, c := range []byte(s) {
		if c >= '0' && c <= '9' {
			n++
		}
	}
	return n
}

// drawn reports whether a word has both letters and digits, and is no number
// with a unit, date, address, version, path or expression.
func drawn(s string) bool {
	if digits(s) == 0 || digits(s) == len(s) || placeholder(s) {
		return false
	}
	letters := 0
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			letters++
		}
	}
	return letters >= 2 && !notSecret.MatchString(s)
}

// notSecret are values that are something else by their form: identifiers and
// digests, paths, calls and member accesses, versions, times.
var notSecret = lazyre.New(`^(?i:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:sha(?:1|256|384|512)[:-].*|md5[:-].*)|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|\.{0,2}/.*|~/.*|v?[0-9]+(?:\.[0-9]+)+\S*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[a-z_]\w*(?:\.[a-z_]\w*)+|[a-z_]\w*::.*|https?://.*)$`)

// hexOnly are digests by their length; a name that says secret outweighs it.
var hexOnly = lazyre.New(`^[0-9a-fA-F]{32,128}$`)

// ordinary are values that stand for a secret without being one.
var ordinary = map[string]bool{"password": true, "password1": true, "passw0rd": true, "changeme": true, "secret": true, "hunter2": true,
	"undefined": true, "required": true, "optional": true, "disabled": true, "enabled": true, "default": true, "postgres": true, "localhost": true,
	"username": true, "sensitive": true, "redacted": true, "anonymous": true, "x-access-token": true, "pass": true, "user": true, "token": true}

// placeholder reports whether a value only says where the secret goes.
func placeholder(v string) bool {
	l := lower(v)
	if v == "" || ordinary[l] || strings.HasPrefix(l, "your") || strings.HasPrefix(l, "my-") || strings.ContainsAny(v[:1], "$%{}<>[]*&#@(") {
		return true
	}
	for _, w := range []string{"example", "placeholder", "changeme", "change-me", "change_me", "xxxx", "****", "....", "${", "{{", "redacted", "dummy", "<", "…", "insert-", "_here", "-here"} {
		if strings.Contains(l, w) {
			return true
		}
	}
	return strings.Trim(v, v[:1]) == ""
}

// plainSuffix are ends of names that say what is assigned is not the secret
// itself.
var plainSuffix = lazyre.New(`(?i)(hash|digest|id|ids|file|path|dir|url|uri|name|type|length|len|size|count|kind|field|header|prefix|suffix|regex|pattern|algorithm|expiry|expires|expiration|ttl|at|env|var|label|title|text|hint|policy|limit|version|index|pos|position|format|max|min|key_type|public_?key|placeholder|s)$`)

// assigned reports whether a value that is assigned to a name is a credential:
// the name says so, and the value is neither code nor a placeholder.
func assigned(name, value string) bool {
	l := lower(name)
	if !credentialName.MatchString(l) || strings.Contains(l, "tokeniz") || plainSuffix.MatchString(l) && !strings.HasSuffix(l, "pass") || len(value) < 8 || placeholder(value) {
		return false
	}
	strong := strings.Contains(l, "passw") || strings.Contains(l, "secret") || strings.Contains(l, "passphrase")
	if hexOnly.MatchString(value) {
		return strong
	}
	if notSecret.MatchString(value) || strings.ContainsAny(value, "()[]{}<>`") {
		return false
	}
	if strong && strings.IndexFunc(value, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-' || r == '.' || r == ' ')
	}) >= 0 {
		return true
	}
	return drawn(value)
}

var credentialName = lazyre.New(`(?:` + credentialWords + `)`)

// secretSetting is assigned for settings of an environment file, where nothing
// but a value can stand on the right: even one word counts.
func secretSetting(name, value string) bool {
	if placeholder(value) || plainName.MatchString(name) || pathLike(value) || strings.HasSuffix(name, "S") && !strings.HasSuffix(name, "PASS") {
		return false
	}
	if !settingName.MatchString(name) {
		return false
	}
	if notSecret.MatchString(value) {
		return hexOnly.MatchString(value) || strings.Count(value, ".") > 0 && digits(value) > 4 && !strings.Contains(value, "/")
	}
	switch lower(value) {
	case "true", "false", "none", "null", "never", "always":
		return false
	}
	return digits(value) < len(value) || len(value) >= 10
}

var settingName = lazyre.New(`(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|ENCRYPTION_?KEY|SIGNING_?KEY|AUTH_?KEY|CREDENTIAL|(^|_)PASS$)`)
