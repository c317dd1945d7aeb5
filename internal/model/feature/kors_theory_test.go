package feature_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

// sampling is a stream that KORS has been over: every point and probability,
// and which of them were kept.
type sampling struct {
	points        [][]float64
	probabilities []float64
	kept          []int
}

// korsOver runs Algorithm 2 with the draws of a learner's dictionary.
func korsOver(k kernel.Kernel, points [][]float64, mu, epsilon, beta float64, seed uint64) sampling {
	s := sampling{points: points}
	sampler, draws := feature.NewKORS(mu, epsilon, beta), rand.New(rand.NewPCG(seed, 0x6b6f7273))
	for n, x := range points {
		values := make([]float64, len(s.kept))
		for i, c := range s.kept {
			values[i] = k.At(points[c], x)
		}
		p := sampler.Probability(values, k.At(x, x))
		s.probabilities = append(s.probabilities, p)
		if draws.Float64() >= p {
			continue
		}
		sampler.Add(p)
		s.kept = append(s.kept, n)
	}
	return s
}

// gramOf is the Gram matrix of the points.
func gramOf(k kernel.Kernel, points [][]float64) *mat.SymDense {
	gram := mat.NewSymDense(len(points), nil)
	for i, x := range points {
		for j := i; j < len(points); j++ {
			gram.SetSym(i, j, k.At(x, points[j]))
		}
	}
	return gram
}

// eigen gives the eigenvalues, ascending, and the vectors of a.
func eigen(t *testing.T, a *mat.SymDense) ([]float64, *mat.Dense) {
	t.Helper()
	var e mat.EigenSym
	require.True(t, e.Factorize(a, true), "no eigenvalues")
	var v mat.Dense
	e.VectorsTo(&v)
	return e.Values(nil), &v
}

// eigenvalues are ascending.
func eigenvalues(t *testing.T, a *mat.SymDense) []float64 {
	t.Helper()
	var e mat.EigenSym
	require.True(t, e.Factorize(a, false), "no eigenvalues")
	return e.Values(nil)
}

// withSpectrum is V diag(f(λ)) Vᵀ.
func withSpectrum(values []float64, vectors *mat.Dense, f func(float64) float64) *mat.SymDense {
	n := len(values)
	scaled := mat.DenseCopyOf(vectors)
	for j, v := range values {
		root := math.Sqrt(f(math.Max(v, 0)))
		for i := range n {
			scaled.Set(i, j, scaled.At(i, j)*root)
		}
	}
	out := mat.NewSymDense(n, nil)
	out.SymOuterK(1, scaled)
	return out
}

// sandwich is the symmetric B diag(d) B of a symmetric B.
func sandwich(b *mat.SymDense, d []float64) *mat.SymDense {
	n := len(d)
	scaled := mat.DenseCopyOf(b)
	for i, v := range d {
		row := scaled.RawRowView(i)
		for j := range row {
			row[j] *= v
		}
	}
	var product mat.Dense
	product.Mul(b, scaled)
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, (product.At(i, j)+product.At(j, i))/2)
		}
	}
	return out
}

// leverageError is the ‖Ỹ‖ of KONS, Appendix C: the largest magnitude of an
// eigenvalue of (K+μ)^{-½} K^½ (SSᵀ−I) K^½ (K+μ)^{-½}. At most ε is the same as
// (1−ε)A_t ⪯ A_t^I ⪯ (1+ε)A_t.
func leverageError(t *testing.T, values []float64, vectors *mat.Dense, weights []float64, mu float64) float64 {
	t.Helper()
	root := withSpectrum(values, vectors, func(v float64) float64 { return math.Sqrt(v / (v + mu)) })
	d := make([]float64, len(weights))
	for i, w := range weights {
		d[i] = w - 1
	}
	spectrum := eigenvalues(t, sandwich(root, d))
	return math.Max(math.Abs(spectrum[0]), math.Abs(spectrum[len(spectrum)-1]))
}

// projectionError is ‖(I−P)C^½‖², the largest eigenvalue of what P leaves of
// the Gram matrix, K − K_nm K_mm⁺ K_mn: without the learner's factors.
func projectionError(t *testing.T, gram *mat.SymDense, kept []int) float64 {
	t.Helper()
	n, m := gram.SymmetricDim(), len(kept)
	inside, columns := mat.NewSymDense(m, nil), mat.NewDense(n, m, nil)
	for j, c := range kept {
		for i := range n {
			columns.Set(i, j, gram.At(i, c))
		}
		for i := range j + 1 {
			inside.SetSym(i, j, gram.At(kept[i], c))
		}
	}
	values, vectors := eigen(t, inside)
	// Directions that are rounding alone are left out, which can only make the
	// error larger.
	inverse := withSpectrum(values, vectors, func(v float64) float64 {
		if v < 1e-10*values[m-1] {
			return 0
		}
		return 1 / v
	})
	var half, whole mat.Dense
	half.Mul(columns, inverse)
	whole.Mul(&half, columns.T())
	left := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			left.SetSym(i, j, gram.At(i, j)-(whole.At(i, j)+whole.At(j, i))/2)
		}
	}
	return eigenvalues(t, left)[n-1]
}

// leverages are the true ridge leverage scores τ_tt = 1 − μ/L_tt² of every
// round, L the Cholesky factor of K_n+μI, of which that of K_t+μI is a corner.
func leverages(t *testing.T, gram *mat.SymDense, mu float64) []float64 {
	t.Helper()
	n := gram.SymmetricDim()
	shifted := mat.NewSymDense(n, nil)
	shifted.CopySym(gram)
	for i := range n {
		shifted.SetSym(i, i, shifted.At(i, i)+mu)
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(shifted), "not positive definite")
	var l mat.TriDense
	chol.LTo(&l)
	out := make([]float64, n)
	for i := range out {
		out[i] = 1 - mu/(l.At(i, i)*l.At(i, i))
	}
	return out
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}

// korsClaims are how much of each of the theorem's claims was used.
type korsClaims struct {
	accuracy, projection float64 // Of ε and of μ.
	low, high            float64 // τ̃/τ.
	size, online         float64 // m of 9 d_eff log², and of 3ρβ d_onl.
	chain                float64 // Lemma 3.
}

func (c *korsClaims) include(o korsClaims) {
	c.accuracy, c.projection = math.Max(c.accuracy, o.accuracy), math.Max(c.projection, o.projection)
	c.low, c.high = math.Min(c.low, o.low), math.Max(c.high, o.high)
	c.size, c.online, c.chain = math.Max(c.size, o.size), math.Max(c.online, o.online), math.Max(c.chain, o.chain)
}

// check measures the claims at the rounds given.
func (s sampling) check(t *testing.T, k kernel.Kernel, mu, epsilon, beta, delta float64, rounds []int) korsClaims {
	t.Helper()
	n, rho := float64(len(s.points)), (1+epsilon)/(1-epsilon)
	gram := gramOf(k, s.points)
	tau := leverages(t, gram, mu)
	worst := korsClaims{low: math.Inf(1)}
	for i, p := range s.probabilities {
		if p < 1 {
			worst.include(korsClaims{low: p / beta / tau[i], high: p / beta / tau[i]})
		}
	}
	for _, round := range rounds {
		corner := mat.NewSymDense(round, nil)
		corner.CopySym(gram)
		values, vectors := eigen(t, corner)
		weights := make([]float64, round)
		upTo, _ := slices.BinarySearch(s.kept, round)
		for _, c := range s.kept[:upTo] {
			weights[c] = 1 / s.probabilities[c]
		}
		effective, logDet := 0.0, 0.0
		for _, v := range values {
			effective += math.Max(v, 0) / (math.Max(v, 0) + mu)
			logDet += math.Log1p(math.Max(v, 0) / mu)
		}
		online, largest := sum(tau[:round]), values[round-1]
		logTerm := math.Log(2 * n / delta)
		worst.include(korsClaims{
			low:        math.Inf(1),
			accuracy:   leverageError(t, values, vectors, weights, mu) / epsilon,
			projection: projectionError(t, corner, s.kept[:upTo]) / mu,
			size:       float64(upTo) / (9 * effective * logTerm * logTerm),
			online:     float64(upTo) / (3 * rho * beta * online),
			chain:      math.Max(online/logDet, logDet/(effective*(1+math.Log1p(largest/mu)))),
		})
	}
	return worst
}

// Theorem 2 of KONS (ICML 2017) and Proposition 5 of PKAWV-Nyström (NeurIPS
// 2019), with β = 12 log(n/δ) and ε = 1/2, to the letter of Algorithm 2, densely
// from Gram matrices at several rounds of every stream:
//
//	(1) (1−ε)A_t ⪯ A_t^I ⪯ (1+ε)A_t, and so ‖(I−P_t)C_t^½‖² ≤ μ
//	(2) |I_t| ≤ 3ρβ d_onl and ≤ 9 d_eff(μ) log(2n/δ)²
//	(3) τ ≤ τ̃ ≤ ρτ, ρ = (1+ε)/(1−ε)
//
// and Lemma 3, d_onl ≤ log det(K/μ+I) ≤ d_eff (1 + log(‖K‖/μ+1)).
func TestKORSAccuracy_ICML_Thm2(t *testing.T) {
	const epsilon, delta = 0.5, 0.1
	const n, seeds = 140, uint64(1)
	beta := feature.KORSBeta(float64(n), delta, epsilon)
	normal := func(d int) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return vector(rng, d, math.Abs(rng.NormFloat64())) }
	}
	clusters := func(rng *rand.Rand) []float64 {
		x := vector(rng, 3, 0.05)
		x[0] += float64(rng.IntN(4))
		return x
	}
	for _, c := range []struct {
		name   string
		kernel kernel.Kernel
		mus    []float64
		draw   func(*rand.Rand) []float64
	}{
		{"matern_12 in 1", kernel.Kernel{Kind: kernel.Matern12, Sigma: 2}, []float64{80, 150}, normal(1)},
		{"laplacian in 2", kernel.Kernel{Kind: kernel.Laplacian, Sigma: 4}, []float64{80, 150}, normal(2)},
		{"gaussian in 3 clusters", kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1}, []float64{80, 150}, clusters},
		{"cauchy in 1", kernel.Kernel{Kind: kernel.Cauchy, Sigma: 1}, []float64{80, 150}, normal(1)},
		{"quadratic in 2", kernel.Kernel{Kind: kernel.Polynomial, Degree: 2, Offset: 1}, []float64{100, 1000}, normal(2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			sampled := false
			for _, mu := range c.mus {
				worst, kept := korsClaims{low: math.Inf(1)}, 0
				for seed := range seeds {
					rng := source(1000 + seed)
					points := make([][]float64, n)
					for i := range points {
						points[i] = c.draw(rng)
					}
					s := korsOver(c.kernel, points, mu, epsilon, beta, seed)
					got := s.check(t, c.kernel, mu, epsilon, beta, delta, []int{n / 4, n / 2, n})
					if got.projection > 1+1e-9 || got.low < 1-1e-9 || got.size > 1 || got.chain > 1+1e-12 ||
						got.accuracy > 1+1e-9 || got.high > (1+epsilon)/(1-epsilon) || got.online > 1 {
						t.Errorf("μ = %g, seed %d: %+v", mu, seed, got)
					}
					kept, sampled = len(s.kept), sampled || len(s.kept) < n*9/10
					worst.include(got)
				}
				t.Logf("μ = %g: %d of %d kept, used of ε %.2f, of μ %.2g, of the size %.3f, of 3ρβ d_onl %.3f, of Lemma 3 %.3f; τ̃/τ %.3f to %.3f",
					mu, kept, n, worst.accuracy, worst.projection, worst.size, worst.online, worst.chain, worst.low, worst.high)
			}
			assert.True(t, sampled, "nearly all points were kept: nothing was sampled")
		})
	}
}

// A learner's dictionary keeps what Algorithm 2 keeps, points in the span of its centres
// included, from a stream of few points again and again. Without these points their leverage
// stays, and Σp is the number of rounds.
func TestTheDictionaryIsThatOfTheAlgorithm_ICML_Alg2(t *testing.T) {
	const n, distinct, mu, epsilon, beta = 900, 20, 1.0, 0.5, 2.0
	k := kernel.Kernel{Kind: kernel.Gaussian, Sigma: 0.5}
	points := make([][]float64, n)
	for i := range points {
		points[i] = []float64{float64(i * 7 % distinct)}
	}
	want := korsOver(k, points, mu, epsilon, beta, 3)
	s := feature.NewSampled(feature.SampledOptions{Kernel: k, Dimension: 1, Bound: 1, Mu: mu, Epsilon: epsilon, Beta: beta, Capacity: n, Seed: 3})
	for i, x := range points {
		before := s.Size()
		if grown := s.Consider(x); grown != (s.Size() > before) {
			t.Fatalf("point %d: grown %v, %d centres", i, grown, s.Size())
		}
	}
	kept, online := s.Probabilities(), 0.0
	for _, tau := range leverages(t, gramOf(k, points), mu) {
		online += tau
	}
	if len(kept) != len(want.kept) || s.Size() != distinct || len(kept) <= 2*distinct || float64(len(kept)) > 9*beta*online {
		t.Errorf("%d points kept, want %d; 3ρβ d_onl is %g", len(kept), len(want.kept), 9*beta*online)
	}
	for i, c := range want.kept {
		require.True(t, kept[i] == want.probabilities[c], "kept point %d with probability %g, want %g", i, kept[i], want.probabilities[c])
	}
	total := sum(want.probabilities)
	assert.True(t, total <= 9*beta*online && total <= n/2, "Σp = %g of %d rounds, 3ρβ d_onl is %g", total, n, 9*beta*online)
}

// The claims above can fail: with a β far below the theorem's the dictionary is
// no ε-approximation, and does not span C up to μ.
func TestKORSNeedsItsBeta_ICML_Thm2(t *testing.T) {
	const n, mu, epsilon = 150, 3.0, 0.5
	k := kernel.Kernel{Kind: kernel.Matern12, Sigma: 2}
	accuracy, projection := 0.0, 0.0
	for seed := range uint64(3) {
		rng := source(seed)
		points := make([][]float64, n)
		for i := range points {
			points[i] = vector(rng, 2, rng.Float64())
		}
		points[0][0] = 100 // Kept with a small probability, and then as if it were many.
		got := korsOver(k, points, mu, epsilon, 0.05, seed).check(t, k, mu, epsilon, 0.05, 0.1, []int{n})
		accuracy, projection = math.Max(accuracy, got.accuracy), math.Max(projection, got.projection)
	}
	t.Logf("used of ε %.2f, of μ %.2f", accuracy, projection)
	assert.True(t, accuracy > 1 && projection > 1, "used of ε %g, of μ %g: the measures measure nothing", accuracy, projection)
}

// β is that of the theorem for every ε; for ε = ½ it is 12 log(n/δ).
func TestKORSBeta_ICML_Thm2(t *testing.T) {
	for epsilon, want := range map[float64]float64{0.5: 12, 0.25: 48, 0.1: 300} {
		assert.InDelta(t, want, feature.KORSBeta(1000, 0.1, epsilon)/math.Log(1e4), 1e-12*want, epsilon)
	}
}

// Where the bounds bite: one direction, seen again and again. There k = 1, the
// leverages are 1/(t+μ), and all figures have a closed form, so that streams can
// be long enough for the size's bound to be far below n.
func TestKORSSizeOnOneDirection_ICML_Thm2(t *testing.T) {
	const delta = 0.1
	n := 2500
	if testing.Short() || modeltest.RaceDetector {
		n = 1500
	}
	for _, c := range []struct{ mu, epsilon float64 }{{1, 0.5}, {200, 0.5}, {1, 0.4}, {200, 0.4}} {
		mu, epsilon := c.mu, c.epsilon
		for seed := range uint64(2) {
			beta := feature.KORSBeta(float64(n), delta, epsilon)
			points := make([][]float64, n)
			for i := range points {
				points[i] = []float64{float64(1 - 2*(i%2))}
			}
			s := korsOver(kernel.Kernel{Kind: kernel.Linear}, points, mu, epsilon, beta, seed)
			low, high, accuracy, online, expected, weight := math.Inf(1), 0.0, 0.0, 0.0, 0.0, 0.0
			next := 0
			for i, p := range s.probabilities {
				tau := 1 / (float64(i+1) + mu)
				if p < 1 {
					low, high = math.Min(low, p/beta/tau), math.Max(high, p/beta/tau)
				}
				online += tau
				expected += p
				if next < len(s.kept) && s.kept[next] == i {
					weight += 1 / p
					next++
				}
				accuracy = math.Max(accuracy, math.Abs(weight-float64(i+1))*tau)
			}
			m, effective := float64(len(s.kept)), float64(n)/(float64(n)+mu)
			bound := 9 * effective * math.Pow(math.Log(2*float64(n)/delta), 2)
			t.Logf("μ = %g, ε = %g, seed %d: %g of %d kept, %.0f expected, bound %.0f; used of ε %.2f; τ̃/τ %.3f to %.3f",
				mu, epsilon, seed, m, n, expected, bound, accuracy/epsilon, low, high)
			if m > bound || m > 3*expected || m > 3*(1+epsilon)/(1-epsilon)*beta*online || bound >= float64(n) {
				t.Errorf("μ = %g, seed %d: %g points, bound %g, expected %g", mu, seed, m, bound, expected)
			}
			if accuracy > epsilon || low < 1 || high > (1+epsilon)/(1-epsilon) {
				t.Errorf("μ = %g, seed %d: error %g of ε = %g, leverages %g to %g of the true ones", mu, seed, accuracy, epsilon, low, high)
			}
		}
	}
}

// Eq. (4), its first line: τ̃ = (1+ε) φᵀ(ΦSSᵀΦᵀ + μI)⁻¹φ with the point itself in
// the dictionary at weight 1, solved in the features of a quadratic kernel,
// where the sampler knows kernel values only. At every step of the stream.
func TestKORSLeverageInFeatureSpace_ICML_Eq4(t *testing.T) {
	const offset, epsilon, beta = 0.7, 0.3, 2.0
	k := kernel.Kernel{Kind: kernel.Polynomial, Degree: 2, Offset: offset}
	phi := func(x []float64) *mat.VecDense {
		return mat.NewVecDense(6, []float64{
			x[0] * x[0], x[1] * x[1], math.Sqrt2 * x[0] * x[1],
			math.Sqrt(2*offset) * x[0], math.Sqrt(2*offset) * x[1], offset,
		})
	}
	for _, mu := range []float64{0.05, 1, 40} {
		for seed := range uint64(4) {
			rng := source(50 + seed)
			var points [][]float64
			for range 150 {
				points = append(points, vector(rng, 2, 2*rng.Float64()))
			}
			s := korsOver(k, points, mu, epsilon, beta, seed)
			a := mat.NewSymDense(6, nil)
			for i := range 6 {
				a.SetSym(i, i, mu)
			}
			next := 0
			for i, x := range points {
				z := phi(x)
				var with mat.SymDense
				with.SymRankOne(a, 1, z)
				var chol mat.Cholesky
				var solved mat.VecDense
				require.True(t, chol.Factorize(&with), "not positive definite")
				require.NoError(t, chol.SolveVecTo(&solved, z))
				want := math.Min(1, beta*(1+epsilon)*mat.Dot(z, &solved))
				got := s.probabilities[i]
				require.False(t, math.Abs(got-want) > 1e-7*want, "μ = %g, seed %d, point %d: probability %.15g, want %.15g", mu, seed, i, got, want)
				if next < len(s.kept) && s.kept[next] == i {
					a.SymRankOne(a, 1/s.probabilities[i], z)
					next++
				}
			}
			m := len(s.kept)
			assert.True(t, m >= 6 && m <= 149, "μ = %g, seed %d: %d of 150 points kept", mu, seed, m)
		}
	}
}
