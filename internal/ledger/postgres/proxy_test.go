package postgres

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"belay/internal/ledger/postgres/pgtest"
)

// cut says where a proxy breaks the connection around a COMMIT.
type cut string

const (
	// beforeCommit: the server never sees the COMMIT.
	beforeCommit cut = "before the COMMIT arrives"
	// afterForward: the COMMIT has been passed on; the client is cut off at
	// once, while the server may still be at it.
	afterForward cut = "after passing the COMMIT on"
	// beforeAnswer: the server has committed and answered; the answer is lost.
	beforeAnswer cut = "before the answer arrives"
	// lateCommit: the client is cut off, and the server gets the COMMIT only
	// once the proxy is told to pass it on.
	lateCommit cut = "with the COMMIT still under way"
	// neverCommit: as lateCommit, but then the server's side breaks too.
	neverCommit cut = "with a COMMIT that gets lost on its way"
)

// proxy stands between a ledger and its server and reads the protocol, to cut
// a connection exactly at a COMMIT.
type proxy struct {
	t      testing.TB
	dir    string
	server string

	mu sync.Mutex
	// armed cuts the next COMMIT of a transaction with a statement that has
	// needle in it.
	armed  cut
	needle string
	// cuts tells that a connection was cut; held gets the function that ends a
	// lateCommit or neverCommit.
	cuts chan cut
	held chan func()
	// down refuses connections; refused tells of each.
	down    bool
	refused chan struct{}
	conns   map[net.Conn]bool
}

func newProxy(t testing.TB, server string) *proxy {
	dir, l := pgtest.Listen(t)
	p := &proxy{t: t, dir: dir, server: server, cuts: make(chan cut, 100), held: make(chan func(), 100), refused: make(chan struct{}), conns: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	t.Cleanup(p.dropAll)
	return p
}

func (p *proxy) arm(c cut, needle string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.needle = c, needle
}

// dropAll breaks every connection there is.
func (p *proxy) dropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// refuse makes the proxy close new connections at once, or stop doing so.
func (p *proxy) refuse(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.dropAll()
	}
}

// fire reports whether this COMMIT is the one to cut, and disarms.
func (p *proxy) fire(transaction string) cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.armed
	if c == "" || !strings.Contains(transaction, p.needle) {
		return ""
	}
	p.armed = ""
	return c
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("unix", pgtest.SocketIn(p.server))
	p.mu.Lock()
	if err != nil || p.down {
		p.mu.Unlock()
		client.Close()
		select {
		case p.refused <- struct{}{}:
		default: // nobody waits for it
		}
		if err == nil {
			server.Close()
		}
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	// swallow, once closed, keeps the server's words from the client.
	swallow := make(chan struct{})
	answered := &tally{}
	answered.cond.L = &answered.mu
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.answers(server, client, swallow, answered)
	}()
	p.requests(client, server, swallow, answered)
	// The answers end when the server closes, or did so first.
	server.Close()
	<-done
	client.Close()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// answers passes on what the server says, and counts what it has done.
func (p *proxy) answers(server, client net.Conn, swallow chan struct{}, answered *tally) {
	r := bufio.NewReader(server)
	for {
		kind, m, err := message(r)
		if err != nil {
			client.Close()
			answered.end()
			return
		}
		switch kind {
		case 'C': // a statement is complete
			answered.completed()
		case 'Z': // the end of a batch
			answered.synced()
		}
		select {
		case <-swallow:
		default:
			if _, err := client.Write(m); err != nil {
				continue // the server's side ends the loop
			}
		}
	}
}

// requests passes on what the client says until a COMMIT that is to be cut.
func (p *proxy) requests(client, server net.Conn, swallow chan struct{}, answered *tally) {
	r := bufio.NewReader(client)
	// The first message has no kind; belay asks for no TLS here.
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return
	}
	rest := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return
	}
	if _, err := server.Write(append(head, rest...)); err != nil {
		return
	}
	statements := map[string]string{}
	transaction, executed := "", 0
	for {
		kind, m, err := message(r)
		if err != nil {
			return
		}
		sql := ""
		switch kind {
		case 'P': // Parse: name, text
			name, more := cstring(m[5:])
			statements[name], _ = cstring(more)
		case 'B': // Bind: portal, name
			_, more := cstring(m[5:])
			name, _ := cstring(more)
			sql = statements[name]
		case 'E':
			executed++
		case 'S':
			answered.asked(executed)
		}
		if strings.HasPrefix(sql, "BEGIN") {
			transaction = ""
		}
		transaction += sql + ";"
		if sql == "COMMIT" {
			if c := p.fire(transaction); c != "" {
				// What the proxy still has to read is the end of the batch:
				// execute and sync.
				for kind != 'S' {
					var next []byte
					if kind, next, err = message(r); err != nil {
						return
					}
					m = append(m, next...)
				}
				p.cut(c, m, executed, client, server, swallow, answered)
				return
			}
		}
		if _, err := server.Write(m); err != nil {
			return
		}
	}
}

func (p *proxy) cut(c cut, commit []byte, executed int, client, server net.Conn, swallow chan struct{}, answered *tally) {
	switch c {
	case beforeCommit:
	case afterForward:
		close(swallow)
		_, _ = server.Write(commit)
	case beforeAnswer:
		close(swallow)
		if _, err := server.Write(commit); err != nil {
			p.t.Errorf("pass the COMMIT on: %v", err)
		}
		answered.wait(executed + 1)
	case lateCommit, neverCommit:
		// What goes before the COMMIT has been done by the server, not only
		// sent to it: a flush makes it say so.
		close(swallow)
		_, _ = server.Write([]byte{'H', 0, 0, 0, 4})
		answered.wait(executed)
		client.Close()
		released := make(chan struct{})
		p.held <- func() {
			if c == lateCommit {
				if _, err := server.Write(commit); err != nil {
					p.t.Errorf("pass the COMMIT on: %v", err)
				}
				answered.wait(executed + 1)
			}
			server.Close()
			close(released)
		}
		p.cuts <- c
		<-released
		return
	}
	client.Close()
	p.cuts <- c
}

// tally counts the statements that a connection's server has completed, as
// many as the client has asked for: an error makes it skip the rest of a batch.
type tally struct {
	mu      sync.Mutex
	cond    sync.Cond
	n       int
	batches []int
}

func (t *tally) completed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	t.cond.Broadcast()
}

// asked notes how many statements there are at the end of a batch.
func (t *tally) asked(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.batches = append(t.batches, n)
}

// synced is the server's end of a batch; the one of the start has no batch.
func (t *tally) synced() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.batches) > 0 {
		t.n, t.batches = t.batches[0], t.batches[1:]
		t.cond.Broadcast()
	}
}

// end lets go of who waits when the server has closed the connection.
func (t *tally) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n = 1 << 30
	t.cond.Broadcast()
}

func (t *tally) wait(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.n < n {
		t.cond.Wait()
	}
}

func message(r *bufio.Reader) (kind byte, whole []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	whole = append(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
	_, err = io.ReadFull(r, whole[5:])
	return head[0], whole, err
}

func cstring(b []byte) (string, []byte) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:]
		}
	}
	return string(b), nil
}
