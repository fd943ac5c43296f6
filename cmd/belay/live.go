package main

import (
	"context"
	"errors"
	"os"

	"belay/internal/service"
	"belay/internal/tui"
)

// screen shows a goal live on this process's terminal.
func screen(ctx context.Context, s service.Door, goal string, color bool, work func(context.Context, service.AttendOptions) error) (left bool, err error) {
	err = tui.Show(ctx, tui.Options{Service: s, Goal: goal, In: os.Stdin, Out: os.Stdout, Color: color, Work: work})
	if errors.Is(err, tui.ErrLeft) {
		return true, nil
	}
	return false, err
}

func top(ctx context.Context, s service.Door, color bool) error {
	return tui.Top(ctx, s, os.Stdin, os.Stdout, color)
}
