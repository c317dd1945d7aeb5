package auto_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
)

// naiveLogs are the experts of logarithms by their formulas. Columns are two inputs and the label, of all rows.
type naiveLogs struct {
	columns         [3][]float64
	counts          []float64
	means, sizes    [3]float64 // Of the first rows.
	changes         [2][]float64
	forecaster      *dense
	product, square float64
}

func (n *naiveLogs) log(v float64, column int) float64 {
	return math.Copysign(math.Log(1+math.Abs(v)/(0.01*n.sizes[column])), v)
}

// features are those of the inputs x behind at labels, scaled as all rows are.
func (n *naiveLogs) features(x []float64, at int) (z []float64) {
	values := slices.Concat(x, []float64{0, 0})
	for i := range min(at, 2) {
		values[2+i] = n.columns[2][at-1-i]
	}
	for j, v := range values[:3] {
		mean, square := momentsOf(n.columns[j], n.counts)
		z = append(z, (v-mean)/math.Sqrt(square)/[]float64{math.Sqrt2, math.Sqrt2, 1}[j])
	}
	if at == 0 {
		z[2] = 0
	}
	z = append(z, 1)
	for j, v := range values {
		z = append(z, n.log(v, min(j, 2))/math.Sqrt(6))
	}
	for j := range x {
		z = append(z, 0)
		if at > 0 {
			mean, square := momentsOf(n.changes[j], n.counts[:at])
			if square == 0 {
				_, square = momentsOf(n.columns[j][:128], n.counts[:128])
			}
			if change := (x[j] - n.columns[j][at-1] - mean) / math.Sqrt(square); math.Abs(change) < 8 {
				z[8+j] = change / math.Sqrt(6)
			}
		}
	}
	return z
}

func (n *naiveLogs) predict(z []float64, at int) (e float64, values []float64) {
	low, high, s := slices.Min(n.columns[2]), slices.Max(n.columns[2]), n.sizes[2]*n.sizes[2]
	cut := func(v float64) float64 { return math.Max(low, math.Min(high, v)) }
	said, last := n.forecaster.predict(z), 0.0
	if at > 0 {
		last = n.columns[2][at-1]
	}
	p := said[0] + n.log(n.means[2], 2)
	e = cut(math.Copysign(0.01*n.sizes[2]*(math.Exp(math.Abs(p))-1), p))
	return e, []float64{cut(e * (s + n.product) / (s + n.square)), cut(n.means[2] + said[1]), cut(last + said[2])}
}

// learn learns row at.
func (n *naiveLogs) learn(x, z []float64, at int, e, y, counts float64) {
	last := 0.0
	for j, v := range x {
		if n.changes[j] = append(n.changes[j], 0); at > 0 {
			n.changes[j][at], last = v-n.columns[j][at-1], n.columns[2][at-1]
		}
	}
	n.forecaster.learn(z, []float64{n.log(y, 2) - n.log(n.means[2], 2), y - n.means[2], y - last}, counts)
	n.product += counts * e * y
	n.square += counts * e * e
}

func TestNaiveLogs(t *testing.T) {
	l, rng := auto.NewLevels(auto.Options{Dimension: 2, Outputs: 1, Lags: 1, Frequencies: 5, Microseconds: 500}), rand.New(rand.NewPCG(4, 7))
	n := naiveLogs{forecaster: newDense(-1, 10, 3, 0.01, 1)}
	var p model.Prediction
	var out model.Outcome
	total := 0.0
	for row := range 260 {
		x := []float64{0.5 + 2*rng.Float64(), rng.NormFloat64()}
		if row == 200 {
			x[1] = 11.6 // A strange change.
		}
		y, weight := math.Pow(x[0], 1.5)*math.Exp(min(2, x[1])/2+rng.NormFloat64()/5)-0.2, 0.5+rng.Float64()
		total += weight
		counts := math.Min(1, weight*float64(row+1)/total)
		require.NoError(t, l.Predict(&p, x))
		if experts, _, _, awake := l.Said(p.Advice); awake {
			z := n.features(x, row)
			e, want := n.predict(z, row)
			require.InDeltaSlice(t, want, experts[len(experts)-3:], 1e-5, row)
			n.learn(x, z, row, e, y, counts)
		}
		require.NoError(t, l.Observe(&out, x, []float64{y}, weight))
		for j, v := range []float64{x[0], x[1], y} {
			n.columns[j] = append(n.columns[j], v)
		}
		if n.counts = append(n.counts, counts); row != 127 {
			continue
		}
		for j, values := range n.columns { // Level 2 wakes, and learns the rows so far.
			mean, square := momentsOf(values, n.counts)
			n.means[j], n.sizes[j] = mean, math.Sqrt(mean*mean+square)
		}
		for i := range n.counts {
			x := []float64{n.columns[0][i], n.columns[1][i]}
			z := n.features(x, i)
			e, _ := n.predict(z, i)
			n.learn(x, z, i, e, n.columns[2][i], n.counts[i])
		}
	}
}
