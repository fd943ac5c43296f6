// Package otlp sends the spans of a ledger's goals to an OpenTelemetry
// collector, by OTLP over HTTP in its JSON form.
//
// The ledger is its queue: it reads on from the event that it has sent through,
// so that it holds one batch in memory whatever happens, and a collector that is
// away delays nothing and loses nothing. It must not know what a goal is doing,
// and no goal waits for it.
package otlp

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Config is where spans go, and as what.
type Config struct {
	URL     string
	Headers map[string]string
	// Service names this program, Resource says more about it.
	Service  string
	Resource map[string]string
	Timeout  time.Duration
	Gzip     bool
	// Content has prompts, answers, arguments and results sent too.
	Content bool
}

// FromEnv reads the variables that the OpenTelemetry specification names. ok is
// false where no endpoint is set, or tracing is switched off.
func FromEnv(getenv func(string) string) (c Config, ok bool, err error) {
	first := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(getenv(n)); v != "" {
				return v
			}
		}
		return ""
	}
	c = Config{Service: "belay", Timeout: 10 * time.Second, Resource: map[string]string{}}
	if c.URL = first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); c.URL == "" {
		if base := first("OTEL_EXPORTER_OTLP_ENDPOINT"); base != "" {
			c.URL = strings.TrimSuffix(base, "/") + "/v1/traces"
		}
	}
	off := strings.EqualFold(first("OTEL_SDK_DISABLED"), "true") || first("OTEL_TRACES_EXPORTER") == "none"
	if c.URL == "" || off {
		return c, false, nil
	}
	if p := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p == "grpc" {
		return c, false, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc: belay speaks OTLP over HTTP; name the collector's HTTP port (4318) and set http/json, or leave it out")
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return c, false, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is %q, which is no http:// or https:// address", c.URL)
	}
	if c.Headers, err = pairs(first("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")); err != nil {
		return c, false, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err) // without its value: it may hold a key
	}
	if c.Resource, err = pairs(first("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return c, false, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if name := c.Resource["service.name"]; name != "" {
		c.Service = name
	}
	if name := first("OTEL_SERVICE_NAME"); name != "" {
		c.Service = name
	}
	if ms := first("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil || n < 1 || n > 600_000 {
			return c, false, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; give milliseconds from 1 to 600000", ms)
		}
		c.Timeout = time.Duration(n) * time.Millisecond
	}
	c.Gzip = first("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION") == "gzip"
	content := strings.ToLower(first("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"))
	c.Content = content == "true" || content == "span_only" || content == "span_and_event"
	return c, true, nil
}

// pairs reads name=value,name=value, percent-encoded.
func pairs(text string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range strings.Split(text, ",") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		name, value, ok := strings.Cut(p, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, errors.New("write it as name=value,name=value, with %XX for special characters")
		}
		out[name] = value
	}
	return out, nil
}
