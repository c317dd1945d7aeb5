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
	"hindsight/internal/model/feature"
	"hindsight/internal/model/qr"
)

// approximation is a Map of features of a kernel that are cut short: what a
// kernel has at x, k(x,x), is more than ‖φ(x)‖².
type approximation interface {
	// Self is k(x,x).
	Self(x []float64) float64
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
	features feature.Map
	// approximation is features, nil unless they are those of a kernel cut short.
	approximation approximation
	o             Options
	factor        *qr.Factor
	columns       []account
	// renewal is nil unless the forecaster forgets.
	renewal *renewal
	// row is Observe's scratch: features, then the labels; priors is where
	// its predictions go.
	row     []float64
	priors  []float64
	scratch scratch
}

// Options of a forecaster.
type Options struct {
	// Lambda is the ridge λ > 0.
	Lambda float64
	// Outputs is k, the number of labels, which share one factor; 0 is 1.
	Outputs int
	// Forgetting is f in (0, 1]: the past counts f times as much each round.
	// 0 is 1, nothing is forgotten. Below 1 no guarantee is stated, and no
	// certificate is given.
	Forgetting float64
}

func (o Options) completed() Options {
	o.Outputs = max(o.Outputs, 1)
	if o.Forgetting == 0 {
		o.Forgetting = 1
	}
	return o
}

// New is a forecaster that has seen nothing. It panics unless the options are
// in their ranges.
func New(features feature.Map, o Options) *Forecaster {
	o = o.completed()
	if !(o.Forgetting > 0 && o.Forgetting <= 1) {
		panic(fmt.Sprintf("awv: a forgetting factor of %g", o.Forgetting))
	}
	r := features.Size()
	f := &Forecaster{
		features: features, o: o,
		factor:  qr.New(r, o.Outputs, o.Lambda),
		columns: make([]account, o.Outputs),
		row:     make([]float64, r+o.Outputs),
		priors:  make([]float64, o.Outputs),
	}
	f.approximation, _ = features.(approximation)
	if o.Forgetting < 1 {
		f.renewal = newRenewal(r, o)
	}
	return f
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

// Cost is the cost of a forecaster with r features over a map of mapBytes.
func Cost(r int, o Options, mapBytes uint64) model.Cost {
	o = o.completed()
	n, k := uint64(r), uint64(o.Outputs)
	c := model.Cost{
		Features:     r,
		StateBytes:   8*uint64(qr.Size(r, o.Outputs)) + 8*(3+k)*n + mapBytes,
		PredictFlops: n*(n+1)/2 + (k+2)*n,
		ObserveFlops: 2*n*(n+1) + 5*k*n,
	}
	if o.Forgetting < 1 {
		c.StateBytes += 8 * n
		c.ObserveFlops += uint64(renewedPerRound(r, o.Forgetting)) * n * (n + 1)
	}
	return c
}

// Check tells whether Observe would accept the observation.
func (f *Forecaster) Check(x, y []float64, weight float64) error {
	if err := f.checkFeatures(x); err != nil {
		return err
	}
	if err := model.CheckLabels(y, f.o.Outputs); err != nil {
		return err
	}
	return model.CheckWeight(weight)
}

func (f *Forecaster) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, f.features.Dimension(), f.features.InputLimit())
}

// Predict answers ŷ = p/(1+q) by one forward solve. It reads the state and
// allocates nothing once its scratch is warm.
func (f *Forecaster) Predict(p *model.Prediction, x []float64) error {
	if err := f.checkFeatures(x); err != nil {
		return err
	}
	buffer := f.scratch.take(f.factor.Order())
	defer f.scratch.give(buffer)
	f.predict(p, *buffer, x)
	return nil
}

// predict is Predict of features that are checked. It leaves v = R⁻ᵀφ(x) in v, r numbers.
func (f *Forecaster) predict(p *model.Prediction, v, x []float64) {
	f.features.Map(v, x)
	p.Resize(f.o.Outputs)
	left := f.leftOut(v, x)
	f.answer(p, f.factor.Solve(v, p.Values), left)
}

// answer makes a prediction whose Values are v·u, v = R⁻ᵀz, given ‖v‖² and what the
// features leave out of the kernel.
func (f *Forecaster) answer(p *model.Prediction, square, left float64) {
	left /= f.o.Lambda
	q := square / f.o.Forgetting
	whole := q + left
	p.Leverage = whole / (1 + whole)
	for j := range p.Values {
		p.Values[j] /= 1 + q
		p.StandardErrors[j] = f.columns[j].deviation(f.o.Forgetting) * math.Sqrt(whole)
	}
	known(p, f.columns[0].Rounds)
}

// leftOut is k(x,x) − ‖z‖², what the features z of x leave out of the kernel; 0
// where that is rounding, and for features that are cut short of nothing. Of what
// is left out nothing is ever learned, so that it has the variance of before the
// first observation: q of the kernel is q of the features + leftOut/λ, but for
// what the inputs learned leave out. It costs r multiply-adds and k(x,x).
//
// Source: Quiñonero-Candela and Rasmussen, JMLR 2005, §6 (the predictive variance
// of FITC).
func (f *Forecaster) leftOut(z, x []float64) float64 {
	if f.approximation == nil {
		return 0
	}
	self, square := f.approximation.Self(x), 0.0
	for _, v := range z {
		square += float64(v * v)
	}
	left := self - square
	if rounding := float64(0x1p-52 * float64(len(z)+1) * self); !(left > rounding) {
		return 0
	}
	return left
}

// known leaves out the standard errors before the first observation.
func known(p *model.Prediction, observations uint64) {
	if observations == 0 {
		p.StandardErrors = p.StandardErrors[:0]
	}
}

// Observe learns (x, y) by one rotation pass, which also yields the
// prequential prediction and the accounts. A weight w scales the row by √w; the
// prediction is that of Predict, which does not know the weight.
// It allocates nothing once the outcome has room.
func (f *Forecaster) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := f.Check(x, y, weight); err != nil {
		return err
	}
	f.features.Map(f.row[:f.factor.Order()], x)
	f.learn(o, y, weight)
	return nil
}

// learn is Observe once the features stand in the row. It returns the rotation of the
// row, and leaves √ω times the ridge predictions of before in the priors.
func (f *Forecaster) learn(o *model.Outcome, y []float64, weight float64) qr.Rotation {
	z, labels := f.row[:f.factor.Order()], f.row[f.factor.Order():]
	root := math.Sqrt(weight)
	if weight != 1 {
		for i := range z {
			z[i] *= root
		}
	}
	for j, v := range y {
		labels[j] = float64(root * v)
	}
	rotation := f.factor.RotateDiscounted(f.row, f.priors, math.Sqrt(f.o.Forgetting))
	o.Resize(f.o.Outputs)
	o.Loss, o.Regret = 0, 0
	for j := range f.columns {
		a := &f.columns[j]
		if f.renewal != nil {
			a.Discount(f.o.Forgetting)
		}
		prediction, loss := a.add(y[j], f.priors[j], labels[j], weight, rotation)
		o.Predictions[j] = prediction
		o.Loss += loss
	}
	if f.renewal != nil {
		f.renewal.loss.Add(o.Loss)
		f.renew()
	}
	for j := range f.columns {
		o.Regret += f.columns[j].Regret.Value()
	}
	return rotation
}

// grow adds a feature, given its inner products with the features so far, its
// corner and right-hand sides, which it overwrites: see qr.Factor.Append. The
// space being larger, the best function in it is better: L* falls by the
// square of the new entry of u, and regret rises by it.
func (f *Forecaster) grow(a []float64, corner float64, b []float64) {
	f.factor.Append(a, corner, b, f.o.Lambda)
	for j, u := range b {
		f.columns[j].Raise(-float64(u * u))
	}
	f.row = append(f.row, 0)
	if f.renewal != nil {
		f.renewal.ridge = append(f.renewal.ridge, f.o.Lambda)
	}
}

// AddOutput adds an output behind the others, of which all labels so far were 0.
// It is the output that was there from the start, bit for bit: labels of 0 have
// no loss, and leave nothing in the factor. It costs no more than Observe.
func (f *Forecaster) AddOutput() {
	f.factor.AddColumn()
	late := account{}
	late.Rounds = f.columns[0].Rounds
	if f.columns[0].Bound >= unbounded {
		late.Bound = unbounded
	}
	f.columns = append(f.columns, late)
	f.row, f.priors = append(f.row, 0), append(f.priors, 0)
	f.o.Outputs++
}

// Stats tells how the forecaster is doing. It costs r logarithms and, with k
// outputs, rk multiply-adds. It allocates nothing.
func (f *Forecaster) Stats() model.Stats {
	return f.stats(true)
}

// Size is the memory that the state takes.
func (f *Forecaster) Size() uint64 {
	return Cost(f.factor.Order(), f.o, f.features.Bytes()).StateBytes
}

// Report adds to Stats the regret without the penalty, at r²/2 multiply-adds
// an output, over affine features the weights of the same solution, and, when asked,
// the effective dimension, at r³/6.
func (f *Forecaster) Report(o model.ReportOptions) model.Report {
	return f.report(f.Stats(), o)
}

func (f *Forecaster) report(s model.Stats, o model.ReportOptions) model.Report {
	unpenalized, weights := f.inHindsight()
	r := reportOf(s, unpenalized)
	r.Weights = weights
	if o.EffectiveDimension {
		r.EffectiveDimension = f.effectiveDimension()
	}
	if o.HindsightPath {
		r.HindsightPath = f.hindsightPath()
	}
	return r
}

// stats leaves the theorem out of a forecaster whose space has grown.
func (f *Forecaster) stats(certified bool) model.Stats {
	s := summarize(f.columns, f.factor.LogDet(f.o.Lambda), f.explained, certified && f.renewal == nil, f.o.Forgetting)
	if f.renewal != nil {
		s.Loss = f.renewal.loss.Value()
	}
	s.Features, s.Discounted = f.factor.Order(), f.renewal != nil
	s.StateBytes = f.Size()
	return s
}

// consistent tells whether the identities of the state hold, without the theorem and its
// determinant.
func (f *Forecaster) consistent() bool {
	return summarize(f.columns, 0, f.explained, false, f.o.Forgetting).CertificateOK
}

// explained is ‖u‖² = Σy² − L* of a label column.
func (f *Forecaster) explained(column int) float64 {
	var total compensated.Sum
	right := f.factor.Right()
	for i := column; i < len(right); i += f.o.Outputs {
		total.Add(float64(right[i] * right[i]))
	}
	return total.Value()
}

// hindsightPath is L* of the model of the first m features alone, m = 0 … r, summed over
// the outputs, at rk multiply-adds of k outputs:
//
//	L*_m = Σy² − Σ_{i≤m} u_i²
//
// R and u are those of every such model: their first m rows and columns need nothing
// of the features behind them.
//
// Source: Camoriano, thesis (Genoa, 2017), chapter 4, whose incremental Nyström
// estimator has this loss for every m.
func (f *Forecaster) hindsightPath() []float64 {
	var left compensated.Sum
	for j := range f.columns {
		left.Add(f.columns[j].Energy.Value())
	}
	path, right := make([]float64, 1, f.factor.Order()+1), f.factor.Right()
	path[0] = left.Value()
	for ; len(right) > 0; right = right[f.o.Outputs:] {
		for _, u := range right[:f.o.Outputs] {
			left.Add(-float64(u * u))
		}
		path = append(path, math.Max(0, left.Value()))
	}
	return path
}

// ridge is Λ_ii: λ, unless the forecaster forgets.
func (f *Forecaster) ridge(i int) float64 {
	if f.renewal != nil {
		return f.renewal.ridge[i]
	}
	return f.o.Lambda
}

// inHindsight is regret_λ + ‖Λ^½ĝ‖² with Rĝ = u, summed over the outputs, at r²/2
// multiply-adds each, and the weights of ĝ if the features are affine.
func (f *Forecaster) inHindsight() (unpenalized float64, weights []model.Weight) {
	g := make([]float64, f.factor.Order())
	_, affine := f.features.(*feature.Affine)
	affine = affine && len(g)*f.o.Outputs <= maxWeights
	for j := range f.columns {
		f.factor.Weights(g, j)
		var penalty compensated.Sum
		for i, v := range g {
			penalty.Add(float64(f.ridge(i) * float64(v*v)))
		}
		unpenalized += f.columns[j].Regret.Value() + penalty.Value()
		if affine {
			weights = appendWeights(weights, j, g)
		}
	}
	return unpenalized, weights
}

// maxWeights bounds the weights of a report, which are kept: more tell nobody anything.
const maxWeights = 1 << 16

// appendWeights appends the weights ĝ = A⁻¹b of the features (x, 1) of an output.
//
// They are those of the best ridge function in hindsight, ĝ·(x, 1). Predict answers
// that value at x over 1 + q: see Forecaster.
func appendWeights(dst []model.Weight, output int, g []float64) []model.Weight {
	last := len(g) - 1
	for i, v := range g {
		if i == last {
			i = model.NoInput
		}
		dst = append(dst, model.Weight{Output: output, Input: i, Value: v, Effect: math.NaN()})
	}
	return dst
}

// effectiveDimension is Tr(C(C+Λ)⁻¹) = r − Tr ΛA⁻¹, at r³/6 multiply-adds. Before
// the first round C is 0, and the difference would be what rounding leaves.
func (f *Forecaster) effectiveDimension() float64 {
	if f.columns[0].Rounds == 0 {
		return 0
	}
	return float64(f.factor.Order()) - f.factor.TraceInverse(f.ridge, nil)
}

// AppendBinary appends the accounts, the packed factor and, if the
// forecaster forgets, its ridges to dst.
func (f *Forecaster) AppendBinary(dst []byte) ([]byte, error) {
	size := codec.Counting()
	f.visit(&size)
	v := codec.Growing(dst, size.Size())
	f.visit(&v)
	return v.Appended()
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec. It refuses numbers that no stream of observations leads to.
func (f *Forecaster) Restore(state []byte) error {
	fresh := New(f.features, f.o)
	if err := codec.Read(state, fresh.visit); err != nil {
		return fmt.Errorf("awv: restore a factor of order %d: %w", f.factor.Order(), err)
	}
	f.columns, f.factor, f.renewal = fresh.columns, fresh.factor, fresh.renewal
	return nil
}

// leastDiagonal is the least diagonal entry of a factor in √λ, with room for rounding: the
// ridge alone is λ, or λ/1000 at least if the forecaster forgets.
const leastDiagonal = 1e-5

func (f *Forecaster) visit(v *codec.Visitor) {
	for j := range f.columns {
		f.columns[j].visit(v, &f.columns[0])
	}
	f.factor.Visit(v, leastDiagonal*math.Sqrt(f.o.Lambda), qr.MaxEntry)
	if f.renewal != nil {
		f.renewal.visit(v, f.o.Lambda)
	}
}
