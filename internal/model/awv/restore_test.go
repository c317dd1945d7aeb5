package awv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

// The place of the next round of a history is what the rounds that are kept
// imply. Another place, which once made Observe panic, is rejected.
func TestRestoreRejectsAPlaceOutsideTheHistory(t *testing.T) {
	const dimension = 2
	for _, window := range []int{0, 5, awv.WholeHistory} {
		for _, rounds := range []int{0, 3, 5, 7, 10} {
			t.Run(fmt.Sprintf("window %d, %d rounds", window, rounds), func(t *testing.T) {
				o := awv.NystromOptions{
					Options: awv.Options{Lambda: 1}, Kernel: kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1},
					Dimension: dimension, Mu: 0.1, Epsilon: 0.5, Beta: 1, MaxDictionary: 16, Window: window, // Never full.
				}
				l := awv.NewNystrom(o)
				samples := modeltest.Samples(4, dimension, rounds+3)
				for _, s := range samples[:rounds] {
					must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
				}
				good := must(l.AppendBinary(nil))(t)
				kept := rounds
				if window != awv.WholeHistory {
					kept = min(rounds, window)
				}
				// The state ends with the place and the rounds: input, label, weight.
				at := len(good) - 8*kept*(dimension+2) - 8
				right := binary.LittleEndian.Uint64(good[at:])
				for place := range uint64(12) {
					state := append([]byte(nil), good...)
					binary.LittleEndian.PutUint64(state[at:], place)
					restored := awv.NewNystrom(o)
					err := restored.Restore(state)
					assert.Equal(t, (place == right), (err == nil), "place %d, want %d: %v", place, right, err)
					if err != nil {
						continue
					}
					for _, s := range samples[rounds:] {
						require.NoError(t, restored.Observe(&model.Outcome{}, s.X, []float64{s.Y}, s.Weight))
					}
				}
			})
		}
	}
}

// A whole history is freed once the dictionary is full: no later round needs it.
// The learner still predicts as eq. (4) has it, and no longer grows.
func TestAFullDictionaryFreesTheHistory(t *testing.T) {
	const dimension, centres, rounds = 2, 6, 300
	o := awv.NystromOptions{
		Options: awv.Options{Lambda: 0.4}, Kernel: gaussian(1),
		Dimension: dimension, Mu: 0.1, Epsilon: 0.5, Beta: 1, MaxDictionary: centres, Window: awv.WholeHistory, Frees: true,
	}
	l, dense := awv.NewNystrom(o), &modeltest.Nystrom{Kernel: gaussian(1).At, Lambda: 0.4}
	full := uint64(0)
	for n, s := range modeltest.Samples(4, dimension, rounds) {
		before := l.Stats().Dictionary
		out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		m := l.Stats().Dictionary
		if m > before {
			dense.Grow(s.X)
		}
		near(t, fmt.Sprint("prediction ", n), out.Prediction, dense.Observe(s.X, s.Y, s.Weight), 1, 1e-8)
		switch {
		case m < centres:
		case full == 0:
			full = l.Size()
		case l.Size() != full:
			t.Fatalf("%d bytes after %d rounds, %d when the dictionary was full", l.Size(), n+1, full)
		}
	}
	o.Window = centres // A round a centre, the fewest possible.
	cost := awv.NystromCost(o).StateBytes
	assert.True(t, full != 0 && full <= cost, "%d bytes when the dictionary is full, the cost says %d", full, cost)
	good := must(l.AppendBinary(nil))(t)
	if at := len(good) - 16; binary.LittleEndian.Uint64(good[at:]) != 0 || binary.LittleEndian.Uint64(good[at+8:]) != 0 {
		t.Fatalf("the state ends with %x, want no rounds", good[at:])
	}
	restored := awv.NewNystrom(o)
	require.NoError(t, restored.Restore(good))
	if again, err := restored.AppendBinary(nil); err != nil || !bytes.Equal(again, good) || restored.Size() != full {
		t.Errorf("another state of %d bytes, %v", restored.Size(), err)
	}
}

// A full history with a window is a whole one for the rounds of the window, bit for bit,
// and that of the window for all. Its rounds are freed with the last centre, and any state
// restores.
func TestABoundedHistoryIsThatOfItsWindow(t *testing.T) {
	const dimension, window, centres, rounds = 2, 12, 24, 400
	learner := func(window int, frees bool) *awv.Nystrom {
		return awv.NewNystrom(awv.NystromOptions{
			Options: awv.Options{Lambda: 0.4}, Kernel: gaussian(1),
			Dimension: dimension, Mu: 0.5, Epsilon: 0.5, Beta: 1, MaxDictionary: centres, Window: window, Frees: frees,
		})
	}
	l, whole, last := learner(window, true), learner(awv.WholeHistory, true), learner(window, false)
	late, freed := false, false
	for n, s := range modeltest.Samples(4, dimension, rounds) {
		before := l.Stats().Dictionary
		var outcomes [3]model.Outcome
		for k, each := range []*awv.Nystrom{l, whole, last} {
			require.NoError(t, each.Observe(&outcomes[k], s.X, []float64{s.Y}, s.Weight))
		}
		m := l.Stats().Dictionary
		late = late || n > window && m > before
		got := outcomes[0].Predictions[0]
		want := outcomes[1].Predictions[0]
		require.True(t, n > window || got == want, "round %d of the window: %v, with the whole history %v", n, got, want)
		want = outcomes[2].Predictions[0]
		require.True(t, got == want, "round %d: %v, with the window %v", n, got, want)
		if m == centres && !freed {
			freed = true
			got, kept := l.Size(), last.Size()
			assert.True(t, got < kept, "%d bytes with a full dictionary, %d with the window", got, kept)
		}
		state := stateOf(t, l)
		restored := learner(window, true)
		require.NoError(t, restored.Restore(state), n)
		l = restored
		require.True(t, bytes.Equal(stateOf(t, l), state), "round %d: restored, it is another", n)
	}
	assert.True(t, late && freed, "centres after the window: %t, freed: %t: nothing is tested", late, freed)
}
