package awv_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

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
		l := nystrom(func(o *awv.NystromOptions) { o.Kernel, o.Lambda, o.MaxDictionary = gaussian(0.8), lambda, 40 })
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
