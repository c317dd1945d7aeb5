// Package modeltest holds what learners are tested against: naive dense
// oracles that are slow and obviously right, and one suite that every learner
// passes. Only tests import it.
package modeltest

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// AWV is the forecaster of the theory, computed naively: it keeps every
// feature vector and solves dense systems anew at every question.
type AWV struct {
	// Phi maps an input to its features.
	Phi func(x []float64) []float64
	// Features is how many there are.
	Features int
	Lambda   float64

	z       [][]float64
	y       []float64
	loss    float64
	certify float64
	bound   float64
}

// Round is what the oracle says of one input.
type Round struct {
	// Prediction is ŷ = zᵀA_t⁻¹b_{t−1}, solved with A_t itself.
	Prediction float64
	// Q is zᵀA_{t−1}⁻¹z.
	Q float64
}

// Predict solves for one input, with a weight as Observe would give it.
func (o *AWV) Predict(x []float64, weight float64) Round {
	z := scaled(o.Phi(x), math.Sqrt(weight))
	before := o.matrix()
	var solved mat.VecDense
	v := mat.NewVecDense(len(z), z)
	solve(before, &solved, v)
	after := o.matrix()
	after.SymRankOne(after, 1, v)
	var w mat.VecDense
	solve(after, &w, o.right())
	return Round{Prediction: mat.Dot(v, &w) / math.Sqrt(weight), Q: mat.Dot(v, &solved)}
}

// Observe learns, and answers the prequential prediction and its loss.
func (o *AWV) Observe(x []float64, y, weight float64) (prediction, loss float64) {
	r := o.Predict(x, weight)
	miss := y - r.Prediction
	loss = weight * miss * miss
	root := math.Sqrt(weight)
	o.z = append(o.z, scaled(o.Phi(x), root))
	o.y = append(o.y, root*y)
	o.loss += loss
	o.certify += weight * y * y * r.Q / (1 + r.Q)
	o.bound = math.Max(o.bound, math.Abs(root*y))
	return r.Prediction, loss
}

// Figures are what the theory says after the rounds so far.
type Figures struct {
	Loss, Hindsight, Regret, Unpenalized  float64
	Certificate, Bound, LogDet, Effective float64
}

// Figures solves for everything anew.
func (o *AWV) Figures() Figures {
	a := o.matrix()
	var w mat.VecDense
	solve(a, &w, o.right())
	f := Figures{Loss: o.loss, Certificate: o.certify}
	fit := 0.0
	for s, z := range o.z {
		miss := o.y[s] - mat.Dot(mat.NewVecDense(len(z), z), &w)
		fit += miss * miss
	}
	f.Hindsight = fit + o.Lambda*mat.Dot(&w, &w)
	f.Regret, f.Unpenalized = f.Loss-f.Hindsight, f.Loss-fit
	f.LogDet, f.Effective = spectrum(a, o.Lambda)
	f.Bound = o.bound * o.bound * f.LogDet
	return f
}

// spectrum gives log det(A/λ) and Tr (A−λI)A⁻¹ by the eigenvalues.
func spectrum(a *mat.SymDense, lambda float64) (logDet, effective float64) {
	var eigen mat.EigenSym
	if !eigen.Factorize(a, false) {
		panic("modeltest: no eigenvalues")
	}
	for _, v := range eigen.Values(nil) {
		logDet += math.Log(v / lambda)
		effective += (v - lambda) / v
	}
	return logDet, effective
}

// Energy is Σy², to which rounding is relative.
func (o *AWV) Energy() float64 {
	e := 0.0
	for _, y := range o.y {
		e += y * y
	}
	return e
}

// matrix is A = λI + Σzzᵀ.
func (o *AWV) matrix() *mat.SymDense {
	a := mat.NewSymDense(o.Features, nil)
	for i := range o.Features {
		a.SetSym(i, i, o.Lambda)
	}
	for _, z := range o.z {
		a.SymRankOne(a, 1, mat.NewVecDense(len(z), z))
	}
	return a
}

// right is b = Σyz.
func (o *AWV) right() *mat.VecDense {
	b := mat.NewVecDense(o.Features, nil)
	for s, z := range o.z {
		b.AddScaledVec(b, o.y[s], mat.NewVecDense(len(z), z))
	}
	return b
}

func solve(a *mat.SymDense, dst, b *mat.VecDense) {
	var c mat.Cholesky
	if !c.Factorize(a) {
		panic("modeltest: not positive definite")
	}
	if err := c.SolveVecTo(dst, b); err != nil {
		// Only ill-conditioned, which is what some tests are about.
		var condition mat.Condition
		if !errors.As(err, &condition) {
			panic(err)
		}
	}
}

func scaled(z []float64, by float64) []float64 {
	out := make([]float64, len(z))
	for i, v := range z {
		out[i] = by * v
	}
	return out
}

// TaylorFeatures is eq. (10) of PKAWV (HAL 2019) as it is written: every
// multi-index |k| ≤ M by enumeration, every factor by powers and factorials.
func TaylorFeatures(d int, sigma float64, degree int) func(x []float64) []float64 {
	var indices [][]int
	index := make([]int, d)
	var enumerate func(i, left int)
	enumerate = func(i, left int) {
		if i == d {
			indices = append(indices, append([]int(nil), index...))
			return
		}
		for k := 0; k <= left; k++ {
			index[i] = k
			enumerate(i+1, left-k)
		}
		index[i] = 0
	}
	enumerate(0, degree)
	return func(x []float64) []float64 {
		z := make([]float64, len(indices))
		for n, k := range indices {
			z[n] = 1
			for i, v := range x {
				z[n] *= math.Pow(v/sigma, float64(k[i])) / math.Sqrt(math.Gamma(float64(k[i]+1))) * math.Exp(-v*v/(2*sigma*sigma))
			}
		}
		return z
	}
}

// AffineFeatures is (x, 1).
func AffineFeatures(x []float64) []float64 { return append(append([]float64(nil), x...), 1) }

// KernelAWV is exact Kernel-AWV: α = (K_t + λI)⁻¹ (y_1 … y_{t−1}, 0)ᵀ and
// ŷ_t = k_tᵀα, solved anew each round.
type KernelAWV struct {
	Kernel func(a, b []float64) float64
	Lambda float64
	x      [][]float64
	y      []float64
}

// Observe answers the prequential prediction and learns.
func (o *KernelAWV) Observe(x []float64, y float64) (prediction float64) {
	o.x = append(o.x, append([]float64(nil), x...))
	n := len(o.x)
	k := mat.NewVecDense(n, nil)
	for i := range n {
		k.SetVec(i, o.Kernel(o.x[i], x))
	}
	var alpha mat.VecDense
	solve(o.gram(), &alpha, mat.NewVecDense(n, append(append([]float64(nil), o.y...), 0)))
	o.y = append(o.y, y)
	return mat.Dot(k, &alpha)
}

// gram is K + λI.
func (o *KernelAWV) gram() *mat.SymDense {
	n := len(o.x)
	gram := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			gram.SetSym(i, j, o.Kernel(o.x[i], o.x[j]))
		}
		gram.SetSym(i, i, gram.At(i, i)+o.Lambda)
	}
	return gram
}

// Gaussian is the kernel exp(−‖x−x'‖²/2σ²).
func Gaussian(sigma float64) func(a, b []float64) float64 {
	return func(a, b []float64) float64 {
		sum := 0.0
		for i := range a {
			sum += (a[i] - b[i]) * (a[i] - b[i])
		}
		return math.Exp(-sum / (2 * sigma * sigma))
	}
}
