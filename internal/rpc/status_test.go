package rpc_test

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/docs/reference"
	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
	"hindsight/internal/rpc"
)

// Every sentinel of the engine and of the models has a row in the table of
// errors: without one, clients would get INTERNAL.
func TestEverySentinelHasARow(t *testing.T) {
	inTable := map[string]bool{}
	for _, err := range rpc.Sentinels() {
		inTable[err.Error()] = true
	}
	declared := regexp.MustCompile(`(?m)^(?:var |\t)(Err\w+)\s*=\s*errors\.New\("(.*)"\)`)
	found := 0
	for _, directory := range []string{"../engine", "../model", "../model/input", "../auth"} {
		files := must(filepath.Glob(filepath.Join(directory, "*.go")))(t)
		for _, file := range files {
			source := must(os.ReadFile(file))(t)
			for _, sentinel := range declared.FindAllStringSubmatch(string(source), -1) {
				found++
				// The engine says ErrCorrupt or ErrInvalidRequest for these.
				assert.True(t, inTable[sentinel[2]] || sentinel[1] == "ErrCorruptState", "%s: %s has no row", file, sentinel[1])
			}
		}
	}
	assert.True(t, found >= 20, "%d sentinels found", found)
}

// reason is that of the ErrorInfo of a status.
func reason(s *status.Status) string {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// The storage's errors say UNAVAILABLE. Only where the outcome is unknown does the
// client get the cause, because it is asked to send the observation again.
func TestStatusOfStorageErrors(t *testing.T) {
	cause := fmt.Errorf("read the log: %w", io.ErrUnexpectedEOF)
	for _, c := range []struct {
		err     error
		code    codes.Code
		reason  string
		retry   time.Duration
		message string
	}{
		{fmt.Errorf("%w: %w", engine.ErrStorage, cause), codes.Unavailable, "STORAGE_FAILED", 0, engine.ErrStorage.Error()},
		{fmt.Errorf("%w: %w", engine.ErrCorrupt, cause), codes.DataLoss, "STATE_CORRUPT", 0, engine.ErrCorrupt.Error()},
		{
			fmt.Errorf("%w: %w: %w", engine.ErrUnknown, engine.ErrStorage, cause), codes.Unavailable, "OUTCOME_UNKNOWN", 100 * time.Millisecond,
			engine.ErrUnknown.Error() + ": " + engine.ErrStorage.Error() + ": " + cause.Error(),
		},
		{
			fmt.Errorf("%w: %w", engine.ErrCorrupt, &model.FieldError{Field: "inputs.city", Err: input.ErrInputType}),
			codes.DataLoss, "STATE_CORRUPT", 0, engine.ErrCorrupt.Error(),
		},
		{cause, codes.Internal, "", 0, "internal error; the server's log says more"},
		{fmt.Errorf("rpc: import: %w", status.Error(codes.Aborted, "why")), codes.Aborted, "", 0, "why"},
	} {
		s := rpc.StatusOf(c.err)
		var reason string
		var retry time.Duration
		for _, d := range s.Details() {
			switch d := d.(type) {
			case *errdetails.ErrorInfo:
				reason = d.GetReason()
			case *errdetails.RetryInfo:
				retry = d.GetRetryDelay().AsDuration()
			}
		}
		if s.Code() != c.code || reason != c.reason || retry != c.retry || s.Message() != c.message {
			t.Errorf("%v:\n%v %q %v %q", c.err, s.Code(), reason, retry, s.Message())
		}
	}
	assert.False(t, slices.ContainsFunc(rpc.Sentinels(), func(err error) bool { return errors.Is(cause, err) }), "the test's cause is in the table")
}

// An error quotes a part of what the request has: clients have little room for trailers.
func TestErrorsQuoteLittle(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	long := strings.Repeat("é", 10_000)
	ctx := t.Context()
	for what, err := range map[string]error{
		"a model":     errOf(s.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: long})),
		"a new model": errOf(s.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: long})),
		"a label's key": errOf(s.models.UpdateModel(ctx, &hindsightv1.UpdateModelRequest{
			Model: &hindsightv1.Model{Id: "m", Labels: map[string]string{long: "x"}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
		})),
		"a mask":         errOf(s.models.UpdateModel(ctx, &hindsightv1.UpdateModelRequest{Model: &hindsightv1.Model{Id: "m"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{long}}})),
		"an alias":       errOf(s.models.DeleteAlias(ctx, &hindsightv1.DeleteAliasRequest{Alias: long})),
		"an expectation": errOf(s.models.SetAlias(ctx, &hindsightv1.SetAliasRequest{Alias: "a", Model: "m", ExpectedModel: long})),
		"an etag":        errOf(s.models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Model: "m", Etag: long})),
		"an order":       errOf(s.models.ListModels(ctx, &hindsightv1.ListModelsRequest{OrderBy: long})),
		"a token":        errOf(s.models.ListModels(ctx, &hindsightv1.ListModelsRequest{PageToken: long})),
		"a prediction":   errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", PredictionId: long, Target: label(1)})),
		"an observation": errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", ObservationId: long, Features: []float64{1}, Target: label(1)})),
		"a row's model":  errOf(s.ObserveBatch(ctx, &hindsightv1.ObserveBatchRequest{Model: "m", Observations: []*hindsightv1.ObserveRequest{{Model: long}}})),
	} {
		got := status.Convert(err)
		if err == nil || got.Code() == codes.Internal || proto.Size(got.Proto()) > 4096 {
			t.Errorf("%s: %s of %d bytes: %.100s", what, got.Code(), proto.Size(got.Proto()), got.Message())
		}
	}
}

// A client rejects a call whose trailers are larger than 8 KiB: with INTERNAL, in place of the status.
func TestStatusFitsTrailers(t *testing.T) {
	for _, letter := range []string{"x", "%", "é", "漢", "😀", "\x00"} {
		for _, count := range []int{1, 300, 600, 100_000} {
			text := strings.Repeat(letter, count)
			var fields model.FieldErrors
			for range 60 {
				fields = append(fields, &model.FieldError{Field: text, Err: engine.ErrInvalidRequest, Got: text, Want: text})
			}
			for _, err := range []error{fields, fields[0], fmt.Errorf("%s: %w", text, engine.ErrInvalidRequest)} {
				s := rpc.StatusOf(err)
				details := must(proto.Marshal(s.Proto()))(t)
				bytes := base64.StdEncoding.EncodedLen(len(details))
				for _, c := range []byte(s.Message()) {
					if bytes++; c < ' ' || c > '~' || c == '%' {
						bytes += 2
					}
				}
				if bytes > 8<<10 || s.Code() != codes.InvalidArgument || !utf8.ValidString(s.Message()) {
					t.Errorf("%d times %q: %v, %d bytes", count, letter, s.Code(), bytes)
				}
			}
		}
	}
}

var update = flag.Bool("update", false, "write the reference of the errors anew")

// rejection is what the reference says of a reason.
type rejection struct {
	code codes.Code
	http int
	// wait is the delay of the RetryInfo.
	wait string
	// remedy is the comment of the reason in the proto file.
	remedy string
}

// The reference of the errors has every reason of the API. The table or the gateway has each, and no other.
func TestErrorReference(t *testing.T) {
	rejections := rejectionsOfHTTP(t)
	for _, err := range rpc.Sentinels() {
		s := rpc.StatusOf(err)
		r := rejection{code: s.Code(), http: runtime.HTTPStatusFromCode(s.Code())}
		for _, detail := range s.Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				r.wait = info.GetRetryDelay().AsDuration().String()
			}
		}
		rejections[reason(s)] = r // The table says more than HTTP.
	}
	remedies(t, rejections)
	var b strings.Builder
	b.WriteString(`# Errors

Generated from the proto files by ` + "`make reference`" + `; do not edit.

A rejection is a ` + "`google.rpc.Status`" + ` whose ErrorInfo has the domain ` + "`hindsight`" + `, and as reason the name of an
ErrorReason: in gRPC in the trailer ` + "`grpc-status-details-bin`" + `, in JSON in ` + "`error`" + `. Decide by the reason; messages are for
people. A BadRequest lists every wrong field. A duration is the RetryInfo. Send again with the same ids. Treat an
unknown reason by its code, and send again only with a RetryInfo. Without a reason:

- UNAVAILABLE: no server answered. Check the address; send again.
- DEADLINE_EXCEEDED: too little time, or too much load. Send again.
- UNIMPLEMENTED: the server is older than the client.
- INTERNAL: a defect; see the server's log.

| reason | gRPC, HTTP | again | what to do |
|---|---|---|---|
`)
	var answers []string
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(rejections)) {
		r := rejections[name]
		again := "no"
		if r.wait != "" {
			again = "yes " + r.wait
		}
		answer := fmt.Sprintf("%s %d | %s | %s |\n", code.Code(r.code), r.http, again, r.remedy)
		if names[answer] == nil {
			answers = append(answers, answer)
		}
		names[answer] = append(names[answer], "`"+name+"`")
	}
	for _, answer := range answers {
		fmt.Fprintf(&b, "| %s | %s", strings.Join(names[answer], ", "), answer)
	}
	assert.NoError(t, reference.Compare("../../docs/reference/errors.md", b.String(), *update))
}

// remedies adds the comments of the reasons.
func remedies(t *testing.T, rejections map[string]rejection) {
	t.Helper()
	text := must(os.ReadFile("../../api/proto/hindsight/v1/error.proto"))(t)
	for _, found := range regexp.MustCompile(`((?:  // .*\n)+)  ([A-Z_]+) = [1-9]`).FindAllStringSubmatch(string(text), -1) {
		r, ok := rejections[found[2]]
		assert.True(t, ok, "no call is rejected with %s", found[2])
		words := strings.Fields(strings.ReplaceAll(strings.TrimSuffix(found[1], ".\n"), "  // ", ""))
		words[0] = strings.ToLower(words[0][:1]) + words[0][1:]
		r.remedy = strings.Join(words, " ")
		rejections[found[2]] = r
	}
	for name, r := range rejections {
		assert.NotEqual(t, "", r.remedy, name)
	}
}

// rejectionsOfHTTP are those that the gateway finds itself: the calls of reject in its source.
func rejectionsOfHTTP(t *testing.T) map[string]rejection {
	t.Helper()
	statuses, grpc := map[string]int{}, map[string]codes.Code{}
	for n := 400; n < 600; n++ {
		letters := func(c rune) rune {
			if unicode.IsLetter(c) {
				return c
			}
			return -1
		}
		statuses["Status"+strings.Map(letters, http.StatusText(n))] = n
	}
	for c := range codes.Code(17) {
		grpc[c.String()] = c
	}
	files := must(filepath.Glob("../gateway/*.go"))(t)
	found := map[string]rejection{}
	for _, name := range files {
		file := must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, _ := call.Fun.(*ast.Ident)
			switch {
			case f == nil:
			case f.Name == "invalid":
				found[reasonOf(call.Args[1])] = rejection{code: codes.InvalidArgument, http: http.StatusBadRequest}
			case f.Name == "reject" && reasonOf(call.Args[2]) != "": // Function invalid has the reason of its caller.
				code, known := grpc[selected(call.Args[1])]
				assert.True(t, known, "%s: a rejection that the reference cannot read", name)
				status, known := statuses[selected(call.Args[0])]
				if !known { // That of the code.
					status = runtime.HTTPStatusFromCode(code)
				}
				found[reasonOf(call.Args[2])] = rejection{code: code, http: status}
			}
			return true
		})
	}
	assert.GreaterOrEqual(t, len(found), 8, "%d rejections of HTTP found", len(found))
	return found
}

// reasonOf is the name of a reason, empty for a variable.
func reasonOf(e ast.Expr) string {
	name, _ := strings.CutPrefix(selected(e), "ErrorReason_")
	return name
}

// selected is b of a.b.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// counted counts rejections.
type counted struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counted) count(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[reason]++
}

// Rejections are counted by their reason, and every counted reason is among Reasons.
func TestRejectionsAreCounted(t *testing.T) {
	c := &counted{by: map[string]int{}}
	s := serve(t, func(o *rpc.Options) { o.Rejected = c.count })
	s.create(t, "m", linear(1))
	assert.Error(t, errOf(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "none"})), "a model that is not there predicts")
	assert.Error(t, errOf(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}})), "two features of one")
	for model, want := range map[string]codes.Code{"none": codes.NotFound, "m": codes.OK} {
		_, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: model, Features: []float64{1}, Target: label(1)})
		assert.Equal(t, want, status.Code(err), "%s: %v", model, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := map[string]int{"MODEL_NOT_FOUND": 2, "DIMENSION_MISMATCH": 1}
	known := rpc.Reasons()
	for reason, n := range c.by {
		assert.True(t, want[reason] == n && slices.Contains(known, reason), "%s was counted %d times, want %d", reason, n, want[reason])
	}
	assert.Len(t, c.by, len(want), "counted, want %v", want)
	slices.Sort(known)
	assert.True(t, len(slices.Compact(known)) == len(rpc.Reasons()) && slices.Contains(known, "UNAUTHENTICATED"), "reasons %v", known)
}

// The queue of an observation is in the span of its call. A line of a rejected call says its trace.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	core, lines := observer.New(zap.DebugLevel)
	s := serve(t, func(o *rpc.Options) {
		o.Tracer, o.Log = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), zap.New(core)
	})
	s.create(t, "m", linear(1))
	must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{1}, Target: label(1)}))(t)
	require.Error(t, errOf(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "none"})), "a model that is not there predicts")
	s.end()
	byName := map[string][]sdk.ReadOnlySpan{}
	for _, span := range spans.Ended() {
		byName[span.Name()] = append(byName[span.Name()], span)
	}
	const service = "hindsight.v1.PredictionService/"
	observed, rejected := byName[service+"Observe"], byName[service+"Predict"]
	require.True(t, len(observed) == 1 && len(rejected) == 1 && len(byName["queue"]) == 1, "spans %v", byName)
	assert.True(t, byName["queue"][0].Parent().SpanID() == observed[0].SpanContext().SpanID(), "the queue is of another span")
	found := lines.FilterMessage("call rejected").FilterFieldKey("trace_id").All()
	if len(found) != 1 || found[0].ContextMap()["trace_id"] != rejected[0].SpanContext().TraceID().String() ||
		found[0].ContextMap()["span_id"] != rejected[0].SpanContext().SpanID().String() {
		t.Errorf("lines %v", found)
	}
}
