package regret_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/regret"
)

// naive is max D by dual coordinate ascent, each coordinate by bisection, with the formulas written out.
func naive(loss losses.Loss, lambda, limit float64, rows [][]float64, labels, weights []float64) float64 {
	w, alphas := make([]float64, len(rows[0])), make([]float64, len(rows))
	move := func(n int, by float64) {
		alphas[n] += by
		for i, v := range rows[n] {
			w[i] -= by * weights[n] * v / (2 * lambda)
		}
	}
	for range 2000 {
		for n, z := range rows {
			u, square := 0.0, 0.0
			for i, v := range z {
				u += w[i] * v
				square += v * v
			}
			// The slope of D at α is p(α) − w·z, but for its sign.
			low, high, before := -1e4, 1e4, alphas[n]
			for range 60 {
				middle := (low + high) / 2
				if conjugate(loss, limit, labels[n], middle) > u-(middle-before)*weights[n]*square/(2*lambda) {
					high = middle
				} else {
					low = middle
				}
			}
			move(n, (low+high)/2-before)
		}
	}
	dual := 0.0
	for n := range rows {
		p := conjugate(loss, limit, labels[n], alphas[n])
		dual -= weights[n] * (alphas[n]*p - value(loss, p, labels[n]))
	}
	for _, v := range w {
		dual -= lambda * v * v
	}
	return dual
}

// conjugate is the p in [−limit, limit] with the largest αp − ℓ(p).
func conjugate(loss losses.Loss, limit, y, alpha float64) float64 {
	far := math.Min(limit, 1e3)
	p := 0.0
	switch a := alpha * y; loss {
	case losses.Squared:
		p = y + alpha/2
	case losses.Logistic:
		switch {
		case a <= -1:
			p = -far * y
		case a >= 0:
			p = far * y
		default:
			p = math.Log((1+a)/-a) * y
		}
	case losses.Hinge:
		switch {
		case a < -1:
			p = -far * y
		case a > 0:
			p = far * y
		default:
			p = y
		}
	case losses.SquaredHinge:
		p = (1 + a/2) * y
		if a > 0 {
			p = far * y
		}
	}
	return math.Max(-far, math.Min(far, p))
}

func value(loss losses.Loss, p, y float64) float64 {
	switch loss {
	case losses.Logistic:
		return math.Log1p(math.Exp(-math.Abs(y*p))) + math.Max(0, -y*p)
	case losses.Hinge:
		return math.Max(0, 1-y*p)
	case losses.SquaredHinge:
		return math.Pow(math.Max(0, 1-y*p), 2)
	default:
		return (p - y) * (p - y)
	}
}

func TestLeastIsThatOfDualAscent(t *testing.T) {
	for _, loss := range []losses.Loss{losses.Squared, losses.Logistic, losses.Hinge, losses.SquaredHinge} {
		for _, limit := range []float64{0.3, 1, 2, math.Inf(1)} {
			for _, lambda := range []float64{0.5, 5} {
				rng := rand.New(rand.NewPCG(uint64(loss), math.Float64bits(limit*lambda)))
				rows, labels, weights, energy := make([][]float64, 12), make([]float64, 12), make([]float64, 12), 0.0
				for n := range rows {
					rows[n] = []float64{rng.NormFloat64(), rng.NormFloat64() / 2, 0, rng.NormFloat64() / 4}
					rows[n][2] = rows[n][0] - rows[n][1] // A collinear feature.
					weights[n] = math.Exp(rng.NormFloat64())
					labels[n] = 1 - 2*float64(rng.IntN(2))
					if loss == losses.Squared {
						labels[n] = rng.NormFloat64()
					}
					energy += weights[n] * value(loss, 0, labels[n])
				}
				lower, upper := regret.Least(loss, lambda, limit, rows, labels, weights)
				want := naive(loss, lambda, limit, rows, labels, weights)
				if !(math.Abs(lower-want) <= 1e-9*energy) || !(upper-lower <= 1e-9*energy) || !(lower <= upper*(1+1e-12)) {
					t.Errorf("%v, limit %g, λ %g: %.14g to %.14g, want %.14g", loss, limit, lambda, lower, upper, want)
				}
			}
		}
	}
}

// wide is a learner of features as they are.
type wide struct {
	model.Learner
	features int
	lambda   float64
}

func (w wide) Class() (regret.Class, bool) {
	return regret.Class{Lambda: w.lambda, Sizes: []int{w.features}}, true
}

// Large rows hide no small ones and add nothing to the ridge: of rows along the axes, m_n at axis n with the
// label m_n, L* is Σ λ m²/(m² + λ), with more and with fewer rows than features.
func TestLargeRowsBesideSmallOnes(t *testing.T) {
	for _, features := range []int{16, 40} {
		for _, large := range []float64{1, 1e6, 1e9, 1e60} {
			var rows regret.Rows
			w, want := wide{features: features, lambda: 0.1}, 0.0
			for n := range 16 {
				m := 1.0
				if n%2 == 1 {
					m = large
				}
				x := make([]float64, features)
				x[n] = m
				rows.Begin(w, x)
				rows.End(w, x, []float64{m}, 1, 0)
				want += w.lambda / (1 + w.lambda/m/m)
			}
			got := rows.Windows(16, func() {})[0].HindsightLoss
			assert.True(t, math.Abs(got-want) <= 1e-9*want, "16 rows of 1 and %g, %d features: %.12g, want %.12g", large, features, got, want)
		}
	}
}

// The bounds meet on separable rows, hard labels, weights from 1e-6 to 1e6, repeated and far rows.
func TestBoundsMeet(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, loss := range []losses.Loss{losses.Squared, losses.Logistic, losses.Hinge, losses.SquaredHinge} {
		for _, limit := range []float64{1, 3, math.Inf(1)} {
			for _, lambda := range []float64{1e-5, 1e-2, 1, 1e4} {
				for kind := range 4 {
					n, r := 300, 20
					rows, labels, weights := make([][]float64, n), make([]float64, n), make([]float64, n)
					energy := 0.0
					for i := range rows {
						rows[i], weights[i] = make([]float64, r), 1
						for k := range rows[i] {
							rows[i][k] = rng.NormFloat64() / math.Sqrt(float64(r))
						}
						labels[i] = 1 - 2*float64(rng.IntN(2))
						switch kind {
						case 1:
							labels[i] = math.Copysign(1, rows[i][0]) // Separable.
						case 2:
							weights[i] = math.Pow(10, 12*rng.Float64()-6)
							if i > 0 && i%3 == 0 {
								rows[i] = rows[i-1]
							}
						}
						if kind == 3 { // Every third row is the same, of both labels.
							weights[i] = math.Pow(10, 3*rng.Float64()-3)
							if i%3 == 0 {
								rows[i] = rows[0]
							}
						}
						energy += weights[i] * value(loss, 0, labels[i])
					}
					lower, upper := regret.Least(loss, lambda, limit, rows, labels, weights)
					if !(lower <= upper*(1+1e-12) && upper-lower <= 1e-9*energy && lower >= 0) {
						t.Error(fmt.Sprintf("%v, limit %g, λ %g, kind %d:", loss, limit, lambda, kind), lower, upper, (upper-lower)/energy)
					}
				}
			}
		}
	}
}
