package feature_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/qr"
)

// kors is a dictionary that KORS samples, with what tests look at.
type kors struct {
	kernel  kernel.Kernel
	mu      float64
	sampler *feature.KORS
	space   *feature.Nystrom
	draws   *rand.Rand
	kept    [][]float64
}

func newKORS(k kernel.Kernel, mu, epsilon, beta float64, seed uint64) *kors {
	return &kors{
		kernel: k, mu: mu, sampler: feature.NewKORS(mu, epsilon, beta), space: feature.NewNystrom(k, 1, 1e12),
		draws: rand.New(rand.NewPCG(seed, 1)),
	}
}

// offer draws for a point and tells with which probability.
func (s *kors) offer(x []float64) float64 {
	values := make([]float64, s.space.Size())
	s.space.Kernels(values, x)
	p := s.sampler.Probability(values, s.kernel.At(x, x))
	if s.draws.Float64() < p && s.space.Grow(x) {
		s.sampler.Keep(p)
		s.kept = append(s.kept, x)
	}
	return p
}

// The probability is min(β τ̃, 1) with τ̃ as Algorithm 2 has it, solved densely
// over the dictionary with the new point in it at weight 1.
func TestKORSProbability_ICML_Alg2(t *testing.T) {
	for _, k := range []kernel.Kernel{{Kind: kernel.Gaussian, Sigma: 0.3}, {Kind: kernel.Matern12, Sigma: 1}, {Kind: kernel.Cauchy, Sigma: 0.5}} {
		for seed := range uint64(3) {
			const mu, epsilon, beta = 0.5, 0.4, 0.8
			s := newKORS(k, mu, epsilon, beta, seed)
			rng := source(seed)
			for n := range 60 {
				x := []float64{rng.Float64()}
				kept, probabilities := append([][]float64(nil), s.kept...), append([]float64(nil), s.sampler.Kept()...)
				got := s.offer(x)
				m := len(kept)
				points := append(append([][]float64(nil), kept...), x)
				scale := make([]float64, m+1)
				for i, p := range probabilities {
					scale[i] = 1 / math.Sqrt(p)
				}
				scale[m] = 1
				gram, right := mat.NewSymDense(m+1, nil), mat.NewVecDense(m+1, nil)
				for i := range points {
					for j := i; j <= m; j++ {
						gram.SetSym(i, j, scale[i]*scale[j]*k.At(points[i], points[j]))
					}
					gram.SetSym(i, i, gram.At(i, i)+mu)
					right.SetVec(i, scale[i]*k.At(points[i], x))
				}
				var chol mat.Cholesky
				if !chol.Factorize(gram) {
					t.Fatal("not positive definite")
				}
				var solved mat.VecDense
				if err := chol.SolveVecTo(&solved, right); err != nil {
					t.Fatal(err)
				}
				tau := (1 + epsilon) / mu * (k.At(x, x) - mat.Dot(right, &solved))
				if want := math.Min(beta*tau, 1); math.Abs(got-want) > 1e-9*want {
					t.Fatalf("%s, seed %d, point %d: probability %.15g, want %.15g", k.Kind, seed, n, got, want)
				}
			}
			if m := len(s.kept); m == 0 || m > 59 {
				t.Errorf("%s, seed %d: %d of 60 points kept", k.Kind, seed, m)
			}
		}
	}
}

// With β = 12 log(n/δ) the dictionary is accurate at every round,
// ‖(I−P_t)C_t^{1/2}‖² ≤ μ; the leverages that it is sampled by are between the
// true ones and (1+ε)/(1−ε) times them; and it holds at most
// 9 d_eff(μ) log(2n/δ)² points: Theorem 1 and Lemma 1 there, of which each
// fails with probability δ at most.
func TestKORSIsAccurateAndSmall_ICML_Thm1(t *testing.T) {
	const epsilon, delta = 0.5, 0.1
	n := 700
	if testing.Short() {
		n = 300
	}
	for _, c := range []struct {
		kernel kernel.Kernel
		mu     float64
		draw   func(rng *rand.Rand) float64
	}{
		{kernel.Kernel{Kind: kernel.Matern12, Sigma: 1}, 150, (*rand.Rand).Float64},
		{kernel.Kernel{Kind: kernel.Gaussian, Sigma: 0.2}, 100, (*rand.Rand).Float64},
		{kernel.Kernel{Kind: kernel.Matern32, Sigma: 2}, 100, (*rand.Rand).NormFloat64},
	} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s, seed %d", c.kernel.Kind, seed), func(t *testing.T) {
				t.Parallel()
				beta := feature.KORSBeta(float64(n), delta)
				s := newKORS(c.kernel, c.mu, epsilon, beta, seed)
				rng := source(100 + seed)
				var points [][]float64
				whole := &qr.Lower{} // Of K_t + μI.
				lowest, highest := math.Inf(1), 0.0
				for range n {
					x := []float64{c.draw(rng)}
					column := make([]float64, len(points))
					for i, y := range points {
						column[i] = c.kernel.At(x, y)
					}
					square := c.kernel.At(x, x) + c.mu - whole.Solve(column)
					leverage := 1 - c.mu/square
					whole.Append(column, math.Sqrt(square))
					points = append(points, x)
					if p := s.offer(x); p < 1 {
						lowest, highest = math.Min(lowest, p/beta/leverage), math.Max(highest, p/beta/leverage)
					}
					if m := len(points); m == n/4 || m == n/2 || m == n {
						if worst := residual(c.kernel, points, s.space); worst > c.mu {
							t.Errorf("after %d rounds ‖(I−P)C^½‖² = %g, μ = %g", m, worst, c.mu)
						}
					}
				}
				effective := float64(n) - c.mu*whole.InverseNorm2()
				bound := 9 * effective * math.Pow(math.Log(2*float64(n)/delta), 2)
				t.Logf("%d of %d points, d_eff %.2f, bound %.0f; leverages %.3f to %.3f times the true ones; residual %.3g of μ = %g",
					len(s.kept), n, effective, bound, lowest, highest, residual(c.kernel, points, s.space), c.mu)
				if float64(len(s.kept)) > bound || len(s.kept) == n {
					t.Errorf("%d points, the bound is %g", len(s.kept), bound)
				}
				// A point that is in the span of others to rounding cannot be kept,
				// whatever its leverage.
				if full := len(s.kept) < n/8; !full && (lowest < 1 || highest > (1+epsilon)/(1-epsilon)) {
					t.Errorf("leverages %g to %g times the true ones", lowest, highest)
				}
			})
		}
	}
}

// residual is the largest eigenvalue of (I−P)C(I−P), that of the Gram matrix
// less that of the projections, by power iteration.
func residual(k kernel.Kernel, points [][]float64, m *feature.Nystrom) float64 {
	n := len(points)
	gram := mat.NewSymDense(n, nil)
	for i, x := range points {
		for j := i; j < n; j++ {
			gram.SetSym(i, j, k.At(x, points[j]))
		}
	}
	projected := mat.NewDense(n, m.Size(), nil)
	for i, x := range points {
		m.Map(projected.RawRowView(i), x)
	}
	rng := source(5)
	v := mat.NewVecDense(n, nil)
	for i := range n {
		v.SetVec(i, rng.NormFloat64())
	}
	value := 0.0
	for range 60 {
		v.ScaleVec(1/mat.Norm(v, 2), v)
		var inside, next mat.VecDense
		inside.MulVec(projected.T(), v)
		next.MulVec(projected, &inside)
		var all mat.VecDense
		all.MulVec(gram, v)
		all.SubVec(&all, &next)
		value = mat.Dot(v, &all)
		if mat.Norm(&all, 2) == 0 {
			return 0
		}
		v.CopyVec(&all)
	}
	return value
}
