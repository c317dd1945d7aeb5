package awv_test

import (
	"bytes"
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

func TestRidgesConform(t *testing.T) {
	given := [][]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}}
	for name, s := range map[string]modeltest.Subject{
		"taylor": {
			Dimension: 2,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{}, awv.Path{Lambdas: []float64{0.01, 1, 10}})
			},
		},
		"linear, a range": {
			Dimension: 3, Refuses: tooLarge,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewAffine(3), awv.Options{},
					awv.Path{Lambdas: []float64{0.1, 1}, Low: []float64{-2}, High: []float64{2}})
			},
		},
		"linear, two outputs, ranges": {
			Dimension: 2, Outputs: 2, Refuses: tooLarge,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewAffine(2), awv.Options{Outputs: 2},
					awv.Path{Lambdas: []float64{0.1, 1}, Low: []float64{-2, -4}, High: []float64{2, 4}})
			},
		},
		"taylor, three outputs": {
			Dimension: 2, Outputs: 3,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewTaylor(2, 1, 2), awv.Options{Outputs: 3}, awv.Path{Lambdas: []float64{0.5, 0.5, 7}})
			},
		},
		"one ridge": {
			Dimension: 2,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{Forgetting: 0.9, Outputs: 2}, awv.Path{Lambdas: []float64{0.3}})
			},
			Outputs: 2,
		},
		"nystrom": {
			Dimension: 2, Refuses: tooLarge,
			New: func() model.Learner {
				return nystrom(func(o *awv.NystromOptions) { o.Lambdas, o.MaxDictionary, o.Window = []float64{0.1, 1, 10}, 12, 16 })
			},
		},
		"nystrom, given, a range": {
			Dimension: 2, Refuses: tooLarge,
			New: func() model.Learner {
				return nystrom(func(o *awv.NystromOptions) {
					o.Lambdas, o.Given, o.Low, o.High = []float64{0.1, 1}, given, []float64{-1.5}, []float64{1.5}
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) { modeltest.Conform(t, s) })
	}
}

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

// observe answers the forecaster's prediction and learns.
func (d *denseRidge) observe(t *testing.T, z []float64, y, weight float64) float64 {
	t.Helper()
	v := mat.NewVecDense(len(z), z)
	d.a.SymRankOne(d.a, weight, v)
	var c mat.Cholesky
	if !c.Factorize(d.a) {
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
			least := m.cut[0]
			for _, c := range m.cut {
				least = math.Min(least, c)
			}
			w = math.Exp(-(m.cut[k] - least) / (2 * width * width))
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
	n := 2000
	if testing.Short() || modeltest.RaceDetector {
		n = 120
	}
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
					for k, d := range dense {
						advice[k] = d.observe(t, z, s.Y, s.Weight)
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

// One ridge alone is the plain learner, bit for bit, and so is each of several.
func TestEveryRidgeIsThePlainLearner(t *testing.T) {
	lambdas := []float64{1e-3, 0.7, 40}
	for name, create := range map[string]func(lambda float64, path awv.Path) model.Learner{
		"taylor": func(lambda float64, path awv.Path) model.Learner {
			o := awv.Options{Lambda: lambda, Outputs: 2}
			if path.Lambdas == nil {
				return awv.New(feature.NewTaylor(2, 1, 3), o)
			}
			return awv.NewRidges(feature.NewTaylor(2, 1, 3), o, path)
		},
		"nystrom": func(lambda float64, path awv.Path) model.Learner {
			return nystrom(func(o *awv.NystromOptions) {
				o.Lambda, o.Path, o.Outputs, o.Window, o.MaxDictionary = lambda, path, 2, 9, 20
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			several := create(0, awv.Path{Lambdas: lambdas})
			samples := modeltest.Samples(21, 2, 150)
			learnAll(t, several, samples)
			var states [][]byte
			for _, lambda := range lambdas {
				plain, one := create(lambda, awv.Path{}), create(0, awv.Path{Lambdas: []float64{lambda}, Low: []float64{0, 0}, High: []float64{1, 1}})
				for n, s := range samples {
					var p, q model.Prediction
					if err := plain.Predict(&p, s.X); err != nil {
						t.Fatal(err)
					}
					if err := one.Predict(&q, s.X); err != nil {
						t.Fatal(err)
					}
					if fmt.Sprint(p) != fmt.Sprint(q) {
						t.Fatalf("round %d: %v, the plain learner %v", n, q, p)
					}
					learnAll(t, plain, samples[n:n+1])
					learnAll(t, one, samples[n:n+1])
				}
				want := stateOf(t, plain)
				if !bytes.Equal(stateOf(t, one), want) || fmt.Sprint(one.Stats()) != fmt.Sprint(plain.Stats()) {
					t.Errorf("λ = %g: one ridge alone is another learner: %+v, want %+v", lambda, one.Stats(), plain.Stats())
				}
				if name == "taylor" {
					states = append(states, want)
				}
			}
			if all := bytes.Join(states, nil); !bytes.HasPrefix(stateOf(t, several), all) {
				t.Error("a ridge of several is not the plain learner")
			}
		})
	}
}

// learnAll learns samples with two labels.
func learnAll(t *testing.T, l model.Learner, samples []modeltest.Sample) {
	t.Helper()
	for _, s := range samples {
		if err := l.Observe(&model.Outcome{}, s.X, []float64{s.Y, s.Y * s.X[0]}, s.Weight); err != nil {
			t.Fatal(err)
		}
	}
}

func stateOf(t *testing.T, l model.Learner) []byte {
	t.Helper()
	state, err := l.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// Equal ridges weigh the same, and their mixture is what each of them says.
func TestEqualRidgesWeighTheSame(t *testing.T) {
	l := awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{}, awv.Path{
		Lambdas: []float64{0.3, 0.3, 0.3}, Low: []float64{-100}, High: []float64{100},
	})
	plain := awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 0.3})
	for n, s := range modeltest.Samples(8, 2, 200) {
		got, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
		if err != nil {
			t.Fatal(err)
		}
		want, err := modeltest.Observe(plain, s.X, s.Y, s.Weight)
		if err != nil {
			t.Fatal(err)
		}
		if got.Prediction != want.Prediction {
			t.Fatalf("round %d: %.17g, each says %.17g", n, got.Prediction, want.Prediction)
		}
		for _, e := range l.Report(model.ReportOptions{}).Experts {
			if e.Name != "lambda_0.3" || math.Abs(e.Weight-1.0/3) > 1e-15 {
				t.Fatalf("round %d: %+v", n, e)
			}
		}
	}
}

// For every sequence of labels within the range, of weights of at most 1, the mixture
// loses at most 2W² ln K more than its best ridge.
//
// Source: Kivinen and Warmuth, EuroCOLT 1999, §3.
func TestExcessOverTheBestRidge_EuroCOLT_1999(t *testing.T) {
	const low, high = -2.5, 2.5
	lambdas := []float64{1e-4, 1e-2, 1, 30, 1000}
	for name, against := range adversaries() {
		for outputs := 1; outputs <= 2; outputs++ {
			t.Run(fmt.Sprint(name, " ", outputs), func(t *testing.T) {
				path := awv.Path{Lambdas: lambdas}
				for range outputs {
					path.Low, path.High = append(path.Low, low), append(path.High, high)
				}
				l := awv.NewRidges(feature.NewTaylor(2, 0.8, 4), awv.Options{Outputs: outputs}, path)
				var plain []model.Learner
				for _, lambda := range lambdas {
					plain = append(plain, awv.New(feature.NewTaylor(2, 0.8, 4), awv.Options{Lambda: lambda, Outputs: outputs}))
				}
				rng := rand.New(rand.NewPCG(31, uint64(outputs)))
				bound := 2 * float64(outputs) * (high - low) * (high - low) * math.Log(float64(len(lambdas)))
				most := 0.0
				for n := range 400 {
					x := inputs(rng, n)
					var p model.Prediction
					if err := l.Predict(&p, x); err != nil {
						t.Fatal(err)
					}
					y, weight := make([]float64, outputs), []float64{1, 0.2, 1e-6}[n%3]
					for j := range y {
						y[j] = math.Max(low, math.Min(high, against(rng, n, x, p.Values[j])))
					}
					best := math.Inf(1)
					for _, one := range append(plain[:len(plain):len(plain)], l) {
						if err := one.Observe(&model.Outcome{}, x, y, weight); err != nil {
							t.Fatal(err)
						}
					}
					for _, one := range plain {
						best = math.Min(best, one.Stats().Loss)
					}
					s := l.Stats()
					if most = math.Max(most, s.Loss-best); s.Loss-best > bound+1e-9 {
						t.Fatalf("round %d: loss %g, the best ridge %g, bound %g", n, s.Loss, best, bound)
					}
					if !s.Certified || !s.CertificateOK || s.Regret > s.Certificate+1e-9 || s.Certificate > s.RegretBound+1e-9 {
						t.Fatalf("round %d: %+v", n, s)
					}
				}
				t.Logf("at most %.3g above the best ridge, the bound is %.3g", most, bound)
			})
		}
	}
}

// What the theorem does not cover is not certified: a label outside of the range, a
// weight above 1, a range that is not known. That outlives a restart.
func TestRidgesAreCertifiedWithinTheRange(t *testing.T) {
	path := awv.Path{Lambdas: []float64{0.1, 1}, Low: []float64{-1}, High: []float64{1}}
	for name, c := range map[string]struct {
		path      awv.Path
		y, weight float64
		certified bool
	}{
		"within":          {path, 1, 1, true},
		"below":           {path, -1.5, 1, false},
		"above":           {path, math.Nextafter(1, 2), 1, false},
		"much weight":     {path, 0, 1.5, false},
		"no range":        {awv.Path{Lambdas: path.Lambdas}, 0, 1, false},
		"little, outside": {path, 2, 1e-9, false},
	} {
		l := awv.NewRidges(feature.NewAffine(1), awv.Options{}, c.path)
		for n := range 20 {
			y, weight := math.Sin(float64(n)), 1.0
			if n == 10 {
				y, weight = c.y, c.weight
			}
			if _, err := modeltest.Observe(l, []float64{float64(n % 3)}, y, weight); err != nil {
				t.Fatal(err)
			}
		}
		restored := awv.NewRidges(feature.NewAffine(1), awv.Options{}, c.path)
		if err := restored.Restore(stateOf(t, l)); err != nil {
			t.Fatal(err)
		}
		for _, s := range []model.Stats{l.Stats(), restored.Stats()} {
			if s.Certified != c.certified || !s.CertificateOK || (s.RegretBound > 0) != c.certified {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// Nothing of a range that is not given sees units: labels times a power of two give
// predictions times it, bit for bit.
func TestRidgesSeeNoUnits(t *testing.T) {
	learner := func() model.Learner {
		return awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{}, awv.Path{Lambdas: []float64{0.01, 1, 10}})
	}
	a, b := learner(), learner()
	for n, s := range modeltest.Samples(12, 2, 200) {
		p, err := modeltest.Observe(a, s.X, s.Y, s.Weight)
		if err != nil {
			t.Fatal(err)
		}
		q, err := modeltest.Observe(b, s.X, math.Ldexp(s.Y, -100), s.Weight)
		if err != nil {
			t.Fatal(err)
		}
		if math.Ldexp(p.Prediction, -100) != q.Prediction || math.Ldexp(p.Loss, -200) != q.Loss {
			t.Fatalf("round %d: %g and %g", n, p, q)
		}
	}
}

// Constant labels, and labels so small that their square is 0, leave predictions
// finite.
func TestRidgesOfConstantLabels(t *testing.T) {
	for _, y := range []float64{0, 3, 1e100, 1e-200, 5e-324} {
		for _, change := range []bool{false, true} {
			l := awv.NewRidges(feature.NewAffine(1), awv.Options{}, awv.Path{Lambdas: []float64{0.1, 1, 10}})
			for n := range 50 {
				label := y
				if change && n%2 == 1 {
					label = math.Nextafter(y, 1)
				}
				out, err := modeltest.Observe(l, []float64{1}, label, 1)
				if err != nil {
					t.Fatal(err)
				}
				if math.IsNaN(out.Prediction) || math.Abs(out.Prediction) > 2*math.Nextafter(y, math.Inf(1)) {
					t.Fatalf("label %g, round %d: %g", label, n, out.Prediction)
				}
			}
			if s := l.Stats(); !s.CertificateOK {
				t.Errorf("label %g: %+v", y, s)
			}
		}
	}
}

// The path over the number of centres is that of the thesis's incremental estimator:
// entry m is the loss of the learner over the first m centres.
//
// Source: Camoriano, thesis (2017), Algorithm 4.1.
func TestHindsightPathIsThatOfFewerCentres_Camoriano_Alg41(t *testing.T) {
	var centres [][]float64
	for i := range 9 {
		centres = append(centres, []float64{float64(i%3) - 1, float64(i/3) - 1})
	}
	samples := modeltest.Samples(14, 2, 120)
	create := func(m int, lambdas ...float64) model.Learner {
		l := nystrom(func(o *awv.NystromOptions) { o.Given, o.Lambdas, o.Outputs = centres[:m], lambdas, 2 })
		learnAll(t, l, samples)
		return l
	}
	if got := create(3, 1).Report(model.ReportOptions{}).HindsightPath; got != nil {
		t.Errorf("a path that was not asked for: %v", got)
	}
	for _, lambdas := range [][]float64{{0.3}, {0.3, 0.3}} {
		path := create(len(centres), lambdas...).Report(model.ReportOptions{HindsightPath: true}).HindsightPath
		if len(path) != len(centres)+1 {
			t.Fatalf("%d entries, want %d", len(path), len(centres)+1)
		}
		energy := 0.0
		for _, s := range samples {
			energy += s.Weight * (s.Y*s.Y + s.Y*s.X[0]*s.Y*s.X[0])
		}
		near(t, "no features", path[0], energy, 0, 1e-13)
		for m := 1; m <= len(centres); m++ {
			near(t, fmt.Sprint(m, " centres"), path[m], create(m, 0.3).Stats().HindsightLoss, 0, 1e-12)
		}
	}
}

// The measured bars of docs/theory.md: over ridges from 1e-3 to 10 the mixture is within
// 2W² ln K of the best one on every stream.
func TestRidgesOnStreams(t *testing.T) {
	if testing.Short() || modeltest.RaceDetector {
		t.Skip("long")
	}
	lambdas := []float64{1e-3, 1e-2, 0.1, 1, 10}
	for _, c := range []struct {
		name string
		// most is what the mean loss may be; 0 is any.
		most float64
		// signs says that the labels are −1 and 1, which are not scaled.
		signs bool
	}{
		{name: "air"},
		{name: "air_raw"},
		{name: "bike"},
		{name: "casp", most: 0.0535},
		{name: "energy"},
		{name: "energy_adaraker"},
		{name: "energy_appliances"},
		{name: "elec2", signs: true},
		{name: "movement", signs: true},
		{name: "ijcnn1", signs: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			samples := unitStream(t, c.name+".csv.gz", math.MaxInt)
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
			if s.Loss-best > bound || !s.Certified || !s.CertificateOK || (c.most > 0 && s.Loss/n > c.most) {
				t.Errorf("mean loss %g, excess %g: %+v", s.Loss/n, s.Loss-best, s)
			}
		})
	}
}

// BenchmarkRidges is a round of five ridges beside one of the plain learner.
func BenchmarkRidges(b *testing.B) {
	const d = 10
	samples := modeltest.Samples(1, d, 64)
	features := feature.NewFourier(gaussian(1), d, 50, true, rand.New(rand.NewPCG(1, 1)))
	for name, l := range map[string]model.Learner{
		"plain": awv.New(features, awv.Options{Lambda: 1}),
		"five":  awv.NewRidges(features, awv.Options{}, awv.Path{Lambdas: []float64{1e-3, 1e-2, 0.1, 1, 10}}),
	} {
		for _, s := range samples {
			if _, err := modeltest.Observe(l, s.X, s.Y, 1); err != nil {
				b.Fatal(err)
			}
		}
		n := 0
		b.Run("Predict/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var p model.Prediction
			for b.Loop() {
				if err := l.Predict(&p, samples[n&63].X); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
		b.Run("Observe/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var o model.Outcome
			for b.Loop() {
				if err := l.Observe(&o, samples[n&63].X, []float64{1}, 1); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}
