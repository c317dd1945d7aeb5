package wide_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/wide"
)

// naive are the regressions of one output, with dense sums from which everything is solved anew.
type naive struct {
	r       int
	a       [][]float64 // Of the rows that count.
	b       []float64
	counted float64
	waiting [][]float64 // z, y, ω of the rows that wait.
	rows    [][]float64 // Of the rows that do not.
	w       [][]float64
	noise   []float64
	at      []int
	squares [][]float64
}

const firm = 0.5

func newNaive(o wide.Options) *naive {
	n := &naive{r: o.Features, b: make([]float64, o.Features)}
	for range o.Features {
		n.a = append(n.a, make([]float64, o.Features))
	}
	for range o.Experts() {
		n.w, n.squares = append(n.w, make([]float64, n.r)), append(n.squares, make([]float64, n.r))
		n.noise, n.at = append(n.noise, 1), append(n.at, 0)
	}
	return n
}

func (n *naive) predict(k int, z []float64) (sum float64) {
	for i, v := range z {
		sum += v * n.w[k][i]
	}
	return sum
}

func threshold(v, by float64) float64 { return math.Copysign(math.Max(0, math.Abs(v)-by), v) }

// learn follows the package comment. The kinds are κ of the lassos, 0.5 of firm, 0 of ridge, and −η of adagrad.
func (n *naive) learn(z []float64, y, counts float64, kinds []float64) {
	n.counted += counts
	for k := range kinds {
		miss := y - n.predict(k, z)
		n.noise[k] += counts * 0.01 * (miss*miss - n.noise[k])
		if kinds[k] < 0 {
			n.adagrad(k, z, miss, counts, -kinds[k])
		}
	}
	n.waiting = append(n.waiting, append(slices.Clone(z), y, counts))
	if len(n.waiting) < 8 {
		return
	}
	for _, row := range n.waiting {
		y, counts := row[n.r], row[n.r+1]
		for i := range n.r {
			for j := range n.r {
				n.a[i][j] += counts * row[i] * row[j]
			}
			n.b[i] += counts * y * row[i]
		}
	}
	n.rows, n.waiting = append(n.rows, n.waiting...), nil
	for k, kappa := range kinds {
		if kappa >= 0 {
			n.descend(k, kappa)
		}
	}
}

// sigma follows the package comment.
func (n *naive) sigma(k int, kappa float64) float64 {
	squares, nonzero := 0.0, 0.0
	for _, row := range n.rows {
		miss := row[n.r] - n.predict(k, row[:n.r])
		squares += row[n.r+1] * miss * miss
	}
	for _, w := range n.w[k][:n.r-1] {
		if w != 0 {
			nonzero++
		}
	}
	if kappa == 0 || n.counted <= nonzero {
		return math.Sqrt(n.noise[k])
	}
	return math.Sqrt(min(n.noise[k], squares/n.counted*(n.counted+nonzero)/(n.counted-nonzero)))
}

func (n *naive) descend(k int, kappa float64) {
	sigma, w := n.sigma(k, kappa), n.w[k]
	lambda, ridge := kappa*sigma*math.Sqrt(2*math.Log(float64(n.r))*n.counted), 1.0
	if kappa == 0 {
		ridge = n.noise[k] * float64(n.r)
	}
	for range n.r {
		j := n.at[k]
		n.at[k] = (j + 1) % n.r
		rest := n.b[j]
		for i, v := range w {
			if i != j {
				rest -= n.a[j][i] * v
			}
		}
		next := rest / n.a[j][j]
		if j < n.r-1 {
			lambda := lambda * math.Sqrt(n.a[j][j]/n.counted)
			next = threshold(rest, lambda) / (n.a[j][j] + ridge)
			switch {
			case kappa != firm:
			case math.Abs(rest) <= 3*lambda:
				next *= 1.5
			default:
				next = rest / (n.a[j][j] + ridge)
			}
		}
		if change := next - w[j]; change*change*n.a[j][j] > 1e-6*sigma*sigma*n.counted {
			w[j] = next
		}
	}
}

func (n *naive) adagrad(k int, z []float64, miss, counts, eta float64) {
	step, moved := eta/math.Sqrt(float64(n.r-1)), 0.0
	each := make([]float64, n.r)
	for j, v := range z {
		g := -counts * miss * v
		n.squares[k][j] += g * g
		if g != 0 {
			each[j] = -g / math.Sqrt(n.squares[k][j])
		}
		moved += each[j] * v
	}
	step = math.Min(step, 0.5*math.Abs(miss)/math.Abs(moved))
	for j := range each {
		n.w[k][j] += step * each[j]
	}
}

func rows(n, d int, seed uint64) (z [][]float64, y, counts []float64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		row, label := make([]float64, d+1), 0.3*rng.NormFloat64()
		for j := range d {
			row[j] = rng.NormFloat64()
		}
		row[d] = 1
		label += 0.7*row[0] - 0.5*row[d/2] + 0.1
		z, y, counts = append(z, row), append(y, label), append(counts, 0.2+0.8*rng.Float64())
	}
	return z, y, counts
}

func TestRegressionsAreTheNaiveOnes(t *testing.T) {
	o := wide.Options{Features: 14, Outputs: 1}
	kinds := []float64{0.25, firm, 0, -1}
	g, n := wide.New(o), newNaive(o)
	z, y, counts := rows(300, o.Features-1, 1)
	said := make([]float64, o.Experts())
	for i, row := range z {
		g.Predict(said, row, 0)
		for k, v := range said {
			if want := n.predict(k, row); math.Abs(v-want) > 1e-9 {
				t.Fatalf("row %d, %s: %g, want %g", i, o.Names()[k], v, want)
			}
		}
		g.Learn(row, y[i:i+1], said, counts[i])
		n.learn(row, y[i], counts[i], kinds)
	}
}

// A lasso without changes to make is at the minimum: Angelosante et al., §III.
func TestLassoEndsAtTheMinimum(t *testing.T) {
	o := wide.Options{Features: 40, Outputs: 1}
	g, n := wide.New(o), newNaive(o)
	z, y, _ := rows(800, o.Features-1, 2)
	said := make([]float64, o.Experts())
	for i, row := range z {
		g.Predict(said, row, 0)
		g.Learn(row, y[i:i+1], said, 1)
		n.learn(row, y[i], 1, []float64{0.25, firm, 0, -1})
	}
	lambda := 0.25 * n.sigma(0, 0.25) * math.Sqrt(2*math.Log(float64(n.r))*n.counted)
	for j := range n.r - 1 {
		w, slope, lambda := g.Weight(0, 0, j), n.b[j], lambda*math.Sqrt(n.a[j][j]/n.counted)
		for i := range n.r {
			slope -= n.a[j][i] * g.Weight(0, 0, i)
		}
		slope -= w         // Of the ridge.
		const small = 1e-3 // A weight below it may wait for its change.
		if math.Abs(slope) > 1.05*lambda || math.Abs(w) > small && math.Abs(slope-math.Copysign(lambda, w)) > 0.05*lambda {
			t.Errorf("weight %d is %g at a slope of %g, λ = %g", j, w, slope, lambda)
		}
	}
	// Firm is at a stationary point, at which the penalty does not draw the weights that matter.
	for _, j := range []int{0, (o.Features - 1) / 2} {
		w, slope := g.Weight(0, 1, j), n.b[j]
		for i := range n.r {
			slope -= n.a[j][i] * g.Weight(0, 1, i)
		}
		slope -= w
		assert.False(t, math.Abs(slope) > 0.05*lambda, "firm: weight %d is %g at a slope of %g, λ = %g", j, w, slope, lambda)
	}
}

func TestManyFeaturesDescend(t *testing.T) {
	o := wide.Options{Features: wide.MostDense + 1, Outputs: 2}
	g := wide.New(o)
	z, y, _ := rows(400, o.Features-1, 3)
	said, k := make([]float64, 2*o.Experts()), o.Experts()
	first, last := 0.0, 0.0
	for i, row := range z {
		g.Predict(said[:k], row, 0)
		g.Predict(said[k:], row, 1)
		miss := y[i] - said[0] // With the soft threshold.
		if i < 100 {
			first += miss * miss
		}
		if i >= 300 {
			last += miss * miss
		}
		g.Learn(row, []float64{y[i], -y[i]}, said, 1)
		require.True(t, said[0] == -said[k], "row %d: %g of y, %g of −y", i, said[0], said[k])
	}
	assert.LessOrEqual(t, last, 0.9*first, "squares of misses: %g at first, %g at last", first, last)
}

func TestStatesContinue(t *testing.T) {
	for _, o := range []wide.Options{{Features: 9, Outputs: 2}, {Features: 9, Outputs: 6}, {Features: wide.MostDense + 1, Outputs: 1}} {
		g, said := wide.New(o), make([]float64, o.Outputs*o.Experts())
		z, y, counts := rows(40, o.Features-1, 4)
		learn := func(g *wide.Regressions, i int) {
			labels := make([]float64, o.Outputs)
			for j := range labels {
				labels[j] = y[i] * float64(j+1)
				g.Predict(said[j*o.Experts():][:o.Experts()], z[i], j)
			}
			g.Learn(z[i], labels, said, counts[i])
		}
		for i := range 21 {
			learn(g, i)
		}
		read := wide.New(o)
		require.NoError(t, codec.Read(modeltest.State(t, g.Visit), read.Visit))
		for i := 21; i < 40; i++ {
			learn(g, i)
			learn(read, i)
		}
		assert.Equal(t, modeltest.State(t, read.Visit), modeltest.State(t, g.Visit), o)
	}
}
