package remote

import (
	"context"

	"belay/internal/event"
	"belay/internal/recall"
	"belay/internal/service"
)

// Search implements service.Door. A directory here is nothing to a server
// elsewhere.
func (d *Door) Search(ctx context.Context, q recall.Query, here string) (recall.Answer, error) {
	if err := q.Check(); err != nil {
		return recall.Answer{}, service.SearchUsage(err)
	}
	var err error
	if q.Repo != "" {
		if q.Repo, err = d.path("the repository", q.Repo); err != nil {
			return recall.Answer{}, err
		}
	}
	if !d.here {
		here = ""
	}
	return ask(d.c.Search(ctx, q, here))
}

// Event implements service.Door.
func (d *Door) Event(ctx context.Context, ref string) (string, error) {
	return service.ReadEvent(ctx, ref, d.Resolve, func(ctx context.Context, goal string, after uint64, limit int) ([]event.Event, error) {
		es, err := d.c.Events(ctx, goal, after, limit)
		out := make([]event.Event, len(es))
		for i, e := range es {
			out[i] = decode(e)
		}
		return out, told(err)
	})
}
