// Package refusal reads the errors that a server answers.
package refusal

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason returns the machine-readable reason the server gave, or "".
func Reason(err error) string {
	if info := detail[*errdetails.ErrorInfo](err); info != nil {
		return info.GetReason()
	}
	return ""
}

// Unreachable tells whether no server answered. A server that answers
// UNAVAILABLE itself adds a reason.
func Unreachable(err error) bool {
	s, ok := of(err)
	return ok && s.Code() == codes.Unavailable && Reason(err) == ""
}

// Code returns the status code of err, if it carries one.
func Code(err error) (codes.Code, bool) {
	s, ok := of(err)
	if !ok {
		return codes.Unknown, false
	}
	return s.Code(), true
}

// RetryAfter returns how long to wait before the same call is sent again, if the
// server said it.
func RetryAfter(err error) (time.Duration, bool) {
	if info := detail[*errdetails.RetryInfo](err); info != nil {
		return info.GetRetryDelay().AsDuration(), true
	}
	return 0, false
}

// Describe returns an error as one line: the server's message, the name of the
// code, the reason, and the fields that are wrong, as far as the message does not
// say it.
func Describe(err error) string {
	s, ok := of(err)
	if !ok {
		return line(err.Error())
	}
	var b strings.Builder
	if context, _, found := strings.Cut(err.Error(), "rpc error:"); found {
		b.WriteString(context)
	}
	b.WriteString(s.Message())
	fmt.Fprintf(&b, " (%s", CodeName(s.Code()))
	if reason := Reason(err); reason != "" {
		b.WriteString(", " + reason)
	}
	b.WriteByte(')')
	if bad := detail[*errdetails.BadRequest](err); bad != nil {
		for _, v := range bad.GetFieldViolations() {
			if what := v.GetField() + ": " + v.GetDescription(); !strings.Contains(s.Message(), what) {
				b.WriteString("; " + what)
			}
		}
	}
	return line(b.String())
}

// CodeName returns the name of a code in the spelling of the protocol.
func CodeName(c codes.Code) string {
	names := [...]string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
		"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
		"OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return c.String()
}

// of returns the status in err, as the server sent it.
func of(err error) (*status.Status, bool) {
	var carrier interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &carrier) {
		return nil, false
	}
	s := carrier.GRPCStatus()
	return s, s != nil
}

// detail returns the first detail of the given type, or nil.
func detail[T comparable](err error) T {
	var none T
	s, ok := of(err)
	if !ok {
		return none
	}
	for _, d := range s.Details() {
		if found, ok := d.(T); ok {
			return found
		}
	}
	return none
}

// line joins the words of a text into one line.
func line(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
