package workspace

import (
	"path"
	"strings"

	"belay/internal/fault"
)

// Clean brings a path, as a model or a person gave it, into the one form that
// the rest of belay uses: slash-separated, relative to the root, lexically
// cleaned, "." for the root itself. It looks at the text alone, so a tool can
// use it before there is a workspace. An absolute path stays absolute: only
// the workspace knows whether it lies under the root. A path that leads out of
// the root by ".." is a fault of kind outside_workspace.
func Clean(p string) (string, error) {
	if p == "" {
		return "", fault.New(fault.InvalidArguments, fault.Model, "the path is empty", "name a file relative to the workspace root")
	}
	if strings.ContainsRune(p, 0) {
		return "", fault.New(fault.InvalidArguments, fault.Model, "the path has a NUL character", "send the path as plain text")
	}
	c := path.Clean(p)
	if c == ".." || strings.HasPrefix(c, "../") {
		return "", OutsideFault(p)
	}
	return c, nil
}

// OutsideFault is the refusal of a path that leads out of the workspace.
func OutsideFault(p string) *fault.Fault {
	return fault.New(fault.Outside, fault.Model, "the path "+p+" is outside the workspace", "use a path below the workspace root")
}
