package engine

import (
	"time"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/model"
)

// Info is what a model is.
type Info struct {
	ID       string
	Learner  string
	Spec     model.Spec
	Sequence uint64
	// Created is zero of a model that would be created.
	Created time.Time
	Metadata
	// ETag changes with every change of the metadata and of the deletion, which were at
	// Updated for the last time.
	ETag    string
	Updated time.Time
	// Deleted is when the model was deleted, Purge when it is to be removed; both are zero
	// while it is not deleted.
	Deleted, Purge time.Time
	// Figures are how the model does, nil unless they were asked for.
	Figures *Figures
	// Follows is the model whose observations this one learns, empty if none.
	Follows string
	// Imported is nil unless the model was imported.
	Imported *Imported
	// Aliases are those that name the model. GetModel knows them.
	Aliases []string
	// Inputs are what has been learned of named inputs, Classes the classes of a
	// classifier by their numbers. GetModel knows them.
	Inputs  []LearnedInput
	Classes []string
}

// State is what the engine has of a model.
type State int

// The states: in memory; on disk alone; in memory, but its log could not be written; not
// to be recovered; deleted.
const (
	StateLoaded State = iota + 1
	StateHibernated
	StateReadOnly
	StateFailed
	StateDeleted
)

// Figures are how a model does, in the few figures of a list.
type Figures struct {
	State State
	// Recent is the performance over the newest observations, Classes that of a
	// classifier, nil for others. They and Regret are of the last time that the model was
	// in memory. Without Known it was not since the start, and they are not known.
	Known   bool
	Recent  account.Performance
	Classes *classes.Performance
	// Regret is NaN if it is not known.
	Regret float64
	// Rate is in observations a second, over the last minute.
	Rate float64
}
