package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

const domain = "hindsight"

var errBatchTooLarge = errors.New("batch too large")

type rejection struct {
	err    error
	code   codes.Code
	reason hindsightv1.ErrorReason
	// retryAfter is how long a client should wait; 0 where waiting does not help.
	retryAfter time.Duration
	// hidden keeps the cause from the client. The log shows it.
	hidden bool
}

// table maps every error to code and reason. The first matching row wins: ErrUnknown may wrap a
// storage error, and ErrCorrupt the error of an impossible number on disk.
func table() []rejection {
	return []rejection{
		{err: engine.ErrNotOwner, code: codes.Unavailable, reason: hindsightv1.ErrorReason_NOT_OWNER, retryAfter: 50 * time.Millisecond},
		{err: engine.ErrUnknown, code: codes.Unavailable, reason: hindsightv1.ErrorReason_OUTCOME_UNKNOWN, retryAfter: 100 * time.Millisecond},
		{err: engine.ErrCorrupt, code: codes.DataLoss, reason: hindsightv1.ErrorReason_STATE_CORRUPT, hidden: true},
		{err: model.ErrDimensionMismatch, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_DIMENSION_MISMATCH},
		{err: model.ErrNotFinite, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_NOT_FINITE},
		{err: model.ErrFeatureOutOfRange, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_FEATURE_OUT_OF_RANGE},
		{err: model.ErrLabelOutOfRange, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_LABEL_OUT_OF_RANGE},
		{err: model.ErrWeightOutOfRange, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_WEIGHT_OUT_OF_RANGE},
		{err: model.ErrInvalidSpec, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_INVALID_SPEC},
		{err: model.ErrSpecTooLarge, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_SPEC_TOO_LARGE},
		{err: input.ErrUnknownInput, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_UNKNOWN_INPUT},
		{err: input.ErrMissingInput, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_MISSING_INPUT},
		{err: input.ErrInputType, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_INPUT_TYPE},
		{err: input.ErrInputTooLarge, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_INPUT_TOO_LARGE},
		{err: model.ErrInvalidClass, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_INVALID_CLASS},
		{err: model.ErrLabelKind, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_LABEL_KIND},
		{err: engine.ErrLabelMissing, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_LABEL_MISSING},
		{err: engine.ErrInvalidID, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_INVALID_ID},
		{err: engine.ErrInvalidRequest, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_INVALID_REQUEST},
		{err: errBatchTooLarge, code: codes.InvalidArgument, reason: hindsightv1.ErrorReason_BATCH_TOO_LARGE},
		{err: engine.ErrModelNotFound, code: codes.NotFound, reason: hindsightv1.ErrorReason_MODEL_NOT_FOUND},
		{err: engine.ErrSnapshotNotFound, code: codes.NotFound, reason: hindsightv1.ErrorReason_SNAPSHOT_NOT_FOUND},
		{err: engine.ErrPredictionNotFound, code: codes.NotFound, reason: hindsightv1.ErrorReason_PREDICTION_NOT_FOUND},
		{err: engine.ErrModelExists, code: codes.AlreadyExists, reason: hindsightv1.ErrorReason_MODEL_EXISTS},
		{err: engine.ErrAliasNotFound, code: codes.NotFound, reason: hindsightv1.ErrorReason_ALIAS_NOT_FOUND},
		{err: engine.ErrAliasExists, code: codes.AlreadyExists, reason: hindsightv1.ErrorReason_ALIAS_EXISTS},
		{err: engine.ErrAliasChanged, code: codes.Aborted, reason: hindsightv1.ErrorReason_ALIAS_MISMATCH},
		{err: engine.ErrAliasLimit, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_ALIAS_LIMIT},
		{err: engine.ErrAliased, code: codes.FailedPrecondition, reason: hindsightv1.ErrorReason_MODEL_HAS_ALIASES},
		{err: engine.ErrFollows, code: codes.FailedPrecondition, reason: hindsightv1.ErrorReason_MODEL_FOLLOWS},
		{err: engine.ErrModelDeleted, code: codes.AlreadyExists, reason: hindsightv1.ErrorReason_MODEL_EXISTS},
		{err: engine.ErrEtag, code: codes.Aborted, reason: hindsightv1.ErrorReason_ETAG_MISMATCH},
		{err: engine.ErrConflict, code: codes.AlreadyExists, reason: hindsightv1.ErrorReason_OBSERVATION_CONFLICT},
		{err: model.ErrObservationLimit, code: codes.FailedPrecondition, reason: hindsightv1.ErrorReason_OBSERVATION_LIMIT},
		{err: model.ErrClassLimit, code: codes.FailedPrecondition, reason: hindsightv1.ErrorReason_CLASS_LIMIT},
		{err: engine.ErrOverloaded, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_OVERLOADED, retryAfter: 50 * time.Millisecond},
		{err: engine.ErrModelLimit, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_MODEL_LIMIT},
		{err: engine.ErrPendingLimit, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_PENDING_LIMIT, retryAfter: time.Minute},
		{err: engine.ErrWatcherLimit, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_WATCHER_LIMIT, retryAfter: 5 * time.Second},
		{err: engine.ErrStorage, code: codes.Unavailable, reason: hindsightv1.ErrorReason_STORAGE_FAILED, hidden: true},
		{err: auth.ErrMissing, code: codes.Unauthenticated, reason: hindsightv1.ErrorReason_TOKEN_MISSING},
		{err: auth.ErrInvalid, code: codes.Unauthenticated, reason: hindsightv1.ErrorReason_TOKEN_INVALID},
		{err: auth.ErrExpired, code: codes.Unauthenticated, reason: hindsightv1.ErrorReason_TOKEN_EXPIRED},
		{err: auth.ErrCertificate, code: codes.Unauthenticated, reason: hindsightv1.ErrorReason_CERTIFICATE_UNKNOWN},
		{err: auth.ErrRole, code: codes.PermissionDenied, reason: hindsightv1.ErrorReason_ROLE_TOO_LOW},
		{err: auth.ErrScope, code: codes.PermissionDenied, reason: hindsightv1.ErrorReason_MODEL_OUT_OF_SCOPE},
		{err: auth.ErrRate, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_RATE_LIMIT, retryAfter: time.Second},
		{err: auth.ErrConcurrency, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_CONCURRENCY_LIMIT, retryAfter: 50 * time.Millisecond},
		{err: auth.ErrSessions, code: codes.ResourceExhausted, reason: hindsightv1.ErrorReason_SESSION_LIMIT},
		{err: ErrNoCluster, code: codes.FailedPrecondition, reason: hindsightv1.ErrorReason_NO_CLUSTER},
		{err: ErrServerNotFound, code: codes.NotFound, reason: hindsightv1.ErrorReason_SERVER_NOT_FOUND},
		{err: ErrServerState, code: codes.FailedPrecondition, reason: hindsightv1.ErrorReason_SERVER_STATE},
		{err: engine.ErrClosed, code: codes.Unavailable, reason: hindsightv1.ErrorReason_SHUTTING_DOWN, retryAfter: time.Second},
	}
}

// rejectionOf returns the first row of the table for an error, nil without one.
func rejectionOf(err error) *rejection {
	for _, r := range table() {
		if errors.Is(err, r.err) {
			return &r
		}
	}
	return nil
}

// StatusOf is the status that an error carries, or else its status by the table of errors. It is nil for nil.
func StatusOf(err error) *status.Status {
	var carrier interface {
		error
		GRPCStatus() *status.Status
	}
	if err == nil || errors.As(err, &carrier) {
		return status.Convert(carrier) // What wraps a status is for the log.
	}
	r := rejectionOf(err)
	switch {
	case r != nil:
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, "the deadline passed; a change that was accepted is made all the same: send an observation again under its id")
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "canceled by the client")
	default:
		return status.New(codes.Internal, "internal error; the server's log says more")
	}
	message := err.Error()
	if r.hidden {
		message = r.err.Error()
	}
	info := &errdetails.ErrorInfo{Reason: r.reason.String(), Domain: domain}
	details := []protoadapt.MessageV1{info}
	if fields := model.FieldsOf(err); !r.hidden && len(fields) > 0 {
		message = fields.Error()
		info.Metadata = map[string]string{"field": short(fields[0].Field), "got": short(fields[0].Got), "want": clip(fields[0].Want, 2*maxQuoted)}
		details = append(details, violations(fields))
	}
	message = clipEncoded(message, maxMessage)
	if owner, ok := errors.AsType[*ownerError](err); ok && owner.address != "" {
		info.Metadata = map[string]string{"address": owner.address}
	}
	if missing, ok := errors.AsType[*engine.NotFoundError](err); ok {
		info.Metadata = map[string]string{"model": missing.Model}
	}
	wait := r.retryAfter
	if d := new(auth.LimitError); errors.As(err, &d) {
		wait = d.Wait
	}
	if wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	s := status.New(r.code, message)
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s // The code and the message are enough.
	}
	return detailed
}

// Bounds of a status. The status is a trailer, and clients bound trailers: gRPC's C core, and so Python, at 8 KiB. A
// trailer has the message in percent-encoding, and beside it the message and the details in base64:
// maxMessage + 4/3 * (maxMessage + maxDetails + 4 * maxQuoted) < 8 KiB.
const (
	maxQuoted  = 200  // bytes of a quote from the request
	maxMessage = 1500 // bytes of the encoded message
	maxDetails = 2000 // bytes of the violations
)

func short(text string) string { return clip(text, maxQuoted) }

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// clipEncoded cuts a text to about limit bytes in the percent-encoding of grpc-message.
func clipEncoded(text string, limit int) string {
	for n := range len(text) {
		if c := text[n]; c >= ' ' && c <= '~' && c != '%' {
			limit--
		} else {
			limit -= len("%00")
		}
		if limit < 0 {
			return clip(text, n)
		}
	}
	return text
}

func durationText(d *durationpb.Duration) string {
	if d.CheckValid() != nil {
		return fmt.Sprintf("%d seconds and %d nanoseconds", d.GetSeconds(), d.GetNanos())
	}
	return d.AsDuration().String()
}

// violations lists the invalid fields, in at most maxDetails bytes.
func violations(fields model.FieldErrors) *errdetails.BadRequest {
	out, size := new(errdetails.BadRequest), 0
	for _, field := range fields {
		violation := &errdetails.BadRequest_FieldViolation{
			Field: short(field.Field), Description: fmt.Sprintf("got %s, want %s", short(field.Got), clip(field.Want, 2*maxQuoted)),
		}
		if r := rejectionOf(field); r != nil {
			violation.Reason = r.reason.String()
		}
		size += proto.Size(violation)
		if size > maxDetails {
			break
		}
		out.FieldViolations = append(out.FieldViolations, violation)
	}
	return out
}

// atRow puts the rows into the fields of an error: rows[2].features[0], or inputs[2].city.
func atRow(err error, list string) error {
	var moved model.FieldErrors
	for _, row := range engine.RejectedRows(err) {
		path := fmt.Sprintf("%s[%d]", list, row.Row)
		fields := model.FieldsOf(row.Err)
		if len(fields) == 0 {
			return fmt.Errorf("%s: %w", path, row.Err)
		}
		for _, field := range fields {
			at := field.At(path)
			if below, ok := strings.CutPrefix(field.Field, list); ok {
				at.Field = path + below
			}
			moved = append(moved, at)
		}
	}
	if len(moved) == 0 {
		return err
	}
	return moved.Err()
}

func withoutRow(err error) error {
	if row, ok := errors.AsType[*engine.RowError](err); ok {
		return row.Err
	}
	return err
}
