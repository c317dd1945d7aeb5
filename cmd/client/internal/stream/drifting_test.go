package stream_test

import (
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"hindsight/cmd/client/internal/stream"
)

func take(t *testing.T, seed uint64) (all []stream.Round) {
	t.Helper()
	s := stream.NewDrifting(300, 3, seed)
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
}

func TestDriftingIsTheStreamOfItsSeed(t *testing.T) {
	a, b, c := take(t, 1), take(t, 1), take(t, 2)
	if len(a) != 300 || !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, c) {
		t.Error("not the stream of its seed")
	}
	for n, r := range a {
		if len(r.Features) != 3 || len(r.Labels) != 1 || !(math.Abs(r.Labels[0]) < 100) {
			t.Fatalf("round %d: %+v", n, r)
		}
	}
}
