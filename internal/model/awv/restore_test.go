package awv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/codec"
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
					Dimension: dimension, Mu: 0.1, Epsilon: 0.5, Beta: 1, MaxDictionary: 16, Window: window, // Never full.
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

// A whole history is freed once the dictionary is full: no later round needs it.
// The learner still predicts as eq. (4) has it, and no longer grows. A state of
// before, which held every round, restores to the same.
func TestAFullDictionaryFreesTheHistory(t *testing.T) {
	const dimension, centres, rounds = 2, 6, 300
	o := awv.NystromOptions{
		Options: awv.Options{Lambda: 0.4}, Kernel: gaussian(1),
		Dimension: dimension, Mu: 0.1, Epsilon: 0.5, Beta: 1, MaxDictionary: centres, Window: awv.WholeHistory,
	}
	l, dense := awv.NewNystrom(o), &modeltest.Nystrom{Kernel: gaussian(1).At, Lambda: 0.4}
	var history []float64
	full := uint64(0)
	for n, s := range modeltest.Samples(4, dimension, rounds) {
		before := l.Stats().Dictionary
		out, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
		if err != nil {
			t.Fatal(err)
		}
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
		history = append(append(append(history, s.X...), s.Y), s.Weight)
	}
	if cost := awv.NystromCost(o).StateBytes; full == 0 || full > cost {
		t.Errorf("%d bytes when the dictionary is full, the cost says %d", full, cost)
	}
	good, err := l.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if at := len(good) - 16; binary.LittleEndian.Uint64(good[at:]) != 0 || binary.LittleEndian.Uint64(good[at+8:]) != 0 {
		t.Fatalf("the state ends with %x, want no rounds", good[at:])
	}
	old := codec.AppendUint64(codec.AppendUint64(good[:len(good)-16:len(good)-16], rounds), rounds)
	for name, state := range map[string][]byte{"now": good, "before": codec.AppendFloats(old, history...)} {
		restored := awv.NewNystrom(o)
		if err := restored.Restore(state); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := restored.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, good) || restored.Size() != full {
			t.Errorf("%s: another state of %d bytes, %v", name, restored.Size(), err)
		}
	}
	old[len(old)-8]++
	if err := awv.NewNystrom(o).Restore(codec.AppendFloats(old, history...)); err == nil {
		t.Error("a wrong place in a history of before is accepted")
	}
}
