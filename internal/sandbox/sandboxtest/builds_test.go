//go:build linux

package sandboxtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"belay/internal/sandbox"
	"belay/internal/sandbox/environ"
	. "belay/internal/sandbox/sandboxtest"
)

// builds are small projects as people have them, with what builds and tests
// them.
var builds = []struct {
	tool, command string
	files         map[string]string
}{
	{"go", "go vet ./... && go test ./... && go build -o bin/x .", map[string]string{
		"go.mod": "module example.org/x\n\ngo 1.21\n",
		"x.go":   "package main\n\nimport \"net/http\"\n\nfunc main() { http.NotFound(nil, nil) }\n",
		"x_test.go": "package main\n\nimport (\n\t\"io\"\n\t\"net/http\"\n\t\"net/http/httptest\"\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func TestServer(t *testing.T) {\n\tif os.Getenv(\"LOOPBACK\") == \"\" {\n\t\treturn\n\t}\n" +
			"\ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, \"hi\") }))\n" +
			"\tdefer s.Close()\n\tr, err := http.Get(s.URL)\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tr.Body.Close()\n}\n",
	}},
	{"node", "node --test", map[string]string{
		"package.json": `{"name":"x","version":"1.0.0","scripts":{"test":"node --test"}}`,
		"x.test.js": "const t = require('node:test'); const assert = require('node:assert'); const fs = require('fs'); const os = require('os');\n" +
			"t('files', () => { const d = fs.mkdtempSync(os.tmpdir() + '/x'); fs.writeFileSync(d + '/f', 'x'); assert.equal(fs.readFileSync(d + '/f', 'utf8'), 'x') });\n",
	}},
	{"npm", "npm test", map[string]string{
		"package.json": `{"name":"x","version":"1.0.0","scripts":{"test":"node -e 'process.exit(0)'"}}`,
	}},
	{"python3", "python3 -m unittest -v", map[string]string{
		"test_x.py": "import multiprocessing, subprocess, tempfile, unittest\n\n\ndef twice(n):\n    return 2 * n\n\n\nclass T(unittest.TestCase):\n" +
			"    def test_processes(self):\n        self.assertEqual(subprocess.check_output(['echo', 'x']), b'x\\n')\n" +
			"        with tempfile.NamedTemporaryFile() as f:\n            f.write(b'x')\n",
	}},
	{"cargo", "cargo test --offline", map[string]string{
		"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(1 + 1, 2);\n    }\n}\n",
	}},
}

// TestBuildsAndTestsRunInEverySandbox runs them with the user's own home, as
// it is when a command has been let in by the allow-list of the environment.
func TestBuildsAndTestsRunInEverySandbox(t *testing.T) {
	base := Base(t)
	for _, p := range builds {
		if _, err := exec.LookPath(p.tool); err != nil {
			t.Logf("%s is not installed here: nothing is shown of it", p.tool)
			continue
		}
		for _, b := range backends {
			if b.ID == "container" {
				continue // the tools are the image's, and the test's image has none
			}
			t.Run(p.tool+"/"+b.ID, func(t *testing.T) {
				t.Parallel()
				dir, err := os.MkdirTemp(base, "b")
				if err != nil {
					t.Fatal(err)
				}
				repo := filepath.Join(dir, "repo")
				for name, text := range p.files {
					path := filepath.Join(repo, name)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				var extra []string
				if b.ID != "landlock alone" {
					extra = append(extra, "LOOPBACK=1")
				}
				out := one(t, b, filepath.Join(dir, "state"), sandbox.Command{Key: "build.1", Shell: p.command, Dir: repo, Workspace: repo,
					Env: environ.Environment(os.Environ(), extra...), Timeout: 2 * time.Minute})
				if t.Failed() {
					t.Log(out)
				}
			})
		}
	}
}

func one(t testing.TB, b Backend, state string, c sandbox.Command) string {
	t.Helper()
	box, err := b.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	p, err := box.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Wait(context.Background())
	if err != nil || res.ExitCode != 0 {
		t.Errorf("%+v %v", res, err)
	}
	r, err := p.Output()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 4000)
	n, _ := r.Read(buf)
	return string(buf[:n])
}

// BenchmarkCommand is Start to Wait of a trivial command in each sandbox, with
// an idle shim at hand, as a step pays for it.
func BenchmarkCommand(b *testing.B) {
	for _, back := range append([]Backend{unconfined}, backends...) {
		b.Run(back.ID, func(b *testing.B) {
			base := Base(b)
			repo := filepath.Join(base, "repo")
			if err := os.MkdirAll(filepath.Join(repo, ".git", "hooks"), 0o755); err != nil {
				b.Fatal(err)
			}
			box, err := back.Open(filepath.Join(base, "state"))
			if err != nil {
				b.Fatal(err)
			}
			defer box.Close()
			env := environ.Environment(os.Environ())
			var took []time.Duration
			run := func(i int) {
				c := sandbox.Command{Key: fmt.Sprintf("k.%d", i), Argv: []string{"/bin/true"}, Dir: repo, Workspace: repo, Env: env}
				begin := time.Now()
				p, err := box.Start(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				if res, err := p.Wait(context.Background()); err != nil || res.ExitCode != 0 {
					b.Fatalf("%+v %v", res, err)
				}
				took = append(took, time.Since(begin))
				b.StopTimer()
				_ = box.Forget(context.Background(), c.Key)
				time.Sleep(30 * time.Millisecond) // the model's time; the idle shim gets up
				b.StartTimer()
			}
			run(-1)
			for i := 0; b.Loop(); i++ {
				run(i)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(took[0].Microseconds())/1000, "ms-min")
		})
	}
}
