package awv_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

func TestConformance(t *testing.T) {
	for name, s := range map[string]modeltest.Subject{
		"taylor d=1 M=6": {Dimension: 1, New: func() model.Learner { return awv.New(feature.NewTaylor(1, 0.7, 6), awv.Options{Lambda: 0.5}) }},
		"taylor d=3 M=3": {Dimension: 3, New: func() model.Learner { return awv.New(feature.NewTaylor(3, 1, 3), awv.Options{Lambda: 1}) }},
		"linear d=4": {
			Dimension: 4, New: func() model.Learner { return awv.New(feature.NewAffine(4), awv.Options{Lambda: 1e-3}) },
			Rejects: tooLarge,
		},
		"taylor, three outputs": {
			Dimension: 2, Outputs: 3,
			New: func() model.Learner { return awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 1, Outputs: 3}) },
		},
		"taylor, forgetting": {
			Dimension: 2, Outputs: 2,
			New: func() model.Learner {
				return awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 1, Outputs: 2, Forgetting: 0.9})
			},
		},
		"linear, forgetting": {
			Dimension: 3, Rejects: tooLarge,
			New: func() model.Learner {
				return awv.New(feature.NewAffine(3), awv.Options{Lambda: 1e-3, Forgetting: 0.01})
			},
		},
	} {
		t.Run(name, func(t *testing.T) { modeltest.Conform(t, s) })
	}
}

func near(t *testing.T, what string, got, want, scale, tolerance float64) {
	t.Helper()
	require.True(t, !math.IsNaN(got) && math.Abs(got-want) <= tolerance*(scale+math.Abs(want)), "%s: got %.17g, want %.17g", what, got, want)
}

// mapped is a feature map as a function.
func mapped(m feature.Map) func(x []float64) []float64 {
	return func(x []float64) []float64 {
		z := make([]float64, m.Size())
		m.Map(z, x)
		return z
	}
}

// Every figure agrees with a dense solver's at every round.
func TestAgreesWithDenseOracle(t *testing.T) {
	for _, c := range []struct {
		name       string
		features   feature.Map
		oracle     func(x []float64) []float64
		lambda     float64
		forgetting float64
		tolerance  float64
	}{
		{"linear", feature.NewAffine(3), modeltest.AffineFeatures, 1, 1, 1e-10},
		{"linear, weak ridge", feature.NewAffine(2), modeltest.AffineFeatures, 1e-5, 1, 1e-8},
		{"taylor 1, 6", feature.NewTaylor(1, 0.5, 6), modeltest.TaylorFeatures(1, 0.5, 6), 0.1, 1, 1e-9},
		{"taylor 2, 4", feature.NewTaylor(2, 1, 4), modeltest.TaylorFeatures(2, 1, 4), 1, 1, 1e-10},
		{"taylor 5, 2", feature.NewTaylor(5, 2, 2), modeltest.TaylorFeatures(5, 2, 2), 10, 1, 1e-10},
		{"taylor 3, 0", feature.NewTaylor(3, 1, 0), modeltest.TaylorFeatures(3, 1, 0), 1, 1, 1e-10},
		{"taylor, wide", feature.NewTaylor(2, 30, 3), modeltest.TaylorFeatures(2, 30, 3), 0.01, 1, 1e-8},
		{"linear, forgetting", feature.NewAffine(3), modeltest.AffineFeatures, 1, 0.95, 1e-10},
		{"taylor, forgetting", feature.NewTaylor(2, 1, 4), modeltest.TaylorFeatures(2, 1, 4), 0.5, 0.99, 1e-10},
		{"taylor, forgetting fast", feature.NewTaylor(2, 1, 4), modeltest.TaylorFeatures(2, 1, 4), 0.5, 0.3, 1e-9},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := awv.New(c.features, awv.Options{Lambda: c.lambda, Forgetting: c.forgetting})
			o := &modeltest.AWV{Phi: c.oracle, Features: c.features.Size(), Lambda: c.lambda}
			if c.forgetting < 1 {
				// The ridge is renewed in the order of the learner's features.
				o.Forgetting, o.Phi = c.forgetting, mapped(c.features)
			}
			for n, s := range modeltest.Samples(11, c.features.Dimension(), 60) {
				p := must(modeltest.Predict(l, s.X))(t)
				want := o.Predict(s.X, 1)
				near(t, fmt.Sprint("prediction ", n), p.Value, want.Prediction, 1, c.tolerance)
				q := want.Q
				if _, short := c.features.(*feature.Taylor); short { // What the features leave of k(x,x) = 1.
					z := c.oracle(s.X)
					q += math.Max(0, 1-floats.Dot(z, z)) / c.lambda
				}
				near(t, "leverage", p.Leverage, q/(1+q), 1, c.tolerance)
				if n > 0 {
					effective := 0.0
					for range n {
						effective = c.forgetting*effective + 1
					}
					near(t, "standard error", p.StandardError, math.Sqrt(o.Figures().Hindsight/effective*q), 1, c.tolerance)
				}
				out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
				prequential, loss := o.Observe(s.X, s.Y, s.Weight)
				near(t, "prequential prediction", out.Prediction, prequential, 1, c.tolerance)
				near(t, "loss", out.Loss, loss, 1, c.tolerance)
				f, got := o.Figures(), l.Stats()
				near(t, "loss sum", got.Loss, f.Total, o.Energy(), c.tolerance)
				near(t, "hindsight loss", got.HindsightLoss, f.Hindsight, o.Energy(), c.tolerance)
				near(t, "regret", got.Regret, f.Regret, o.Energy(), c.tolerance)
				near(t, "regret of the outcome", out.Regret, got.Regret, 0, 0)
				near(t, "unpenalized regret", l.Report(model.ReportOptions{}).RegretUnpenalized, f.Unpenalized, o.Energy(), c.tolerance)
				near(t, "log determinant", got.LogDeterminant, f.LogDet, 1, c.tolerance)
				near(t, "effective dimension", l.Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension, f.Effective, 1, c.tolerance)
				if c.forgetting == 1 {
					near(t, "certificate", got.Certificate, f.Certificate, o.Energy(), c.tolerance)
					near(t, "bound", got.RegretBound, f.Bound, 1, c.tolerance)
				} else if got.Certified || got.Certificate != 0 || got.RegretBound != 0 {
					t.Fatalf("a certificate of what forgets: %+v", got)
				}
			}
		})
	}
}

// Regret keeps its digits when it is a tiny part of the loss: with one
// feature all figures have a closed form.
func TestRegretDoesNotCancel(t *testing.T) {
	l := awv.New(feature.NewTaylor(1, 1, 0), awv.Options{Lambda: 1})
	const n = 20_000
	// z = exp(−x²/2) with x far out is tiny: so is regret beside the loss.
	z := math.Exp(-16)
	for range n {
		must(modeltest.Observe(l, []float64{math.Sqrt(32)}, 1, 1))(t)
	}
	// h ≈ z², p ≈ 0 as long as n z² is tiny: regret ≈ n z².
	want := n * z * z
	if got := l.Stats().Regret; math.Abs(got-want) > 1e-6*want {
		t.Errorf("regret %g of a loss of %g, want %g", got, l.Stats().Loss, want)
	}
}

// Corruption of the factor or of the sums shows in the certificate.
func TestCertificateNoticesCorruption(t *testing.T) {
	l := awv.New(feature.NewAffine(2), awv.Options{Lambda: 1})
	for _, s := range modeltest.Samples(13, 2, 50) {
		must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
	}
	good := modeltest.State(t, l.Visit)
	// The sums, then u_0, behind row 0 of R: see account.visit.
	for name, at := range map[string]int{"loss": 8, "hindsight": 24, "energy": 40, "regret": 72, "u": 112 + 8*3} {
		bad := append([]byte(nil), good...)
		bad[at+6] ^= 0x08 // A digit of the mantissa, about half of one.
		spoiled := awv.New(feature.NewAffine(2), awv.Options{Lambda: 1})
		require.NoError(t, codec.Read(bad, spoiled.Visit), name)
		assert.False(t, spoiled.Stats().CertificateOK, "a changed %s is not noticed", name)
	}
}

// The rounding of the factor grows with its rotations, so that an error of
// 1e-7 of the energy, too much after 50 rounds, is within rounding after 1e9.
// Without the growth a sound model was called corrupt from some 9e8 rounds on.
// One of 1e-3 is never within rounding.
func TestCertificateAllowsForTheRounds(t *testing.T) {
	for _, c := range []struct {
		rounds     uint64
		error      float64
		forgetting float64
		want       bool
	}{
		{50, 1e-12, 1, true},
		{50, 1e-7, 1, false},
		{1e6, 1e-7, 1, false},
		{1e9, 1e-7, 1, true},
		{1e9, 1e-3, 1, false},
		{1e12, 1e-3, 1, false},
		// What is forgotten takes its rounding with it.
		{1e9, 1e-7, 0.999, false},
	} {
		o := awv.Options{Lambda: 1, Forgetting: c.forgetting}
		l := awv.New(feature.NewAffine(2), o)
		for _, s := range modeltest.Samples(13, 2, 50) {
			must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		}
		state := modeltest.State(t, l.Visit)
		// The rounds and the energy: see account.visit.
		binary.LittleEndian.PutUint64(state, c.rounds)
		energy := math.Float64frombits(binary.LittleEndian.Uint64(state[40:]))
		binary.LittleEndian.PutUint64(state[40:], math.Float64bits(energy*(1+c.error)))
		restored := awv.New(feature.NewAffine(2), o)
		require.NoError(t, codec.Read(state, restored.Visit))
		assert.Equal(t, c.want, restored.Stats().CertificateOK, "%v %v %v", c.error, c.rounds, c.forgetting)
	}
}

// must returns v. An error ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

// rounds is how many rounds of a stream a test takes: half of them in short mode.
func rounds(all int) int {
	if testing.Short() || modeltest.RaceDetector {
		return all / 2
	}
	return all
}

// With a ridge of 1e30 the losses are 1e22 and the regret is some digits below the last of them:
// the certificate of a mixture still bounds it, in every round, to no tolerance.
func TestMixturesOfLargeRidges(t *testing.T) {
	affine := feature.NewAffine(2)
	for name, l := range map[string]model.Learner{
		"ridges":   awv.NewRidges(affine, awv.Options{}, []float64{1e29, 1e30}),
		"prefixes": awv.New(affine, awv.Options{Lambda: 1e30, Prefixes: []awv.Prefix{{Size: 1}, {Size: 2}, {Size: 3}}}),
		"all":      awv.NewRidges(affine, awv.Options{}, []float64{1e-30, 1, 1e30}),
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		var o model.Outcome
		for round := range 200 {
			x := []float64{100 * rng.NormFloat64(), rng.NormFloat64()}
			require.NoError(t, l.Observe(&o, x, []float64{1e10 * (1 + rng.NormFloat64())}, math.Exp(rng.NormFloat64())/3))
			if s := l.Stats(); !s.Certified || !s.CertificateOK || s.Regret > s.Certificate || s.Certificate > s.RegretBound {
				t.Fatalf("%s, round %d: regret %g, certificate %g, bound %g, loss %g", name, round, s.Regret, s.Certificate, s.RegretBound, s.Loss)
			}
		}
	}
}

// recorded are the features of every round as they were computed, in a space of the
// last centres: L⁻¹k(x) of as many centres as there were, and 0 for those that came later.
func recorded(t *testing.T, k kernel.Kernel, centres [][]float64, sizes []int, samples []modeltest.Sample) [][]float64 {
	t.Helper()
	m := len(centres)
	gram := mat.NewSymDense(m, nil)
	for i, c := range centres {
		for j := range i + 1 {
			gram.SetSym(i, j, k.At(c, centres[j]))
		}
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(gram), "the centres are not independent")
	var lower mat.TriDense
	chol.LTo(&lower)
	rows := make([][]float64, len(samples))
	for n, s := range samples {
		rows[n] = make([]float64, m)
		for i := range sizes[n] {
			v := k.At(centres[i], s.X)
			for j := range i {
				v -= lower.At(i, j) * rows[n][j]
			}
			rows[n][i] = v / lower.At(i, i)
		}
	}
	return rows
}

// A dictionary that grows, whose new features are 0 in the past, has the theorem: the
// regret is that against the best function of the features as they were computed, solved
// densely, and below certificate and bound.
func TestAGrowingDictionaryIsCertified(t *testing.T) {
	// Of a few draws in a hundred the centres are so nearly dependent that a dense Gram matrix
	// has no digits to compare with.
	const seed, lambda, rounds = 3, 0.2, 200
	worst := 0.0
	for name, against := range adversaries() {
		rng := rand.New(rand.NewPCG(seed, 71))
		l := nystrom(func(o *awv.NystromOptions) {
			o.Dictionary.Kernel, o.Lambda, o.Dictionary.Capacity = gaussian(0.8), lambda, 40
		})
		var samples []modeltest.Sample
		var sizes []int
		loss := 0.0
		for n := range rounds {
			x := inputs(rng, n)
			p := must(modeltest.Predict(l, x))(t)
			s := modeltest.Sample{X: x, Y: against(rng, n, x, p.Value), Weight: []float64{1, 0.3, 1.7}[n%3]}
			out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
			loss += out.Loss
			samples, sizes = append(samples, s), append(sizes, l.Stats().Dictionary)
		}
		rows := recorded(t, gaussian(0.8), l.Centres(), sizes, samples)
		m := len(rows[0])
		a, b, energy := mat.NewSymDense(m, nil), mat.NewVecDense(m, nil), 0.0
		for i := range m {
			a.SetSym(i, i, lambda)
		}
		logDet := -float64(m) * math.Log(lambda)
		for n, s := range samples {
			z := mat.NewVecDense(m, rows[n])
			a.SymRankOne(a, s.Weight, z)
			b.AddScaledVec(b, s.Weight*s.Y, z)
			energy += s.Weight * s.Y * s.Y
		}
		var chol mat.Cholesky
		var w mat.VecDense
		require.True(t, chol.Factorize(a) && chol.SolveVecTo(&w, b) == nil, "not positive definite")
		smallest := energy - mat.Dot(&w, b)
		logDet += chol.LogDet()
		s := l.Stats()
		near(t, name+": hindsight", s.HindsightLoss, smallest, energy, 1e-8)
		near(t, name+": regret", s.Regret, loss-smallest, energy, 1e-8)
		near(t, name+": log determinant", s.LogDeterminant, logDet, 1, 1e-8)
		assert.False(t, !s.Certified || !s.CertificateOK || s.Regret > s.Certificate*(1+1e-12) || s.Certificate > s.RegretBound*(1+1e-12), "%s: %+v", name, s)
		first, last := sizes[0], sizes[rounds-1]
		assert.True(t, last >= first+5, "%s: the dictionary grew from %d to %d", name, first, last)
		worst = math.Max(worst, s.Regret/s.Certificate)
	}
	assert.GreaterOrEqual(t, worst, 0.1, "regret is at most %g of the certificate: the adversaries do nothing", worst)
}

func learnOne(t *testing.T, l model.Learner, samples []modeltest.Sample) {
	t.Helper()
	for _, s := range samples {
		must(modeltest.Observe(l, s.X, s.Y, 1))(t)
	}
}
