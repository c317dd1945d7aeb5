package engine

import (
	"errors"
	"fmt"
	"strings"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
)

// Sentinels of what the engine refuses. What is wrong with the numbers of a
// call comes as a *model.FieldError instead.
var (
	ErrModelNotFound      = errors.New("no such model")
	ErrModelExists        = errors.New("model exists")
	ErrModelDeleted       = errors.New("a deleted model has the id")
	ErrInvalidID          = errors.New("invalid id")
	ErrInvalidRequest     = errors.New("invalid request")
	ErrSnapshotNotFound   = errors.New("no such state is kept")
	ErrPredictionNotFound = errors.New("no such prediction: unknown, expired or not remembered; to learn its label all the same, send its features with the id as observation_id; a longer label_ttl keeps a prediction longer")
	ErrConflict           = errors.New("id already stands for another observation")
	ErrLabelMissing       = errors.New("label missing")
	ErrOverloaded         = errors.New("overloaded")
	ErrModelLimit         = errors.New("as many models as the server may hold")
	ErrPendingLimit       = errors.New("too many predictions are waiting for their labels")
	ErrWatcherLimit       = errors.New("too many streams watch models")
	// The next four are of aliases.
	ErrAliasNotFound = errors.New("no such alias")
	ErrAliasExists   = errors.New("an alias has the id")
	ErrAliasChanged  = errors.New("the alias names another model")
	ErrAliasLimit    = errors.New("as many aliases as the server may hold")
	// ErrAliased is a model that cannot be deleted because aliases name it.
	ErrAliased = errors.New("aliases name the model")
	// ErrFollows is a model that learns from another one alone.
	ErrFollows = errors.New("the model follows another one and learns its observations alone")
	// ErrMoving is a model that is being moved, ErrMoved one that another server has.
	ErrMoving  = errors.New("the model is being moved to another server; try again")
	ErrMoved   = errors.New("another server has the model")
	ErrEtag    = errors.New("the model has changed")
	ErrUnknown = errors.New("it is not known whether the observation is durable; send it again under its id")
	ErrClosed  = errors.New("the server is shutting down")

	// ErrCorrupt is a model whose state is not what was learned.
	ErrCorrupt = machine.ErrCorrupt
	// ErrStorage is a store that cannot be read or written.
	ErrStorage = recovery.ErrStorage
)

// RowError says which row of a call is refused.
type RowError struct {
	Row int
	Err error
}

// Error is the row's error, with its number.
func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Err) }

// Unwrap gives the row's error.
func (e *RowError) Unwrap() error { return e.Err }

// MovedError refuses a call to a model that is moved, or being moved. It is ErrMoved or
// ErrMoving.
type MovedError struct {
	Model string
	record.Move
}

// Error says where the model is moved to.
func (e *MovedError) Error() string {
	return fmt.Sprintf("model %q: %v: %s", e.Model, e.Unwrap(), e.Address)
}

// Unwrap gives the sentinel.
func (e *MovedError) Unwrap() error {
	if e.Complete {
		return ErrMoved
	}
	return ErrMoving
}

// notFound refuses a model that is not there.
func notFound(id string) error { return fmt.Errorf("model %q: %w", brief(id), ErrModelNotFound) }

// brief is a text that is short enough for an error.
func brief(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
