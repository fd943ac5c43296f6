package redact

import (
	"belay/internal/lazyre"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// secretName is what the names of variables that hold secrets contain.
var secretName = lazyre.New(`(?i)(KEY|TOKEN|SECRET|PASSW|PASSPHRASE|PASS$|(^|_)PWD$|CREDENTIAL|(^|_)AUTH(_|$)|(^|_)PAT$|COOKIE|DSN$|CONNECTION_STRING|DATABASE_URL|WEBHOOK|OTLP_(.*_)?HEADERS$)`)

// plainName are names that only sound like it: they hold a file, an
// identifier, a public half, or a setting.
var plainName = lazyre.New(`(?i)(_FILE|_PATH|_DIR|_SOCK|_ID|_NAME|_TYPE|_URI|_MODE|_ALGORITHM|_VERSION|_FINGERPRINT|_TTL|_HELPER|_COMMAND|_ASKPASS)$|ASKPASS|PUBLIC_?KEY|^(GPG_KEY|KEYBOARD|XKB|PWD|OLDPWD|SSH_AUTH_SOCK|DBUS_|XDG_|KEYTIMEOUT)|KEYMAP|KEYRING|TOKENIZER`)

// FromEnviron picks the secrets out of an environment (KEY=VALUE), by the names
// of the variables, and the passwords out of the URLs in it.
func FromEnviron(env []string) []Value {
	var vs []Value
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || value == "" {
			continue
		}
		if u, err := url.Parse(value); err == nil && u.User != nil && u.Host != "" {
			if p, ok := u.User.Password(); ok {
				vs = append(vs, Value{name, p})
			}
			continue
		}
		if secretName.MatchString(name) && !plainName.MatchString(name) && !pathLike(value) {
			vs = append(vs, Value{name, value})
		}
	}
	return vs
}

var rooted = lazyre.New(`^(~|\.{1,2})?/((home|usr|etc|var|opt|run|tmp|root|srv|mnt|proc|dev|Users|Library|private)/|[^/]+/[^/]+/[^/]+$)`)

func pathLike(v string) bool { return rooted.MatchString(v) }

// telling reports whether a value differs enough from ordinary text to be
// looked for everywhere: a password like "postgres" would otherwise be taken
// out of every sentence about the database.
func telling(v string) bool {
	if len(v) < minValue {
		return false
	}
	var low, up, digit, other int
	for _, c := range []byte(v) {
		switch {
		case c >= 'a' && c <= 'z':
			low = 1
		case c >= 'A' && c <= 'Z':
			up = 1
		case c >= '0' && c <= '9':
			digit = 1
		default:
			other = 1
		}
	}
	classes := low + up + digit + other
	if digit == 1 && classes == 1 {
		return len(v) >= 16 // a bare number
	}
	return len(v) >= 24 || classes >= 2 && digit+other+up > 0 && !ordinary[strings.ToLower(v)]
}

// forms are the spellings of a secret in common encodings.
func forms(v string) []string {
	fs := []string{v}
	if b, err := json.Marshal(v); err == nil {
		fs = append(fs, string(b[1:len(b)-1]))
	}
	fs = append(fs, url.QueryEscape(v), url.PathEscape(v))
	if len(v) >= 12 {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			// Without the last group, which depends on what follows (a newline, as
			// echo writes it, or nothing).
			e := enc.EncodeToString([]byte(v))
			fs = append(fs, e[:len(v)/3*4])
		}
	}
	return fs
}
