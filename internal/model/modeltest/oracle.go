// Package modeltest has the oracles of learners, naive dense solutions that are slow and
// obviously right, and one suite that every learner passes. Only tests import it.
package modeltest

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// AWV is the forecaster of the theory. It keeps every feature vector and solves a dense system
// for every answer.
type AWV struct {
	// Phi maps an input to its features.
	Phi func(x []float64) []float64
	// Features is the length of Phi(x).
	Features int
	Lambda   float64
	// Forgetting is f < 1, or 0: nothing is forgotten.
	Forgetting float64

	z [][]float64
	y []float64
	// discounts are f^(t−s), ridge is the diagonal of Λ_t, next the coordinate to renew next.
	discounts []float64
	ridge     []float64
	next      int
	// total is the undiscounted loss.
	total   float64
	loss    float64
	certify float64
	bound   float64
	// incurred is what rounds of weights of 2 or more added to the regret.
	incurred float64
}

// Round is the oracle's answer for one input.
type Round struct {
	// Prediction is ŷ = zᵀA_t⁻¹b_{t−1}, solved with A_t itself.
	Prediction float64
	// Q is zᵀA_{t−1}⁻¹z.
	Q float64
}

// Predict solves for one input of a weight.
func (o *AWV) Predict(x []float64, weight float64) Round {
	z := scaled(o.Phi(x), math.Sqrt(weight))
	before := o.matrix()
	before.ScaleSym(o.forgetting(), before)
	var solved mat.VecDense
	v := mat.NewVecDense(len(z), z)
	solve(before, &solved, v)
	after := o.matrix()
	after.ScaleSym(o.forgetting(), after)
	after.SymRankOne(after, 1, v)
	var w mat.VecDense
	b := o.right()
	b.ScaleVec(o.forgetting(), b)
	solve(after, &w, b)
	return Round{Prediction: mat.Dot(v, &w) / math.Sqrt(weight), Q: mat.Dot(v, &solved)}
}

// Observe learns, and returns the prequential prediction, whatever the weight, and its loss.
func (o *AWV) Observe(x []float64, y, weight float64) (prediction, loss float64) {
	r := o.Predict(x, 1)
	miss := y - r.Prediction
	loss = weight * miss * miss
	root, f := math.Sqrt(weight), o.forgetting()
	o.z = append(o.z, scaled(o.Phi(x), root))
	o.y = append(o.y, root*y)
	for s := range o.discounts {
		o.discounts[s] *= f
	}
	o.discounts = append(o.discounts, 1)
	o.renew()
	o.total += loss
	o.loss = f*o.loss + loss
	// The largest that ω(y−ŷ)² − ω(y−(1+q)ŷ)²/(1+ωq) may be for any ŷ.
	largest := weight * y * y * r.Q / (2 + r.Q - weight)
	if weight < 2 {
		o.bound = math.Max(o.bound, math.Abs(y)/math.Sqrt(2-weight))
	} else { // What it is.
		prior := y - (1+r.Q)*r.Prediction
		largest = math.Max(0, loss-weight*prior*prior/(1+weight*r.Q))
		o.incurred += largest
	}
	o.certify = f*o.certify + largest
	return r.Prediction, loss
}

func (o *AWV) forgetting() float64 {
	if o.Forgetting == 0 {
		return 1
	}
	return o.Forgetting
}

// renew is the ridge of a round: all of it discounted, then the next few
// coordinates raised to λ, as many as keep it above λ/1000.
func (o *AWV) renew() {
	if o.Forgetting == 0 {
		return
	}
	o.matrix() // Makes the ridge.
	for i := range o.ridge {
		o.ridge[i] *= o.Forgetting
	}
	n := 1
	for math.Pow(o.Forgetting, float64(o.Features)/float64(n)) < 1e-3 {
		n++
	}
	for range n {
		o.ridge[o.next] = o.Lambda
		o.next = (o.next + 1) % o.Features
	}
}

// Figures are what the theory says after the rounds so far. All but Total
// discount the past.
type Figures struct {
	Total                                 float64
	Loss, Hindsight, Regret, Unpenalized  float64
	Certificate, Bound, LogDet, Effective float64
}

// Figures solves for all figures.
func (o *AWV) Figures() Figures {
	a := o.matrix()
	var w mat.VecDense
	solve(a, &w, o.right())
	f := Figures{Total: o.total, Loss: o.loss, Certificate: o.certify}
	fit := 0.0
	for s, z := range o.z {
		miss := o.y[s] - mat.Dot(mat.NewVecDense(len(z), z), &w)
		fit += o.discounts[s] * miss * miss
	}
	f.Hindsight = fit
	for i, ridge := range o.ridge {
		f.Hindsight += ridge * w.AtVec(i) * w.AtVec(i)
	}
	f.Regret, f.Unpenalized = f.Loss-f.Hindsight, f.Loss-fit
	f.LogDet = logDet(a, o.Lambda)
	f.Effective = float64(o.Features) - traceInverse(a, o.ridge)
	f.Bound = o.bound*o.bound*f.LogDet + o.incurred
	return f
}

// spectrum gives log det(A/λ) and Tr (A−λI)A⁻¹ by the eigenvalues.
func spectrum(a *mat.SymDense, lambda float64) (logDeterminant, effective float64) {
	n, _ := a.Dims()
	ridge := make([]float64, n)
	for i := range ridge {
		ridge[i] = lambda
	}
	return logDet(a, lambda), float64(n) - traceInverse(a, ridge)
}

// logDet is log det(A/λ), by the eigenvalues.
func logDet(a *mat.SymDense, lambda float64) float64 {
	var eigen mat.EigenSym
	if !eigen.Factorize(a, false) {
		panic("modeltest: no eigenvalues")
	}
	sum := 0.0
	for _, v := range eigen.Values(nil) {
		sum += math.Log(v / lambda)
	}
	return sum
}

// traceInverse is Tr ΛA⁻¹, by solving for every column.
func traceInverse(a *mat.SymDense, diagonal []float64) float64 {
	trace := 0.0
	for i, v := range diagonal {
		unit := mat.NewVecDense(len(diagonal), nil)
		unit.SetVec(i, 1)
		var column mat.VecDense
		solve(a, &column, unit)
		trace += v * column.AtVec(i)
	}
	return trace
}

// Energy is Σy², to which rounding is relative.
func (o *AWV) Energy() float64 {
	e := 0.0
	for _, y := range o.y {
		e += y * y
	}
	return e
}

// matrix is A = Λ + Σ f^(t−s) zzᵀ.
func (o *AWV) matrix() *mat.SymDense {
	if o.ridge == nil {
		for range o.Features {
			o.ridge = append(o.ridge, o.Lambda)
		}
	}
	a := mat.NewSymDense(o.Features, nil)
	for i, v := range o.ridge {
		a.SetSym(i, i, v)
	}
	for s, z := range o.z {
		a.SymRankOne(a, o.discounts[s], mat.NewVecDense(len(z), z))
	}
	return a
}

// right is b = Σ f^(t−s) yz.
func (o *AWV) right() *mat.VecDense {
	b := mat.NewVecDense(o.Features, nil)
	for s, z := range o.z {
		b.AddScaledVec(b, o.discounts[s]*o.y[s], mat.NewVecDense(len(z), z))
	}
	return b
}

func solve(a *mat.SymDense, dst, b *mat.VecDense) {
	var c mat.Cholesky
	if !c.Factorize(a) {
		panic("modeltest: not positive definite")
	}
	if err := c.SolveVecTo(dst, b); err != nil {
		// Some tests are about ill-conditioned matrices.
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
