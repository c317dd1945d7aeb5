package awv_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

// The place of the next round of a history is what the rounds that are kept
// imply. Another place, which once made Observe panic, is refused.
func TestRestoreRefusesAPlaceOutsideTheHistory(t *testing.T) {
	const dimension = 2
	for _, window := range []int{0, 5, awv.WholeHistory} {
		for _, rounds := range []int{0, 3, 5, 7, 10} {
			t.Run(fmt.Sprintf("window %d, %d rounds", window, rounds), func(t *testing.T) {
				o := awv.NystromOptions{
					Options: awv.Options{Lambda: 1}, Kernel: kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1},
					Dimension: dimension, Mu: 0.1, Epsilon: 0.5, Beta: 1, MaxDictionary: 8, Window: window,
				}
				l := awv.NewNystrom(o)
				samples := modeltest.Samples(4, dimension, rounds+3)
				for _, s := range samples[:rounds] {
					if _, err := modeltest.Observe(l, s.X, s.Y, s.Weight); err != nil {
						t.Fatal(err)
					}
				}
				good, err := l.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				kept := rounds
				if window >= 0 {
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
					if (err == nil) != (place == right) {
						t.Errorf("place %d, want %d: %v", place, right, err)
					}
					if err != nil {
						continue
					}
					for _, s := range samples[rounds:] {
						if err := restored.Observe(&model.Outcome{}, s.X, []float64{s.Y}, s.Weight); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		}
	}
}
