package auto_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/codec"
)

func wideOptions(dimension, outputs int) auto.Options {
	o := options(dimension, outputs)
	o.Frequencies = 10
	return o
}

// wideRow has labels of few inputs: other ones from row 700 on.
func wideRow(rng *rand.Rand, i int, x, y []float64) {
	for j := range x {
		x[j] = rng.NormFloat64()
	}
	at := 3
	if i >= 700 {
		at = 40
	}
	for k := range y {
		y[k] = 2*x[at+k] + x[at+5]*x[at+5] + 0.1*rng.NormFloat64()
	}
}

// A state that is read at any row continues bit for bit, across the doublings at which inputs leave
// and enter, and with late labels.
func TestScreenedStatesContinue(t *testing.T) {
	for _, outputs := range []int{1, 2} {
		o := wideOptions(75, outputs)
		l := auto.New(o)
		rng := rand.New(rand.NewPCG(1, uint64(outputs)))
		x, y := make([]float64, o.Dimension), make([]float64, outputs)
		var outcome model.Outcome
		var served model.Prediction
		before := l.Slots()
		moved := 0
		for i := range 1100 {
			wideRow(rng, i, x, y)
			if slices.Contains([]int{5, 127, 200, 511, 600, 1023, 1060}, i) {
				l = readAndObserve(t, l, o, x, y)
				continue
			}
			if i%50 == 0 {
				require.NoError(t, l.Predict(&served, x))
			}
			var err error
			if i%50 == 7 && i > 7 {
				err = l.ObserveAdvised(&outcome, x, y, 1, served.Advice)
			} else {
				err = l.Observe(&outcome, x, y, 1)
			}
			require.True(t, err == nil && !math.IsNaN(outcome.Loss), "row %d: a loss of %g: %v", i, outcome.Loss, err)
			if now := l.Slots(); i >= 256 {
				for s := range now {
					if now[s] != before[s] {
						moved++
					}
				}
				before = now
			} else {
				before = now
			}
		}
		assert.NotEqual(t, 0, moved, "no input has left or entered since row 256")
		s := l.Stats()
		assert.True(t, s.CertificateOK, "certificate %g of regret %g", s.Certificate, s.Regret)
	}
}

// readAndObserve is a learner of the state, after the row.
func readAndObserve(t *testing.T, l *auto.Learner, o auto.Options, x, y []float64) *auto.Learner {
	t.Helper()
	state, err := codec.Append(nil, l.Visit)
	require.NoError(t, err)
	read := auto.New(o)
	require.NoError(t, codec.Read(state, read.Visit))
	again, err := codec.Append(nil, read.Visit)
	require.True(t, err == nil && bytes.Equal(state, again), "another state: %v", err)
	var outcome, want model.Outcome
	require.NoError(t, l.Observe(&want, x, y, 1))
	err = read.Observe(&outcome, x, y, 1)
	require.True(t, err == nil && outcome.Loss == want.Loss, "a loss of %g, want %g: %v", outcome.Loss, want.Loss, err)
	return read
}

func TestTheScreenFindsInputs(t *testing.T) {
	o := wideOptions(150, 1)
	l := auto.New(o)
	rng := rand.New(rand.NewPCG(3, 3))
	x, y := make([]float64, o.Dimension), make([]float64, 1)
	var outcome model.Outcome
	late := 0.0
	for i := range 1030 {
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		y[0] = 2*x[140] + 1.5*(x[20]*x[20]-1) + 1.5*x[70]*x[71] + 0.1*rng.NormFloat64()
		require.NoError(t, l.Observe(&outcome, x, y, 1))
		if i >= 900 {
			late += outcome.Loss / 130
		}
		if i == 128 {
			assert.LessOrEqual(t, len(slices.DeleteFunc(l.Slots(), func(j int) bool { return j < 0 }))-4, 4)
		}
	}
	found := map[int]bool{}
	for _, j := range l.Slots() {
		found[j] = true
	}
	for _, j := range []int{140, 20, 70, 71} { // Linear, even, a product.
		assert.True(t, found[j], "input %d is not in the levels: %v", j, l.Slots())
	}
	variance := 4 + 4.5 + 2.25
	assert.LessOrEqual(t, late, 0.4*variance, "a late loss of %g at a variance of %g", late, variance)
	for _, i := range l.Report(model.ReportOptions{Importances: true}).Importances {
		assert.True(t, i.Name != "" || i.From >= 0 && i.To == i.From+1 && found[i.From], "importance of the inputs from %d to %d", i.From, i.To)
	}
}

// Categories and cycles stay inputs of the levels, keys have effects, and flags are numbers.
func TestScreeningKeepsCategories(t *testing.T) {
	o := wideOptions(90, 1)
	o.Joint = []auto.Span{{From: 2, To: 6}}
	o.Cycles = []int{10}
	o.Flags = []int{20, 21}
	o.Keys = []auto.Key{{Feature: 0}}
	l := auto.New(o)
	rng := rand.New(rand.NewPCG(4, 4))
	x, y := make([]float64, o.Dimension), make([]float64, 1)
	var outcome model.Outcome
	late := 0.0
	for i := range 600 {
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		clear(x[2:6])
		c := rng.IntN(4)
		x[2+c] = 1
		x[0] = float64(1 + rng.IntN(3))
		y[0] = 2*float64(c%2) + x[0] + 0.1*rng.NormFloat64()
		require.NoError(t, l.Observe(&outcome, x, y, 1))
		if i >= 500 {
			late += outcome.Loss / 100
		}
	}
	slots := l.Slots()
	assert.True(t, slots[0] == 1 && slots[3] == 4 && slots[4] == 9 && slots[5] == 10, "slots %v, want the categories and the cycle first", slots)
	assert.LessOrEqual(t, late, 0.2, "a late loss of %g", late)
	got, most := l.Size(), auto.Cost(o).StateBytes
	assert.True(t, got <= most, "a state of %d bytes, of at most %d", got, most)
}

func TestFewInputsAreNotScreened(t *testing.T) {
	l := auto.New(wideOptions(20, 1))
	assert.Nil(t, l.Slots())
}
