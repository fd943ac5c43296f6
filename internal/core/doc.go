// Package core decides. It composes the small machines below it into one goal:
// State is where the goal stands, Apply folds one event into it, and Step
// advances it by one input. It is a function of values: it reads no clock,
// draws no random number, opens nothing and waits for nothing. Time and
// randomness come in with the input.
//
// # The contract
//
//	Step(State, Input) (Ready, error)
//
// Ready.Events are to be committed in one transaction before any effect of
// Ready starts. Ready.Effects is the whole set of effects that should be in
// flight once the events are committed: it is a level, not an edge. The driver
// starts what is missing from it and cancels what is no longer in it, by
// Effect.Key. Because the set follows from the state alone (Wanted), a restart
// needs no second code path: the state folded from the ledger wants the same
// effects, and an attempt that an earlier holder started is wanted as a Probe
// instead of a Run.
//
// # Who may advance
//
// Inputs of people (Say, Approve, Pause, …) may come from any process. They
// record facts and what follows from them at once, and never advance the loop.
// Only the holder of the goal's ticket advances it: its inputs carry the fence
// of the ticket, and once the goal has a newer fence they record what really
// happened and move nothing (invariant 7).
//
// # Failure handling
//
// An append that conflicts is followed by reading what came in between and
// stepping again with the same input. An event that this binary does not know,
// or that is not legal where it stands, sets State.Refuse: the goal is shown,
// never advanced. Step checks its own events the same way before it returns
// them, so an illegal transition is an error of the caller's input or a bug,
// never a recorded event.
package core
