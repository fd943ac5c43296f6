//go:build linux

package sandboxtest_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"belay/internal/sandbox/container"
	. "belay/internal/sandbox/sandboxtest"
)

// The environment in which processes of this test find the engine and the
// image, and the reason why there is no container here.
const (
	envEngine = "BELAY_TEST_ENGINE"
	envImage  = "BELAY_TEST_IMAGE"
)

// whyNoContainer is set when contained finds nothing.
var whyNoContainer string

// contained is the container backend, or nil where no engine works. It tries
// them by running something, in an image made of this machine's own files.
func contained() *Backend {
	engine, image := os.Getenv(envEngine), os.Getenv(envImage)
	if engine == "" {
		if engine, image = findEngine(); engine == "" {
			os.Setenv(envEngine, "none")
			return nil
		}
		os.Setenv(envEngine, engine)
		os.Setenv(envImage, image)
	}
	if engine == "none" {
		whyNoContainer = "the process that started this one found none"
		return nil
	}
	o := container.Options{Engine: strings.Fields(engine), Image: image}
	return &Backend{ID: "container", Enclosed: true, Confined: true, Open: func(state string) (Opened, error) { return container.New(state, o) }}
}

// engines are the candidates. Podman's own choice of a runtime does not work
// everywhere (crun refuses machines with both versions of control groups).
var engines = []string{"podman", "podman --runtime runc", "docker"}

// ownImage is the image of this process, which it removes at its end.
var ownImage, ownEngine string

func findEngine() (engine, image string) {
	if !flagged("TestEscapes|TestEvery|TestTheContainer|BenchmarkCommand|^$") {
		whyNoContainer = "not asked for"
		return "", ""
	}
	var tar []byte
	for _, e := range engines {
		argv := strings.Fields(e)
		if _, err := exec.LookPath(argv[0]); err != nil {
			whyNoContainer += fmt.Sprintf("%s: %v; ", e, err)
			continue
		}
		if tar == nil {
			tar = imageTar()
		}
		name := fmt.Sprintf("localhost/belay-test-%d", os.Getpid())
		load := exec.Command(argv[0], append(argv[1:], "import", "-", name)...)
		load.Stdin = bytes.NewReader(tar)
		if out, err := load.CombinedOutput(); err != nil {
			whyNoContainer += fmt.Sprintf("%s cannot import an image: %v %s; ", e, err, out)
			continue
		}
		ownImage, ownEngine = name, e
		if err := works(e, name); err != nil {
			whyNoContainer += fmt.Sprintf("%s: %v; ", e, err)
			removeImage()
			continue
		}
		return e, name
	}
	return "", ""
}

// flagged reports whether some of the named tests may run.
func flagged(names string) bool {
	for _, a := range os.Args {
		if v, ok := strings.CutPrefix(a, "-test.run="); ok && v != "" {
			if m, err := regexp.MatchString(names, v); err == nil && !m {
				return false
			}
		}
	}
	return true
}

// works runs something, under the backend's own options.
func works(engine, image string) error {
	state, err := os.MkdirTemp("", "belay-engine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	box, err := container.New(filepath.Join(state, "state"), container.Options{Engine: strings.Fields(engine), Image: image})
	if err != nil {
		return err
	}
	defer box.Close()
	return Tried(box, filepath.Join(state, "repo"))
}

func removeImage() {
	if ownImage != "" {
		argv := strings.Fields(ownEngine)
		_ = exec.Command(argv[0], append(argv[1:], "rmi", "--force", ownImage)...).Run()
		ownImage = ""
	}
}

// programs are what the attempts and the conformance suite call.
var programs = strings.Fields("sh bash cat ln mv rm chmod find tr sleep head tail mkdir rmdir ls wc mktemp setsid env git touch tee grep sed date dirname basename id seq true stat sort cp")

// imageTar is a root file system of this machine's own files.
func imageTar() []byte {
	files := map[string]bool{"/proc/self/exe": false}
	var links [][2]string
	for _, p := range programs {
		path, err := exec.LookPath(p)
		if err != nil {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		files[real] = true
		for _, at := range []string{"/bin/" + p, "/usr/bin/" + p} {
			if at != real {
				links = append(links, [2]string{at, real})
			}
		}
		if p == "git" {
			links = append(links, [2]string{"/usr/lib/git-core/git", real})
		}
	}
	library := regexp.MustCompile(`(/\S+) \(0x`)
	for f := range files {
		out, _ := exec.Command("ldd", f).Output() // a static program has none
		for _, m := range library.FindAllSubmatch(out, -1) {
			files[string(m[1])] = true
		}
	}
	return pack(files, links)
}

func TestTheContainerBackendIsTriedWhereAnEngineWorks(t *testing.T) {
	for _, b := range backends {
		if b.ID == "container" {
			return // the other tests have it among theirs
		}
	}
	t.Skip("NO CONTAINER IS TRIED HERE: " + whyNoContainer)
}
