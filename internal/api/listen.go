package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// Listen is where the API is served.
type Listen struct {
	// Addr is host:port, "" for none. Beyond loopback it needs Cert and Key.
	Addr, Cert, Key string
	// Socket is the path of a unix socket, "" for none. Only its owner can
	// connect, and needs no token.
	Socket string
}

// ErrListen: the server will not, or cannot, listen like this.
var ErrListen = errors.New("cannot listen")

// maxConns bounds connections: each costs memory, whatever it sends.
const maxConns = 1024

// MaxSocketPath is how long the path of a unix socket may be.
const MaxSocketPath = 107

// The times that a connection gets. Bodies and writes have their own, because a
// stream is open for hours.
const (
	idleTime   = 2 * time.Minute
	drainTime  = 5 * time.Second
	headerSize = 16 << 10
)

// Serve listens until the context ends, then lets short requests end and
// returns. Once it listens it says where, as URLs.
func (a *API) Serve(ctx context.Context, l Listen, ready func(urls []string)) error {
	servers, urls, err := a.open(l)
	if err != nil {
		return err
	}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.http.Serve(s.l) }()
	}
	ready(urls)
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
		err = fmt.Errorf("the server stopped: %w", err)
	}
	a.Drain()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			if s.http.Shutdown(last) != nil {
				_ = s.http.Close()
			}
		})
	}
	wg.Wait()
	return err
}

type server struct {
	http *http.Server
	l    net.Listener
}

// open makes the listeners; either all of them or none.
func (a *API) open(l Listen) (servers []server, urls []string, err error) {
	defer func() {
		if err != nil {
			for _, s := range servers {
				_ = s.l.Close()
			}
			servers = nil
		}
	}()
	if l.Addr != "" {
		tcp, url, err := listenTCP(l)
		if err != nil {
			return servers, nil, err
		}
		if l.Cert != "" && len(a.Hosts) > 0 {
			// Its own name: what it listens on need not be an address to call.
			_, port, _ := net.SplitHostPort(tcp.Addr().String())
			url = "https://" + net.JoinHostPort(a.Hosts[0], port)
		}
		servers, urls = append(servers, server{a.server(nil), tcp}), append(urls, url)
	}
	if l.Socket != "" {
		unix, err := listenUnix(l.Socket)
		if err != nil {
			return servers, nil, err
		}
		owner := func(ctx context.Context, _ net.Conn) context.Context { return AsOwner(ctx) }
		servers, urls = append(servers, server{a.server(owner), unix}), append(urls, "unix:"+l.Socket)
	}
	return servers, urls, nil
}

func (a *API) server(conn func(context.Context, net.Conn) context.Context) *http.Server {
	return &http.Server{Handler: a, ReadHeaderTimeout: a.Limits.HeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: headerSize, ConnContext: conn, ErrorLog: a.Log}
}

func listenTCP(l Listen) (net.Listener, string, error) {
	host, _, err := net.SplitHostPort(l.Addr)
	if err != nil {
		return nil, "", fmt.Errorf("%w: --listen is host:port, as in 127.0.0.1:7420: %w", ErrListen, err)
	}
	secure := l.Cert != "" || l.Key != ""
	switch {
	case secure && (l.Cert == "" || l.Key == ""):
		return nil, "", fmt.Errorf("%w: --tls-cert and --tls-key belong together", ErrListen)
	case !secure && !loopback(host):
		return nil, "", fmt.Errorf("%w on %s without TLS: tokens and code would cross the network in clear; give --tls-cert and --tls-key, or listen on 127.0.0.1 and come in by an SSH tunnel", ErrListen, l.Addr)
	}
	tcp, err := net.Listen("tcp", l.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, "", fmt.Errorf("%w: something listens on %s already, perhaps another belay serve; choose another port with --listen", ErrListen, l.Addr)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w on %s: %w", ErrListen, l.Addr, err)
	}
	tcp = limited(tcp)
	if !secure {
		return tcp, "http://" + tcp.Addr().String(), nil
	}
	cert, err := tls.LoadX509KeyPair(l.Cert, l.Key)
	if err != nil {
		_ = tcp.Close()
		return nil, "", fmt.Errorf("%w: the certificate and key cannot be used: %w", ErrListen, err)
	}
	// HTTP/1.1 alone: a stream's write deadline is then its connection's.
	return tls.NewListener(tcp, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}),
		"https://" + tcp.Addr().String(), nil
}

// loopback reports whether a host can only be reached from this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listenUnix makes the socket, in place of one that nobody listens on any more.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > MaxSocketPath {
		return nil, fmt.Errorf("%w: the path of the socket has %d characters, and can have %d; choose a shorter one with --socket, or --socket off: %s", ErrListen, len(path), MaxSocketPath, path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w: another belay serve listens on %s; stop it, or give --socket another path or off", ErrListen, path)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%w: %s is no socket; give --socket another path", ErrListen, path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("%w: the socket of an earlier server cannot be removed: %w", ErrListen, err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrListen, path, err)
	}
	// Beside the directory's own mode, and before anybody is answered.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("%w on %s: %w", ErrListen, path, err)
	}
	return limited(l), nil
}

// limited accepts no more than maxConns connections at a time.
func limited(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, maxConns), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, done: func() { <-l.slots }}, nil
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once sync.Once
	done func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}
