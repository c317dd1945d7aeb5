package rpc_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"hindsight/internal/engine"
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
	for _, directory := range []string{"../engine", "../model"} {
		files, err := filepath.Glob(filepath.Join(directory, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, sentinel := range declared.FindAllStringSubmatch(string(source), -1) {
				found++
				// The engine says ErrCorrupt or ErrInvalidRequest for this one.
				if !inTable[sentinel[2]] && sentinel[1] != "ErrCorruptState" {
					t.Errorf("%s: %s has no row", file, sentinel[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d sentinels found", found)
	}
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
	if slices.ContainsFunc(rpc.Sentinels(), func(err error) bool { return errors.Is(cause, err) }) {
		t.Error("the test's cause is in the table")
	}
}
