package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"belay/internal/cli"
	"belay/internal/environment/toolchain"
	"belay/internal/sandbox/environ"
	"belay/internal/symbols"
	"belay/internal/symbols/gosource"
	"belay/internal/symbols/helper"
	"belay/internal/symbols/index"
	"belay/internal/workspace"
)

const (
	// envSymbols names the program that reads what is not Go; "none" for none.
	envSymbols = "BELAY_SYMBOLS"
	// symbolsProgram is its name beside belay and on PATH.
	symbolsProgram = "belay-symbols"
)

// symbolsPath finds the program: where the user says, beside belay, on PATH.
// "" means that there is none.
func symbolsPath() (string, error) {
	switch p := os.Getenv(envSymbols); p {
	case "":
	case "none":
		return "", nil
	default:
		p, err := filepath.Abs(p)
		if err == nil {
			_, err = exec.LookPath(p)
		}
		if err != nil {
			return "", fmt.Errorf("%s names no program: %w", envSymbols, err)
		}
		return p, nil
	}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			if p, err := exec.LookPath(filepath.Join(filepath.Dir(self), symbolsProgram)); err == nil {
				return p, nil
			}
		}
	}
	// An entry of PATH that depends on the directory is refused by LookPath: the
	// program must not come from a repository.
	p, err := exec.LookPath(symbolsProgram)
	if err != nil || !filepath.IsAbs(p) {
		return "", nil
	}
	return p, nil
}

// indexes are the symbols of all workspaces of a state directory, and the
// versions of this machine's programs.
type indexes struct {
	store  *index.Store
	helper *helper.Parser
	tools  *toolchain.Machine
}

func openSymbols(state string) *indexes {
	path, _ := symbolsPath() // doctor says what is wrong with it
	h := helper.New(helper.Config{Path: path})
	return &indexes{store: index.New(state, symbols.Parsers{gosource.Parser{}, h}), helper: h,
		tools: toolchain.New(toolchain.Config{Dir: state, Env: environ.Environment(os.Environ())})}
}

func (x *indexes) of(ws workspace.Workspace) symbols.Index { return x.store.Of(ws) }

func (x *indexes) close() error {
	return errors.Join(x.tools.Close(), x.store.Close(), x.helper.Close())
}

// doctorSymbols tries the program. Without it belay works, and says what it
// does not see: that is no fault.
func doctorSymbols(ctx context.Context) cli.Finding {
	f := cli.Finding{Name: "symbols"}
	path, err := symbolsPath()
	if err != nil {
		f.Detail, f.Remedy = err.Error(), "unset it, or build the program: make symbols"
		return f
	}
	if path == "" {
		f.OK, f.Detail = true, "go only: without belay-symbols (make symbols), no other language is read, which every answer says"
		return f
	}
	h := helper.New(helper.Config{Path: path})
	hello, err := h.Check(ctx)
	if err = errors.Join(err, h.Close()); err != nil {
		f.Detail, f.Remedy = err.Error(), "build it again: make symbols"
		return f
	}
	f.OK, f.Detail = true, "go, "+strings.Join(hello.Languages, ", ")+" ("+path+")"
	return f
}
