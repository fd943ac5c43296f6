package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/client"
	"belay/internal/token"
)

// certificate makes one for belay.example and writes it with its key.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "belay.example"}, DNSNames: []string{"belay.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, b := range map[string][]byte{cert: text, key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return cert, key, pool
}

func TestBeyondLoopbackItSpeaksTLSUnderItsOwnName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	a, err := New(Config{Service: w.service, Check: w.tokens.Check, Hosts: []string{"belay.example"}, Model: "script:test"})
	if err != nil {
		t.Fatal(err)
	}
	cert, key, pool := certificate(t)
	ctx, cancel := context.WithCancel(t.Context())
	served, urls := make(chan error, 1), make(chan []string, 1)
	go func() {
		// Every address of the machine: what must not be had without TLS.
		served <- a.Serve(ctx, Listen{Addr: "0.0.0.0:0", Cert: cert, Key: key}, func(u []string) { urls <- u })
	}()
	var name string
	select {
	case err := <-served:
		t.Fatal(err)
	case u := <-urls:
		name = u[0]
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(name, "https://"))
	if err != nil || host != "belay.example" {
		t.Fatalf("it says that it is at %s: %v", name, err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	}
	h := &http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	c := &client.Client{URL: name, Token: w.secret[token.Operate], HTTP: h}
	goal, err := c.Start(t.Context(), client.StartGoal{Text: "over TLS", Repo: w.repo})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m, err := range c.Follow(t.Context(), goal.Goal, "events", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; m.Name == "caught_up" {
			break
		}
	}
	if n != fresh+1 {
		t.Errorf("%d messages", n)
	}
	for origin, want := range map[string]int{name: 200, "http://belay.example:" + port: 403, "https://other.example:" + port: 403} {
		r, err := http.NewRequest("GET", name+"/v1/goals", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Authorization", "Bearer "+w.secret[token.Watch])
		answer, err := h.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a page of %s: %d, want %d", origin, answer.StatusCode, want)
		}
	}
	// In clear there is nothing to be had.
	plain := &http.Client{Transport: &http.Transport{DialContext: dial}}
	answer, err := plain.Get("http://belay.example:" + port + "/healthz")
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("in clear: %d", answer.StatusCode)
		}
	}
	h.CloseIdleConnections()
	plain.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
