package feature

import (
	"math"

	"hindsight/internal/model/exponential"
)

// Taylor is the orthonormal basis of the Gaussian kernel's RKHS, truncated at
// a total degree M:
//
//	g_k(x) = exp(−‖x‖²/2σ²) Π_i (x_i/σ)^{k_i} / √(k_i!),  |k| ≤ M
//
// φ(x)·φ(x') is the kernel exp(−‖x−x'‖²/2σ²) with the exponential of x·x'/σ² cut after
// degree M. There are C(M+d, d) features, ordered by degree. Every monomial is built once,
// from its parent of one degree less.
//
// Source: PKAWV, HAL 2019, eq. (10).
type Taylor struct {
	shape

	sigma float64
	// spans[p] makes the children of feature p: one for each input first..d-1, in this order.
	// Monomials have their inputs in ascending order, first is the largest of the parent:
	// only the first child repeats an input.
	spans []span
}

type span struct {
	// first is the smallest input that a child may multiply by.
	first int
	// repeat is 1/√(k+1), k the parent's exponent of first.
	repeat float64
}

// NewTaylor is the basis for d inputs, bandwidth sigma and degree m, of TaylorSize
// features. It panics unless d ≥ 1, m ≥ 0 and sigma > 0.
func NewTaylor(d int, sigma float64, m int) *Taylor {
	if d < 1 || m < 0 || !(sigma > 0) {
		panic("feature: NewTaylor wants d >= 1, m >= 0 and sigma > 0")
	}
	t := &Taylor{shape: shape{dimension: d, size: 1, limit: math.MaxFloat64}, sigma: sigma} // Features are at most 1.
	type monomial struct{ largest, exponent int }
	level := []monomial{{0, 0}}
	for range m {
		var next []monomial
		for _, p := range level {
			t.spans = append(t.spans, span{first: p.largest, repeat: 1 / math.Sqrt(float64(p.exponent+1))})
			next = append(next, monomial{p.largest, p.exponent + 1})
			for i := p.largest + 1; i < d; i++ {
				next = append(next, monomial{i, 1})
			}
		}
		t.size += len(next)
		level = next
	}
	t.bytes = 16 * uint64(len(t.spans))
	return t
}

// TaylorSize is C(m+d, d), the number of features, or limit+1 above limit.
func TaylorSize(d, m, limit int) int {
	size := 1
	for j := 1; j <= m; j++ {
		// C(j+d, d) = C(j-1+d, d) (j+d)/j; exact, since each is an integer.
		if size > math.MaxInt/(j+d) {
			return limit + 1
		}
		if size = size * (j + d) / j; size > limit {
			return limit + 1
		}
	}
	return size
}

// LargestTaylorDegree is the largest m ≤ ceiling with C(m+d, d) ≤ limit.
func LargestTaylorDegree(d, limit, ceiling int) int {
	for m := range ceiling {
		if TaylorSize(d, m+1, limit) > limit {
			return m
		}
	}
	return ceiling
}

// TaylorError bounds the error of the truncated kernel for inputs of norm at
// most radius: |k(x,x') − φ(x)·φ(x')| ≤ (R/σ)^{2M+2}/(M+1)!.
//
// Source: PKAWV, HAL 2019, Lemma 4.4 and §4.1.
func TaylorError(radius, sigma float64, m int) float64 {
	lg, _ := math.Lgamma(float64(m + 2))
	return math.Exp(float64(2*m+2)*math.Log(radius/sigma) - lg)
}

// Self is k(x,x) of the whole kernel: 1.
func (t *Taylor) Self([]float64) float64 { return 1 }

// underflow is an E from which on exp(−E) is too near the denormals to multiply it.
const underflow = 700

// Map writes the features of x, of magnitude at most 1, into z, at one multiplication a
// feature. It allocates only if exp(−E) underflows.
func (t *Taylor) Map(z, x []float64) {
	if len(x) != t.dimension || len(z) != t.size {
		panic("feature: Taylor.Map wants dimension inputs and size features")
	}
	e := 0.0
	for _, v := range x {
		s := v / t.sigma
		e += float64(s * s)
	}
	e /= 2
	switch {
	case math.IsInf(e, 1):
		clear(z) // exp(−∞): further than any kernel reaches.
	case e > underflow:
		t.mapLog(z, x, e)
	default:
		z[0] = exponential.Of(-e)
		inverse, out := 1/t.sigma, z[1:]
		for p, s := range t.spans {
			parent := z[p] * inverse
			in := x[s.first:]
			for i, v := range in {
				out[i] = parent * v
			}
			out[0] *= s.repeat
			out = out[len(in):]
		}
	}
}

// mapLog is Map by logarithms: exp(−E) may underflow where its product with a monomial does not.
func (t *Taylor) mapLog(z, x []float64, e float64) {
	sign := make([]float64, t.size)
	z[0], sign[0] = -e, 1
	child := 1
	for p, s := range t.spans {
		for i := s.first; i < t.dimension; i++ {
			z[child] = z[p] + exponential.Log(math.Abs(x[i])/t.sigma)
			if i == s.first {
				z[child] += exponential.Log(s.repeat)
			}
			sign[child] = sign[p]
			if x[i] < 0 {
				sign[child] = -sign[child]
			}
			child++
		}
	}
	exponential.Exp(z, z)
	for i := range z {
		z[i] *= sign[i]
	}
}
