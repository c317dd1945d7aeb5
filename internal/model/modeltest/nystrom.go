package modeltest

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// KernelFigures are the figures of exact Kernel-AWV after the rounds so far.
type KernelFigures struct {
	// Hindsight is min_f Σ(y−f(x))² + λ‖f‖², Fit its first sum.
	Hindsight, Fit    float64
	LogDet, Effective float64
}

// Figures solves for all figures.
func (o *KernelAWV) Figures() KernelFigures {
	n := len(o.x)
	gram, y := o.gram(), mat.NewVecDense(n, o.y)
	var alpha, fitted mat.VecDense
	solve(gram, &alpha, y)
	var f KernelFigures
	for i := range n {
		gram.SetSym(i, i, gram.At(i, i)-o.Lambda)
	}
	fitted.MulVec(gram, &alpha)
	fitted.SubVec(y, &fitted)
	f.Fit = mat.Dot(&fitted, &fitted)
	f.Hindsight = f.Fit + o.Lambda*mat.Inner(&alpha, gram, &alpha)
	f.LogDet, f.Effective = spectrum(o.gram(), o.Lambda)
	return f
}

// Nystrom is PKAWV over a dictionary, by eq. (4) of the paper: the best function in the span
// of the centres, with the current input of label 0, solved from Gram matrices each round.
type Nystrom struct {
	Kernel  func(a, b []float64) float64
	Lambda  float64
	centres [][]float64
	x       [][]float64
	y, w    []float64
}

// Grow adds a centre.
func (o *Nystrom) Grow(x []float64) { o.centres = append(o.centres, append([]float64(nil), x...)) }

// fit returns the β of f = Σ β_j k(c_j, ·) that minimize Σ w(y−f(x))² + λ‖f‖²: least squares
// over √W K_xm and √λ Lᵀ, K_mm = LLᵀ, by Householder's QR, because the normal equations lose
// half the digits.
func (o *Nystrom) fit() *mat.VecDense {
	m, n := len(o.centres), len(o.x)
	stacked, y := mat.NewDense(n+m, m, nil), mat.NewVecDense(n+m, nil)
	for i, x := range o.x {
		root := math.Sqrt(o.w[i])
		for j, c := range o.centres {
			stacked.Set(i, j, root*o.Kernel(x, c))
		}
		y.SetVec(i, root*o.y[i])
	}
	gram := mat.NewSymDense(m, nil)
	for i, a := range o.centres {
		for j := range i + 1 {
			gram.SetSym(i, j, o.Kernel(a, o.centres[j]))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(gram) {
		panic("modeltest: the centres are not independent")
	}
	var upper mat.TriDense
	chol.UTo(&upper)
	for i := range m {
		for j := i; j < m; j++ {
			stacked.Set(n+i, j, math.Sqrt(o.Lambda)*upper.At(i, j))
		}
	}
	var factor mat.QR
	factor.Factorize(stacked)
	var beta mat.VecDense
	if err := factor.SolveVecTo(&beta, false, y); err != nil {
		var condition mat.Condition
		if !errors.As(err, &condition) {
			panic(err)
		}
	}
	return &beta
}

func (o *Nystrom) at(beta *mat.VecDense, x []float64) float64 {
	sum := 0.0
	for j, c := range o.centres {
		sum += beta.AtVec(j) * o.Kernel(c, x)
	}
	return sum
}

// Observe learns, and returns the prequential prediction, whatever label and weight.
func (o *Nystrom) Observe(x []float64, y, weight float64) (prediction float64) {
	o.x, o.y, o.w = append(o.x, append([]float64(nil), x...)), append(o.y, 0), append(o.w, 1)
	prediction = o.at(o.fit(), x)
	o.y[len(o.y)-1], o.w[len(o.w)-1] = y, weight
	return prediction
}

// Hindsight is the least Σ w(y−f(x))² + λ‖f‖² in the span of the centres.
func (o *Nystrom) Hindsight() float64 {
	beta, total := o.fit(), 0.0
	for i, x := range o.x {
		miss := o.y[i] - o.at(beta, x)
		total += o.w[i] * miss * miss
	}
	for i, a := range o.centres {
		for j, b := range o.centres {
			total += o.Lambda * beta.AtVec(i) * beta.AtVec(j) * o.Kernel(a, b)
		}
	}
	return total
}

// Energy is Σ w y².
func (o *Nystrom) Energy() float64 {
	e := 0.0
	for i, y := range o.y {
		e += o.w[i] * y * y
	}
	return e
}

// Alone is the hindsight loss if all labels so far were 0 and x had the label 1: 1/(1+q).
func (o *Nystrom) Alone(x []float64) float64 {
	other := *o
	other.x, other.w = append(append([][]float64(nil), o.x...), x), append(append([]float64(nil), o.w...), 1)
	other.y = make([]float64, len(other.x))
	other.y[len(o.x)] = 1
	return other.Hindsight()
}
