package awv_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// denseRidge is the forecaster of one ridge with its matrix kept whole.
type denseRidge struct {
	a    *mat.SymDense
	b    *mat.VecDense
	loss float64
}

func newDenseRidge(r int, lambda float64) *denseRidge {
	d := &denseRidge{a: mat.NewSymDense(r, nil), b: mat.NewVecDense(r, nil)}
	for i := range r {
		d.a.SetSym(i, i, lambda)
	}
	return d
}

// observe answers the forecaster's prediction, which knows no weight, and learns.
func (d *denseRidge) observe(t *testing.T, z []float64, y, weight float64) float64 {
	t.Helper()
	v := mat.NewVecDense(len(z), z)
	asked := mat.NewSymDense(len(z), nil)
	asked.SymRankOne(d.a, 1, v)
	d.a.SymRankOne(d.a, weight, v)
	var c mat.Cholesky
	require.True(t, c.Factorize(asked), "not positive definite")
	var w mat.VecDense
	require.NoError(t, c.SolveVecTo(&w, d.b))
	f := mat.Dot(v, &w)
	d.b.AddScaledVec(d.b, weight*y, v)
	d.loss += weight * (f - y) * (f - y)
	return f
}

// On real streams every prediction is that of dense forecasters of each ridge, mixed
// as it is written, to 1e-10.
func TestRidgesAgreeWithDenseRecursion(t *testing.T) {
	lambdas := []float64{0.01, 1, 10}
	for _, name := range []string{"energy_adaraker.csv.gz", "casp.csv.gz"} {
		t.Run(name, func(t *testing.T) {
			samples := unitStream(t, name, rounds(300))
			features := fourierOf(samples, 30)
			l, phi, naive := awv.NewRidges(features, awv.Options{}, lambdas), mapped(features), polynomial{}
			var dense []*denseRidge
			for _, lambda := range lambdas {
				dense = append(dense, newDenseRidge(features.Size(), lambda))
			}
			worst, loss := 0.0, 0.0
			for round, s := range samples {
				s.Weight = 1 - 0.5*float64(round%2)
				z, w := phi(s.X), naive.weights(len(lambdas))
				want, advice, gains := 0.0, make([]float64, len(lambdas)), make([]float64, len(lambdas))
				for k, d := range dense {
					advice[k] = d.observe(t, z, s.Y, s.Weight)
					want += w[k] * advice[k]
				}
				for k, f := range advice {
					gains[k] = 2 * s.Weight * (want - s.Y) * (want - f)
				}
				naive.gains = append(naive.gains, gains)
				loss += s.Weight * (want - s.Y) * (want - s.Y)
				out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
				worst = math.Max(worst, math.Abs(out.Prediction-want))
			}
			stats, report := l.Stats(), l.Report(model.ReportOptions{})
			near(t, "loss", stats.Loss, loss, 1, 1e-9)
			for k, e := range report.Experts {
				near(t, e.Name, e.Loss, dense[k].loss, 1, 1e-10)
			}
			t.Logf("largest deviation over %d rounds: %.2g", len(samples), worst)
			assert.True(t, worst <= 1e-9 && stats.Certified && stats.CertificateOK, "predictions deviate by %g: %+v", worst, stats)
		})
	}
}

// unitStream is a stream whose inputs and label are on [0, 1]. Rounds without a label
// are left out.
func unitStream(t *testing.T, name string, n int) []modeltest.Sample {
	t.Helper()
	all := modeltest.Stream(t, name, -1)
	kept := all[:0]
	for _, s := range all {
		if !strings.HasPrefix(name, "air_raw") || s.Y != -200 { // Air quality writes it where the label is missing.
			kept = append(kept, s)
		}
	}
	modeltest.Scale(kept)
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range kept {
		low, high = math.Min(low, s.Y), math.Max(high, s.Y)
	}
	for i := range kept {
		kept[i].Y = (kept[i].Y - low) / (high - low)
	}
	return kept[:min(n, len(kept))]
}

// fourierOf is a map of the Gaussian kernel whose σ² is the mean squared distance of two
// rows.
func fourierOf(samples []modeltest.Sample, frequencies int) *feature.Fourier {
	d := len(samples[0].X)
	square := 0.0
	for j := range d {
		mean := 0.0
		for _, s := range samples {
			mean += s.X[j]
		}
		mean /= float64(len(samples))
		for _, s := range samples {
			square += 2 * (s.X[j] - mean) * (s.X[j] - mean)
		}
	}
	sigma := math.Sqrt(square / float64(len(samples)))
	return feature.NewFourier(gaussian(sigma), d, frequencies, true, rand.New(rand.NewPCG(1, 0x666f7572)))
}

// On every stream the mixture of ridges from 1e-3 to 10 loses at most 1.02 times what the best one
// loses.
func TestRidgesOnStreams(t *testing.T) {
	for _, name := range []string{"air", "air_raw", "bike", "casp", "energy", "energy_adaraker", "energy_appliances", "elec2", "movement", "ijcnn1"} {
		t.Run(name, func(t *testing.T) {
			samples := unitStream(t, name+".csv.gz", rounds(2500))
			l := awv.NewRidges(fourierOf(samples, 50), awv.Options{}, []float64{1e-3, 1e-2, 0.1, 1, 10})
			for _, s := range samples {
				must(modeltest.Observe(l, s.X, s.Y, 1))(t)
			}
			s, best := l.Stats(), math.Inf(1)
			for _, e := range l.Report(model.ReportOptions{}).Experts {
				best = math.Min(best, e.Loss)
			}
			t.Logf("%.4f times the best ridge's %.5g", s.Loss/best, best)
			assert.True(t, s.Loss <= 1.02*best && s.Certified && s.CertificateOK, "loss %g, the best ridge %g: %+v", s.Loss, best, s)
		})
	}
}
