package engine

import (
	"context"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/watch"
)

// ReadCost is what a record counts for beside the time that it took to learn.
const ReadCost = hosted.ReadCost

// OpenWith is Open with learners of any origin.
var OpenWith = open

// Hibernate lets a model go, and reports whether it is gone.
func (e *Engine) Hibernate(id string) bool {
	m, err := e.find(context.Background(), id)
	if err != nil {
		return false
	}
	resident := m.Resident()
	m.Leave()
	return resident && !m.Resident()
}

// Resident reports whether the state of a model is in memory.
func (e *Engine) Resident(id string) bool {
	m, err := e.find(context.Background(), id)
	return err == nil && m.Resident()
}

// AliasLimit bounds the aliases.
const AliasLimit = alias.Limit

// WatcherLimit bounds the watchers.
const WatcherLimit = watch.Limit

// Pause keeps followers from learning of a model.
func (e *Engine) Pause(id string, paused bool) {
	m, err := e.find(context.Background(), id)
	if err != nil {
		return
	}
	if resume := m.Pause(); !paused {
		resume()
	}
}

// What a call without a tracer costs.
var (
	TraceID = hosted.TraceID
	Begin   = hosted.StartSpan
)

// Behind is how many observations of its leader a follower has not learned, -1 if that is not
// known.
func (e *Engine) Behind(id string) int64 {
	m, err := e.find(context.Background(), id)
	if err != nil {
		return -1
	}
	return e.behind(m)
}

// Predict is Target.Predict by the name of a model.
func (e *Engine) Predict(ctx context.Context, name string, rows []Row, o PredictOptions) ([]Prediction, error) {
	t, err := e.Resolve(name)
	if err != nil {
		return nil, err
	}
	return t.Predict(ctx, rows, o)
}

// Submit is Target.Submit by the id of a model.
func (e *Engine) Submit(ctx context.Context, id string, observations []Observation) (*Ticket, error) {
	if err := e.asOwner(ctx); err != nil {
		return nil, err
	}
	m, err := e.findID(id)
	if err != nil {
		return nil, err
	}
	return m.Submit(ctx, observations)
}

// Observe is Submit and Wait.
func (e *Engine) Observe(ctx context.Context, id string, observations []Observation) ([]Answer, error) {
	t, err := e.Submit(ctx, id, observations)
	if err != nil {
		return nil, err
	}
	return t.Wait(ctx)
}

// Sweep does now what the engine does at every sweep.
func (e *Engine) Sweep() {
	_ = e.sweep(e.o.Now()) // A failure is that of the disk, which the test injects.
	e.purgeOverdue()
	e.refreshReport()
}

// CheckModel compares a model with the other servers.
func (e *Engine) CheckModel(id string) error {
	m, err := e.find(context.Background(), id)
	if err != nil {
		return err
	}
	_, err = m.Check(context.Background(), "", e.env.Time().Add(-e.o.IDWindow))
	return err
}

// Settled reports whether the engine has taken over all changes.
func (e *Engine) Settled() bool { return e.changes.pending.Load() == 0 }

// Turn waits for the turn of a model.
func (e *Engine) Turn(id string) error {
	m, err := e.find(context.Background(), id)
	if err != nil {
		return err
	}
	return m.AwaitQueued(context.Background())
}

// Hold has the turn of a model until release.
func (e *Engine) Hold(id string) (release func()) {
	m, err := e.find(context.Background(), id)
	if err != nil {
		return func() {}
	}
	begun, ended, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Turn(context.Background(), func(context.Context) error {
			close(begun)
			<-ended
			return nil
		})
	}()
	<-begun
	return func() { close(ended); <-done }
}
