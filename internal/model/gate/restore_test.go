package gate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// subject makes a gate before a learner.
type subject struct {
	name  string
	seeds uint64
	make  func(t *testing.T) model.Learner
}

// subjects are gates of one input before learners of several kinds.
func subjects() []subject {
	specs := map[string]model.Spec{
		"linear":      {Dimension: 1, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}},
		"two outputs": {Dimension: 1, Outputs: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}},
	}
	all := []subject{{"recorder", 16, func(*testing.T) model.Learner {
		l, _ := recorded(1, 1)
		return l
	}}}
	for _, name := range []string{"linear", "two outputs"} {
		all = append(all, subject{name, 8, func(t *testing.T) model.Learner {
			t.Helper()
			l, err := catalog.New(specs[name])
			require.NoError(t, err)
			return l
		}})
	}
	for _, v := range versions() {
		all = append(all, subject{"auto " + v.name, 1, func(*testing.T) model.Learner {
			o := options(1)
			o.Lags, o.Frequencies = 1, 3
			return v.gated(o)
		}})
	}
	return all
}

// outputs is the number of labels of a row.
func (s subject) outputs() int {
	if s.name == "two outputs" {
		return 2
	}
	return 1
}

// mixture is a stream of one input.
type mixture struct {
	name string
	rows int
	draw func(rng *rand.Rand) func(row int) (x, y float64)
}

func mixtures() []mixture {
	return []mixture{
		{"holidays", 600, func(rng *rand.Rand) func(int) (float64, float64) {
			return func(row int) (float64, float64) {
				if row == 2 || rng.IntN(70) == 0 {
					return 1, 2000 + 20*rng.NormFloat64()
				}
				return 0, 10 + rng.NormFloat64()
			}
		}},
		{"events among dirt", 1200, func(rng *rand.Rand) func(int) (float64, float64) {
			rate, size := 0.005+0.03*rng.Float64(), math.Pow(10, 2+3*rng.Float64())
			labels := dirtyLabels(rng, 1200)
			return func(row int) (float64, float64) {
				if row < 8 && rng.IntN(4) == 0 || rng.Float64() < rate {
					return 1, size * (1 + 0.1*rng.NormFloat64())
				}
				return 0, labels[row]
			}
		}},
		{"labels beside the smallest numbers", 300, func(rng *rand.Rand) func(int) (float64, float64) {
			unit := []float64{math.SmallestNonzeroFloat64, 1e-300, 1e-200}[rng.IntN(3)]
			return func(row int) (float64, float64) {
				if row > 200 && rng.IntN(20) == 0 {
					return 1, math.Pow(10, 99*rng.Float64())
				}
				return 0, unit * float64(rng.IntN(5))
			}
		}},
	}
}

// After every row of any dirt a gate restores its state, and goes on with it. A gate around auto,
// whose state is large, does so after every eighth row.
func TestRestoreAfterEveryRow(t *testing.T) {
	for _, s := range subjects() {
		for _, d := range mixtures() {
			for seed := range s.seeds {
				t.Run(fmt.Sprintf("%s/%s/%d", s.name, d.name, seed), func(t *testing.T) {
					t.Parallel()
					restoresAfterEveryRow(t, s, d, seed)
				})
			}
		}
	}
}

func restoresAfterEveryRow(t *testing.T, s subject, d mixture, seed uint64) {
	t.Helper()
	draw := d.draw(rand.New(rand.NewPCG(seed, 34)))
	l, every := s.make(t), 1
	if strings.HasPrefix(s.name, "auto") {
		every = 8
	}
	var o model.Outcome
	for row := range d.rows {
		x, label := draw(row)
		y := make([]float64, s.outputs())
		for j := range y {
			y[j] = label
		}
		require.NoError(t, l.Observe(&o, []float64{x}, y, 1), row)
		if row%every != 0 {
			continue
		}
		restored := s.make(t)
		require.NoError(t, restored.Restore(stateOf(t, l)), row)
		// A recorder does not restore.
		if s.name != "recorder" {
			l = restored
		}
	}
}
