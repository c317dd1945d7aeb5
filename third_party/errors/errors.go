// Package errors stands in for github.com/cockroachdb/errors, which Pebble imports: with what sends errors to Sentry
// and over a network the package takes longer to compile than the rest of Pebble's dependencies. An error has the text
// and the causes that it has there, and no stack.
package errors

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/redact"
)

// Functions of the standard library.
var (
	New  = errors.New
	Is   = errors.Is
	As   = errors.As
	Join = errors.Join
)

// wrapped is an error with a cause.
type wrapped struct {
	text  string
	cause error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.cause }

// Newf is fmt.Errorf, for arguments that redact formats too.
func Newf(format string, args ...any) error {
	text, cause := redact.HelperForErrorf(format, args...)
	return &wrapped{text.StripMarkers(), cause}
}

// Errorf is Newf.
func Errorf(format string, args ...any) error { return Newf(format, args...) }

// Wrap puts a text before the text of an error.
func Wrap(err error, text string) error {
	if err == nil || text == "" {
		return err
	}
	return &wrapped{text + ": " + err.Error(), err}
}

// Wrapf puts a formatted text before the text of an error.
func Wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Wrap(err, redact.Sprintf(format, args...).StripMarkers())
}

// marked is also the error mark.
type marked struct {
	error
	mark error
}

func (m *marked) Unwrap() error        { return m.error }
func (m *marked) Is(target error) bool { return errors.Is(m.mark, target) }

// Mark makes an error that is also another error.
func Mark(err, mark error) error {
	if err == nil {
		return nil
	}
	return &marked{err, mark}
}

var errAssertion = errors.New("assertion failure")

// AssertionFailedf makes an error of a program.
func AssertionFailedf(format string, args ...any) error {
	return Mark(Newf(format, args...), errAssertion)
}

// IsAssertionFailure reports whether an error or its cause is of AssertionFailedf.
func IsAssertionFailure(err error) bool { return errors.Is(err, errAssertion) }

// CombineErrors returns the first error that is not nil.
func CombineErrors(err, other error) error {
	if err == nil {
		return other
	}
	return err
}

// WithSecondaryError returns err.
func WithSecondaryError(err, _ error) error { return err }

// WithStack returns err.
func WithStack(err error) error { return err }

// UnwrapAll returns the last cause of an error.
func UnwrapAll(err error) error {
	for cause := err; cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return err
}

// Safe marks an argument as no secret.
func Safe(v any) redact.SafeValue { return redact.Safe(v) }

// detailed has a detail that %+v prints.
type detailed struct {
	error
	detail string
}

func (d *detailed) Unwrap() error { return d.error }

func (d *detailed) Format(s fmt.State, verb rune) {
	fmt.Fprintf(s, fmt.FormatString(s, verb), d.error)
	if verb == 'v' && s.Flag('+') {
		fmt.Fprintf(s, "\n%s", d.detail)
	}
}

// WithDetailf adds a detail that %+v prints.
func WithDetailf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &detailed{err, redact.Sprintf(format, args...).StripMarkers()}
}

// WithHintf is WithDetailf.
func WithHintf(err error, format string, args ...any) error { return WithDetailf(err, format, args...) }

// WithSafeDetails is WithDetailf.
func WithSafeDetails(err error, format string, args ...any) error {
	return WithDetailf(err, format, args...)
}
