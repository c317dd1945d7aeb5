package rpc_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
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
				assert.True(t, inTable[sentinel[2]] || sentinel[1] == "ErrCorruptState" || sentinel[1] == "ErrRecord", "%s: %s has no row", file, sentinel[1])
			}
		}
	}
	assert.True(t, found >= 20, "%d sentinels found", found)
}

// Package client has a sentinel for every reason of the table, and for no other.
func TestEveryReasonHasASentinelOfTheClient(t *testing.T) {
	source := must(os.ReadFile("../../client/errors.go"))(t)
	var sentinels []string
	for _, found := range regexp.MustCompile(`(?m)^\tErr\w+ +error = reason\(hindsightv1\.ErrorReason_([A-Z_]+)\)$`).FindAllStringSubmatch(string(source), -1) {
		sentinels = append(sentinels, found[1])
	}
	slices.Sort(sentinels)
	// Two errors of the table may have one reason; a sentinel is there once.
	reasons := rpc.TableReasons()
	slices.Sort(reasons)
	reasons = slices.Compact(reasons)
	assert.True(t, slices.Equal(sentinels, reasons), "sentinels of the client %v\nreasons of the table %v", sentinels, reasons)
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
	for what, call := range map[string]func() error{
		"a model": func() error { _, err := s.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: long}); return err },
		"a new model": func() error {
			_, err := s.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: long})
			return err
		},
		"a label's key": func() error {
			_, err := s.models.UpdateModel(ctx, &hindsightv1.UpdateModelRequest{
				Model: &hindsightv1.Model{Id: "m", Labels: map[string]string{long: "x"}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
			})
			return err
		},
		"a mask": func() error {
			_, err := s.models.UpdateModel(ctx, &hindsightv1.UpdateModelRequest{Model: &hindsightv1.Model{Id: "m"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{long}}})
			return err
		},
		"an alias": func() error {
			_, err := s.models.DeleteAlias(ctx, &hindsightv1.DeleteAliasRequest{Alias: long})
			return err
		},
		"an expectation": func() error {
			_, err := s.models.SetAlias(ctx, &hindsightv1.SetAliasRequest{Alias: "a", Model: "m", ExpectedModel: long})
			return err
		},
		"an etag": func() error {
			_, err := s.models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Model: "m", Etag: long})
			return err
		},
		"an order": func() error {
			_, err := s.models.ListModels(ctx, &hindsightv1.ListModelsRequest{OrderBy: long})
			return err
		},
		"a token": func() error {
			_, err := s.models.ListModels(ctx, &hindsightv1.ListModelsRequest{PageToken: long})
			return err
		},
		"a prediction": func() error {
			_, err := s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", PredictionId: long, Target: label(1)})
			return err
		},
		"an observation": func() error {
			_, err := s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", ObservationId: long, Features: []float64{1}, Target: label(1)})
			return err
		},
		"a row's model": func() error {
			_, err := s.ObserveBatch(ctx, &hindsightv1.ObserveBatchRequest{Model: "m", Observations: []*hindsightv1.ObserveRequest{{Model: long}}})
			return err
		},
	} {
		err := call()
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
