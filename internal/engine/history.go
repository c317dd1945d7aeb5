package engine

import (
	"context"

	"hindsight/internal/engine/account/history"
)

// History is how a model did over its life.
type History struct {
	// Points are oldest first. The last one may be of fewer observations than the
	// others.
	Points []history.Point
	// Experts are the names of the experts, in the order of the weights of a point.
	Experts []string
	// Changes are those of the loss, oldest first.
	Changes []history.Mark
}

// ModelHistory tells how a model did over its life. A model that is not in memory is
// loaded for it.
func (e *Engine) ModelHistory(ctx context.Context, id string) (History, error) {
	i, err := e.find(ctx, id)
	if err != nil {
		return History{}, err
	}
	if err := i.lockLoaded(ctx); err != nil {
		return History{}, err
	}
	kept, now, experts := i.mu.machine.History(), i.mu.machine.Moment(), i.mu.machine.ExpertNames()
	i.mu.RUnlock()
	return History{Points: kept.Points(0, now), Experts: experts, Changes: kept.Marks()}, nil
}
