package model

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Errors of this package wrap one of these in a *FieldError that names the field.
var (
	ErrDimensionMismatch = errors.New("dimension mismatch")
	ErrNotFinite         = errors.New("not finite")
	ErrFeatureOutOfRange = errors.New("feature out of range")
	ErrLabelOutOfRange   = errors.New("label out of range")
	ErrWeightOutOfRange  = errors.New("weight out of range")
	ErrInvalidSpec       = errors.New("invalid spec")
	ErrSpecTooLarge      = errors.New("spec too large")
	ErrObservationLimit  = errors.New("observation limit reached")
)

// FieldError names a wrong field, the value it got and the value it wants.
type FieldError struct {
	// Field is the path of the field in the API: features[3], label.
	Field     string
	Got, Want string
	Err       error
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Field, e.Got, e.Want)
}

func (e *FieldError) Unwrap() error { return e.Err }

// At is the error with the field path below a prefix: At("rows[2]").
func (e *FieldError) At(prefix string) *FieldError {
	moved := *e
	moved.Field = prefix + "." + e.Field
	return &moved
}

// FieldErrors are two or more wrong fields of one call, in order. Is knows the sentinels of all.
type FieldErrors []*FieldError

const toldFields = 5

// Error names the first fields in one line, and counts the rest.
func (e FieldErrors) Error() string {
	told := make([]string, 0, toldFields+1)
	for _, field := range e[:min(len(e), toldFields)] {
		told = append(told, field.Error())
	}
	if more := len(e) - toldFields; more > 0 {
		told = append(told, "and "+plural(more, "field")+" more")
	}
	return strings.Join(told, "; ")
}

func (e FieldErrors) Unwrap() []error {
	out := make([]error, len(e))
	for n, field := range e {
		out[n] = field
	}
	return out
}

// Err is nil for no field, the *FieldError for one, and e for more.
func (e FieldErrors) Err() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// FieldsOf returns the wrong fields that an error names, nil if it names none.
func FieldsOf(err error) FieldErrors {
	if several, ok := errors.AsType[FieldErrors](err); ok {
		return several
	}
	if one, ok := errors.AsType[*FieldError](err); ok {
		return FieldErrors{one}
	}
	return nil
}

// JoinFields joins errors to nil, one *FieldError or FieldErrors. Any other error is returned alone.
func JoinFields(errs ...error) error {
	var all FieldErrors
	for _, err := range errs {
		fields := FieldsOf(err)
		if fields == nil && err != nil {
			return err
		}
		all = append(all, fields...)
	}
	return all.Err()
}

// FieldsAt moves the fields of an error below a prefix: see At.
func FieldsAt(err error, prefix string) error {
	fields := FieldsOf(err)
	if fields == nil {
		return err
	}
	moved := make(FieldErrors, len(fields))
	for n, field := range fields {
		moved[n] = field.At(prefix)
	}
	return moved.Err()
}

// CheckFeatures accepts x with d entries, all finite and of magnitude at most limit.
func CheckFeatures(x []float64, d int, limit float64) error {
	if len(x) != d {
		return &FieldError{
			Field: "features", Err: ErrDimensionMismatch,
			Got: plural(len(x), "number"), Want: plural(d, "number"),
		}
	}
	for i, v := range x {
		// NaN fails the first comparison too.
		if math.Abs(v) <= limit && !math.IsInf(v, 0) {
			continue
		}
		field := fmt.Sprintf("features[%d]", i)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &FieldError{Field: field, Err: ErrNotFinite, Got: number(v), Want: "a finite number"}
		}
		return &FieldError{
			Field: field, Err: ErrFeatureOutOfRange,
			Got: number(v), Want: "a magnitude of at most " + number(limit),
		}
	}
	return nil
}

// CheckLabel accepts a finite y of magnitude at most MaxMagnitude.
func CheckLabel(y float64) error {
	switch {
	case math.Abs(y) <= MaxMagnitude:
		return nil
	case math.IsNaN(y) || math.IsInf(y, 0):
		return &FieldError{Field: "label", Err: ErrNotFinite, Got: number(y), Want: "a finite number"}
	default:
		return &FieldError{
			Field: "label", Err: ErrLabelOutOfRange,
			Got: number(y), Want: "a magnitude of at most " + number(MaxMagnitude),
		}
	}
}

// CheckLabels accepts k labels that CheckLabel accepts.
func CheckLabels(y []float64, k int) error {
	if len(y) != k {
		return &FieldError{
			Field: "labels", Err: ErrDimensionMismatch,
			Got: plural(len(y), "label"), Want: plural(k, "label"),
		}
	}
	for i, v := range y {
		if err := CheckLabel(v); err != nil {
			if field, ok := errors.AsType[*FieldError](err); ok && k > 1 {
				field.Field = fmt.Sprintf("labels[%d]", i)
			}
			return err
		}
	}
	return nil
}

// CheckWeight accepts a weight from MinWeight to MaxWeight.
func CheckWeight(w float64) error {
	if w >= MinWeight && w <= MaxWeight {
		return nil
	}
	return &FieldError{
		Field: "weight", Err: ErrWeightOutOfRange, Got: number(w),
		Want: "a number from " + number(MinWeight) + " to " + number(MaxWeight),
	}
}

func number(v float64) string { return fmt.Sprintf("%g", v) }

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
