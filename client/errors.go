package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// Error is an error of a call: the server rejected the call, or no server answered.
type Error struct {
	Code codes.Code
	// Reason is the name of an ErrorReason of the API, such as MODEL_NOT_FOUND. It is empty if no server
	// answered.
	Reason     string
	Message    string
	Violations []Violation
	// RetryDelay is how long the server asks to wait before the same call is sent again, or 0.
	RetryDelay time.Duration

	status      *status.Status
	asked       bool   // the server asks to repeat the call
	unreachable bool   // no server answered
	address     string // where none answered
	advice      string // what to do about the error, or empty
	context     string // the text of the translated error before "rpc error:"
}

// Violation is a wrong field of a request.
type Violation struct {
	Field       string // The path, such as spec.pkawv_taylor.degree.
	Description string // What came and what was expected.
	Reason      string // As Error.Reason.
}

// ReasonError is a sentinel: errors.Is(err, ReasonError(hindsightv1.ErrorReason_TOKEN_EXPIRED)) holds for the errors of this reason.
type ReasonError hindsightv1.ErrorReason

func (r ReasonError) String() string { return hindsightv1.ErrorReason(r).String() }

func (r ReasonError) Error() string {
	return "hindsight: " + strings.ToLower(strings.ReplaceAll(r.String(), "_", " "))
}

// family is a sentinel: the errors of one status code.
type family codes.Code

func (f family) Error() string {
	return "hindsight: " + strings.ToLower(strings.ReplaceAll(CodeName(codes.Code(f)), "_", " "))
}

// The families: errors.Is(err, ErrNotFound) holds for every reason with this code.
var (
	ErrInvalid            error = family(codes.InvalidArgument)
	ErrNotFound           error = family(codes.NotFound)
	ErrExists             error = family(codes.AlreadyExists)
	ErrExhausted          error = family(codes.ResourceExhausted)
	ErrFailedPrecondition error = family(codes.FailedPrecondition)
	ErrAborted            error = family(codes.Aborted)
	ErrUnavailable        error = family(codes.Unavailable)
	ErrDataLoss           error = family(codes.DataLoss)
	ErrUnimplemented      error = family(codes.Unimplemented)
	ErrUnauthenticated    error = family(codes.Unauthenticated)
	ErrPermissionDenied   error = family(codes.PermissionDenied)
	ErrInternal           error = family(codes.Internal)
)

// The reasons that most programs branch on; see ReasonError for the others.
var (
	ErrModelNotFound       error = ReasonError(hindsightv1.ErrorReason_MODEL_NOT_FOUND)
	ErrPredictionNotFound  error = ReasonError(hindsightv1.ErrorReason_PREDICTION_NOT_FOUND)
	ErrModelExists         error = ReasonError(hindsightv1.ErrorReason_MODEL_EXISTS)
	ErrObservationConflict error = ReasonError(hindsightv1.ErrorReason_OBSERVATION_CONFLICT)
	ErrNotFinite           error = ReasonError(hindsightv1.ErrorReason_NOT_FINITE)
	ErrLabelMissing        error = ReasonError(hindsightv1.ErrorReason_LABEL_MISSING)
	ErrModelLimit          error = ReasonError(hindsightv1.ErrorReason_MODEL_LIMIT)
	ErrPendingLimit        error = ReasonError(hindsightv1.ErrorReason_PENDING_LIMIT)
	ErrOverloaded          error = ReasonError(hindsightv1.ErrorReason_OVERLOADED)
	ErrOutcomeUnknown      error = ReasonError(hindsightv1.ErrorReason_OUTCOME_UNKNOWN)
	ErrETagMismatch        error = ReasonError(hindsightv1.ErrorReason_ETAG_MISMATCH)
	ErrAliasMismatch       error = ReasonError(hindsightv1.ErrorReason_ALIAS_MISMATCH)
	ErrNotOwner            error = ReasonError(hindsightv1.ErrorReason_NOT_OWNER)
)

// ErrUnreachable says that no server answered.
var ErrUnreachable = errors.New("hindsight: no server answered")

// ErrProtocol says that the answer of the server breaks the protocol.
var ErrProtocol = errors.New("hindsight: the server broke the protocol")

// FromError returns the error of a call as an *Error, nil if err is no error of a call.
func FromError(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	var carrier interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &carrier) || carrier.GRPCStatus() == nil {
		return nil
	}
	e := fromStatus(carrier.GRPCStatus())
	e.context, _, _ = strings.Cut(err.Error(), "rpc error:")
	return e
}

func fromStatus(s *status.Status) *Error {
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason = d.GetReason()
		case *errdetails.RetryInfo:
			e.RetryDelay, e.asked = d.GetRetryDelay().AsDuration(), true
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{Field: v.GetField(), Description: v.GetDescription(), Reason: v.GetReason()})
			}
		}
	}
	// A server that answers UNAVAILABLE itself adds a reason.
	e.unreachable = e.Code == codes.Unavailable && e.Reason == ""
	return e
}

// Error returns one line: the message, the name of the code, the reason, the wrong fields that the
// message does not name, and the advice.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.context)
	b.WriteString(e.Message)
	fmt.Fprintf(&b, " (%s", CodeName(e.Code))
	if e.Reason != "" {
		b.WriteString(", " + e.Reason)
	}
	b.WriteByte(')')
	for _, v := range e.Violations {
		if what := v.Field + ": " + v.Description; !strings.Contains(e.Message, what) {
			b.WriteString("; " + what)
		}
	}
	if e.advice != "" {
		b.WriteString("; " + e.advice)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Is reports whether target is the sentinel of the error's reason or family, or ErrUnreachable.
// The codes CANCELLED and DEADLINE_EXCEEDED are also the errors of package context.
func (e *Error) Is(target error) bool {
	if target == ErrUnreachable {
		return e.unreachable
	}
	switch t := target.(type) {
	case ReasonError:
		return e.Reason == t.String()
	case family:
		return e.Code == codes.Code(t)
	}
	switch target {
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	}
	return false
}

// GRPCStatus is the status as the server sent it.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Address is the address where no server answered. It is empty for other errors.
func (e *Error) Address() string { return e.address }

// Advice says what to do about an error of TLS or of a token, or nothing.
func (e *Error) Advice() string { return e.advice }

func (e *Error) timedOut() bool { return e.Code == codes.DeadlineExceeded }

// retriable reports whether the call may be sent again: the server asks for it, or the effect of
// the call is not known.
func (e *Error) retriable() bool { return e.asked || e.unreachable || e.timedOut() }

// CodeName returns the name of a code in the spelling of the protocol.
func CodeName(c codes.Code) string { return code.Code(c).String() }
