package kons

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// ExactOptions are the options of a learner in the space of a kernel.
type ExactOptions struct {
	// Options are without TrackRegret.
	Options
	Kernel    kernel.Kernel
	Dimension int
	// Gamma is γ in (0, 1], the smallest probability with which a round enters the matrix.
	Gamma float64
	// Epsilon and Beta are the parameters of KORS, which estimates leverages for γ < 1.
	Epsilon, Beta float64
	Capacity      int
	Seed          uint64
}

// KernelRange bounds ω k(x,x)/α. Predictions are differences of sums over α: at this bound
// their error is some 3e-5 of the largest.
const KernelRange = 1e8

// Exact takes online Newton steps in the whole space of a kernel: the reference. It
// keeps every input with its coefficient c_s, m = Σ c_s φ_s. J are the rounds in the
// matrix, d_s = √(ηω)ġ_s, LLᵀ = D_J K_JJ D_J + αI, and V = L⁻¹ D_J Φ_Jᵀ m, with αΩ for α:
//
//	v = L⁻¹ D_J k_J(x),  q = (k(x,x) − ‖v‖²)/α,  ȳ = (k·c − v·V)/α,  κ = (ȳ−ŷ)/q
//	c_t = −κ − ωġ + [t ∈ J] ηωġ²ŷ,  V ← V + c_t v
//	t ∈ J: L gets the row d·v with the corner ρ = √(d²k(x,x) + α − ‖d·v‖²),
//	       V the entry (d(k·c + k(x,x)c_t) − d·v·V)/ρ
//
// With γ = 1 every round with a slope is in J, and the steps are Newton's steps in the whole
// space. With γ < 1 it is Sketched-KONS: t is in J with the probability max(min(βτ̃, 1), γ), τ̃ from
// a KORS of its own on the rescaled kernel D K D with μ = α. A round costs t kernel values
// and |J|²/2 multiply-adds: Capacity bounds the observations.
//
// Source: KONS (ICML 2017), Algorithms 1 and 3; Lemmas 2 and 4, in which −1/η belongs
// outside as −1/√η and k_ii is the rescaled one.
type Exact struct {
	o     ExactOptions
	limit float64
	// inputs holds them one after another.
	inputs  []float64
	outputs []dual
	// draws draws from generator, whose state is part of the learner's.
	generator *rand.PCG
	draws     *rand.Rand
	pool      sync.Pool
}

type dual struct {
	account

	// coefficients are c_s, scales d_s: 0 for a round that is not in J.
	coefficients, scales []float64
	factor               *qr.Lower
	// right is V.
	right []float64
	// logDet is log det(A/α), the sum over the rows of L.
	logDet float64
	// sketch is nil unless γ < 1.
	sketch *sketch
}

// sketch is the KORS of an output, with the places of its rounds in the inputs and their d_s.
type sketch struct {
	sampler *feature.KORS
	places  []int
	scales  []float64
	values  []float64
}

// pcgStream separates the generator from others of the same seed.
const pcgStream = 0x6b6f6e73

// NewExact is a learner before its first observation. It panics if an option is out of range.
func NewExact(o ExactOptions) *Exact {
	o.Options = completed(o.Options)
	if o.Dimension < 1 || o.Capacity < 1 || !(o.Gamma > 0 && o.Gamma <= 1) || o.TrackRegret {
		panic(fmt.Sprintf("kons: options %+v", o))
	}
	e := &Exact{
		o: o, limit: feature.KernelInputLimit(o.Kernel, o.Dimension, KernelRange*o.Alpha),
		outputs: make([]dual, o.Outputs), generator: rand.NewPCG(o.Seed, pcgStream),
	}
	e.draws = rand.New(e.generator)
	for j := range e.outputs {
		e.outputs[j] = dual{account: newAccount(&e.o.Options), factor: &qr.Lower{}}
		if o.sketched() {
			e.outputs[j].sketch = &sketch{sampler: feature.NewKORS(o.Alpha, o.Epsilon, o.Beta)}
		}
	}
	return e
}

func (o *ExactOptions) sketched() bool { return o.Gamma < 1 }

// ExactCost is the cost of a full learner with all rounds in J and in KORS's dictionary.
func ExactCost(o ExactOptions) model.Cost {
	o.Outputs = max(o.Outputs, 1)
	t, k := o.Capacity, uint64(o.Outputs)
	kept := 0
	if o.sketched() {
		kept = t
	}
	round := uint64(t)*uint64(o.Dimension) + k*uint64(t)*uint64(t+4)/2
	return model.Cost{
		Features: t, StateBytes: o.bytes(t) + k*o.outputBytes(t, kept),
		PredictFlops: round, ObserveFlops: round + k*uint64(kept)*uint64(kept)/2,
	}
}

func (o *ExactOptions) bytes(t int) uint64 {
	return 8*uint64(t)*uint64(o.Dimension+2*o.Outputs) + uint64(o.Outputs*o.accountBytes())
}

func (o *ExactOptions) outputBytes(j, kept int) uint64 {
	return 8 * uint64(qr.LowerSize(j)+j+qr.LowerSize(kept)+4*kept)
}

// Remaining is the number of observations left until Capacity.
func (e *Exact) Remaining() int { return e.o.Capacity - e.rounds() }

func (e *Exact) rounds() int { return len(e.inputs) / e.o.Dimension }

// Check returns the error that Observe would return.
func (e *Exact) Check(x, y []float64, weight float64) error {
	if err := cmp.Or(e.checkFeatures(x), e.o.check(y, weight)); err != nil {
		return err
	}
	if e.Remaining() < 1 {
		return fmt.Errorf("kons holds max_observations = %d: %w", e.o.Capacity, model.ErrObservationLimit)
	}
	return nil
}

// Admit rejects an observation with weight k(x,x) > 1e8 αΩ: the ridge is lost in the
// rounding of its row. The first observation makes its weight Ω.
func (e *Exact) Admit(x []float64, weight float64) error {
	if e.rounds() == 0 {
		return nil
	}
	self, ridge := e.o.Kernel.At(x, x), e.outputs[0].ridge(&e.o.Options)
	if float64(weight*self) <= KernelRange*ridge {
		return nil
	}
	want := fmt.Sprintf("at most %g, %g alpha / k(x,x)", KernelRange*ridge/self, KernelRange)
	if unit := e.outputs[0].unit; unit != 1 {
		want = fmt.Sprintf("at most %g, %g alpha / k(x,x) times %g, a weight that was observed", KernelRange*ridge/self, KernelRange, unit)
	}
	return &model.FieldError{Field: "weight", Err: model.ErrWeightOutOfRange, Got: fmt.Sprint(weight), Want: want}
}

func (e *Exact) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, e.o.Dimension, e.limit)
}

// LossOf is the loss of a prediction under a label, without its weight.
func (e *Exact) LossOf(prediction, label float64) float64 { return e.o.Loss.Value(prediction, label) }

// values is the scratch of a round: k(x_s, x) of all inputs, and v.
type values struct{ kernels, solved []float64 }

// take lends the kernel values of an input, and room for v.
func (e *Exact) take(x []float64) *values {
	v, ok := e.pool.Get().(*values)
	if !ok {
		v = new(values)
	}
	t := e.rounds()
	v.kernels, v.solved = sized(v.kernels, t), sized(v.solved, t)
	for s := range v.kernels {
		v.kernels[s] = e.o.Kernel.At(e.input(s), x)
	}
	return v
}

type answer struct {
	// solved is v, fitted k·c.
	solved       []float64
	fitted, q, y float64
}

// solve writes v into room and answers q and ȳ.
func (d *dual) solve(room, kernels []float64, self, alpha float64) answer {
	a := answer{solved: room[:0], fitted: loops.Dot(d.coefficients, kernels)}
	for s, scale := range d.scales {
		if scale != 0 {
			a.solved = append(a.solved, float64(scale*kernels[s]))
		}
	}
	rest := self - d.factor.Solve(a.solved)
	if !(rest > 0) { // In exact arithmetic it is. NaN too.
		rest = 0
	}
	a.q = rest / alpha
	a.y = (a.fitted - loops.Dot(a.solved, d.right)) / alpha
	return a
}

// Predict answers ŷ, for a loss of classes the score, whose sign is the class. It costs t
// kernel values and |J|²/2 multiply-adds an output. There is no standard error. The
// leverage is the largest ηq/(1+ηq) of the outputs.
func (e *Exact) Predict(p *model.Prediction, x []float64) error {
	if err := e.checkFeatures(x); err != nil {
		return err
	}
	v := e.take(x)
	defer e.pool.Put(v)
	self := e.o.Kernel.At(x, x)
	p.Resize(len(e.outputs))
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	for j := range e.outputs {
		d := &e.outputs[j]
		a := d.solve(v.solved, v.kernels, self, d.ridge(&e.o.Options))
		p.Values[j] = e.o.middle() + clamp(a.y, d.clip)
		p.Leverage = e.o.leverage(p.Leverage, &d.account, a.q)
	}
	return nil
}

// Observe learns (x, y), at the cost of Predict and the memory of a row.
func (e *Exact) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := e.Check(x, y, weight); err != nil {
		return err
	}
	v := e.take(x)
	defer e.pool.Put(v)
	self := e.o.Kernel.At(x, x)
	o.Resize(len(e.outputs))
	o.Loss, o.Regret = 0, math.NaN()
	if e.rounds() == 0 {
		for j := range e.outputs {
			e.outputs[j].unit = weight
		}
	}
	for j := range e.outputs {
		d := &e.outputs[j]
		a := d.solve(v.solved, v.kernels, self, d.ridge(&e.o.Options))
		s := e.o.step(&d.account, a.y, a.q, y[j], weight)
		enters := s.slope != 0
		if enters && d.sketch != nil {
			enters = e.sample(d.sketch, v.kernels, self, s.slope/math.Sqrt(d.unit))
		}
		d.learn(&s, a, self, d.ridge(&e.o.Options), enters)
		o.Predictions[j] = e.o.middle() + s.predicted
		o.Loss += d.record(&e.o.Options, o.Predictions[j], y[j], weight)
	}
	e.inputs = append(e.inputs, x...)
	if e.outputs[0].startsWeightEpoch(weight) {
		for j := range e.outputs {
			e.raise(&e.outputs[j], weight)
		}
	}
	return nil
}

// panel is how many rows of L a pass over the rows before computes.
const panel = 16

// raise makes a weight Ω. It computes L and V again, at t²/2 kernel values and |J|³/6
// multiply-adds, at most 30 times in the life of a model. Capacity bounds its time: the ridge of
// a whole space has no cheaper update.
func (e *Exact) raise(d *dual, unit float64) {
	d.startWeightEpoch(&e.o.Options, unit, d.logDet)
	ridge := d.ridge(&e.o.Options)
	// fitted are Φᵀm, places J.
	t := e.rounds()
	fitted, places, room := make([]float64, t), make([]int, 0, len(d.right)), make([]float64, panel*t)
	d.factor.Clear()
	d.right, d.logDet = d.right[:0], 0
	rows, diagonals := make([][]float64, 0, panel), make([]float64, 0, panel)
	for s := range t {
		row := room[len(rows)*t:][:s+1]
		e.o.Kernel.Values(row, e.inputs[:len(row)*e.o.Dimension], e.input(s))
		fitted[s] += loops.Dot(d.coefficients[:s+1], row)
		loops.Axpy(fitted[:s], row[:s], d.coefficients[s])
		if scale := d.scales[s]; scale != 0 {
			diagonals = append(diagonals, float64(float64(scale*scale)*row[s])+ridge)
			for i, other := range places {
				row[i] = float64(float64(scale*d.scales[other]) * row[other])
			}
			rows, places = append(rows, row[:len(places)]), append(places, s)
		}
		if len(rows) == panel || s == t-1 {
			d.extend(rows, diagonals, ridge)
			rows, diagonals = rows[:0], diagonals[:0]
		}
	}
	for _, s := range places {
		d.right = append(d.right, float64(d.scales[s]*fitted[s]))
	}
	d.factor.Solve(d.right)
	d.base = d.logDet
}

// extend appends rows to L, given the entries of LLᵀ before the diagonal and on it. It
// overwrites the rows, which share a pass over L.
func (d *dual) extend(rows [][]float64, diagonals []float64, ridge float64) {
	order := d.factor.Order()
	for i := range order {
		factorRow := d.factor.Row(i)
		for _, row := range rows {
			row[i] = qr.Next(factorRow, row[:i], row[i])
		}
	}
	for k, row := range rows {
		for i := order; i < len(row); i++ {
			row[i] = qr.Next(d.factor.Row(i), row[:i], row[i])
		}
		rho := math.Sqrt(math.Max(diagonals[k]-loops.Dot(row, row), ridge))
		d.factor.Append(row, rho)
		d.logDet += 2 * exponential.Log(rho/math.Sqrt(ridge))
	}
}

func (e *Exact) input(s int) []float64 { return e.inputs[s*e.o.Dimension : (s+1)*e.o.Dimension] }

func (d *dual) learn(s *step, a answer, self, alpha float64, enters bool) {
	// √(ηω)ġ times √(ω/η) is ωġ, and times itself and ŷ the rest.
	c := -s.by - float64(s.slope*s.width)
	if enters {
		c += float64(float64(s.slope*s.slope) * s.predicted)
	}
	if !finite(c) {
		c, enters = 0, false
	}
	d.coefficients = append(d.coefficients, c)
	loops.Axpy(d.right, a.solved, c)
	if !enters {
		d.scales = append(d.scales, 0)
		return
	}
	d.scales = append(d.scales, s.slope)
	square, products := 0.0, 0.0
	for i, v := range a.solved {
		row := float64(s.slope * v)
		a.solved[i] = row
		square += float64(row * row)
		products += float64(row * d.right[i])
	}
	corner := float64(float64(s.slope*s.slope)*self) + alpha - square
	if !(corner > alpha) { // In exact arithmetic it is. NaN too.
		corner = alpha
	}
	rho := math.Sqrt(corner)
	value := float64(s.slope * (a.fitted + float64(self*c)))
	d.factor.Append(a.solved, rho)
	d.right = append(d.right, (value-products)/rho)
	d.logDet += 2 * exponential.Log(rho/math.Sqrt(alpha))
	excess := float64(float64(s.slope*s.slope) * a.q)
	d.Certificate.Add(s.certificate(excess / (1 + excess)))
}

// sample draws whether a round of the scale d joins KORS's dictionary and whether it enters
// the matrix, always both.
func (e *Exact) sample(k *sketch, kernels []float64, self, scale float64) (enters bool) {
	k.values = sized(k.values, len(k.places))
	for i, place := range k.places {
		k.values[i] = float64(float64(k.scales[i]*scale) * kernels[place])
	}
	p := k.sampler.Probability(k.values, float64(float64(scale*scale)*self))
	keeps := e.draws.Float64() < p
	enters = e.draws.Float64() < math.Max(p, e.o.Gamma)
	if keeps {
		k.sampler.Add(p)
		k.places, k.scales = append(k.places, e.rounds()), append(k.scales, scale)
	}
	return enters
}

// Stats costs the same for every t. A sketch has no bound.
func (e *Exact) Stats() model.Stats {
	total := started()
	for j := range e.outputs {
		d := &e.outputs[j]
		s := d.figures(&e.o.Options, d.logDet, !e.o.sketched())
		total.CertificateOK = total.CertificateOK && d.holds(&e.o.Options, s, false, 0)
		ledger.Sum(&total, s)
		if e.o.sketched() {
			total.Dictionary = max(total.Dictionary, d.factor.Order())
		}
	}
	total.Features, total.StateBytes = e.rounds(), e.Size()
	return finished(total)
}

// Size is the memory of the state.
func (e *Exact) Size() uint64 {
	size := e.o.bytes(e.rounds())
	for j := range e.outputs {
		kept := 0
		if k := e.outputs[j].sketch; k != nil {
			kept = len(k.places)
		}
		size += e.o.outputBytes(e.outputs[j].factor.Order(), kept)
	}
	return size
}

// Report adds to Stats, if asked, the largest effective dimension |J| − αΩ‖L⁻¹‖_F² of an
// output, at |J|³/6 multiply-adds each. The regret is NaN.
func (e *Exact) Report(o model.ReportOptions) model.Report {
	r := ledger.Report(e.Stats())
	if o.EffectiveDimension {
		r.EffectiveDimension = 0
		for j := range e.outputs {
			d := &e.outputs[j]
			r.EffectiveDimension = math.Max(r.EffectiveDimension, float64(d.factor.Order())-d.ridge(&e.o.Options)*d.factor.InverseNorm2(o.Pause))
		}
	}
	return r
}
