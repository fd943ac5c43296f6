// Command outside is a program of another module that uses belay's client: it
// starts a goal, watches it, and answers what it asks.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"belay/client"
)

func main() {
	if err := work(context.Background(), client.Unix(os.Args[1]), os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(ctx context.Context, c *client.Client, repo string) error {
	goal := client.StartGoal{Text: "mend it", Repo: repo, Plan: client.PlanNever, Approve: client.ApproveAsk,
		Acceptance: []client.Criterion{{Kind: client.CriterionTest, Command: "go test ./..."}}, Limits: client.Limits{Amount: client.Amount{Tokens: 500_000}}}
	started, err := c.Start(client.WithKey(ctx, "a key of our own"), goal)
	if err != nil {
		return err
	}
	for m, err := range c.Follow(ctx, started.Goal, "timeline", 0) {
		if err != nil {
			return err
		}
		var e client.Entry
		if err := json.Unmarshal(m.Data, &e); err != nil {
			return err
		}
		snap, err := c.Snapshot(ctx, started.Goal)
		if err != nil {
			return err
		}
		if done, err := answer(ctx, c, snap); done || err != nil {
			return err
		}
	}
	return nil
}

func answer(ctx context.Context, c *client.Client, s client.Snapshot) (bool, error) {
	for _, p := range s.PendingApprovals {
		if err := judge(ctx, c, s.Goal, p); err != nil {
			return false, err
		}
	}
	switch s.Status {
	case client.Completed:
		fmt.Println("completed:", s.How)
	case client.Failed, client.Cancelled, client.Paused:
		fmt.Println(s.Status, s.PauseReason)
	default:
		return false, nil
	}
	return true, nil
}

func judge(ctx context.Context, c *client.Client, goal string, p client.Pending) error {
	_, err := c.Approve(ctx, goal, client.Answer{Op: p.Op, Intent: p.Intent.Hash})
	if p, ok := err.(*client.Problem); ok && p.Code == "no_question" {
		return nil // somebody else was first
	}
	return err
}
