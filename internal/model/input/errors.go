package input

import "errors"

// Sentinels of what can be wrong with a record. Errors wrap one of them, or one of
// the errors of package model for numbers (ErrNotFinite, ErrFeatureOutOfRange,
// ErrDimensionMismatch), in a *model.FieldError that names the input.
var (
	ErrUnknownInput  = errors.New("unknown input")
	ErrMissingInput  = errors.New("missing input")
	ErrInputType     = errors.New("input of another type")
	ErrInputTooLarge = errors.New("input too large")
)
