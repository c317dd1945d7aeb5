package baselines_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/cmd/research/baselines"
)

// descent is OGD by the book: every coefficient is a number of its own, and f is
// computed from scratch.
type descent struct {
	kernel      func(x, z []float64) float64
	loss        baselines.Loss
	ridge, rate float64
	budget      int // 0: none
	x           [][]float64
	alpha       []float64
}

func (d *descent) predict(x []float64) (f float64) {
	for i, a := range d.alpha {
		f += a * d.kernel(d.x[i], x)
	}
	return f
}

// objective is ℓ(f(x), y) + λ‖f‖².
func (d *descent) objective(x []float64, y float64) float64 {
	norm := 0.0
	for i, a := range d.alpha {
		norm += a * d.predict(d.x[i])
	}
	return d.loss.Of(d.predict(x), y) + d.ridge*norm
}

func (d *descent) learn(x []float64, y float64) {
	slope := d.loss.Slope(d.predict(x), y)
	for i := range d.alpha {
		d.alpha[i] -= 2 * d.rate * d.ridge * d.alpha[i]
	}
	d.x, d.alpha = append(d.x, x), append(d.alpha, -d.rate*slope)
	if d.budget > 0 && len(d.x) > d.budget {
		d.x, d.alpha = d.x[1:], d.alpha[1:]
	}
}

// labels draws labels: signs for the logistic loss.
func labels(random *rand.Rand, loss baselines.Loss, x [][]float64) []float64 {
	y := make([]float64, len(x))
	for i := range y {
		y[i] = math.Sin(2*x[i][0]) + random.NormFloat64()/10
		if loss == baselines.Logistic {
			y[i] = math.Copysign(1, y[i])
		}
	}
	return y
}

// average is the kernel of AvgMKL.
func average(x, z []float64) (mean float64) {
	for _, k := range baselines.Kernels()[:baselines.Dictionary] {
		mean += k.Value(x, z) / baselines.Dictionary
	}
	return mean
}

// OGD predicts what the coefficients of the book predict, with every step, until it
// diverges. With the ridge 2 and the largest steps the scale shrinks below 10⁻⁶ and
// changes its sign.
func TestOGD(t *testing.T) {
	const rounds, d = 80, 3
	for _, loss := range []baselines.Loss{baselines.Squared, baselines.Logistic} {
		for _, ridge := range []float64{0, 0.01, 2} {
			random := rand.New(rand.NewPCG(2, uint64(100*ridge)))
			x := inputs(random, rounds, d)
			y := labels(random, loss, x)
			for k, kernel := range baselines.Kernels() {
				ogd, past := baselines.NewOGD(loss, ridge, rounds), &baselines.Past{}
				var book [baselines.Steps]*descent
				for s := range book {
					book[s] = &descent{kernel: kernel.Value, loss: loss, ridge: ridge, rate: baselines.Factor(s) / math.Sqrt(rounds)}
				}
				var ended [baselines.Steps]bool
				for i := range x {
					past.Look(x[i])
					got, losses := ogd.Predict(past.Row(k)), ogd.Losses(y[i])
					for s, b := range book {
						want := b.predict(x[i])
						ended[s] = ended[s] || !(math.Abs(want) < 1e100)
						if ended[s] {
							want = math.NaN()
						}
						what := fmt.Sprintf("loss %d, ridge %v, %s, step %d, round %d", loss, ridge, kernel.Name, s, i)
						if math.Abs(want) < 1e6 || ended[s] {
							near(t, what, got[s], want, 1e-9)
						}
						if i%10 == 9 && !ended[s] && math.Abs(want) < 1e3 {
							near(t, what+": objective", losses[s], b.objective(x[i], y[i]), 1e-6)
						}
						if !ended[s] {
							b.learn(x[i], y[i])
						}
					}
					ogd.Learn(y[i], past.Self(k))
				}
			}
		}
	}
}

// With the linear kernel OGD is gradient descent of the weights: Σ α_i x_i. With the
// ridge 12 the coefficients of the first rounds shrink below the smallest number.
func TestOGDOfWeights(t *testing.T) {
	const rounds, d = 2000, 4
	for _, ridge := range []float64{0.01, 12} {
		random := rand.New(rand.NewPCG(3, 3))
		x := inputs(random, rounds, d)
		y := labels(random, baselines.Squared, x)
		ogd := baselines.NewOGD(baselines.Squared, ridge, rounds)
		rate := baselines.Factor(baselines.Stated) / math.Sqrt(rounds)
		weights := make([]float64, d)
		var row []float64
		for i := range x {
			row = row[:0]
			for j := range i {
				row = append(row, baselines.Linear().Value(x[j], x[i]))
			}
			f := baselines.Linear().Value(weights, x[i])
			near(t, fmt.Sprintf("ridge %v, round %d", ridge, i), ogd.Predict(row)[baselines.Stated], f, 1e-12)
			for j := range weights {
				weights[j] -= rate * (2*(f-y[i])*x[i][j] + 2*ridge*weights[j])
			}
			ogd.Learn(y[i], baselines.Linear().Value(x[i], x[i]))
		}
	}
}

// The logistic loss and its slope: values, and the slope is the derivative.
func TestLoss(t *testing.T) {
	near(t, "log 2", baselines.Logistic.Of(0, -1), math.Ln2, 1e-15)
	near(t, "large", baselines.Logistic.Of(-800, 1), 800, 1e-15)
	for _, loss := range []baselines.Loss{baselines.Squared, baselines.Logistic} {
		for _, y := range []float64{-1, 1} {
			for _, f := range []float64{-3, -0.5, 0, 0.25, 4} {
				const h = 1e-6
				near(t, "slope", loss.Slope(f, y), (loss.Of(f+h, y)-loss.Of(f-h, y))/(2*h), 1e-8)
			}
		}
	}
}
