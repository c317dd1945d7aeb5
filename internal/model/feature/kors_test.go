package feature_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
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
