package awv

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/qr"
)

// Kernel is exact Kernel-AWV, the reference that the approximations converge to:
//
//	f̂_t = argmin_f Σ_{s<t}(y_s−f(x_s))² + λ‖f‖² + f(x_t)²,  ŷ_t = f̂_t(x_t)
//
// It keeps every input and the Cholesky factor L of K + λI, v = L⁻¹y. With c = L⁻¹k_t
// and s² = k(x,x) + λ − ‖c‖²,
//
//	p = c·v,  1+q = s²/λ,  ŷ = p/(1+q),  L* = λ‖v‖²
//
// and learning appends the row (c, s) to L and (y−p)/s to v. A round costs
// O(t²), so the number of observations is capped.
//
// Source: PKAWV, HAL 2019, eq. (3) and §2.
type Kernel struct {
	o     KernelOptions
	limit float64

	// inputs holds the inputs one after another, scales their √weight, fitted the rows of v.
	inputs, scales, fitted []float64
	gram                   *qr.Lower
	columns                []account
	figures                figures
	scratch                scratch
}

// figures are the sums over the rows of L and v that Stats needs. A row never changes.
type figures struct {
	// logDet is log det(A/λ).
	logDet float64
	// squares are ‖v‖² of each output.
	squares []compensated.Sum
}

func (f *figures) add(diagonal, lambda float64, fitted []float64) {
	f.logDet += 2 * math.Log(diagonal/math.Sqrt(lambda))
	for j, v := range fitted {
		f.squares[j].Add(float64(v * v))
	}
}

// KernelOptions are the options of exact Kernel-AWV.
type KernelOptions struct {
	Kernel    kernel.Kernel
	Dimension int
	// Lambda is the ridge λ > 0.
	Lambda float64
	// Outputs is the number of labels; 0 is 1.
	Outputs  int
	Capacity int
}

// KernelRange bounds k(x,x)/λ. Beyond it the Gram matrix rounds the ridge away.
const KernelRange = 1e12

// NewKernel is exact Kernel-AWV without observations. It panics if an option is out of range.
func NewKernel(o KernelOptions) *Kernel {
	if o.Dimension < 1 || !(o.Lambda > 0) || o.Capacity < 1 {
		panic("awv: NewKernel wants positive dimension, lambda and capacity")
	}
	o.Outputs = max(o.Outputs, 1)
	return &Kernel{
		o: o, gram: &qr.Lower{}, columns: make([]account, o.Outputs),
		figures: figures{squares: make([]compensated.Sum, o.Outputs)},
		limit:   feature.KernelInputLimit(o.Kernel, o.Dimension, KernelRange*o.Lambda),
	}
}

// KernelCost is the cost of a full Kernel.
func KernelCost(o KernelOptions) model.Cost {
	t := uint64(o.Capacity)
	round := t*t/2 + t*uint64(o.Dimension+o.Outputs)
	return model.Cost{Features: o.Capacity, StateBytes: o.bytes(o.Capacity), PredictFlops: round, ObserveFlops: round}
}

func (o KernelOptions) bytes(t int) uint64 {
	return 8 * uint64(qr.LowerSize(t)+t*(o.Dimension+max(o.Outputs, 1)+1))
}

// Remaining is the number of observations left until Capacity.
func (k *Kernel) Remaining() int { return k.o.Capacity - k.gram.Order() }

// Check returns the error that Observe would return.
func (k *Kernel) Check(x, y []float64, weight float64) error {
	if err := cmp.Or(k.checkFeatures(x), model.CheckLabels(y, k.o.Outputs), model.CheckWeight(weight)); err != nil {
		return err
	}
	if k.Remaining() < 1 {
		return fmt.Errorf("kernel_awv holds max_observations = %d: %w", k.o.Capacity, model.ErrObservationLimit)
	}
	return nil
}

// Admit rejects an observation with weight k(x,x) > 1e12 λ. Heavier rows round the
// ridge away, and their errors grow from row to row until nothing is finite.
func (k *Kernel) Admit(x []float64, weight float64) error {
	self := k.o.Kernel.At(x, x)
	if float64(weight*self) <= KernelRange*k.o.Lambda {
		return nil
	}
	return &model.FieldError{
		Field: "weight", Err: model.ErrWeightOutOfRange, Got: fmt.Sprint(weight),
		Want: fmt.Sprintf("at most %g, %g lambda / k(x,x)", KernelRange*k.o.Lambda/self, KernelRange),
	}
}

func (k *Kernel) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, k.o.Dimension, k.limit)
}

// solve writes c = L⁻¹k of an input of the given √weight into dst, c·v into p, and returns s².
func (k *Kernel) solve(dst, p, x []float64, scale float64) (square float64) {
	k.o.Kernel.Values(dst, k.inputs, x)
	for i, other := range k.scales {
		dst[i] *= scale * other
	}
	self := float64(scale * scale * k.o.Kernel.At(x, x))
	explained := k.gram.Solve(dst)
	clear(p)
	for i, c := range dst {
		for j, v := range k.fitted[i*len(p) : (i+1)*len(p)] {
			p[j] += float64(v * c)
		}
	}
	square = self - explained
	if !(square > 0) { // In exact arithmetic it is not below 0. NaN too.
		square = 0
	}
	return square + k.o.Lambda
}

// Predict answers ŷ = p λ/s². It costs t kernel values and t²/2 multiply-adds.
func (k *Kernel) Predict(p *model.Prediction, x []float64) error {
	if err := k.checkFeatures(x); err != nil {
		return err
	}
	buffer := k.scratch.take(k.gram.Order())
	defer k.scratch.give(buffer)
	p.Resize(k.o.Outputs)
	square := k.solve(*buffer, p.Values, x, 1)
	variance := square - k.o.Lambda // λq
	p.Leverage = variance / square
	for j := range p.Values {
		p.Values[j] *= k.o.Lambda / square
		p.StandardErrors[j] = k.columns[j].deviation(1) * math.Sqrt(variance/k.o.Lambda)
	}
	known(p, k.columns[0].Rounds)
	return nil
}

// Observe learns (x, y), at the cost of Predict and the memory of a row.
func (k *Kernel) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := k.Check(x, y, weight); err != nil {
		return err
	}
	root := math.Sqrt(weight)
	buffer := k.scratch.take(k.gram.Order())
	defer k.scratch.give(buffer)
	row := *buffer
	o.Resize(k.o.Outputs)
	square := k.solve(row, o.Predictions, x, root)
	diagonal := math.Sqrt(square)
	rotation := qr.Rotation{Gamma: math.Sqrt(k.o.Lambda / square), Leverage: (square - k.o.Lambda) / square}
	o.Loss, o.Regret = 0, 0
	for j := range k.columns {
		a, p := &k.columns[j], o.Predictions[j]
		label := float64(root * y[j])
		prediction, loss := a.add(y[j], p, float64(rotation.Gamma*(label-p)), weight, rotation)
		k.fitted = append(k.fitted, (label-p)/diagonal)
		o.Predictions[j] = prediction
		o.Loss += loss
		o.Regret += a.Regret.Value()
	}
	k.figures.add(diagonal, k.o.Lambda, k.fitted[len(k.fitted)-k.o.Outputs:])
	k.gram.Append(row, diagonal)
	k.inputs = append(k.inputs, x...)
	k.scales = append(k.scales, root)
	return nil
}

// Stats costs the same for every t.
func (k *Kernel) Stats() model.Stats {
	s := summarize(k.columns, k.figures.logDet, k.explained, true, 1)
	s.Features = k.gram.Order()
	s.StateBytes = k.Size()
	return s
}

// explained is Σy² − λ‖v‖² of an output, the ‖u‖² of a Forecaster.
func (k *Kernel) explained(column int) float64 {
	return k.columns[column].Energy.Value() - k.o.Lambda*k.figures.squares[column].Value()
}

// Size is the memory of the state.
func (k *Kernel) Size() uint64 { return k.o.bytes(k.gram.Order()) }

// Report adds to Stats the regret without the penalty, at t²/2 multiply-adds an output, and
// if asked the effective dimension, at t³/6.
func (k *Kernel) Report(o model.ReportOptions) model.Report {
	s := k.Stats()
	r := ledger.Report(s)
	r.RegretUnpenalized = k.regretUnpenalized()
	if o.RegretRKHS {
		r.RegretRKHS = s.Regret // The functions are the functions of the kernel's space.
	}
	if o.EffectiveDimension {
		r.EffectiveDimension = k.effectiveDimension()
	}
	return r
}

// regretUnpenalized is regret_λ + λ‖f̂‖², ‖f̂‖² = ‖v‖² − λ‖α‖² with α = L⁻ᵀv, summed over the
// outputs, at t²/2 multiply-adds each.
func (k *Kernel) regretUnpenalized() float64 {
	alpha := make([]float64, k.gram.Order())
	regret := 0.0
	for j := range k.columns {
		for i := range alpha {
			alpha[i] = k.fitted[i*k.o.Outputs+j]
		}
		k.gram.SolveTransposed(alpha)
		var norm compensated.Sum
		for i, a := range alpha {
			v := k.fitted[i*k.o.Outputs+j]
			norm.Add(float64(v * v))
			norm.Add(-float64(k.o.Lambda * float64(a*a)))
		}
		regret += k.columns[j].Regret.Value() + k.o.Lambda*norm.Value()
	}
	return regret
}

// effectiveDimension is Tr K(K+λI)⁻¹ = t − λ‖L⁻¹‖_F², at t³/6 multiply-adds.
func (k *Kernel) effectiveDimension() float64 {
	return float64(k.gram.Order()) - k.o.Lambda*k.gram.InverseNorm2(nil)
}

// Visit visits the accounts, the inputs, their scales, v and L.
func (k *Kernel) Visit(v *codec.Visitor) {
	for j := range k.columns {
		k.columns[j].visit(v, &k.columns[0])
	}
	t, d, outputs := k.gram.Order(), k.o.Dimension, k.o.Outputs
	if v.Count(&t, 8*(d+outputs+1)); v.Reading() {
		if t > k.o.Capacity || uint64(t) != k.columns[0].Rounds {
			v.Corrupt("%d observations, accounts of %d, want as many and at most %d", t, k.columns[0].Rounds, k.o.Capacity)
			return
		}
		k.inputs, k.scales, k.fitted = make([]float64, t*d), make([]float64, t), make([]float64, t*outputs)
	}
	v.FloatsWithin(k.limit, k.inputs)
	v.FloatsWithin(math.Sqrt(model.MaxWeight), k.scales)
	// λ‖v‖² is at most Σy², which is at most 1e214 for 20,000 observations.
	v.FloatsWithin(1e110/math.Sqrt(k.o.Lambda), k.fitted)
	if v.Reading() && t > 0 && slices.Min(k.scales) < math.Sqrt(model.MinWeight) {
		v.Corrupt("a root of a weight is %g", slices.Min(k.scales))
	}
	// The diagonal is at least √λ, and the length of a row √(w k(x,x) + λ).
	longest := math.Sqrt(math.Max(1, KernelRange*k.o.Lambda)*model.MaxWeight + k.o.Lambda)
	k.gram.Visit(v, t, math.Sqrt(k.o.Lambda)/2, 2*longest)
	if v.Reading() {
		for i := range t {
			k.figures.add(k.gram.Row(i)[i], k.o.Lambda, k.fitted[i*outputs:(i+1)*outputs])
		}
	}
}
