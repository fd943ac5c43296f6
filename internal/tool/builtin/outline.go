package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/symbols"
	"belay/internal/tool"
)

const maxOutlineBytes = 12 << 10

// outline shows what a file defines, as it is now.
func outline(ctx context.Context, env tool.Env, name string) (event.Outcome, event.Result, error) {
	f, err := env.Workspace.Read(ctx, name)
	if err != nil {
		return failed(ctx, missing(ctx, env.Workspace, name, err))
	}
	out, err := env.Symbols.Outline(ctx, f.Path, f.Bytes)
	if err != nil {
		return failed(ctx, unparsed(f.Path, err))
	}
	return succeeded(outlined(env, f.Path, out))
}

// unparsed explains why there are no symbols of a file.
func unparsed(path string, err error) error {
	const instead = "use search_text and read_file instead"
	var none *symbols.NoParser
	if errors.As(err, &none) && none.Language == "" {
		return fault.New(fault.NotText, fault.Model, path+" is no source file of a language that can be outlined", instead)
	}
	if errors.As(err, &none) {
		return fault.New(fault.NotFound, fault.Environment, path+" cannot be outlined: "+none.Error(), instead)
	}
	if why, ok := symbols.IsUnreadable(err); ok {
		return fault.New(fault.NotText, fault.Model, path+" cannot be outlined: "+why, instead)
	}
	return fault.New(fault.Internal, fault.Environment, path+" cannot be outlined now: "+err.Error(), instead)
}

func outlined(env tool.Env, path string, f symbols.File) string {
	var b strings.Builder
	shown := 0
	for _, s := range f.Symbols {
		depth := 0
		if s.Container != "" {
			depth = 1 + strings.Count(s.Container, ".")
		}
		line := fmt.Sprintf("%s%s %s\n", strings.Repeat("  ", min(depth, symbols.MaxDepth)), span(s), described(env, s))
		if b.Len()+len(line) > maxOutlineBytes {
			break
		}
		b.WriteString(line)
		shown++
	}
	notes := fmt.Sprintf("%s: %s, %s", path, f.Language, plural(int64(len(f.Symbols)), "definition"))
	if shown < len(f.Symbols) {
		notes += fmt.Sprintf("; the first %d are shown, ask for the others by name", shown)
	}
	if f.Broken {
		notes += "; the file has syntax errors, what stands near them may be missing"
	}
	if f.Cut {
		notes += "; it has more than are kept"
	}
	return b.String() + "[" + notes + "]\n"
}

// span are a symbol's lines.
func span(s symbols.Symbol) string {
	if s.End > s.Line {
		return fmt.Sprintf("%d-%d", s.Line, s.End)
	}
	return fmt.Sprint(s.Line)
}

// described is a symbol in words: its kind and signature, or its name where the
// signature does not say it.
func described(env tool.Env, s symbols.Symbol) string {
	sig := env.Secrets.Text(s.Signature)
	if strings.HasSuffix(s.Signature, "…") {
		// Half a secret is not recognised, so a cut one must not hold a value.
		sig, _, _ = strings.Cut(s.Signature, "=")
		sig = strings.TrimSpace(strings.TrimSuffix(sig, "…")) + "…"
	}
	if !strings.Contains(sig, s.Name) {
		sig = s.Name + " (" + sig + ")"
	}
	if strings.HasPrefix(sig, string(s.Kind)+" ") {
		return sig // class Cart says that it is a class
	}
	return string(s.Kind) + " " + sig
}
