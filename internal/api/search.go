package api

import (
	"time"

	"belay/internal/moment"
	"belay/internal/recall"
)

func search(c *call) (recall.Answer, error) {
	v := c.r.URL.Query()
	now := moment.Of(time.Now())
	q, earlier, err := recall.Parse(v.Get("q"), now)
	if err != nil {
		return recall.Answer{}, bad("q: %v", err)
	}
	set(&q.File, v.Get("file"))
	set(&q.Tool, v.Get("tool"))
	set(&q.Outcome, v.Get("outcome"))
	q.Repo = v.Get("repo")
	for name, at := range map[string]*moment.Time{"since": &q.Since, "until": &q.Until} {
		if s := v.Get(name); s != "" {
			if *at, err = recall.When(s, now); err != nil {
				return recall.Answer{}, bad("%s: %v", name, err)
			}
		}
	}
	for _, k := range v["kind"] {
		switch kind := recall.Kind(k); kind {
		case recall.Operation, recall.Said, recall.Fact, recall.File, recall.Symbol:
			q.Kinds = append(q.Kinds, kind)
		default:
			return recall.Answer{}, bad("kind %q is not operation, said, fact, file or symbol", k)
		}
	}
	limit, err := c.number("limit", recall.DefaultLimit, recall.MaxLimit)
	if err != nil {
		return recall.Answer{}, err
	}
	q.Limit = int(limit)
	if prefix := v.Get("goal"); prefix != "" {
		if q.Goal, err = c.Service.Resolve(c.ctx, prefix); err != nil {
			return recall.Answer{}, err
		}
		if earlier {
			snap, err := c.Service.Snapshot(c.ctx, q.Goal)
			if err != nil {
				return recall.Answer{}, err
			}
			q.Goal, q.Repo = "", snap.Repo
		}
	}
	return c.Service.Search(c.ctx, q, v.Get("here"))
}
