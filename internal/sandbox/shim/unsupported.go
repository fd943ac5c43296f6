//go:build !linux

package shim

import (
	"context"
	"fmt"
	"runtime"

	"belay/internal/sandbox"
)

// Sandbox refuses everything on a system whose process control the shim does
// not know: subreapers, parent-death signals and /proc are Linux's.
type Sandbox struct{ options Options }

// New always works, so that everything but commands can be used.
func New(_ string, o Options) (*Sandbox, error) { return &Sandbox{options: o}, nil }

func unavailable() error {
	return fmt.Errorf("%w: commands need Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}

// Name is the backend's name.
func (s *Sandbox) Name() string { return s.options.Name }

// Describe says that nothing can be run.
func (s *Sandbox) Describe() string { return unavailable().Error() }

// Close does nothing.
func (s *Sandbox) Close() error { return nil }

// Start refuses.
func (s *Sandbox) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, unavailable()
}

// Attach refuses.
func (s *Sandbox) Attach(context.Context, string) (sandbox.Process, error) {
	return nil, unavailable()
}

// Running lists nothing.
func (s *Sandbox) Running(context.Context) ([]string, error) { return nil, nil }

// Forget has nothing to do.
func (s *Sandbox) Forget(context.Context, string) error { return nil }
