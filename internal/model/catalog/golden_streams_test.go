package catalog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
)

// longRow is an observation of a long stream.
type longRow struct {
	x, y   []float64
	class  string
	weight float64
}

// longStream is a spec with a stream whose labels come late rows late.
type longStream struct {
	spec model.Spec
	late int
	row  func(rng *rand.Rand, n int) longRow
}

// bell is a number of mean 0 and variance 1 by additions alone: the same bits everywhere.
func bell(rng *rand.Rand) float64 {
	sum := -6.0
	for range 12 {
		sum += rng.Float64()
	}
	return sum
}

// longStreams cover what auto does with its rows: several outputs, weights and late labels;
// classes and a category; a walk, whose level changes and whose labels repeat.
func longStreams(t *testing.T) map[string]longStream {
	t.Helper()
	level := 0.0
	named, err := input.Complete([]*model.Input{
		{Name: "kind", Categorical: &model.CategoricalInput{MaxCategories: ptr(3)}},
		{Name: "size", Numeric: &model.NumericInput{}},
		{Name: "open", Boolean: &model.BooleanInput{}},
	}, true)
	require.NoError(t, err)
	schema := input.NewSchema(named, 100, false)
	key, _ := schema.Key(0)
	return map[string]longStream{
		"outputs": {model.Spec{Dimension: 4, Outputs: 2, Seed: 3, Auto: &model.Auto{}}, 7, func(rng *rand.Rand, n int) longRow {
			x := []float64{10 + bell(rng), rng.Float64(), float64(rng.IntN(2)), float64(n / 100)}
			first := math.Abs(x[0]-10) + float64(3*x[1]) + 0.25*bell(rng)
			return longRow{x: x, y: []float64{first, float64(100*first) + float64(x[2]*x[3])}, weight: 0.5 + rng.Float64()}
		}},
		"classes": {model.Spec{Seed: 4, Classes: &model.Classes{MaxClasses: ptr(3)}, Auto: &model.Auto{}, Inputs: named}, 0, func(rng *rand.Rand, n int) longRow {
			kind, size, open := rng.IntN(3), bell(rng), rng.IntN(2)
			x := make([]float64, schema.Dimension())
			for i, v := range []float64{1, size, float64(open)} {
				if from, _ := schema.Span(i); i == 0 {
					x[from+kind] = v
				} else {
					x[from] = v
				}
			}
			x[key] = float64(1 + kind)
			k := 0
			switch score := size + float64(open); {
			case n >= 500 && score > 1.5:
				k = 2
			case score > float64(kind)/2-0.5:
				k = 1
			}
			return longRow{x: x, class: fmt.Sprint("class ", k), weight: 1}
		}},
		"walk": {model.Spec{Dimension: 2, Seed: 5, Auto: &model.Auto{Lags: ptr(3)}}, 0, func(rng *rand.Rand, n int) longRow {
			if n%3 == 0 {
				level += bell(rng)
			}
			shift := 0.0
			if n > 1500 {
				shift = 20
			}
			x := []float64{bell(rng), float64(n % 24)}
			return longRow{x: x, y: []float64{level + shift + x[0]}, weight: 1}
		}},
	}
}

// digests are, at rows 400 and 3,000, the digest of the state and a hash of all predictions
// before, with the probabilities and the outcomes.
func (s longStream) digests(t *testing.T, last int) string {
	t.Helper()
	spec, _, err := catalog.Complete(s.spec)
	require.NoError(t, err)
	learner, err := catalog.New(spec)
	require.NoError(t, err)
	var out strings.Builder
	rng, said := rand.New(rand.NewPCG(spec.Seed, 36)), fnv.New64a()
	rows, predictions := make([]longRow, s.late+1), make([]model.ClassPrediction, s.late+1)
	for n := range last {
		at := n % len(rows)
		rows[at] = s.row(rng, n)
		if c, ok := learner.(model.Classifier); ok {
			err = c.PredictClass(&predictions[at], rows[at].x)
		} else {
			err = learner.Predict(&predictions[at].Prediction, rows[at].x)
		}
		require.NoError(t, err)
		p := &predictions[at]
		add(said, p.Values)
		add(said, append([]float64{p.Probability}, p.Probabilities...))
		if at = (n + 1) % len(rows); n < s.late {
			continue
		}
		add(said, learnLate(t, learner, rows[at], predictions[at].Advice))
		if n+1 != 400 && n+1 != last {
			continue
		}
		state := must(learner.AppendBinary(nil))(t)
		fmt.Fprintf(&out, "%d rows: state %x, predictions %x\n", n+1, codec.Digest(state), said.Sum64())
	}
	return out.String()
}

func add(h hash.Hash, numbers []float64) {
	for _, v := range numbers {
		_ = binary.Write(h, binary.LittleEndian, v) // A hash never fails.
	}
}

// learnLate teaches a row, and returns the loss and the prequential predictions.
func learnLate(t *testing.T, l model.Learner, r longRow, advice []float64) []float64 {
	t.Helper()
	var o model.Outcome
	if c, ok := l.(model.Classifier); ok {
		var of model.ClassOutcome
		require.NoError(t, c.ObserveClass(&of, r.x, r.class, r.weight, advice))
		return []float64{of.Loss, float64(of.Class)}
	}
	require.NoError(t, model.ObserveAdvised(l, &o, r.x, r.y, r.weight, advice))
	return append([]float64{o.Loss, o.Regret}, o.Predictions...)
}

// After 3,000 rows the states and the predictions of auto have the bits that they had when
// the golden files were written, on every machine.
func TestGoldenSnapshotsOfLongStreams(t *testing.T) {
	for name, s := range longStreams(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "auto_"+name+".digests.txt")
			last := 3000
			if testing.Short() && !*update {
				last = 400
			}
			got := []byte(s.digests(t, last))
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o600))
			}
			want := must(os.ReadFile(path))(t)
			assert.True(t, bytes.HasPrefix(want, got), "%s\nwant %s", got, want)
		})
	}
}
