package recent_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account/recent"
	"hindsight/internal/model/codec"
)

// sums are the number of observations and the sum of their numbers.
type sums struct{ observations, numbers float64 }

func (s *sums) Add(by sums) {
	s.observations += by.observations
	s.numbers += by.numbers
}

func (s *sums) Count() float64 { return s.observations }

// visit visits the window, with numbers of at most 1e9.
func visit(w *window, v *codec.Visitor) {
	w.Visit(v, func(s *sums) { v.Within(1e9, &s.observations, &s.numbers) })
}

func read(w *window, data []byte) error {
	return codec.Read(data, func(v *codec.Visitor) { visit(w, v) })
}

type window = recent.Window[sums, *sums]

// The window of whole numbers is the sum of exactly the last of them, and it goes on from
// its bytes with the same ones.
func TestWindowIsTheSumOfTheLast(t *testing.T) {
	t.Parallel()
	var w window
	for n := 1; n <= 3*recent.Observations; n++ {
		w.Add(sums{observations: 1, numbers: float64(n)})
		got := w.Total()
		covered := int(got.observations)
		require.True(t, covered >= min(n, recent.Observations) && covered <= min(n, recent.Observations+50), "%d of %d observations are covered", covered, n)
		require.Equal(t, float64(covered*(2*n-covered+1))/2, got.numbers, "after %d observations the last %d sum up to", n, covered)
		if n%77 != 0 {
			continue
		}
		var again window
		v := codec.Appending(nil)
		visit(&w, &v)
		data, err := v.Appended()
		if err == nil {
			err = read(&again, data)
		}
		require.NoError(t, err, "after %d observations", n)
		require.True(t, again.Total() == got, "after %d observations: read %+v, want %+v", n, again.Total(), got)
		w = again
	}
}

func TestReadRejectsBlocksThatCannotBe(t *testing.T) {
	t.Parallel()
	encode := func(blocks, next uint64, numbers ...float64) []byte {
		return codec.AppendFloats(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, blocks), next), numbers...)
	}
	for name, data := range map[string][]byte{
		"too many blocks":                 encode(1<<40, 0),
		"filling a block that is not":     encode(1, 1, 3, 9),
		"an empty block":                  encode(1, 0, 0, 0),
		"part of an observation":          encode(1, 0, 1.5, 3),
		"more than a block":               encode(1, 0, 51, 3),
		"a full block that is not":        encode(2, 1, 49, 3, 1, 3),
		"a number beyond what is allowed": encode(1, 0, 3, 1e10),
		"no number":                       encode(1, 0, 3),
		"nothing":                         nil,
	} {
		var w window
		if err := read(&w, data); err == nil {
			t.Errorf("%s was read: %+v", name, w.Total())
		}
	}
	var w window
	assert.ErrorIs(t, read(&w, encode(1, 0, 3)), codec.ErrCorrupt, "what was cut off, want %v", codec.ErrCorrupt)
}
