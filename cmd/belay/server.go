package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"belay/client"
	"belay/internal/cli"
	"belay/internal/core"
	"belay/internal/remote"
	"belay/internal/service"
)

// serving is what a server leaves in the state directory so that the command
// line finds it. It is no lock, and nothing is lost with it.
type serving struct {
	// Worker says which process it is, so that one that was killed is not asked.
	Worker string `json:"worker"`
	Socket string `json:"socket"`
	// Ledger and Config say what the server works on: a command that means
	// another ledger or other rules is not for it.
	Ledger string `json:"ledger"`
	Config string `json:"config"`
}

const servingFile = "serve.json"

// servingHere is what a server of this process would leave.
func servingHere(o cli.OpenOptions, socket string) (serving, error) {
	db, err := database(o)
	if err != nil {
		return serving{}, err
	}
	config, err := filepath.Abs(configDir())
	if err != nil {
		return serving{}, err
	}
	sum := sha256.Sum256([]byte(db)) // the address may hold a password
	return serving{Worker: newWorker(), Socket: socket, Ledger: hex.EncodeToString(sum[:8]), Config: config}, nil
}

// announce leaves word of a server; the function that it returns takes it back.
func announce(state string, s serving) (func(), error) {
	path := filepath.Join(state, servingFile)
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if err := replaceFile(path, append(b, '\n')); err != nil {
		return nil, fmt.Errorf("leave word of the server: %w", err)
	}
	return func() {
		if now, err := announced(state); err == nil && now == s {
			_ = os.Remove(path) // else it is stale, and known to be
		}
	}, nil
}

func announced(state string) (s serving, err error) {
	b, err := os.ReadFile(filepath.Join(state, servingFile))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// server finds the server that a command is for: the one that was named, else
// the one that runs on the state directory for the same person, the same ledger
// and the same configuration. It returns nil when there is none.
func server(_ context.Context, o cli.OpenOptions) (service.Door, error) {
	var rested func(context.Context, core.Snapshot)
	if o.TellHere {
		tell, err := notifier(o)
		if err != nil {
			return nil, err
		}
		rested = tell.Tell
	}
	if o.Server != "" {
		c, here, err := named(o.Server)
		if err != nil {
			return nil, fmt.Errorf("%w: --server is %q: %w", service.ErrUsage, o.Server, err)
		}
		return remote.New(c, here, rested), nil
	}
	state, err := stateDir(o)
	if err != nil {
		return nil, err
	}
	s, err := announced(state)
	if err != nil || s.Socket == "" || deadWorker(s.Worker) {
		return nil, nil
	}
	want, err := servingHere(o, s.Socket)
	if err != nil {
		return nil, err
	}
	if want.Worker = s.Worker; want != s || !answers(s.Socket) {
		return nil, nil
	}
	return remote.New(client.Unix(s.Socket), true, rested), nil
}

// answers reports whether somebody listens on a socket that only the person
// who runs this program can have made.
func answers(socket string) bool {
	info, err := os.Lstat(socket)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return false
	}
	c := client.Unix(socket)
	defer c.HTTP.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	answer, err := c.Do(ctx, http.MethodGet, "/healthz", nil, nil)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil
}

// answerTime is how long a server may take to say that it lives; one that is
// stopped (SIGSTOP) must not stop the command line too.
const answerTime = 2 * time.Second

// named is a server by its address: unix:PATH or a URL. Plain HTTP would send
// the token in clear, so it is for this machine alone.
func named(at string) (c *client.Client, here bool, err error) {
	if path, ok := strings.CutPrefix(at, "unix:"); ok {
		return client.Unix(path), true, nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false, errors.New("name it as https://HOST:PORT, http://127.0.0.1:PORT or unix:PATH")
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme == "http" && !local {
		return nil, false, errors.New("without TLS the token and the code would cross the network in clear: use https")
	}
	token := os.Getenv(envToken)
	if token == "" {
		return nil, false, errors.New("put the token into " + envToken + " (belay token new makes one where the server runs)")
	}
	return &client.Client{URL: u.Scheme + "://" + u.Host, Token: token}, local, nil
}

const envToken = "BELAY_TOKEN"
