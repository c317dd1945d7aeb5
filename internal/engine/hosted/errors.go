package hosted

import (
	"errors"
	"fmt"
	"strings"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// Reasons to reject a call. A number that a learner does not take is a *model.FieldError.
var (
	ErrModelNotFound      = recovery.ErrModelNotFound
	ErrInvalidID          = errors.New("invalid id")
	ErrInvalidRequest     = errors.New("invalid request")
	ErrSnapshotNotFound   = errors.New("the state is not available")
	ErrPredictionNotFound = errors.New("no such prediction: unknown, expired or not remembered; to learn its label all the same, send its input with the id as observation_id; a longer label_ttl keeps a prediction longer")
	ErrConflict           = errors.New("id already stands for another observation")
	ErrOverloaded         = errors.New("overloaded")
	ErrPendingLimit       = errors.New("too many predictions are waiting for their labels")
	// ErrFollows rejects an observation of a model that learns from another model's log.
	ErrFollows = errors.New("the model follows another one and learns its observations alone")
	ErrClosed  = errors.New("the server is shutting down")
	// ErrUnknown: the log may or may not have the change.
	ErrUnknown = recovery.ErrUnknown
	// ErrCorrupt: the state is not what was learned.
	ErrCorrupt = machine.ErrCorrupt
	// ErrStorage: the store could not be read or written.
	ErrStorage = recovery.ErrStorage
	// ErrNotOwner: another server owns the store. Nothing was changed.
	ErrNotOwner = storage.ErrNotOwner
)

// Invalid rejects a field of a request.
func Invalid(field, got, want string) *model.FieldError {
	return &model.FieldError{Field: field, Err: ErrInvalidRequest, Got: got, Want: want}
}

// RowError says which row of a call is rejected.
type RowError struct {
	Row int
	Err error
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Err) }

func (e *RowError) Unwrap() error { return e.Err }

// RowErrors are the rejected rows of a call, in order, at most maxRowErrors. As finds the first.
type RowErrors []*RowError

const maxRowErrors = 16

func (e RowErrors) Error() string { return e[0].Error() }

func (e RowErrors) Unwrap() []error {
	out := make([]error, len(e))
	for n, row := range e {
		out[n] = row
	}
	return out
}

// CheckRows checks all rows of a call, up to the first error that names no field. Only the first row may have an
// error without a field.
func CheckRows(rows int, check func(row int) error) error {
	var rejected RowErrors
	for n := 0; n < rows && len(rejected) < maxRowErrors; n++ {
		err := check(n)
		if err == nil {
			continue
		}
		fields := model.FieldsOf(err) != nil
		if fields || len(rejected) == 0 {
			rejected = append(rejected, &RowError{Row: n, Err: err})
		}
		if !fields {
			break
		}
	}
	if len(rejected) == 0 {
		return nil
	}
	return rejected
}

// RejectedRows are the rejected rows of an error, none if the error belongs to no row.
func RejectedRows(err error) RowErrors {
	var rows RowErrors
	var row *RowError
	if !errors.As(err, &rows) && errors.As(err, &row) {
		rows = RowErrors{row}
	}
	return rows
}

// NotFoundError says that no model has the id.
type NotFoundError struct{ Model string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("model %q: %v", e.Model, ErrModelNotFound) }

func (*NotFoundError) Unwrap() error { return ErrModelNotFound }

// NotFound is a NotFoundError.
func NotFound(id string) error { return &NotFoundError{Brief(id)} }

// Brief cuts a text to a length that suits an error.
func Brief(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

type name string

// errorf says what was being done to the model when err came. It is nil if err is nil.
func (n name) errorf(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("engine: %s of model %q: %w", doing, string(n), err)
}

func (n name) storagef(doing string, err error) error {
	return n.errorf(doing, recovery.StorageError(err))
}
