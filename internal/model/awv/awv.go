// Package awv is the Azoury-Warmuth-Vovk forecaster over a feature map: the
// learner behind every PKAWV model.
package awv

import (
	"fmt"
	"math"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/qr"
)

// Map is a feature map: x ∈ R^d to z ∈ R^r.
type Map interface {
	// Dimension is d.
	Dimension() int
	// Size is r.
	Size() int
	// InputLimit is the largest magnitude of an input entry.
	InputLimit() float64
	// Bytes is the memory that the map takes.
	Bytes() uint64
	// Map writes the features of x into z. The features are finite, and of
	// magnitude at most model.MaxMagnitude.
	Map(z, x []float64)
}

// Forecaster predicts, with z = φ(x) and A_t including the current input,
//
//	ŷ_t = z_tᵀ A_t⁻¹ b_{t−1} = (z_tᵀ A_{t−1}⁻¹ b_{t−1}) / (1 + q_t)
//
// The second form makes Predict a pure read: the paper's algorithm updates A
// inside its predict step; here Observe commits both A and b.
//
// Source: PKAWV, HAL 2019, Algorithm 1 and §3; the forecaster is Vovk's and
// Azoury and Warmuth's.
type Forecaster struct {
	features Map
	lambda   float64
	factor   *qr.Factor
	account  account
	// row is Observe's scratch: features, then the label; prior is where its
	// prediction goes.
	row     []float64
	prior   [1]float64
	scratch scratch
}

// New is a forecaster that has seen nothing. It panics unless lambda > 0.
func New(features Map, lambda float64) *Forecaster {
	r := features.Size()
	return &Forecaster{
		features: features, lambda: lambda,
		factor: qr.New(r, 1, lambda),
		row:    make([]float64, r+1),
	}
}

// scratch lends the numbers that Predict works on, which many callers do at
// once.
type scratch struct{ pool sync.Pool }

// take lends n numbers of any value.
func (s *scratch) take(n int) *[]float64 {
	buffer, ok := s.pool.Get().(*[]float64)
	if !ok {
		buffer = new([]float64)
	}
	if cap(*buffer) < n {
		// Room for a map that grows.
		*buffer = make([]float64, n, n+n/2)
	}
	*buffer = (*buffer)[:n]
	return buffer
}

func (s *scratch) give(buffer *[]float64) { s.pool.Put(buffer) }

// Cost is what a forecaster with r features over a map of so many bytes comes
// to.
func Cost(r int, mapBytes uint64) model.Cost {
	n := uint64(r)
	return model.Cost{
		Features:     r,
		StateBytes:   8*uint64(qr.Size(r, 1)) + 16*n + mapBytes,
		PredictFlops: n*(n+1)/2 + 3*n,
		ObserveFlops: 2*n*(n+1) + 5*n,
	}
}

// Check tells whether Observe would accept the observation.
func (f *Forecaster) Check(x []float64, y, weight float64) error {
	if err := f.checkFeatures(x); err != nil {
		return err
	}
	if err := model.CheckLabel(y); err != nil {
		return err
	}
	return model.CheckWeight(weight)
}

func (f *Forecaster) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, f.features.Dimension(), f.features.InputLimit())
}

// Predict answers ŷ = p/(1+q) by one forward solve. It reads the state and
// allocates nothing once its scratch is warm.
func (f *Forecaster) Predict(x []float64) (model.Prediction, error) {
	if err := f.checkFeatures(x); err != nil {
		return model.Prediction{}, err
	}
	r := f.factor.Order()
	buffer := f.scratch.take(r + 1)
	defer f.scratch.give(buffer)
	z, p := (*buffer)[:r], (*buffer)[r:]
	f.features.Map(z, x)
	q := f.factor.Solve(z, p)
	prediction := model.Prediction{
		Value:    p[0] / (1 + q),
		Leverage: q / (1 + q),
	}
	prediction.StandardError = f.account.deviation() * math.Sqrt(q)
	return prediction, nil
}

// Observe learns (x, y) by one rotation pass, which also yields the
// prequential prediction and the accounts. A weight w scales the row by √w.
// It allocates nothing.
func (f *Forecaster) Observe(x []float64, y, weight float64) (model.Outcome, error) {
	if err := f.Check(x, y, weight); err != nil {
		return model.Outcome{}, err
	}
	f.features.Map(f.row[:len(f.row)-1], x)
	return f.learn(y, weight), nil
}

// learn is Observe once the features stand in the row.
func (f *Forecaster) learn(y, weight float64) model.Outcome {
	r := len(f.row) - 1
	z := f.row[:r]
	scale := math.Sqrt(weight)
	if weight != 1 {
		for i := range z {
			z[i] *= scale
		}
	}
	label := float64(scale * y)
	f.row[r] = label
	rotation := f.factor.Rotate(f.row, f.prior[:])
	residual := f.row[r] // ε_t
	prediction, loss := f.account.add(label, f.prior[0], residual, rotation)
	return model.Outcome{
		Prediction: prediction / scale,
		Loss:       loss,
		Regret:     f.account.regret.Value(),
	}
}

// grow adds a feature, given its inner products with the features so far, its
// corner and right-hand side: see qr.Factor.Append. The space being larger,
// the best function in it is better: L* falls by the square of the new entry
// of u, and regret rises by it.
func (f *Forecaster) grow(a []float64, corner, b float64) {
	u := []float64{b}
	f.factor.Append(a, corner, u, f.lambda)
	gain := float64(u[0] * u[0])
	f.account.hindsight.Add(-gain)
	f.account.regret.Add(gain)
	f.row = append(f.row, 0)
}

// Stats tells how the forecaster is doing. It costs r logarithms.
func (f *Forecaster) Stats() model.Stats {
	return f.stats(true)
}

// stats leaves the theorem out of a forecaster whose space has grown.
func (f *Forecaster) stats(certified bool) model.Stats {
	s := f.account.stats(f.factor.LogDet(f.lambda), f.explained(), certified)
	s.Features = f.factor.Order()
	s.StateBytes = Cost(f.factor.Order(), f.features.Bytes()).StateBytes
	return s
}

// explained is ‖u‖² = Σy² − L*.
func (f *Forecaster) explained() float64 {
	var total compensated.Sum
	packed, r := f.factor.Packed(), f.factor.Order()
	at := -1
	for i := range r {
		at += r - i + 1 // Row i ends with u_i.
		total.Add(float64(packed[at] * packed[at]))
	}
	return total.Value()
}

// RegretUnpenalized is regret_λ + λ‖ĝ‖² with Rĝ = u, at r²/2 multiply-adds.
func (f *Forecaster) RegretUnpenalized() float64 {
	g := make([]float64, f.factor.Order())
	f.factor.Weights(g, 0)
	var norm compensated.Sum
	for _, v := range g {
		norm.Add(float64(v * v))
	}
	return f.account.regret.Value() + f.lambda*norm.Value()
}

// EffectiveDimension is Tr(C(C+λI)⁻¹) = r − λ‖R⁻¹‖_F², at r³/6
// multiply-adds.
func (f *Forecaster) EffectiveDimension() float64 {
	return float64(f.factor.Order()) - f.lambda*f.factor.InverseNorm2()
}

// AppendBinary appends the accounts and the packed factor to dst.
func (f *Forecaster) AppendBinary(dst []byte) ([]byte, error) {
	dst = f.account.appendBinary(dst)
	return codec.AppendFloats(dst, f.factor.Packed()...), nil
}

// stateBytes is what AppendBinary appends for r features.
func stateBytes(r int) int { return accountBytes + 8*qr.Size(r, 1) }

// Restore replaces the state by one that AppendBinary wrote for the same
// spec.
func (f *Forecaster) Restore(state []byte) error {
	reader := codec.NewReader(state)
	restored := readAccount(reader)
	r := f.factor.Order()
	packed := make([]float64, qr.Size(r, 1))
	reader.Floats(packed)
	if err := reader.End(); err != nil {
		return fmt.Errorf("awv: restore a factor of order %d: %w", r, err)
	}
	factor, err := qr.FromPacked(r, 1, packed)
	if err != nil {
		return fmt.Errorf("awv: restore: %w: %w", err, model.ErrCorruptState)
	}
	f.account, f.factor = restored, factor
	return nil
}
