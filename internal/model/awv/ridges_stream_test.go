package awv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

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
	if !c.Factorize(asked) {
		t.Fatal("not positive definite")
	}
	var w mat.VecDense
	if err := c.SolveVecTo(&w, d.b); err != nil {
		t.Fatal(err)
	}
	f := mat.Dot(v, &w)
	d.b.AddScaledVec(d.b, weight*y, v)
	d.loss += weight * (f - y) * (f - y)
	return f
}

// naiveMixture is docs/theory.md to the letter: weights anew from all losses.
type naiveMixture struct {
	low, high float64
	given     bool
	rounds    int
	cut       []float64
	loss      float64
}

func (m *naiveMixture) observe(advice []float64, y, weight float64) float64 {
	width := m.high - m.low
	sum, total := 0.0, 0.0
	f := make([]float64, len(advice))
	for k, v := range advice {
		f[k] = v
		w := 1.0
		if width > 0 {
			f[k] = math.Max(m.low, math.Min(m.high, v))
			smallest := m.cut[0]
			for _, c := range m.cut {
				smallest = math.Min(smallest, c)
			}
			w = math.Exp(-(m.cut[k] - smallest) / (2 * width * width))
		}
		sum += w * f[k]
		total += w
	}
	for k, v := range f {
		m.cut[k] += weight * (v - y) * (v - y)
	}
	if !m.given {
		if m.rounds == 0 {
			m.low, m.high = y, y
		}
		m.low, m.high = math.Min(m.low, y), math.Max(m.high, y)
	}
	m.rounds++
	m.loss += weight * (sum/total - y) * (sum/total - y)
	return sum / total
}

// On real streams every prediction is that of dense forecasters of each ridge, mixed
// as it is written, to 1e-10.
func TestRidgesAgreeWithDenseRecursion(t *testing.T) {
	n := rounds(300)
	lambdas := []float64{0.01, 1, 10}
	for _, name := range []string{"energy_adaraker.csv.gz", "casp.csv.gz"} {
		for _, given := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " given ", given), func(t *testing.T) {
				samples := unitStream(t, name, n)
				features := fourierOf(samples, 30)
				phi := mapped(features)
				path := awv.Path{Lambdas: lambdas}
				naive := &naiveMixture{cut: make([]float64, len(lambdas)), given: given}
				if given {
					path.Low, path.High = []float64{0}, []float64{1}
					naive.high = 1
				}
				l := awv.NewRidges(features, awv.Options{}, path)
				var dense []*denseRidge
				for _, lambda := range lambdas {
					dense = append(dense, newDenseRidge(features.Size(), lambda))
				}
				worst := 0.0
				for round, s := range samples {
					s.Weight = 1 - 0.5*float64(round%2)
					z, advice := phi(s.X), make([]float64, len(lambdas))
					middle := naive.high / 2
					if !given {
						middle = 0
					}
					for k, d := range dense {
						advice[k] = middle + d.observe(t, z, s.Y-middle, s.Weight)
					}
					want := naive.observe(advice, s.Y, s.Weight)
					out, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
					if err != nil {
						t.Fatal(err)
					}
					worst = math.Max(worst, math.Abs(out.Prediction-want))
				}
				stats, report := l.Stats(), l.Report(model.ReportOptions{})
				near(t, "loss", stats.Loss, naive.loss, 1, 1e-10)
				for k, e := range report.Experts {
					near(t, e.Name, e.Loss, naive.cut[k], 1, 1e-10)
				}
				t.Logf("largest deviation over %d rounds: %.2g", len(samples), worst)
				if worst > 1e-10 || stats.Certified != given || !stats.CertificateOK {
					t.Errorf("predictions deviate by %g: %+v", worst, stats)
				}
			})
		}
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

// The measured bars of docs/theory.md: over ridges from 1e-3 to 10 the mixture is within
// 2W² ln K of the best one on every stream.
func TestRidgesOnStreams(t *testing.T) {
	lambdas := []float64{1e-3, 1e-2, 0.1, 1, 10}
	for _, c := range []struct {
		name string
		// largest is the largest mean loss of the whole stream; 0 is any.
		largest float64
		// signs says that the labels are −1 and 1, which are not scaled.
		signs bool
	}{
		{name: "air"},
		{name: "air_raw"},
		{name: "bike"},
		{name: "casp", largest: 0.0535},
		{name: "energy"},
		{name: "energy_adaraker"},
		{name: "energy_appliances"},
		{name: "elec2", signs: true},
		{name: "movement", signs: true},
		{name: "ijcnn1", signs: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			largest := rounds(2500)
			samples := unitStream(t, c.name+".csv.gz", largest)
			path := awv.Path{Lambdas: lambdas, Low: []float64{0}, High: []float64{1}}
			if c.signs {
				path.Low[0] = -1
				for i := range samples {
					samples[i].Y = 2*samples[i].Y - 1
				}
			}
			features := fourierOf(samples, 50)
			l := awv.NewRidges(features, awv.Options{}, path)
			for _, s := range samples {
				if _, err := modeltest.Observe(l, s.X, s.Y, 1); err != nil {
					t.Fatal(err)
				}
			}
			// The best of the predictions that are cut loses no more than the best ridge.
			s, n := l.Stats(), float64(len(samples))
			best := math.Inf(1)
			experts := l.Report(model.ReportOptions{}).Experts
			for _, e := range experts {
				best = math.Min(best, e.Loss)
			}
			width := path.High[0] - path.Low[0]
			bound := 2 * width * width * math.Log(float64(len(lambdas)))
			t.Logf("mean loss %.5g (λ = 1: %.5g), excess %.3g of %.3g", s.Loss/n, experts[3].Loss/n, s.Loss-best, bound)
			if s.Loss-best > bound || !s.Certified || !s.CertificateOK || (largest == math.MaxInt && c.largest > 0 && s.Loss/n > c.largest) {
				t.Errorf("mean loss %g, excess %g: %+v", s.Loss/n, s.Loss-best, s)
			}
		})
	}
}
