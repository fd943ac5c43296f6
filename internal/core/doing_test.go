package core_test

import (
	"testing"

	"belay/internal/core"
	"belay/internal/core/approval"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
)

func TestWhatWasAskedForIsToldFromWhatHasStopped(t *testing.T) {
	t.Parallel()
	command := operation.Op{ID: "op1", Tool: "run_test", Phase: operation.Started, Access: event.Access{Command: "go test ./...\nsecond line"}}
	read := operation.Op{ID: "op2", Tool: "read_file", Phase: operation.Started, Access: event.Access{Reads: []string{"a.go"}}}
	proposed := operation.Op{ID: "op3", Tool: "write_file", Phase: operation.Proposed, Access: event.Access{Writes: []string{"b.go"}}}
	turn := &core.Turn{ID: "t1"}
	wait := func(r event.WaitReason) *event.GoalWaiting { return &event.GoalWaiting{Reason: r} }
	asked := approval.Book{Pending: []approval.Pending{{Op: "op3", Tool: "write_file", Access: proposed.Access}}}
	for _, c := range []struct {
		want string
		s    core.State
	}{
		{"stopping run_test: go test ./...", core.State{Status: lifecycle.Cancelled, Open: []operation.Op{command}}},
		{"", core.State{Status: lifecycle.Cancelled}},
		{"paused, still running run_test: go test ./...", core.State{Status: lifecycle.Paused, Open: []operation.Op{command, proposed}}},
		{"", core.State{Status: lifecycle.Paused, Open: []operation.Op{proposed}}},
		{"", core.State{Status: lifecycle.Completed, Turn: turn}},
		{"running run_test: go test ./... and 1 more", core.State{Status: lifecycle.Active, Turn: turn, Open: []operation.Op{command, proposed, read}}},
		{"waiting for approval of write_file: b.go", core.State{Status: lifecycle.Active, Wait: wait(event.WaitApproval), Approvals: asked, Open: []operation.Op{proposed}}},
		{"waiting for an answer", core.State{Status: lifecycle.Active, Wait: wait(event.WaitUserInput)}},
		{"waiting to try again", core.State{Status: lifecycle.Active, Wait: wait(event.WaitRetry)}},
		{"verifying the claim of completion", core.State{Status: lifecycle.Verifying, Turn: turn}},
		{"ready for a worker", core.State{Status: lifecycle.Active}},
		{"asking the model", core.State{Status: lifecycle.Active, Turn: turn, Request: &core.Request{Attempt: 1}}},
		{"asking the model, attempt 3", core.State{Status: lifecycle.Active, Turn: turn, Request: &core.Request{Attempt: 3}}},
		{"preparing write_file: b.go", core.State{Status: lifecycle.Active, Turn: turn, Open: []operation.Op{proposed}}},
		{"cannot be advanced by this belay", core.State{Status: lifecycle.Active, Refuse: "event 7", Open: []operation.Op{command}}},
	} {
		if got := core.Doing(c.s); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
