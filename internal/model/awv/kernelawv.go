package awv

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/qr"
)

// Kernel is exact Kernel-AWV, the reference that the approximations converge
// to:
//
//	f̂_t = argmin_f Σ_{s<t}(y_s−f(x_s))² + λ‖f‖² + f(x_t)²,  ŷ_t = f̂_t(x_t)
//
// It keeps every input and the Cholesky factor L of K + λI with v = L⁻¹y.
// With c = L⁻¹k_t and s² = k(x,x) + λ − ‖c‖²,
//
//	p = c·v,  1+q = s²/λ,  ŷ = p/(1+q),  L* = λ‖v‖²
//
// and learning appends the row (c, s) to L and (y−p)/s to v. A round costs
// O(t²), so the number of observations is capped.
//
// Source: PKAWV, HAL 2019, eq. (3) and §2.
type Kernel struct {
	kernel    kernel.Kernel
	dimension int
	lambda    float64
	capacity  int

	// inputs holds them one after another, scales their √weight.
	inputs, scales []float64
	limit          float64
	gram           *qr.Lower
	fitted         []float64
	account        account
	scratch        scratch
}

// KernelRange is how many times the ridge k(x,x) may be: beyond it the ridge
// drowns in the rounding of the Gram matrix.
const KernelRange = 1e12

// NewKernel is exact Kernel-AWV that has seen nothing. It panics unless
// dimension, lambda and capacity are positive.
func NewKernel(k kernel.Kernel, dimension int, lambda float64, capacity int) *Kernel {
	if dimension < 1 || !(lambda > 0) || capacity < 1 {
		panic("awv: NewKernel wants positive dimension, lambda and capacity")
	}
	return &Kernel{
		kernel: k, dimension: dimension, lambda: lambda, capacity: capacity, gram: &qr.Lower{},
		limit: feature.KernelInputLimit(k, dimension, KernelRange*lambda),
	}
}

// KernelCost is what exact Kernel-AWV comes to when it is full.
func KernelCost(dimension, capacity int) model.Cost {
	t := uint64(capacity)
	return model.Cost{
		Features: capacity, StateBytes: kernelBytes(capacity, dimension),
		PredictFlops: t*t/2 + t*uint64(dimension), ObserveFlops: t*t/2 + t*uint64(dimension),
	}
}

func kernelBytes(t, dimension int) uint64 {
	return 8 * uint64(qr.LowerSize(t)+t*(dimension+2))
}

// Remaining is how many more observations there is room for.
func (k *Kernel) Remaining() int { return k.capacity - k.gram.Order() }

// Check tells whether Observe would accept the observation.
func (k *Kernel) Check(x []float64, y, weight float64) error {
	if err := k.checkFeatures(x); err != nil {
		return err
	}
	if err := model.CheckLabel(y); err != nil {
		return err
	}
	if err := model.CheckWeight(weight); err != nil {
		return err
	}
	if k.Remaining() < 1 {
		return fmt.Errorf("kernel_awv holds max_observations = %d: %w", k.capacity, model.ErrObservationLimit)
	}
	return nil
}

func (k *Kernel) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, k.dimension, k.limit)
}

// solve writes c = L⁻¹k for an input of the given √weight into dst, and
// answers p = c·v and s².
func (k *Kernel) solve(dst, x []float64, scale float64) (p, square float64) {
	for i := range dst {
		value := k.kernel.At(k.inputs[i*k.dimension:(i+1)*k.dimension], x)
		dst[i] = float64(scale * k.scales[i] * value)
	}
	self := float64(scale * scale * k.kernel.At(x, x))
	explained := k.gram.Solve(dst)
	for i, v := range k.fitted {
		p += float64(v * dst[i])
	}
	// In exact arithmetic at least λ.
	return p, math.Max(self-explained, 0) + k.lambda
}

// Predict answers ŷ = p λ/s². It costs t kernel values and t²/2 multiply-adds.
func (k *Kernel) Predict(x []float64) (model.Prediction, error) {
	if err := k.checkFeatures(x); err != nil {
		return model.Prediction{}, err
	}
	buffer := k.scratch.take(k.gram.Order())
	defer k.scratch.give(buffer)
	p, square := k.solve(*buffer, x, 1)
	variance := square - k.lambda // λq
	return model.Prediction{
		Value:         p * (k.lambda / square),
		Leverage:      variance / square,
		StandardError: k.account.deviation() * math.Sqrt(variance/k.lambda),
	}, nil
}

// Observe learns (x, y), at the cost of Predict and the memory of a row.
func (k *Kernel) Observe(x []float64, y, weight float64) (model.Outcome, error) {
	if err := k.Check(x, y, weight); err != nil {
		return model.Outcome{}, err
	}
	scale := math.Sqrt(weight)
	buffer := k.scratch.take(k.gram.Order())
	defer k.scratch.give(buffer)
	row := *buffer
	p, square := k.solve(row, x, scale)
	label := float64(scale * y)
	rotation := qr.Rotation{Gamma: math.Sqrt(k.lambda / square), Leverage: (square - k.lambda) / square}
	prediction, loss := k.account.add(label, p, float64(rotation.Gamma*(label-p)), rotation)
	diagonal := math.Sqrt(square)
	k.gram.Append(row, diagonal)
	k.fitted = append(k.fitted, (label-p)/diagonal)
	k.inputs = append(k.inputs, x...)
	k.scales = append(k.scales, scale)
	return model.Outcome{Prediction: prediction / scale, Loss: loss, Regret: k.account.regret.Value()}, nil
}

// Stats tells how the learner is doing. It costs t logarithms.
func (k *Kernel) Stats() model.Stats {
	logDet := 0.0
	for i := range k.gram.Order() {
		row := k.gram.Row(i)
		logDet += 2 * math.Log(row[i]/math.Sqrt(k.lambda))
	}
	var norm compensated.Sum
	for _, v := range k.fitted {
		norm.Add(float64(v * v))
	}
	s := k.account.stats(logDet, k.account.energy.Value()-k.lambda*norm.Value(), true)
	s.Features = k.gram.Order()
	s.StateBytes = kernelBytes(k.gram.Order(), k.dimension)
	return s
}

// RegretUnpenalized is regret_λ + λ‖f̂‖², ‖f̂‖² = ‖v‖² − λ‖α‖² with
// α = L⁻ᵀv, at t²/2 multiply-adds.
func (k *Kernel) RegretUnpenalized() float64 {
	alpha := append([]float64(nil), k.fitted...)
	k.gram.SolveTransposed(alpha)
	var norm compensated.Sum
	for i, v := range k.fitted {
		norm.Add(float64(v * v))
		norm.Add(-float64(k.lambda * float64(alpha[i]*alpha[i])))
	}
	return k.account.regret.Value() + k.lambda*norm.Value()
}

// EffectiveDimension is Tr K(K+λI)⁻¹ = t − λ‖L⁻¹‖_F², at t³/6 multiply-adds.
func (k *Kernel) EffectiveDimension() float64 {
	return float64(k.gram.Order()) - k.lambda*k.gram.InverseNorm2()
}

// AppendBinary appends the accounts, the inputs, their scales, v and L to dst.
func (k *Kernel) AppendBinary(dst []byte) ([]byte, error) {
	dst = k.account.appendBinary(dst)
	dst = codec.AppendUint64(dst, uint64(k.gram.Order()))
	for _, values := range [][]float64{k.inputs, k.scales, k.fitted, k.gram.Packed()} {
		dst = codec.AppendFloats(dst, values...)
	}
	return dst, nil
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec.
func (k *Kernel) Restore(state []byte) error {
	reader := codec.NewReader(state)
	restored := readAccount(reader)
	t, err := readCount(reader, 8*(k.dimension+2))
	if err != nil {
		return fmt.Errorf("awv: restore kernel_awv: %w", err)
	}
	if t > k.capacity {
		return fmt.Errorf("awv: restore kernel_awv: %d observations, at most %d: %w", t, k.capacity, model.ErrCorruptState)
	}
	inputs, scales, fitted := make([]float64, t*k.dimension), make([]float64, t), make([]float64, t)
	for _, values := range [][]float64{inputs, scales, fitted} {
		reader.Floats(values)
	}
	if reader.Len() != 8*qr.LowerSize(t) {
		return fmt.Errorf("awv: restore kernel_awv: %d bytes of factor, want %d: %w", reader.Len(), 8*qr.LowerSize(t), model.ErrCorruptState)
	}
	packed := make([]float64, qr.LowerSize(t))
	reader.Floats(packed)
	if err := reader.End(); err != nil {
		return fmt.Errorf("awv: restore kernel_awv: %w", err)
	}
	gram, err := qr.LowerFromPacked(t, packed)
	if err != nil {
		return fmt.Errorf("awv: restore kernel_awv: %w: %w", err, model.ErrCorruptState)
	}
	k.account, k.inputs, k.scales, k.fitted, k.gram = restored, inputs, scales, fitted, gram
	return nil
}

// readCount reads how many items of at least size bytes follow, and refuses a
// count that the rest cannot hold.
func readCount(r *codec.Reader, size int) (int, error) {
	n := r.Uint64()
	if err := r.Err(); err != nil {
		return 0, err //nolint:wrapcheck // The caller says what was being read.
	}
	if n > uint64(r.Len()/size) {
		return 0, fmt.Errorf("%d items in %d bytes: %w", n, r.Len(), model.ErrCorruptState)
	}
	return int(n), nil
}
