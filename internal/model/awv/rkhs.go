package awv

import (
	"math"

	"hindsight/internal/model/compensated"
)

// addTrace adds ωk(x,x) of a learned input to the trace of the kernel matrix.
func (f *Forecaster) addTrace(x []float64, weight float64) {
	if f.approximation != nil && f.renewal == nil {
		f.trace.Add(float64(weight * f.approximation.Self(x)))
	}
}

// kernelError is the trace r of W^½(K − K̃)W^½, K̃ the matrix of the features as they were
// computed, W the weights, and more by what rounding may have taken. It costs r²/2 multiply-adds.
//
//	Tr W^½K̃W^½ = Tr(A − λI) = ‖R‖_F² − λr
func (f *Forecaster) kernelError() float64 {
	order := f.factor.Order()
	ridges := float64(f.o.Lambda * float64(order))
	var left compensated.Sum
	left.Add(f.trace.Value())
	left.Add(ridges)
	for i := range order {
		left.Add(-f.factor.RowNorm2(i))
	}
	rounding := float64(0x1p-52 * float64(float64(f.columns[0].Rounds)+float64(order)) * (f.trace.Value() + ridges))
	return math.Max(0, left.Value()) + rounding
}

// hindsightRKHS is at most L*_H, the smallest Σω(y−f(x))² + λ‖f‖² over all functions f of the
// kernel's space. It is NaN unless the features approximate a kernel and forget nothing.
//
// If the features are projections of the kernel's features, 0 ⪯ K − K̃ ⪯ rI, and
//
//	L*_H = λyᵀ(K+λI)⁻¹y ≥ λyᵀ(K̃+(λ+r)I)⁻¹y = λ/(λ+r) L*_{λ+r}
//
// where L*_{λ+r} has the ridge λ+r. It is solved by a row √r e_i of label 0 a feature, at 2r³/3
// multiply-adds. If each round has a projection of its own, the part of f·φ(x_t) that the
// features miss is f·e_t, with Σω(f·e_t)² ≤ r‖f‖² for the r of the trace. For every c > r/λ
//
//	L*_H ≥ min_w Σω(y−w·z)²/(1+c) + (λ − r/c)‖w‖²,
//
// by (a−b)² ≥ a²/(1+c) − b²/c, and this is L*/(1+c) where c² − c r/λ − r/λ = 0.
//
// Source: PKAWV, HAL 2019, Theorem 3.1, whose ‖(I−P)C^½‖² is ‖K − K̃‖.
func (f *Forecaster) hindsightRKHS(projected bool) float64 {
	if f.approximation == nil || f.renewal != nil {
		return math.NaN()
	}
	var hindsight compensated.Sum
	for j := range f.columns {
		hindsight.Add(f.columns[j].Hindsight.Value())
	}
	r := f.kernelError()
	if !projected {
		ratio := r / f.o.Lambda
		c := (ratio + math.Sqrt(float64(ratio*ratio)+float64(4*ratio))) / 2
		return math.Max(0, hindsight.Value()) / (1 + c)
	}
	factor, order := f.factor.Clone(), f.factor.Order()
	row, priors := make([]float64, len(f.row)), make([]float64, len(f.priors))
	for i := range order {
		clear(row)
		row[i] = math.Sqrt(r)
		factor.Rotate(row, priors)
		for _, residual := range row[order:] {
			hindsight.Add(float64(residual * residual))
		}
	}
	return math.Max(0, hindsight.Value()) * (f.o.Lambda / (f.o.Lambda + r))
}
