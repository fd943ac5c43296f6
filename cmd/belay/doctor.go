package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"belay/internal/cli"
	"belay/internal/ledger/sqlite"
	"belay/internal/service"
)

// doctor looks at the machine and the state directory, by doing rather than
// by asking: a command is really run, the ledger is really checked.
func doctor(ctx context.Context, o cli.OpenOptions) []cli.Finding {
	state, err := stateDir(o)
	if err != nil {
		return []cli.Finding{{Name: "state", Detail: err.Error(), Remedy: "set BELAY_STATE or --state"}}
	}
	var fs []cli.Finding
	fs = append(fs, doctorGit(ctx), doctorState(state))
	fs = append(fs, doctorLedger(ctx, state, o)...)
	fs = append(fs, doctorSandbox(ctx, state)...)
	fs = append(fs, doctorSymbols(ctx), doctorRules(), doctorKeys())
	return append(fs, doctorFiles(state)...)
}

func doctorGit(ctx context.Context) cli.Finding {
	f := cli.Finding{Name: "git"}
	out, err := exec.CommandContext(ctx, "git", "--version").Output()
	if err != nil {
		f.Detail, f.Remedy = "git cannot be run: "+err.Error(), "install git 2.30 or newer: revisions are computed with it, also outside repositories"
		return f
	}
	f.OK, f.Detail = true, strings.TrimSpace(string(out))
	return f
}

func doctorState(state string) cli.Finding {
	f := cli.Finding{Name: "state", Detail: state}
	info, err := os.Stat(state)
	switch {
	case os.IsNotExist(err):
		f.OK, f.Detail = true, state+" (will be made)"
	case err != nil:
		f.Detail = err.Error()
	case info.Mode().Perm()&0o077 != 0:
		f.Detail = fmt.Sprintf("%s can be read by others (%s)", state, info.Mode().Perm())
		f.Remedy = "chmod 700 " + state
	default:
		f.OK = true
	}
	return f
}

func doctorLedger(ctx context.Context, state string, o cli.OpenOptions) []cli.Finding {
	f := cli.Finding{Name: "ledger"}
	if db, err := database(o); err != nil {
		f.Detail = err.Error()
		return []cli.Finding{f}
	} else if db != "" {
		return doctorPostgres(ctx, db, o)
	}
	if _, err := os.Stat(state); os.IsNotExist(err) {
		return []cli.Finding{{Name: "ledger", OK: true, Detail: "none yet"}}
	}
	l, err := sqlite.Open(ctx, state, sqlite.Options{})
	if err != nil {
		f.Detail = err.Error()
		return []cli.Finding{f}
	}
	problems, err := l.Check(ctx)
	l.Close()
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("the database is damaged: %s", strings.Join(problems, "; "))
	}
	if err != nil {
		f.Detail, f.Remedy = err.Error(), "belay audit G names the first event that does not hold; what is readable can be read"
		return []cli.Finding{f}
	}
	s, done, err := open(ctx, o)
	if err != nil {
		f.Detail = err.Error()
		return []cli.Finding{f}
	}
	defer func() { _ = done() }()
	return []cli.Finding{doctorGoals(ctx, s)}
}

func doctorGoals(ctx context.Context, s *service.Service) cli.Finding {
	f := cli.Finding{Name: "ledger"}
	if err := s.RebuildRows(ctx); err != nil {
		f.Detail = err.Error()
		return f
	}
	ids, err := s.Ledger.Streams(ctx)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	var broken []string
	for _, id := range ids {
		if r, err := s.Audit(ctx, id); err != nil || r.Broken != nil {
			broken = append(broken, id)
		}
	}
	f.OK = len(broken) == 0
	f.Detail = fmt.Sprintf("the database is sound; %d goals, every row and hash chain checked", len(ids))
	if !f.OK {
		f.Detail, f.Remedy = "the chain does not hold for "+strings.Join(broken, ", "), "belay audit G names the event"
	}
	return f
}

func doctorRules() cli.Finding {
	f := cli.Finding{Name: "policy", OK: true}
	rules, _, err := loadRules(configDir(), ".")
	if err != nil {
		return cli.Finding{Name: "policy", Detail: err.Error(), Remedy: "mend the file; goals cannot start until then"}
	}
	f.Detail = fmt.Sprintf("%d rules of your own in %s", len(rules), configDir())
	return f
}

func doctorKeys() cli.Finding {
	var have []string
	for _, k := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"} {
		if os.Getenv(k) != "" {
			have = append(have, k)
		}
	}
	if len(have) == 0 {
		return cli.Finding{Name: "keys", OK: true, Detail: "neither OPENAI_API_KEY nor ANTHROPIC_API_KEY is set: script: models and servers without keys only"}
	}
	return cli.Finding{Name: "keys", OK: true, Detail: strings.Join(have, " and ") + " set; commands never see them"}
}

// known explains what lies in the state directory, by the first path element
// or file name.
var known = []struct{ name, what string }{
	{"ledger.db", "the ledger: every goal's events; the only source of truth"},
	{"ledger.db-wal", "the ledger's write-ahead log: belongs to ledger.db"},
	{"ledger.db-shm", "shared memory of the ledger: belongs to ledger.db"},
	{"artifacts", "large contents by SHA-256: logs, diffs, messages"},
	{"spool", "commands that run or ran under a shim: output and result"},
	{"workspaces", "private git directories and locks, one for each workspace: a cache but for kept checkpoints"},
	{"logs", "what background workers printed"},
	{"place", "the name of this state directory: what was started elsewhere cannot be looked at here"},
	{"tokens.json", "the tokens of belay serve, as hashes (belay token list)"},
	{"serve.url", "where belay serve listened last, for the address that belay token prints"},
	{"traces.json", "how far traces have been sent: a cache; without it, sending begins anew from now on"},
	{"traces.lock", "held by the process that sends traces"},
	{"serve.json", "how the command line finds the belay serve that runs here; stale after one that was killed"},
	{"serve.sock", "the socket of belay serve; left by one that was killed, the next one replaces it"},
	{"symbols-1.db", "the index of symbols: a cache, made again when it is deleted"},
	{"toolchains.json", "versions of the programs of this machine: a cache"},
	{".probe", "held while a sandbox is probed, so that what a killed probe left can be removed"},
	{"probes", "which sandboxes hold here, until the machine or belay changes: a cache"},
}

func doctorFiles(state string) []cli.Finding {
	entries, err := os.ReadDir(state)
	if err != nil {
		return nil
	}
	var out []cli.Finding
	for _, e := range entries {
		f := cli.Finding{Name: e.Name(), OK: true, Detail: "unknown: not belay's"}
		for _, k := range known {
			if e.Name() == k.name || strings.HasPrefix(e.Name(), k.name+".") || strings.HasPrefix(e.Name(), k.name+"-") {
				f.Detail = k.what
			}
		}
		f.Detail += fmt.Sprintf(" (%d KiB)", size(filepath.Join(state, e.Name()))/1024)
		out = append(out, f)
	}
	return out
}

func size(path string) int64 {
	var n int64
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read is not counted
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
