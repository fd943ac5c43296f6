package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"

	"belay/internal/cli"
	"belay/internal/sandbox/bwrap"
	"belay/internal/sandbox/choose"
	"belay/internal/sandbox/container"
	"belay/internal/sandbox/landlock"
	"belay/internal/sandbox/none"
)

// chooser knows the backends, the strongest first.
func chooser(state string) choose.Chooser {
	grade := func(o landlock.Options) func(string) (choose.Opened, error) {
		return func(state string) (choose.Opened, error) { return landlock.New(state, o) }
	}
	return choose.Chooser{State: state, Backends: []choose.Backend{
		{Name: bwrap.Name, ID: bwrap.Name, Automatic: true, Confines: true,
			Open: func(state string) (choose.Opened, error) { return bwrap.New(state) }},
		{Name: landlock.Name, ID: "landlock", Automatic: true, Confines: true, Open: grade(landlock.Options{Namespaces: true})},
		{Name: landlock.Name, ID: "landlock alone", Automatic: true, Confines: true, Open: grade(landlock.Options{})},
		{Name: container.Name, ID: container.Name, Confines: true,
			Open: func(state string) (choose.Opened, error) {
				// Without an image nothing can be run, and the reason is said.
				what, err := container.Pin(context.Background(), containers(""))
				if err != nil {
					return nil, err
				}
				return container.New(state, containers(what))
			},
			With: func(what string) func(string) (choose.Opened, error) {
				return func(state string) (choose.Opened, error) { return container.New(state, containers(what)) }
			},
			Pin: func(ctx context.Context, what string) (string, error) { return container.Pin(ctx, containers(what)) }},
		{Name: none.Name, ID: none.Name, Open: func(state string) (choose.Opened, error) { return none.New(state) }},
	}}
}

// containers are the container backend's options: the user's word on the engine,
// and an image, the user's default where none is named.
func containers(image string) container.Options {
	if image == "" {
		image = os.Getenv("BELAY_IMAGE")
	}
	return container.Options{Engine: strings.Fields(os.Getenv("BELAY_CONTAINER")), Image: image}
}

// boxes are the sandboxes that this process has opened: goals of one backend
// share it.
type boxes struct {
	chooser choose.Chooser
	mu      sync.Mutex
	opened  map[string]choose.Opened
}

func (b *boxes) open(ctx context.Context, name string) (choose.Opened, error) {
	if name == "" {
		name = choose.Auto
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if box := b.opened[name]; box != nil {
		return box, nil
	}
	box, err := b.chooser.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if b.opened == nil {
		b.opened = map[string]choose.Opened{}
	}
	b.opened[name] = box
	return box, nil
}

func (b *boxes) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, box := range b.opened {
		errs = append(errs, box.Close())
	}
	return errors.Join(errs...)
}

// doctorSandbox runs something in every backend.
func doctorSandbox(ctx context.Context, state string) []cli.Finding {
	if _, err := os.Stat(state); os.IsNotExist(err) {
		// Nothing is made that was not there: a place of the same kind will do.
		tmp, err := os.MkdirTemp("", "belay-doctor-")
		if err != nil {
			return []cli.Finding{{Name: "sandbox", Detail: err.Error()}}
		}
		defer os.RemoveAll(tmp)
		state = tmp
	}
	auto := cli.Finding{Name: "sandbox", Detail: "no backend holds here: goals are refused unless they are started with --sandbox none",
		Remedy: "install bubblewrap, or use a kernel with Landlock (Linux 5.13 or newer)"}
	var all []cli.Finding
	c := chooser(state)
	for i, f := range c.All(ctx) {
		one := cli.Finding{Name: f.ID, OK: f.Holds, Optional: c.Backends[i].Confines, Detail: f.Words}
		if !f.Holds {
			one.Detail = "does not hold here: " + f.Why
		}
		if f.Holds && c.Backends[i].Automatic && !auto.OK {
			auto = cli.Finding{Name: "sandbox", OK: true, Detail: "goals are confined by " + f.ID + " unless another --sandbox is named"}
		}
		all = append(all, one)
	}
	return append([]cli.Finding{auto}, all...)
}
