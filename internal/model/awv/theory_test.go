package awv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

// space is a learner whose feature space is fixed, with the kernel that it has
// by the theory: φ(x)·φ(x') of features that are written out once more.
type space struct {
	name    string
	lambda  float64
	learner func(outputs int) model.Learner
	kernel  func(a, b []float64) float64
}

// ofFeatures is the kernel φ(x)·φ(x').
func ofFeatures(phi func(x []float64) []float64) func(a, b []float64) float64 {
	return func(a, b []float64) float64 {
		za, zb, total := phi(a), phi(b), 0.0
		for i, v := range za {
			total += v * zb[i]
		}
		return total
	}
}

// projected is the kernel of the projection onto centres, k(a)ᵀK_mm⁻¹k(b).
func projected(t *testing.T, k kernel.Kernel, centres [][]float64) func(a, b []float64) float64 {
	t.Helper()
	m := len(centres)
	gram := mat.NewSymDense(m, nil)
	for i, c := range centres {
		for j := i; j < m; j++ {
			gram.SetSym(i, j, k.At(c, centres[j]))
		}
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(gram), "the centres are not independent")
	values := func(x []float64) *mat.VecDense {
		v := mat.NewVecDense(m, nil)
		for i, c := range centres {
			v.SetVec(i, k.At(c, x))
		}
		return v
	}
	return func(a, b []float64) float64 {
		var solved mat.VecDense
		require.NoError(t, chol.SolveVecTo(&solved, values(b)))
		return mat.Dot(values(a), &solved)
	}
}

// spaces are all learners of a fixed space, for two inputs.
func spaces(t *testing.T) []space {
	t.Helper()
	forecaster := func(m feature.Map, lambda float64) func(outputs int) model.Learner {
		return func(outputs int) model.Learner { return awv.New(m, awv.Options{Lambda: lambda, Outputs: outputs}) }
	}
	matern := kernel.Kernel{Kind: kernel.Matern52, Sigma: 1}
	laplacian := kernel.Kernel{Kind: kernel.Laplacian, Sigma: 1.5}
	orthogonal := feature.NewFourier(gaussian(0.7), 2, 9, true, rand.New(rand.NewPCG(1, 2)))
	plain := feature.NewFourier(laplacian, 2, 12, false, rand.New(rand.NewPCG(3, 4)))
	var centres [][]float64
	for i := range 12 {
		centres = append(centres, []float64{float64(i%4)/2 - 0.75, float64(i/4) - 1})
	}
	return []space{
		{"pkawv_taylor", 0.3, forecaster(feature.NewTaylor(2, 0.8, 5), 0.3), ofFeatures(modeltest.TaylorFeatures(2, 0.8, 5))},
		{"pkawv_taylor, strong ridge", 20, forecaster(feature.NewTaylor(2, 2, 2), 20), ofFeatures(modeltest.TaylorFeatures(2, 2, 2))},
		{"linear_awv", 1e-2, forecaster(feature.NewAffine(2), 1e-2), ofFeatures(modeltest.AffineFeatures)},
		{"fourier_awv, orthogonal", 0.5, forecaster(orthogonal, 0.5), ofFeatures(mapped(orthogonal))},
		{"fourier_awv, plain", 2, forecaster(plain, 2), ofFeatures(mapped(plain))},
		{"pkawv_nystrom, given", 0.2, func(outputs int) model.Learner {
			return nystrom(func(o *awv.NystromOptions) {
				o.Dictionary.Kernel, o.Lambda, o.Dictionary.Given, o.Outputs = matern, 0.2, centres, outputs
			})
		}, projected(t, matern, centres)},
		{"kernel_awv, gaussian", 0.4, func(outputs int) model.Learner {
			return awv.NewKernel(awv.KernelOptions{Kernel: gaussian(0.6), Dimension: 2, Lambda: 0.4, Outputs: outputs, Capacity: 1000})
		}, gaussian(0.6).At},
		{"kernel_awv, laplacian", 3, func(outputs int) model.Learner {
			return awv.NewKernel(awv.KernelOptions{Kernel: laplacian, Dimension: 2, Lambda: 3, Outputs: outputs, Capacity: 1000})
		}, laplacian.At},
	}
}

// adversary makes the label of a round, in [−B, B], from what the learner would
// say of its input.
type adversary func(rng *rand.Rand, n int, x []float64, said float64) float64

func adversaries() map[string]adversary {
	const b = 2.5
	return map[string]adversary{
		"random":   func(rng *rand.Rand, _ int, _ []float64, _ float64) float64 { return b * (2*rng.Float64() - 1) },
		"function": func(_ *rand.Rand, _ int, x []float64, _ float64) float64 { return b * math.Sin(3*x[0]-x[1]) },
		"constant": func(*rand.Rand, int, []float64, float64) float64 { return b },
		"signs": func(rng *rand.Rand, _ int, _ []float64, _ float64) float64 {
			return math.Copysign(b, rng.NormFloat64())
		},
		// As far from the prediction as may be: the worst of one round.
		"against": func(_ *rand.Rand, _ int, _ []float64, said float64) float64 { return math.Copysign(b, -said) },
		// Against it, but so that a function that flips once explains it all.
		"flips": func(_ *rand.Rand, n int, _ []float64, said float64) float64 {
			if n%40 < 20 {
				return math.Copysign(b, said)
			}
			return math.Copysign(b, -said)
		},
		// Outliers that come when the space has nearly been learned.
		"late": func(rng *rand.Rand, n int, _ []float64, said float64) float64 {
			if n < 60 {
				return 0.01 * rng.NormFloat64()
			}
			return math.Copysign(b, -said)
		},
	}
}

// inputs are rounds of two inputs: a cloud, a few points again and again, and a
// line.
func inputs(rng *rand.Rand, n int) []float64 {
	switch n % 3 {
	case 0:
		return []float64{rng.NormFloat64(), rng.NormFloat64()}
	case 1:
		return []float64{float64(rng.IntN(3) - 1), float64(rng.IntN(2))}
	default:
		v := rng.NormFloat64()
		return []float64{v, 1 - v/2}
	}
}

// spectrum is a Gram matrix as theorems see it: its eigenvalues, and vectors.
type spectrum struct {
	gram    *mat.SymDense
	values  []float64
	vectors *mat.Dense
	// largest is the largest k(x,x).
	largest float64
}

func spectrumOf(t *testing.T, k func(a, b []float64) float64, points [][]float64) spectrum {
	t.Helper()
	s := spectrum{gram: mat.NewSymDense(len(points), nil), vectors: new(mat.Dense)}
	for i, x := range points {
		for j := i; j < len(points); j++ {
			s.gram.SetSym(i, j, k(x, points[j]))
		}
		s.largest = math.Max(s.largest, s.gram.At(i, i))
	}
	var e mat.EigenSym
	require.True(t, e.Factorize(s.gram, true), "no eigenvalues")
	e.VectorsTo(s.vectors)
	for _, v := range e.Values(nil) {
		s.values = append(s.values, math.Max(v, 0))
	}
	return s
}

// hindsight is min_f Σ(y−f(x))² + λ‖f‖² = λ yᵀ(K+λI)⁻¹y.
func (s spectrum) hindsight(y []float64, lambda float64) float64 {
	total := 0.0
	for j, v := range s.values {
		along := 0.0
		for i, label := range y {
			along += s.vectors.At(i, j) * label
		}
		total += lambda / (v + lambda) * along * along
	}
	return total
}

// logDet is Σ log(1+λ_k(K)/λ).
func (s spectrum) logDet(lambda float64) float64 {
	total := 0.0
	for _, v := range s.values {
		total += math.Log1p(v / lambda)
	}
	return total
}

// effective is d_eff(λ) = Tr K(K+λI)⁻¹.
func (s spectrum) effective(lambda float64) float64 {
	total := 0.0
	for _, v := range s.values {
		total += v / (v + lambda)
	}
	return total
}

// played is a game of a learner against an adversary.
type played struct {
	points [][]float64
	labels [][]float64 // By output.
	loss   float64
	bound2 float64 // Σ_j B_j².
	worst  float64 // Of C_t, the most that regret was.
}

// play checks regret ≤ C ≤ B² log det by the learner's own figures at every
// round.
func play(t *testing.T, l model.Learner, a adversary, outputs, rounds int, seed uint64) played {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 77))
	game := played{labels: make([][]float64, outputs)}
	bounds := make([]float64, outputs)
	var p model.Prediction
	var o model.Outcome
	for n := range rounds {
		x := inputs(rng, n)
		require.NoError(t, l.Predict(&p, x))
		y := make([]float64, outputs)
		for j := range y {
			y[j] = a(rng, n, x, p.Values[j]) * float64(1+j)
			bounds[j] = math.Max(bounds[j], math.Abs(y[j]))
			game.labels[j] = append(game.labels[j], y[j])
		}
		require.NoError(t, l.Observe(&o, x, y, 1))
		for j, v := range o.Predictions {
			game.loss += (y[j] - v) * (y[j] - v)
		}
		game.points = append(game.points, x)
		s := l.Stats()
		if !s.Certified || !s.CertificateOK || s.Regret > s.Certificate*(1+1e-12) || s.Certificate > s.RegretBound*(1+1e-9) || o.Regret != s.Regret {
			t.Fatalf("seed %d, round %d: %+v", seed, n, s)
		}
		if n >= 20 { // On the first round they are the same.
			game.worst = math.Max(game.worst, s.Regret/s.Certificate)
		}
	}
	for _, b := range bounds {
		game.bound2 += b * b
	}
	return game
}

// Propositions 2.1 and 2.2 and eq. (5), for every learner of a fixed space, one
// output and three, and labels that are random or chosen against it. The
// regret is against the best f, where R_n(f) − λ‖f‖² is largest, in terms of
// the Gram matrix's eigenvalues alone:
//
//	loss − λ yᵀ(K+λI)⁻¹y ≤ C_n ≤ B² Σ log(1+λ_k(K)/λ) ≤ B² log(e + enκ²/λ) d_eff(λ)
//
// and the learner's own figures are these.
func TestRegretByEffectiveDimension_HAL_Prop21_Prop22_Eq5(t *testing.T) {
	const rounds, seeds = 60, uint64(1)
	for _, c := range spaces(t) {
		t.Run(c.name, func(t *testing.T) {
			byCertificate, byDet, byDimension := 0.0, 0.0, 0.0
			for name, a := range adversaries() {
				for _, outputs := range []int{1, 3} {
					for seed := range seeds {
						what := fmt.Sprintf("%s, outputs %d, seed %d", name, outputs, seed)
						l := c.learner(outputs)
						game := play(t, l, a, outputs, rounds, seed)
						s, k := l.Stats(), spectrumOf(t, c.kernel, game.points)
						hindsight, energy := 0.0, 0.0
						for _, y := range game.labels {
							hindsight += k.hindsight(y, c.lambda)
							for _, v := range y {
								energy += v * v
							}
						}
						regret, det, effective := game.loss-hindsight, game.bound2*k.logDet(c.lambda), k.effective(c.lambda)
						near(t, what+": regret", s.Regret, regret, energy, 1e-8)
						near(t, what+": hindsight", s.HindsightLoss, hindsight, energy, 1e-8)
						near(t, what+": bound", s.RegretBound, det, game.bound2, 1e-8)
						near(t, what+": effective dimension", l.Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension, effective, 1, 1e-8)
						dimension := game.bound2 * math.Log(math.E+math.E*float64(rounds)*k.largest/c.lambda) * effective
						if slack := 1e-9 * energy; regret > s.Certificate+slack || s.Certificate > det+slack || det > dimension*(1+1e-9) {
							t.Errorf("%s: regret %g, certificate %g, B² log det %g, B² log(e+enκ²/λ) d_eff %g", what, regret, s.Certificate, det, dimension)
						}
						byCertificate, byDet = math.Max(byCertificate, game.worst), math.Max(byDet, regret/det)
						byDimension = math.Max(byDimension, det/dimension)
					}
				}
			}
			t.Logf("regret at most %.3f of C and %.3f of B² log det, that at most %.3f of B² log(e+enκ²/λ) d_eff", byCertificate, byDet, byDimension)
			assert.GreaterOrEqual(t, byCertificate, 0.1, "regret is at most %g of C: the adversaries do nothing", byCertificate)
		})
	}
}

// function is f = Σ α_i k(c_i, ·), with its norm ‖f‖.
type function struct {
	at   func(x []float64) float64
	norm float64
}

func randomFunction(rng *rand.Rand, k kernel.Kernel, scale float64) function {
	var centres [][]float64
	var alpha []float64
	for range 1 + rng.IntN(6) {
		centres = append(centres, []float64{2*rng.Float64() - 1, 2*rng.Float64() - 1})
		alpha = append(alpha, scale*rng.NormFloat64())
	}
	at := func(x []float64) float64 {
		total := 0.0
		for i, c := range centres {
			total += alpha[i] * k.At(c, x)
		}
		return total
	}
	square := 0.0
	for i, c := range centres {
		square += alpha[i] * at(c)
	}
	return function{at, math.Sqrt(math.Max(square, 0))}
}

// regret is R_n(f).
func (p played) regret(f function) float64 {
	fit := 0.0
	for i, x := range p.points {
		miss := p.labels[0][i] - f.at(x)
		fit += miss * miss
	}
	return p.loss - fit
}

// disc draws within the unit disc.
func disc(rng *rand.Rand) []float64 {
	for {
		x := []float64{2*rng.Float64() - 1, 2*rng.Float64() - 1}
		if x[0]*x[0]+x[1]*x[1] <= 1 {
			return x
		}
	}
}

// game plays a Taylor learner of any degree in the unit disc, labels in [−1, 1].
func game(t *testing.T, l model.Learner, n int, seed uint64, target func(x []float64) float64) played {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 31))
	p := played{labels: make([][]float64, 1), bound2: 1}
	for range n {
		x := disc(rng)
		said := must(modeltest.Predict(l, x))(t)
		y := math.Copysign(1, -said.Value)
		if target != nil {
			y = math.Max(-1, math.Min(1, target(x)+0.1*rng.NormFloat64()))
		}
		out := must(modeltest.Observe(l, x, y, 1))(t)
		p.loss += out.Loss
		p.points, p.labels[0] = append(p.points, x), append(p.labels[0], y)
	}
	return p
}

// Theorem 3.1: for every f of the Gaussian kernel's space, not only of the span
// of the features,
//
//	R_n(f) ≤ λ‖f‖² + B² Σ log(1+λ_j(K)/λ) + 2n‖f‖(‖f‖κ+B) sup √(k(x,x)−‖φ(x)‖²)
//
// the supremum in closed form, the tail of a Poisson distribution at R²/σ².
func TestRegretAgainstTheWholeSpace_HAL_Thm31(t *testing.T) {
	const n, lambda = 100, 0.5
	tightest := math.Inf(1)
	for seed := range uint64(4) {
		for _, sigma := range []float64{0.7, 1.5} {
			for _, m := range []int{0, 1, 3, 6} {
				rng := rand.New(rand.NewPCG(seed, 36))
				k := gaussian(sigma)
				target := randomFunction(rng, k, 1)
				var at func(x []float64) float64
				if seed%2 == 0 {
					at = target.at
				}
				p := game(t, awv.New(feature.NewTaylor(2, sigma, m), awv.Options{Lambda: lambda}), n, seed, at)
				logDet := spectrumOf(t, k.At, p.points).logDet(lambda)
				s := 1 / (sigma * sigma)
				left, term := 1.0, math.Exp(-s)
				for j := 0; j <= m; j++ {
					left -= term
					term *= s / float64(j+1)
				}
				functions := []function{target, {func([]float64) float64 { return 0 }, 0}}
				for range 20 {
					functions = append(functions, randomFunction(rng, k, math.Exp(2*rng.NormFloat64()-1)))
				}
				for _, f := range functions {
					regret := p.regret(f)
					bound := lambda*f.norm*f.norm + logDet + 2*n*f.norm*(f.norm+1)*math.Sqrt(math.Max(left, 0))
					tightest = math.Min(tightest, bound-regret)
					assert.False(t, regret > bound*(1+1e-9), "seed %d, σ = %g, M = %d, ‖f‖ = %g: regret %g, bound %g", seed, sigma, m, f.norm, regret, bound)
				}
			}
		}
	}
	t.Logf("the bound is kept by %.3g", tightest)
}

// Theorem 4.1: with M = ⌈8R²/σ² ∨ 2 log(2n(1+κ)/(λ∧λ⁻¹))⌉ and for every f,
//
//	R_n(f) ≤ 2λ‖f‖² + 2B² Σ log(1+λ_j(K)/λ)
//
// The worst f is the ridge function of 2λ, so that the left-hand side less
// 2λ‖f‖² is at most loss − 2λ yᵀ(K+2λI)⁻¹y.
func TestRegretWithTheDegreeOfTheTheorem_HAL_Thm41(t *testing.T) {
	const n = 100
	used := 0.0
	for seed := range uint64(2) {
		for _, c := range []struct{ sigma, lambda float64 }{{1, 1}, {1.5, 0.3}, {2, 5}} {
			m := int(math.Ceil(math.Max(8/(c.sigma*c.sigma), 2*math.Log(4*n/math.Min(c.lambda, 1/c.lambda)))))
			target := randomFunction(rand.New(rand.NewPCG(seed, 37)), gaussian(c.sigma), 1)
			for name, at := range map[string]func(x []float64) float64{"against": nil, "function": target.at} {
				l := awv.New(feature.NewTaylor(2, c.sigma, m), awv.Options{Lambda: c.lambda})
				p := game(t, l, n, seed, at)
				k := spectrumOf(t, gaussian(c.sigma).At, p.points)
				worst, bound := p.loss-k.hindsight(p.labels[0], 2*c.lambda), 2*k.logDet(c.lambda)
				used = math.Max(used, worst/bound)
				assert.False(t, worst > bound, "seed %d, %s, %+v, M = %d: regret %g, bound %g", seed, name, c, m, worst, bound)
			}
		}
	}
	t.Logf("at most %.3f of the bound is used", used)
}

// What approximates the kernel by K̃ ⪯ K predicts as Kernel-AWV to within
//
//	|ŷ_t − ỹ_t| = λ|e_tᵀ(K̃+λI)⁻¹(K−K̃)(K+λI)⁻¹y| ≤ ‖K−K̃‖ ‖y_{<t}‖/λ
//
// where y has a 0 for the round itself. Taylor features have, by Lemma 4.4,
// ‖K−K̃‖ ≤ t (R/σ)^{2M+2}/(M+1)!, which goes to 0 as M grows.
func TestTaylorIsWithinItsErrorOfKernelAWV_HAL_Lemma44(t *testing.T) {
	const n = 60
	for seed := range uint64(3) {
		for _, c := range []struct{ sigma, lambda float64 }{{0.9, 0.5}, {1.4, 0.05}, {2, 3}} {
			rng := rand.New(rand.NewPCG(seed, 44))
			degrees := []int{0, 2, 5, 9, 14}
			exact := awv.NewKernel(awv.KernelOptions{Kernel: gaussian(c.sigma), Dimension: 2, Lambda: c.lambda, Capacity: n})
			var learners []*awv.Forecaster
			for _, m := range degrees {
				learners = append(learners, awv.New(feature.NewTaylor(2, c.sigma, m), awv.Options{Lambda: c.lambda}))
			}
			worst, energy := make([]float64, len(degrees)), 0.0
			for round := 1; round <= n; round++ {
				x := disc(rng)
				y := math.Sin(4*x[0]) + rng.NormFloat64()
				want := must(modeltest.Observe(exact, x, y, 1))(t)
				for i, l := range learners {
					got := must(modeltest.Observe(l, x, y, 1))(t)
					off := math.Abs(got.Prediction - want.Prediction)
					worst[i] = math.Max(worst[i], off)
					bound := float64(round) * feature.TaylorError(1, c.sigma, degrees[i]) * math.Sqrt(energy) / c.lambda
					require.False(t, off > bound+1e-11, "seed %d, %+v, round %d, M = %d: %g off, bound %g", seed, c, round, degrees[i], off, bound)
				}
				energy += y * y
			}
			t.Logf("σ = %g, λ = %g, degrees %v: largest deviations %.2g", c.sigma, c.lambda, degrees, worst)
			for i := 1; i < len(degrees); i++ {
				assert.False(t, worst[i] > 0.5*worst[i-1] && worst[i-1] > 1e-12, "seed %d, %+v: degree %d deviates by %g, degree %d by %g", seed, c, degrees[i-1], worst[i-1], degrees[i], worst[i])
			}
		}
	}
}

// Proposition 5 with β = 12 log(n/δ) gives ‖K−K̃_t‖ = ‖(I−P_t)C_t^½‖² ≤ μ, and
// so every prediction of PKAWV over the dictionary of that round, the whole
// history kept, is within μ‖y_{<t}‖/λ of Kernel-AWV's.
func TestNystromIsWithinMuOfKernelAWV_NeurIPS_Prop5(t *testing.T) {
	const lambda, delta = 1.0, 0.1
	n, seeds := 400, uint64(2)
	if testing.Short() || modeltest.RaceDetector {
		n, seeds = 200, 1
	}
	k := kernel.Kernel{Kind: kernel.Matern12, Sigma: 3}
	for seed := range seeds {
		for _, mu := range []float64{100, 200} {
			rng := rand.New(rand.NewPCG(seed, 55))
			exact := awv.NewKernel(awv.KernelOptions{Kernel: k, Dimension: 1, Lambda: lambda, Capacity: n})
			l := nystrom(func(o *awv.NystromOptions) {
				o.Dictionary.Kernel, o.Dictionary.Dimension, o.Lambda, o.Dictionary.Mu, o.Dictionary.Seed = k, 1, lambda, mu, seed
				o.Dictionary.Beta, o.Window, o.Dictionary.Capacity = feature.KORSBeta(float64(n), delta, 0.5), awv.WholeHistory, n
			})
			worst, used, energy := 0.0, 0.0, 0.0
			for round := range n {
				x := []float64{rng.Float64()}
				y := math.Sin(9*x[0]) + 0.1*rng.NormFloat64()
				want := must(modeltest.Observe(exact, x, y, 1))(t)
				got := must(modeltest.Observe(l, x, y, 1))(t)
				off, bound := math.Abs(got.Prediction-want.Prediction), mu*math.Sqrt(energy)/lambda
				worst = math.Max(worst, off)
				if round > 0 {
					used = math.Max(used, off/bound)
				}
				require.False(t, off > bound+1e-9, "seed %d, μ = %g, round %d: %g off, bound %g", seed, mu, round, off, bound)
				energy += y * y
			}
			m := l.Stats().Dictionary
			t.Logf("seed %d, μ = %g: %d of %d kept, at most %.2g off, %.2g of the bound", seed, mu, m, n, worst, used)
			assert.True(t, m != n || mu != 200, "seed %d, μ = %g: every point was kept", seed, mu)
		}
	}
}
