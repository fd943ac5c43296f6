package archtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// root finds the module's root from the folder that the test runs in.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = up
	}
}

var tree struct {
	once sync.Once
	s    Source
	err  error
}

// source describes this repository, once for all tests.
func source(t *testing.T) Source {
	t.Helper()
	dir := root(t)
	tree.once.Do(func() { tree.s, tree.err = Load(dir) })
	if tree.err != nil {
		t.Fatal(tree.err)
	}
	if !hasPackage(tree.s, "internal/event") || len(tree.s.Deps) < 10 {
		t.Fatalf("the description of the source is not whole: %d packages, %d dependencies", len(tree.s.Packages), len(tree.s.Deps))
	}
	return tree.s
}

func holds(t *testing.T, vs []Violation) {
	t.Helper()
	for _, v := range vs {
		t.Errorf("%s", v)
	}
}

func TestPackagesImportOnlyFromFloorsBelow(t *testing.T) { t.Parallel(); holds(t, Floors(source(t))) }

func TestTheDecidingPackagesArePure(t *testing.T) { t.Parallel(); holds(t, Purity(source(t))) }

func TestEveryPackageSaysItsJob(t *testing.T) { t.Parallel(); holds(t, Documents(source(t))) }

func TestFilesAndFunctionsStaySmall(t *testing.T) { t.Parallel(); holds(t, Sizes(source(t))) }

func TestNoHeavyModuleSlipsIn(t *testing.T) { t.Parallel(); holds(t, Weight(source(t))) }
