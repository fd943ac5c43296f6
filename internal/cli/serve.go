package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"belay/internal/service"
	"belay/internal/token"
)

// ServeOptions are the flags of serve.
type ServeOptions struct {
	Parallel int
	// Addr is host:port, Socket a path; "" for none.
	Addr, Socket, Cert, Key string
	Hosts                   []string
	// Model and Sandbox are for goals that name none.
	Model, Sandbox string
	// Ready is told the addresses once they are listened on.
	Ready func(urls []string)
	// OnError is told what made the worker let a goal go.
	OnError func(goal string, err error)
}

// DefaultListen is where belay serve listens; it is in the printed addresses
// of belay token too.
const DefaultListen = "127.0.0.1:7420"

func (a *app) serveCommand() *cobra.Command {
	o := ServeOptions{}
	c := &cobra.Command{
		Use: "serve", Short: "the worker, with the HTTP API and the console", Args: exactly(0, 0),
		Long: "serve is a worker (belay worker --help) that also listens: the console for a browser,\n" +
			"and the HTTP API that it is made of (docs/api.md, /v1/openapi.json).\n\n" +
			"Everything needs a token: belay token new. Only the unix socket in the state directory\n" +
			"needs none, because whoever can open it could read the ledger itself. Beyond loopback it\n" +
			"listens with TLS only.",
		Example: "  belay serve\n  belay token new laptop --scope operate\n" +
			"  belay serve --listen 0.0.0.0:7420 --tls-cert cert.pem --tls-key key.pem --host belay.example.org",
		RunE: func(*cobra.Command, []string) error { return a.serve(o) },
	}
	c.Flags().IntVar(&o.Parallel, "parallel", 4, "how many goals at a time")
	c.Flags().StringVar(&o.Addr, "listen", DefaultListen, "host:port, or off")
	c.Flags().StringVar(&o.Socket, "socket", "", "path of the unix socket, or off (default: serve.sock in the state directory)")
	c.Flags().StringVar(&o.Cert, "tls-cert", "", "certificate, PEM; needed beyond loopback")
	c.Flags().StringVar(&o.Key, "tls-key", "", "its private key, PEM")
	c.Flags().StringArrayVar(&o.Hosts, "host", nil, "another name or address under which the server may be called (repeatable)")
	return c
}

func (a *app) serve(o ServeOptions) error {
	if o.Addr == "off" {
		o.Addr = ""
	}
	if o.Addr == "" && o.Socket == "off" {
		return usagef("with neither --listen nor --socket there is nothing to serve: belay worker does that")
	}
	o.Model, o.Sandbox = a.Getenv("BELAY_MODEL"), a.Getenv("BELAY_SANDBOX")
	o.Ready = func(urls []string) {
		if a.json {
			_ = writeJSON(a.Stdout, map[string][]string{"listening": urls})
		}
		for _, u := range urls {
			fmt.Fprintf(a.Stderr, "belay: listening on %s\n", u)
			if strings.HasPrefix(u, "http") {
				fmt.Fprintf(a.Stderr, "belay: console: %s/\n", u)
			}
		}
		store, err := a.Tokens(a.opts)
		if err != nil {
			return
		}
		if list, err := store.List(); err == nil && len(list) == 0 {
			fmt.Fprintln(a.Stderr, "belay: there is no token yet: belay token new NAME --scope watch|answer|operate")
		}
		fmt.Fprintf(a.Stderr, "belay: working, up to %d goals at a time\n", o.Parallel)
	}
	o.OnError = func(goal string, err error) {
		fmt.Fprintf(a.Stderr, "belay: goal %s: %s\n", goal, oneLine(err.Error()))
	}
	err := a.Serve(a.ctx, a.opts, o)
	if err == nil {
		fmt.Fprintln(a.Stderr, "belay: drained")
	}
	return err
}

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "make, list and revoke the tokens of belay serve", Args: exactly(0, 0),
		Long: "A token lets its holder in at belay serve. Its scope is what it allows:\n" +
			"  watch    read everything, change nothing\n" +
			"  answer   and answer what a goal asks: approvals, questions, doubts\n" +
			"  operate  and start, steer and end goals: as good as a shell on this machine\n\n" +
			"It is shown once; the state directory keeps a hash of it.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newTokenCommand(), a.listTokensCommand(), a.revokeTokenCommand())
	return c
}

// tokens calls f with the store; its refusals are usage errors.
func (a *app) tokens(f func(*token.Store) error) error {
	store, err := a.Tokens(a.opts)
	if err != nil {
		return err
	}
	err = f(store)
	if errors.Is(err, token.ErrInput) || errors.Is(err, token.ErrUnknown) {
		return fmt.Errorf("%w: %w", service.ErrUsage, err)
	}
	return err
}

func (a *app) newTokenCommand() *cobra.Command {
	var scope string
	var life time.Duration
	var at string
	c := &cobra.Command{
		Use: "new NAME", Short: "make a token and show it once", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.tokens(func(s *token.Store) error {
				secret, t, err := s.New(args[0], token.Scope(scope), life)
				if err != nil {
					return err
				}
				if at == "" {
					at = cmp.Or(a.ServedAt(a.opts), "http://"+DefaultListen)
				}
				url := strings.TrimSuffix(at, "/") + "/#token=" + secret
				v := struct {
					token.Token
					Secret string `json:"token"`
					URL    string `json:"url"`
				}{t, secret, url}
				return a.printJSONOr(v, func(w io.Writer) {
					fmt.Fprintf(w, "%s\n", secret)
					fmt.Fprintf(a.Stderr, "belay: token %s (%s, scope %s); it is not shown again\nbelay: console: %s\n", t.ID, oneLine(t.Name), t.Scope, url)
				})
			})
		},
	}
	c.Flags().StringVar(&scope, "scope", string(token.Watch), "watch, answer or operate")
	c.Flags().DurationVar(&life, "expires", 0, "how long it holds, as in 720h (default: until it is revoked)")
	c.Flags().StringVar(&at, "url", "", "where the server is, for the address of the console that is printed (default: where it listened last)")
	return c
}

func (a *app) listTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the tokens, without their secrets", Args: exactly(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return a.tokens(func(s *token.Store) error {
				list, err := s.List()
				if err != nil {
					return err
				}
				return a.printJSONOr(list, func(w io.Writer) {
					if len(list) == 0 {
						fmt.Fprintln(w, "no tokens: belay token new NAME --scope watch|answer|operate")
						return
					}
					t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
					fmt.Fprintln(t, "ID\tSCOPE\tCREATED\tEXPIRES\tNAME")
					for _, k := range list {
						ends := "never"
						if !k.Expires.IsZero() {
							ends = k.Expires.Local().Format(time.DateTime)
						}
						fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", k.ID, k.Scope, k.Created.Local().Format(time.DateTime), ends, oneLine(k.Name))
					}
					_ = t.Flush()
				})
			})
		},
	}
}

func (a *app) revokeTokenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "revoke a token: whoever holds it is out", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.tokens(func(s *token.Store) error {
				if err := s.Revoke(args[0]); err != nil {
					return err
				}
				return a.printJSONOr(map[string]string{"revoked": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "revoked: %s\n", oneLine(args[0])) })
			})
		},
	}
}
