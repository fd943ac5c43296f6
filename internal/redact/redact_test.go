package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// Bodies of made-up keys. They stand apart from the beginnings that make them
// keys, so that no scanner of this repository takes them for real.
const (
	mixed  = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cF"
	mixed2 = "Zx81Kq72Lw63Mn54Bv45Cc36Xz27Pl18Ok09"
	caps   = "Q7ZK3MXW5RTY2HBN"
	hex64  = "4f9d0c7b2e8a1356f0d9c8b7a6e5f4d3c2b1a09f8e7d6c5b4a39281706f5e4d3"
)

// secrets are texts with a secret in them: what has to be gone, and the kind.
var secrets = []struct{ kind, text, secret string }{
	{"anthropic key", "export K=sk-ant-" + "api03-" + mixed, mixed},
	{"api key", "key is sk-" + mixed + " ok", mixed},
	{"api key", `{"k":"sk-` + `proj-` + mixed2 + `"}`, mixed2},
	{"api key", `line\nsk-` + `test-` + mixed + `\nnext`, mixed},
	{"stripe key", "sk_" + "live_" + mixed, mixed},
	{"webhook secret", "whsec_" + mixed, mixed},
	{"github token", "remote: gh" + "p_" + mixed2, mixed2},
	{"github token", "github" + "_pat_" + mixed2, mixed2},
	{"gitlab token", "gl" + "pat-" + mixed[:20], mixed[:20]},
	{"slack token", "xo" + "xb-123456789012-" + mixed, mixed},
	{"slack webhook", "https://hooks.slack.com/services/" + "T00000000/B00000000/" + mixed, mixed},
	{"aws access key", "id: AK" + "IA" + caps, caps},
	{"aws secret key", "aws_secret_access_key = " + mixed + "/+" + caps, mixed},
	{"google key", "AI" + "za" + mixed + "xyz", mixed},
	{"npm token", "//registry.npmjs.org/:_authToken=npm" + "_" + mixed2, mixed2},
	{"sendgrid key", "SG" + "." + mixed[:22] + "." + mixed2, mixed2},
	{"json web token", "eyJ" + mixed + ".eyJ" + mixed + "." + mixed2, mixed2},
	{"url password", "DATABASE_URL=postgres://app:" + "s3cr3t!pw" + "@db/x", "s3cr3t!pw"},
	{"url token", "git clone https://" + mixed + "@github.com/a/b", mixed},
	{"bearer token", "Authorization: Bearer " + mixed, mixed},
	{"basic credentials", "Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"},
	{"password", "DB_PASSWORD=correcthorse", "correcthorse"},
	{"password", "export SESSION_SECRET='" + hex64 + "'", hex64},
	{"password", "API_TOKEN=fake-1234-not-real", "fake-1234-not-real"},
	{"password", `password: "hunter2isnotgood"`, "hunter2isnotgood"},
	{"password", `  "clientSecret" : "` + mixed + `",`, mixed},
	{"password", `api_key := "` + mixed + `"`, mixed},
	{"password", "curl 'https://x.org/?a=1&api_key=" + mixed + "&b=2'", mixed},
	{"storage key", "DefaultEndpointsProtocol=https;AccountKey=" + mixed + mixed + "==;", mixed},
	{"private key", pemBlock("\n"), pemBody},
	{"private key", strings.ReplaceAll(pemBlock("\n"), "\n", `\n`), pemBody},
	{"private key", "  12→" + strings.ReplaceAll(pemBlock("\n"), "\n", "\n  13→"), pemBody},
	{"private key", "+" + strings.ReplaceAll(pemBlock("\n"), "\n", "\n+"), pemBody},
	{"private key", "key.pem:1:" + strings.ReplaceAll(pemBlock("\n"), "\n", "\nkey.pem:2:"), pemBody},
	{"private key", pemBlock("\r\n"), pemBody},
	{"private key", strings.Join(strings.Split(pemBlock("\n"), "\n")[3:], "\n"), "lastLineOfTheKey"},
	{"private key", strings.Join(strings.Split(pemBlock("\n"), "\n")[:4], "\n"), pemBody},
}

const pemBody = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"

func pemBlock(eol string) string {
	lines := []string{"-----BEGIN RSA " + "PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED", "", pemBody,
		"q0Rn8xw9Zm1bV7cT5yU3iO1pL9kJ7hG5fD3sA1zX2cV4bN6mQ8wE0rT2yU4iO6pA", "lastLineOfTheKey==", "-----END RSA " + "PRIVATE KEY-----", "after"}
	return strings.Join(lines, eol)
}

// harmless are texts that must stay as they are.
var harmless = []string{
	"commit 3f786850e387550fdab836ed7e6dc881de23001b",
	"index e69de29..d95f3ad 100644",
	"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"github.com/x/y v1.2.3 h1:uNnB7i9aXkXHZ2u5m4s6bX1yq8D9R8Z0m7Q1t0y3e5A=",
	"id 123e4567-e89b-12d3-a456-426614174000",
	"token: 123e4567-e89b-12d3-a456-426614174000",
	"password_hash = \"5f4dcc3b5aa765d61d8327deb882cf99\"",
	"cache_key = \"9b74c9897bac770ffc029102a200c5de\"",
	"token = parser.next()", "token := lexer.Token()", `password = os.environ["DB_PASSWORD"]`, "password: str = None",
	"apiKey: process.env.API_KEY", "secret = config.secret_name", "tokens: 12345678", "max_tokens=8192", "const TOKEN_LENGTH = 32",
	"if token == tokens.IDENTIFIER {", "func (p *Parser) token(kind tokenKind) error {", "token_type: access_token", `"tokenizer": "cl100k_base1"`,
	"PASSWORD=", "PASSWORD=$DB_PASSWORD", "API_KEY=<your key here>", "API_KEY=your-api-key-goes-here", "TOKEN=xxxxxxxxxxxxxxxx", `password: "********"`,
	"AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
	"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
	"postgres://user:password@localhost:5432/db", "postgres://$USER:$PASS@db/x", "https://github.com/owner/repo.git", "http://localhost:8080/path?x=1",
	"git@github.com:owner/repo.git", "ssh://git@host:22/path", `class="sk-loading-indicator-wrapper-inner"`, "sk-learn-contrib-project-template", "task-runner-with-a-long-name-1234567890",
	"-----BEGIN PUBLIC KEY-----\n" + pemBody + "\n-----END PUBLIC KEY-----\n", "-----BEGIN CERTIFICATE-----\n" + pemBody + "\n-----END CERTIFICATE-----\n",
	"if strings.Contains(s, \"-----BEGIN PRIVATE KEY-----\") {\n\treturn errKey\n}\n",
	"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk", "integrity sha512-" + strings.Repeat("Ab3+", 21) + "==",
	"ok  \tbelay/internal/redact\t0.012s", "BenchmarkX-2   \t 1000\t   1234 ns/op", "2026-11-30T10:51:34Z level=info msg=\"token refreshed\" duration=123.4ms",
	"SECRETS_DIR=/run/secrets/app", "SSH_KEY_PATH=/home/u/.ssh/id_ed25519", "TOKEN_TTL=3600000000", "GITHUB_TOKEN=${{ secrets.GITHUB_TOKEN }}",
	"The bearer of this letter is authorised.", "authorization: required", `{"op_id":"op12","hash":"` + hex64 + `","prev":"` + hex64 + `"}`,
	"key: value", "primary_key=user_id_seq_2024", "public_key: " + mixed, "monkey=" + mixed, "\x1b[31mred\x1b[0m", "", "\n", "\n\n\n", "日本語のテキスト\n",
	"e3b0c44298fc1c149afbf4c8996fb924\n27ae41e4649b934ca495991b7852b855\n",
}

func TestSecretsAreTakenOutAndSaidToBe(t *testing.T) {
	t.Parallel()
	var r *Redactor
	for _, c := range secrets {
		got := r.Text(c.text)
		if strings.Contains(got, c.secret) {
			t.Errorf("%s is not taken out of\n%s\n%s", c.kind, c.text, got)
		}
		if !strings.Contains(got, Marker(c.kind)) {
			t.Errorf("want %s in\n%s\n%s", Marker(c.kind), c.text, got)
		}
		if again := r.Text(got); again != got {
			t.Errorf("a second time changes\n%s\n%s", got, again)
		}
		if kind, yes := r.Holds(c.text); !yes || kind != c.kind {
			t.Errorf("Holds says %q, %v of\n%s", kind, yes, c.text)
		}
		if a, b := strings.Count(c.text, "\n"), strings.Count(got, "\n"); a != b {
			t.Errorf("%d lines became %d: %s", a, b, got)
		}
	}
}

func TestWhatOnlyLooksRandomStays(t *testing.T) {
	t.Parallel()
	r := New(Value{"X_TOKEN", "something-else-9"})
	for _, s := range append(harmless, strings.Join(harmless, "\n")) {
		if got := r.Text(s); got != s {
			t.Errorf("changed\n%q\n%q", s, got)
		}
		if kind, yes := r.Holds(s); yes {
			t.Errorf("%q is said to hold %s", s, kind)
		}
	}
}

func TestKnownValuesAreTakenOutInTheirCommonForms(t *testing.T) {
	t.Parallel()
	const v = `p@ss "w/rd" 12+34`
	r := New(Value{"DB_PASSWORD", v}, Value{"KEY_FILE_CONTENT", "first line 111\nsecond line 222\n"}, Value{"SHORT", "abc12"}, Value{"PLAIN", "postgres"}, Value{"N", "12345678"})
	j, _ := json.Marshal(map[string]string{"x": v})
	for _, s := range []string{"a " + v + " b", string(j), "q=p%40ss+%22w%2Frd%22+12%2B34&", base64.StdEncoding.EncodeToString([]byte(v + "\n")), "x second line 222 y"} {
		if got := r.Text(s); got == s || !strings.Contains(got, "[redacted: ") {
			t.Errorf("%q stays %q", s, got)
		}
	}
	for _, s := range []string{"abc12", "postgres is a database", "12345678 bytes"} {
		if got := r.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := r.Text("x " + v); got != "x [redacted: DB_PASSWORD]" {
		t.Error(got)
	}
}

func TestSecretsOfAnEnvironmentAreFoundByName(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, v := range FromEnviron([]string{"OPENAI_API_KEY=k1", "GH_TOKEN=t1", "DB_PASSWORD=p1", "MY_SECRET=s1", "PGPASS=x1", "REDIS_URL=redis://u:pw@h/0", "AWS_SECRET_ACCESS_KEY=a1",
		"PATH=/bin", "SSH_KEY_PATH=/home/u/k", "GPG_KEY=ABCDEF", "SSH_AUTH_SOCK=/tmp/s", "AWS_ACCESS_KEY_ID=id", "HOME=/root", "EMPTY_TOKEN=", "TOKEN_FILE=/run/x", "KEYBOARD=us",
		"SIGNING_KEY=/home/u/.keys/sign.pem", "PWD=/x", "broken"}) {
		got[v.Name] = v.Secret
	}
	want := map[string]string{"OPENAI_API_KEY": "k1", "GH_TOKEN": "t1", "DB_PASSWORD": "p1", "MY_SECRET": "s1", "PGPASS": "x1", "REDIS_URL": "pw", "AWS_SECRET_ACCESS_KEY": "a1"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestJSONIsRedactedInsideOfItsStrings(t *testing.T) {
	t.Parallel()
	r := New()
	clean, kind := r.JSON([]byte(`{"cmd":"echo","env":{"password":"` + mixed + `"},"n":12345678901234567890,"key":["` + strings.ReplaceAll(pemBlock("\n"), "\n", `\n`) + `"]}`))
	if kind == "" || bytes.Contains(clean, []byte(mixed)) || bytes.Contains(clean, []byte(pemBody)) || !json.Valid(clean) || !bytes.Contains(clean, []byte("12345678901234567890")) {
		t.Errorf("%s %s", kind, clean)
	}
	same := []byte(`{"b": 1,  "a":"x"}`)
	if clean, kind := r.JSON(same); kind != "" || !bytes.Equal(clean, same) {
		t.Errorf("%q %s", kind, clean)
	}
	if clean, kind := r.JSON([]byte(`{"cut": "gh` + `p_` + mixed2)); kind != "github token" || bytes.Contains(clean, []byte(mixed2)) {
		t.Errorf("%q %s", kind, clean)
	}
}

// stream redacts through a Writer in pieces.
func stream(r *Redactor, pieces ...string) string {
	var b strings.Builder
	w := r.Writer(&b)
	for _, p := range pieces {
		_, _ = io.WriteString(w, p)
	}
	_ = w.Close()
	return b.String()
}

func TestASplitAtAnyByteLeaksNothing(t *testing.T) {
	t.Parallel()
	r := New(Value{"K", "known-value-1234"})
	var all string
	for _, c := range secrets {
		text := "before\n" + c.text + "\nbetween known-value-1234\n"
		all += text
		want := r.Text(text)
		for i := range len(text) {
			if got := stream(r, text[:i], text[i:]); got != want {
				t.Fatalf("split at %d (%q|%q) gives another text", i, text[max(0, i-20):i], text[i:min(len(text), i+20)])
			}
		}
	}
	one, err := io.ReadAll(r.Reader(iotest.OneByteReader(strings.NewReader(all))))
	if err != nil || string(one) != r.Text(all) {
		t.Errorf("byte by byte: %v", err)
	}
}

// piece generates text that is likely to be near a secret.
func piece() *rapid.Generator[string] {
	var texts []string
	for _, c := range secrets {
		texts = append(texts, c.text)
	}
	return rapid.OneOf(rapid.SampledFrom(texts), rapid.SampledFrom(harmless), rapid.SampledFrom([]string{"\n", " ", "\"", "=", "\\n", "token", "password: ", "x", "known-value-1234", "-----END PRIVATE KEY-----"}),
		rapid.StringMatching(`[A-Za-z0-9+/]{0,70}`), rapid.String())
}

func TestAnyCutOfAnyTextGivesTheSame(t *testing.T) {
	t.Parallel()
	r := New(Value{"K", "known-value-1234"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece(), 1, 12).Draw(t, "pieces"), rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "between"))
		whole := r.Text(text)
		var parts []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 40)).Draw(t, "n")
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		if got := stream(r, parts...); got != whole {
			t.Fatalf("whole\n%q\nin parts\n%q", whole, got)
		}
		if again := r.Text(whole); again != whole {
			t.Fatalf("not idempotent\n%q\n%q\n%q", text, whole, again)
		}
		if strings.Contains(whole, "known-value-1234") {
			t.Fatalf("leaks %q", whole)
		}
		if a, b := strings.Count(text, "\n"), strings.Count(whole, "\n"); a != b {
			t.Fatalf("%d lines became %d", a, b)
		}
	})
}

func TestASecretInALineWithoutEndIsFound(t *testing.T) {
	t.Parallel()
	r := New(Value{"K", "known value 1234"})
	rapid.Check(t, func(t *rapid.T) {
		filler := rapid.SampledFrom([]string{"x", "ab ", "{\"a\":1},", "0123456789abcdef"}).Draw(t, "filler")
		n := rapid.IntRange(maxLine-2*margin, maxLine+margin).Draw(t, "before")
		secret := rapid.SampledFrom([]string{" gh" + "p_" + mixed2 + " ", " known value 1234 ", ` "password": "` + mixed + `" `}).Draw(t, "secret")
		text := strings.Repeat(filler, n/len(filler)) + secret + strings.Repeat(filler, maxLine/2/len(filler))
		whole := r.Text(text)
		for _, s := range []string{mixed2, "known value 1234", mixed} {
			if strings.Contains(whole, s) {
				t.Fatalf("leaks %s at %d", s, n)
			}
		}
		k := rapid.IntRange(maxLine/16, maxLine).Draw(t, "chunk")
		var parts []string
		for rest := text; rest != ""; rest = rest[min(k, len(rest)):] {
			parts = append(parts, rest[:min(k, len(rest))])
		}
		if stream(r, parts...) != whole {
			t.Fatalf("in parts of %d it is another text", k)
		}
	})
	// A token that is longer than any window goes as a whole.
	long := "gh" + "p_" + strings.Repeat(mixed, 8000) + " end\nnext"
	if got := r.Text(long); got != "[redacted: github token] end\nnext" {
		t.Errorf("%.200q (%d bytes)", got, len(got))
	}
}

func TestMemoryIsBoundedOnWhateverComes(t *testing.T) {
	t.Parallel()
	w := New().Writer(io.Discard)
	for _, unit := range []string{"x", pemBody + "\n", "a b\n", "eyJa"} {
		chunk := []byte(strings.Repeat(unit, 10000))
		for range 20 {
			if _, err := w.Write(chunk); err != nil {
				t.Fatal(err)
			}
			if n := len(w.buf) + w.heldLen; n > 2*maxLine+maxHeld {
				t.Fatalf("%d bytes are held of %q", n, unit[:1])
			}
		}
	}
}

func BenchmarkOrdinaryOutput(b *testing.B) {
	line := "ok  \tbelay/internal/redact\t0.012s\tcoverage: 91.2% of statements in ./...\n"
	text := []byte(strings.Repeat(line, 1000))
	w := New(Value{"K", "known-value-1234"}).Writer(io.Discard)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = w.Write(text)
	}
}

func BenchmarkSuspiciousOutput(b *testing.B) {
	text := []byte(strings.Repeat("parser.go:12: unexpected token: expected https://x.org/key in secret=false\n", 1000))
	w := New(Value{"K", "known-value-1234"}).Writer(io.Discard)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = w.Write(text)
	}
}
