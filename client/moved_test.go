package client_test

import (
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hindsight/client"
)

// The refusal of a model that was moved says where it is; others say no address.
func TestMovedTo(t *testing.T) {
	for reason, want := range map[string]struct {
		code     codes.Code
		sentinel error
		address  string
	}{
		"MODEL_MOVED":   {codes.FailedPrecondition, client.ErrModelMoved, "b:1"},
		"MODEL_MOVING":  {codes.Unavailable, client.ErrModelMoving, "b:1"},
		"MODEL_FOLLOWS": {codes.FailedPrecondition, client.ErrModelFollows, ""},
	} {
		s, err := status.New(want.code, "no").WithDetails(&errdetails.ErrorInfo{
			Reason: reason, Domain: "hindsight", Metadata: map[string]string{"address": "b:1", "model": "m"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := client.FromError(s.Err()); !errors.Is(got, want.sentinel) || got.MovedTo != want.address {
			t.Errorf("%s: %v at %q", reason, got, got.MovedTo)
		}
	}
}
