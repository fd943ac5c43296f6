package api

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"

	"belay/client"
	"belay/internal/ledger"
)

// metrics counts requests. Its labels come from the table of routes and from
// the codes of problems, so they are few.
type metrics struct {
	mu       sync.Mutex
	requests map[[2]string]int64 // route, status
	problems map[string]int64
}

func newMetrics() *metrics {
	return &metrics{requests: map[[2]string]int64{}, problems: map[string]int64{}}
}

func (m *metrics) request(pattern string, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[[2]string{cmp.Or(pattern, "none"), fmt.Sprint(status)}]++
}

func (m *metrics) problem(code string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problems[code]++
}

// exposition writes the metrics as Prometheus reads them.
func exposition(c *call) error {
	rows, err := c.Service.Ledger.Goals(c.ctx, ledger.Filter{})
	if err != nil {
		return err
	}
	status, waits := map[string]int64{}, map[string]int64{}
	var steps, tokens, cost, held int64
	for _, r := range rows {
		status[r.Status]++
		if r.WaitReason != "" {
			waits[r.WaitReason]++
		}
		steps, tokens, cost = steps+r.Steps, tokens+r.Tokens, cost+r.CostMicros
		if r.LeaseOwner != "" {
			held++
		}
	}
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w := &page{w: c.w}
	w.family("belay_goals", "gauge", "Goals by status.", byLabel("status", status))
	w.family("belay_goals_waiting", "gauge", "Active goals that wait, by what for.", byLabel("wait_reason", waits))
	w.family("belay_goals_held", "gauge", "Goals that a worker holds.", map[string]int64{"": held})
	w.family("belay_steps", "gauge", "Model requests of all goals so far.", map[string]int64{"": steps})
	w.family("belay_tokens", "gauge", "Tokens of all goals so far.", map[string]int64{"": tokens})
	w.family("belay_cost_micros", "gauge", "Cost of all goals so far, in millionths of a US dollar.", map[string]int64{"": cost})
	w.family("belay_http_streams", "gauge", "Open event streams.", map[string]int64{"": c.streams.Load()})
	c.metrics.mu.Lock()
	requests := map[string]int64{}
	for k, n := range c.metrics.requests {
		requests[fmt.Sprintf("{route=%q,status=%q}", k[0], k[1])] = n
	}
	problems := byLabel("code", c.metrics.problems)
	c.metrics.mu.Unlock()
	w.family("belay_http_requests_total", "counter", "Requests by route and status.", requests)
	w.family("belay_http_problems_total", "counter", "Errors by code.", problems)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	w.family("go_memstats_heap_alloc_bytes", "gauge", "Bytes of allocated heap objects.", map[string]int64{"": int64(mem.HeapAlloc)})
	w.family("go_goroutines", "gauge", "Number of goroutines.", map[string]int64{"": int64(runtime.NumGoroutine())})
	return nil
}

func byLabel(name string, m map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for k, n := range m {
		out[fmt.Sprintf("{%s=%q}", name, k)] = n
	}
	return out
}

type page struct{ w io.Writer }

func (p *page) family(name, kind, help string, samples map[string]int64) {
	if len(samples) == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for _, labels := range slices.Sorted(maps.Keys(samples)) {
		fmt.Fprintf(&b, "%s%s %d\n", name, labels, samples[labels])
	}
	_, _ = io.WriteString(p.w, b.String())
}

// alive answers as long as the process does.
func alive(c *call) error { return c.json(http.StatusOK, client.Health{Status: "ok"}) }

// ready answers while goals can be read and the server takes requests.
func ready(c *call) error {
	if c.draining.Load() {
		return &client.Problem{Title: "The server is stopping", Status: http.StatusServiceUnavailable, Code: "stopping", Retryable: true}
	}
	if _, err := c.Service.Ledger.Now(c.ctx); err != nil {
		c.Log.Printf("not ready: %v", err)
		// Everybody may ask: what exactly is wrong is for the log.
		return &client.Problem{Title: "The ledger does not answer", Status: http.StatusServiceUnavailable, Code: "ledger", Retryable: true}
	}
	return c.json(http.StatusOK, client.Health{Status: "ready"})
}
