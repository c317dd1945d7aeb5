package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

const domain = "hindsight"

// busyDelay is how long an overloaded client should wait.
const busyDelay = 50 * time.Millisecond

type failure struct {
	http   int
	status *status.Status
	// byGateway: the gateway rejected the request. The gRPC server counts the rejections of calls.
	byGateway bool
}

func (f *failure) Error() string { return f.status.Message() }

// GRPCStatus makes the status the status of a handler that receives a failure.
func (f *failure) GRPCStatus() *status.Status { return f.status }

func reject(httpStatus int, c codes.Code, reason hindsightv1.ErrorReason, message string, more ...protoadapt.MessageV1) *failure {
	s := status.New(c, message)
	details := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason.String(), Domain: domain}}, more...)
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return &failure{httpStatus, s, true}
}

func invalid(field string, reason hindsightv1.ErrorReason, message string) *failure {
	return reject(http.StatusBadRequest, codes.InvalidArgument, reason, message, &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: message, Reason: reason.String()}},
	})
}

func invalidJSON(message string) error {
	return invalid("body", hindsightv1.ErrorReason_INVALID_JSON, "body: "+message)
}

func shuttingDown() *failure {
	return reject(http.StatusServiceUnavailable, codes.Unavailable, hindsightv1.ErrorReason_SHUTTING_DOWN, "the server is starting or shutting down",
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
}

func overloaded(message string) *failure {
	return reject(http.StatusTooManyRequests, codes.ResourceExhausted, hindsightv1.ErrorReason_OVERLOADED, message,
		&errdetails.RetryInfo{RetryDelay: durationpb.New(busyDelay)})
}

func failed(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	s := status.Convert(err)
	if s.Code() == codes.ResourceExhausted && len(s.Proto().GetDetails()) == 0 { // gRPC's limit of a message.
		return reject(http.StatusRequestEntityTooLarge, codes.ResourceExhausted, hindsightv1.ErrorReason_REQUEST_TOO_LARGE, s.Message())
	}
	return &failure{runtime.HTTPStatusFromCode(s.Code()), s, false}
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request, allowed []string) *failure {
	methods := strings.Join(allowed, ", ")
	w.Header().Set("Allow", methods)
	return reject(http.StatusMethodNotAllowed, codes.Unimplemented, hindsightv1.ErrorReason_METHOD_NOT_ALLOWED,
		fmt.Sprintf("%s: got %s, want %s", r.URL.Path, r.Method, methods))
}

func (g *Gateway) notFound(r *http.Request) *failure {
	if t := g.find(r.URL.Path, true); t != nil {
		field := strings.Trim(t.segments[3], "{}")
		return invalid(field, hindsightv1.ErrorReason_INVALID_ID, fmt.Sprintf("%s: got nothing in the path %s, want an id", field, r.URL.Path))
	}
	message := "nothing is at " + r.Method + " " + r.URL.Path + "; GET /openapi.json lists the calls"
	if prefix, _, hasVerb := strings.Cut(r.URL.Path, ":"); hasVerb {
		var verbs []string
		for _, t := range g.table {
			if t.verb != "" && t.matches(prefix+":"+t.verb, false) {
				verbs = append(verbs, t.verb)
			}
		}
		if len(verbs) > 0 {
			message = fmt.Sprintf("nothing is at %s %s, want %s:VERB with one of %s", r.Method, r.URL.Path, prefix, strings.Join(verbs, ", "))
		}
	}
	return reject(http.StatusNotFound, codes.NotFound, hindsightv1.ErrorReason_ROUTE_NOT_FOUND, message)
}

func (f *failure) reason() string {
	for _, detail := range f.status.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// write answers an error, and counts it unless the gRPC server has.
func (g *Gateway) write(w http.ResponseWriter, err error) {
	f := failed(err)
	if f.byGateway {
		g.count(f)
	}
	if f.http == http.StatusInternalServerError {
		g.Log.Debug("call failed", zap.Error(err))
	}
	write(w, f)
}

func (g *Gateway) count(f *failure) {
	if g.Rejected != nil {
		g.Rejected(f.reason())
	}
}

// write answers a failure in the form of AIP-193.
func write(w http.ResponseWriter, f *failure) {
	header := w.Header()
	header.Set("Content-Type", contentJSON)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Del("Content-Length")
	for _, detail := range f.status.Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			// The header has whole seconds, RetryInfo has milliseconds.
			header.Set("Retry-After", strconv.Itoa(int(math.Ceil(retry.GetRetryDelay().AsDuration().Seconds()))))
		}
	}
	if f.http == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(f.http)
	// An error means that the client has left.
	_, _ = w.Write(append(f.body(), '\n'))
}

// body is {"error": {code, message, status, details}}.
func (f *failure) body() []byte {
	type inner struct {
		Code    int               `json:"code"`
		Message string            `json:"message"`
		Status  string            `json:"status"`
		Details []json.RawMessage `json:"details"`
	}
	e := inner{Code: f.http, Message: f.status.Message(), Status: code.Code(f.status.Code()).String(), Details: []json.RawMessage{}}
	for _, detail := range f.status.Proto().GetDetails() {
		// A detail of an unknown type is omitted.
		if text, err := protojson.Marshal(detail); err == nil {
			e.Details = append(e.Details, text)
		}
	}
	text, _ := json.Marshal(map[string]inner{"error": e}) // An error is impossible: the details are JSON.
	return text
}
