package stream_test

import (
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		require.NoError(t, err)
		all = append(all, r)
	}
}

func TestDriftingIsTheStreamOfItsSeed(t *testing.T) {
	a, b, c := take(t, 1), take(t, 1), take(t, 2)
	assert.True(t, len(a) == 300 && reflect.DeepEqual(a, b) && !reflect.DeepEqual(a, c), "not the stream of its seed")
	for n, r := range a {
		require.True(t, len(r.Features) == 3 && len(r.Labels) == 1 && math.Abs(r.Labels[0]) < 100, "round %d: %+v", n, r)
	}
}
