package postgres

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/moment"
)

// DefaultSchema is where the tables lie unless Options or the DSN say
// otherwise.
const DefaultSchema = "belay"

// Options adjust a store; the zero value is right for belay itself.
type Options struct {
	// Schema is the schema of the tables: lower-case letters, digits and
	// underscores. Empty means what the DSN's parameter belay_schema says, else
	// DefaultSchema.
	Schema string
	// Patience is how long a call tries again while the server restarts, fails
	// over or refuses for the moment; 0 means 30 s.
	Patience time.Duration
	// Poll is how often followers are looked after while notifications arrive;
	// 0 means 2 s. Without a connection to listen on it is ten times as often.
	Poll time.Duration
}

// openPatience is how long Open tries to reach the server: long enough for a
// restart in good order, short enough for someone who mistyped the address.
const openPatience = 5 * time.Second

// Ledger is one process's handle on a ledger in a PostgreSQL database.
type Ledger struct {
	name   string
	prefix string
	opts   Options

	pool *pgxpool.Pool
	// direct is the configuration of connections outside the pool.
	direct *pgx.ConnConfig
	hub    hub
	sender sender

	closeOnce sync.Once
	closed    chan struct{}
}

var _ ledger.Ledger = (*Ledger)(nil)

var validSchema = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// Open opens the ledger in the database that dsn names: a postgres:// address
// or libpq's key=value form, with pgx's pool parameters (pool_max_conns) and
// belay_schema. Missing tables are created and an older schema is migrated; a
// newer one is refused.
func Open(ctx context.Context, dsn string, opts Options) (*Ledger, error) {
	cfg, err := configure(dsn, &opts)
	if err != nil {
		return nil, err
	}
	c := cfg.ConnConfig
	host := c.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, fmt.Sprint(c.Port))
	}
	l := &Ledger{name: fmt.Sprintf("postgres %s database %s schema %s", host, c.Database, opts.Schema),
		prefix: pgx.Identifier{opts.Schema}.Sanitize() + ".", opts: opts, direct: c.Copy(), closed: make(chan struct{})}
	l.hub.l, l.sender.l = l, l
	if l.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, storage(l.name, "open", err)
	}
	if err := l.migrate(ctx, migrations); err != nil {
		l.pool.Close()
		return nil, err
	}
	l.sender.start()
	l.sweep(ctx)
	return l, nil
}

// configure reads the DSN and fills in what it leaves open.
func configure(dsn string, opts *Options) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The driver takes the password out of its message.
		f := fault.New(fault.Storage, fault.User, "the address of the PostgreSQL ledger cannot be read", "write it as postgres://user@host:5432/database")
		return nil, &storageError{Fault: f, err: err}
	}
	c := cfg.ConnConfig
	if s := c.RuntimeParams["belay_schema"]; s != "" {
		if opts.Schema == "" {
			opts.Schema = s
		}
		delete(c.RuntimeParams, "belay_schema")
	}
	if opts.Schema == "" {
		opts.Schema = DefaultSchema
	}
	if !validSchema.MatchString(opts.Schema) || strings.HasPrefix(opts.Schema, "pg_") {
		return nil, fault.New(fault.Storage, fault.User, fmt.Sprintf("%q cannot be the schema of a ledger", opts.Schema),
			"name one of lower-case letters, digits and underscores that does not begin with pg_")
	}
	if opts.Patience == 0 {
		opts.Patience = 30 * time.Second
	}
	if opts.Poll == 0 {
		opts.Poll = 2 * time.Second
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "belay"
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	c.DialFunc = dialer().DialContext
	if !strings.Contains(dsn, "pool_max_conns") {
		// A fleet is many processes; the server's connections are what they
		// share, and one goal needs one or two.
		cfg.MaxConns = 4
	}
	if !strings.Contains(dsn, "pool_max_conn_idle_time") {
		cfg.MaxConnIdleTime = time.Minute
	}
	return cfg, nil
}

// dialer notices a peer that has gone without a word in about half a minute,
// both while belay waits for an answer and while it sends.
func dialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}, Control: control}
}

// q puts the schema into a statement: @ stands before each name in it.
func (l *Ledger) q(sql string) string { return strings.ReplaceAll(sql, "@", l.prefix) }

// Close ends the handle: calls that have begun are finished or refused, and
// followers end.
func (l *Ledger) Close() error {
	l.closeOnce.Do(func() {
		l.sender.close()
		close(l.closed)
		l.hub.close()
		l.pool.Close()
	})
	return nil
}

func (l *Ledger) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Name says where the ledger is, without credentials.
func (l *Ledger) Name() string { return l.name }

// Now implements ledger.Ledger: the server's clock.
func (l *Ledger) Now(ctx context.Context) (now moment.Time, err error) {
	err = l.read(ctx, "read the clock", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, l.q("SELECT @store_clock()")).Scan(&now)
	})
	return now, err
}

// Check returns what a person should know about the server: settings under
// which a commit may be lost or torn, and a server that takes no writes.
func (l *Ledger) Check(ctx context.Context) (version string, problems []string, err error) {
	var fsync, pages, commit string
	var readOnly bool
	err = l.read(ctx, "check", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'),
			current_setting('synchronous_commit'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'`).
			Scan(&version, &fsync, &pages, &commit, &readOnly)
	})
	if fsync == "off" {
		problems = append(problems, "fsync is off: a crash of the server's machine can lose or tear the ledger")
	}
	if pages == "off" {
		problems = append(problems, "full_page_writes is off: a crash of the server's machine can tear pages of the ledger")
	}
	if readOnly {
		problems = append(problems, "the server takes no writes: it is a standby or was made read-only")
	}
	return version, problems, err
}
