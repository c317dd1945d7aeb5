// Package kernel holds reproducing kernels and, for the shift-invariant ones,
// their spectral densities.
package kernel

import (
	"math"

	"hindsight/internal/model/exponential"
	"hindsight/internal/model/trig"
	"hindsight/internal/model/ziggurat"
)

// Kind names a kernel, as the API does.
type Kind string

// The kernels, r being ‖x−x'‖.
const (
	// Gaussian is exp(−r²/2σ²).
	Gaussian Kind = "gaussian"
	// Laplacian is exp(−‖x−x'‖₁/σ).
	Laplacian Kind = "laplacian"
	// Matern12 is exp(−r/σ), the Matérn kernel with ν = 1/2.
	Matern12 Kind = "matern_12"
	// Matern32 is (1+√3r/σ) exp(−√3r/σ), ν = 3/2.
	Matern32 Kind = "matern_32"
	// Matern52 is (1+√5r/σ+5r²/3σ²) exp(−√5r/σ), ν = 5/2.
	Matern52 Kind = "matern_52"
	// Cauchy is Π 1/(1+(x_i−x'_i)²/σ²).
	Cauchy Kind = "cauchy"
	// RationalQuadratic is (1+r²/2ασ²)^−α.
	RationalQuadratic Kind = "rational_quadratic"
	// Polynomial is (x·x'+offset)^degree.
	Polynomial Kind = "polynomial"
	// Linear is x·x'.
	Linear Kind = "linear"
)

// Kernel is a kernel with its parameters. Parameters of other kinds are ignored.
type Kernel struct {
	Kind          Kind
	Sigma         float64
	Alpha, Offset float64
	Degree        int
}

// ShiftInvariant reports whether the kernel depends on x−x' alone, so that k(x,x) = 1.
func (k Kernel) ShiftInvariant() bool { return k.Kind != Polynomial && k.Kind != Linear }

// Radial reports whether the kernel has a spectral density that depends on ‖ω‖ alone, as
// orthogonal frequencies need.
func (k Kernel) Radial() bool {
	switch k.Kind {
	case Gaussian, Matern12, Matern32, Matern52:
		return true
	case Laplacian, Cauchy, RationalQuadratic, Polynomial, Linear:
	}
	return false
}

// Spectral reports whether Frequency can draw from the kernel's spectral density.
func (k Kernel) Spectral() bool { return k.Radial() || k.Kind == Laplacian || k.Kind == Cauchy }

// At is k(a, b), for vectors of equal length. It costs one pass over them.
func (k Kernel) At(a, b []float64) float64 {
	b = b[:len(a)]
	switch k.Kind {
	case Cauchy:
		product := 1.0
		for i, v := range a {
			d := (v - b[i]) / k.Sigma
			product *= 1 + float64(d*d)
		}
		return 1 / product
	case Polynomial:
		return power(dot(a, b)+k.Offset, k.Degree)
	case Linear:
		return dot(a, b)
	case Gaussian, Laplacian, Matern12, Matern32, Matern52, RationalQuadratic:
	}
	t := k.decay(a, b)
	return k.factor(t) * exponential.Of(-t)
}

// block is how many exponentials Values computes at a time.
const block = 32

// Values writes k(p_i, x) into dst, n numbers, for n points one after another, with the
// bits of At. It costs a pass over the points and allocates nothing. It panics if points has
// another length.
func (k Kernel) Values(dst, points, x []float64) {
	d := len(x)
	if len(points) != len(dst)*d {
		panic("kernel: Values wants as many points as numbers")
	}
	if k.Kind == Cauchy || !k.ShiftInvariant() {
		for i := range dst {
			dst[i] = k.At(points[i*d:(i+1)*d], x)
		}
		return
	}
	var decays [block]float64
	for len(dst) > 0 {
		n := min(block, len(dst))
		for i := range n {
			decays[i] = k.decay(points[i*d:(i+1)*d], x)
			dst[i] = -decays[i]
		}
		exponential.Exp(dst[:n], dst[:n])
		if k.Kind == Matern32 || k.Kind == Matern52 {
			for i := range n {
				dst[i] *= k.factor(decays[i])
			}
		}
		dst, points = dst[n:], points[n*d:]
	}
}

// far is a t with e^−t = 0.
const far = 1000

// decay is t ≥ 0, at most far, of a kernel that is factor(t) e^−t.
func (k Kernel) decay(a, b []float64) float64 {
	b = b[:len(a)]
	sum := 0.0
	if k.Kind == Laplacian {
		for i, v := range a {
			sum += math.Abs(v - b[i])
		}
		return min(sum/k.Sigma, far)
	}
	for i, v := range a {
		d := (v - b[i]) / k.Sigma
		sum += float64(d * d)
	}
	switch k.Kind {
	case Matern12:
		sum = math.Sqrt(sum)
	case Matern32:
		sum = math.Sqrt(3 * sum)
	case Matern52:
		sum = math.Sqrt(5 * sum)
	case RationalQuadratic:
		// The sum 1 + s/2α would lose the digits of s for a large α.
		sum = k.Alpha * exponential.Log1p(sum/(2*k.Alpha))
	case Gaussian, Laplacian, Cauchy, Polynomial, Linear:
		sum /= 2
	}
	return min(sum, far)
}

// factor is what e^−t is multiplied by.
func (k Kernel) factor(t float64) float64 {
	switch k.Kind {
	case Matern32:
		return 1 + t
	case Matern52:
		return 1 + t + float64(t*t)/3
	case Gaussian, Laplacian, Matern12, RationalQuadratic, Cauchy, Polynomial, Linear:
	}
	return 1
}

// power is x^n for n ≥ 0, by repeated squaring: the same bits on every target.
func power(x float64, n int) float64 {
	y := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			y *= x
		}
		x *= x
	}
	return y
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v * b[i])
	}
	return sum
}

// Frequency draws ω from the kernel's spectral density into dst, so that
// k(x,x') = E cos(ω·(x−x')). It panics unless Spectral.
//
//	Gaussian       normal, deviation 1/σ
//	Matérn ν       multivariate t with 2ν degrees of freedom, over σ
//	Laplacian      independent Cauchy of scale 1/σ
//	Cauchy         independent Laplace of scale 1/σ
//
// Source: Rahimi and Recht (NIPS 2007), Fig. 1; Matérn: Bochner's theorem.
func (k Kernel) Frequency(dst []float64, rng *ziggurat.Rand) {
	switch {
	case k.Kind == Laplacian:
		for i := range dst {
			dst[i] = rng.Float64() - 0.5
		}
		tangents(dst, k.Sigma)
	case k.Kind == Cauchy:
		for i := range dst {
			dst[i] = rng.Exponential() / k.Sigma
			if rng.Uint64()&1 == 1 {
				dst[i] = -dst[i]
			}
		}
	case k.Radial():
		scale := k.mixing(rng)
		for i := range dst {
			dst[i] = scale * rng.Normal()
		}
	default:
		panic("kernel: Frequency of a kernel without a spectral density")
	}
}

// tangents replaces every u by tan(πu)/σ.
func tangents(u []float64, sigma float64) {
	var angle, sine, cosine [1]float64
	for i, v := range u {
		angle[0] = math.Pi * v
		trig.Sincos(sine[:], cosine[:], angle[:])
		u[i] = sine[0] / cosine[0] / sigma
	}
}

// Radius draws the length of a frequency in d dimensions. It panics unless Radial.
func (k Kernel) Radius(d int, rng *ziggurat.Rand) float64 {
	if !k.Radial() {
		panic("kernel: Radius of a kernel that is not radial")
	}
	return k.mixing(rng) * chi(d, rng)
}

// mixing draws the scale of the normal distribution of a radial frequency.
func (k Kernel) mixing(rng *ziggurat.Rand) float64 {
	freedom := 0
	switch k.Kind {
	case Matern12:
		freedom = 1
	case Matern32:
		freedom = 3
	case Matern52:
		freedom = 5
	case Gaussian, Laplacian, Cauchy, RationalQuadratic, Polynomial, Linear:
	}
	if freedom == 0 {
		return 1 / k.Sigma
	}
	return math.Sqrt(float64(freedom)) / (k.Sigma * chi(freedom, rng))
}

func chi(d int, rng *ziggurat.Rand) float64 {
	sum := 0.0
	for range d {
		v := rng.Normal()
		sum += float64(v * v)
	}
	return math.Sqrt(sum)
}
