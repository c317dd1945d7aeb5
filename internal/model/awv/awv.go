// Package awv is the Azoury-Warmuth-Vovk forecaster over a feature map.
package awv

import (
	"cmp"
	"fmt"
	"math"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/qr"
)

// approximation is a Map that truncates the features of a kernel: k(x,x) > ‖φ(x)‖².
type approximation interface {
	// Self is k(x,x).
	Self(x []float64) float64
}

// Forecaster predicts, with z = φ(x) and A_t including the current input,
//
//	ŷ_t = z_tᵀ A_t⁻¹ b_{t−1} = (z_tᵀ A_{t−1}⁻¹ b_{t−1}) / (1 + q_t)
//
// The paper's algorithm updates A inside its predict step. The second form makes Predict a
// pure read; Observe commits both A and b.
//
// Source: PKAWV, HAL 2019, Algorithm 1 and §3; the forecaster is Vovk's and
// Azoury and Warmuth's.
type Forecaster struct {
	features feature.Map
	// approximation is features, or nil if they are not truncated.
	approximation approximation
	o             Options
	factor        *qr.Factor
	columns       []account
	// renewal is nil unless the forecaster forgets.
	renewal *renewal
	// prefixes is nil unless fewer features are mixed in.
	prefixes *prefixes
	// trace is Σωk(x,x) of an approximation that forgets nothing: see rkhs.go.
	trace compensated.Sum
	// row and priors are scratch of Observe: features and then labels; predictions.
	row, priors []float64
	scratch     scratch
	batches     sync.Pool
}

// Options of a forecaster.
type Options struct {
	// Lambda is the ridge λ > 0.
	Lambda float64
	// Outputs is k, the number of labels, which share one factor; 0 is 1.
	Outputs int
	// Indicators: one label of a round is 1 and the others are 0. The bound is then the bound of one output.
	Indicators bool
	// Forgetting is f in (0, 1], 0 is 1: the past counts f times as much each round, uncertified below 1.
	Forgetting float64
	// Prefixes are mixed, in ascending order of their sizes; the last has all features. None: the
	// forecaster is the forecaster of all features.
	Prefixes []Prefix
}

func (o Options) completed() Options {
	o.Outputs, o.Forgetting = max(o.Outputs, 1), cmp.Or(o.Forgetting, 1)
	return o
}

// New is a forecaster without observations. It panics if an option is out of range.
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
		row:     qr.NewRow(r + o.Outputs),
		priors:  make([]float64, o.Outputs),
	}
	f.approximation, _ = features.(approximation)
	if o.Forgetting < 1 {
		f.renewal = newRenewal(r, o)
	}
	if len(o.Prefixes) > 0 {
		f.prefixes = newPrefixes(r, o)
	}
	return f
}

type scratch struct{ pool sync.Pool }

func (s *scratch) take(n int) *[]float64 {
	buffer, ok := s.pool.Get().(*[]float64)
	if !ok {
		buffer = new([]float64)
	}
	if len(*buffer) != n {
		*buffer = qr.NewRow(n)
	}
	return buffer
}

func (s *scratch) give(buffer *[]float64) { s.pool.Put(buffer) }

// Cost is the cost of a forecaster with r features over a map of mapBytes.
func Cost(r int, o Options, mapBytes uint64) model.Cost {
	o = o.completed()
	n, k := uint64(r), uint64(o.Outputs)
	c := model.Cost{
		Features:     r,
		StateBytes:   qr.Bytes(r, o.Outputs) + 8*2*n + mapBytes,
		PredictFlops: n*(n+1)/2 + (k+2)*n,
		ObserveFlops: 2*n*(n+1) + 5*k*n,
	}
	if o.Forgetting < 1 {
		c.StateBytes += 8 * n
		c.ObserveFlops += uint64(renewedPerRound(r, o.Forgetting)) * n * (n + 1)
	}
	addPrefixes(&c, r, o)
	return c
}

// Check returns the error that Observe would return.
func (f *Forecaster) Check(x, y []float64, weight float64) error {
	return cmp.Or(f.checkFeatures(x), model.CheckLabels(y, f.o.Outputs), model.CheckWeight(weight))
}

func (f *Forecaster) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, f.features.Dimension(), f.features.InputLimit())
}

// Predict answers ŷ = p/(1+q) by one forward solve. It only reads the state, and allocates
// nothing once its scratch is warm.
func (f *Forecaster) Predict(p *model.Prediction, x []float64) error {
	if err := f.checkFeatures(x); err != nil {
		return err
	}
	buffer := f.scratch.take(f.factor.Order())
	defer f.scratch.give(buffer)
	f.predict(p, *buffer, x)
	return nil
}

// predict leaves v = R⁻ᵀφ(x) in v, r numbers.
func (f *Forecaster) predict(p *model.Prediction, v, x []float64) {
	if f.prefixes != nil {
		f.predictMixed(p, v, x)
		return
	}
	f.features.Map(v, x)
	p.Resize(f.o.Outputs)
	left := f.leftOut(v, x)
	f.answer(p, f.factor.Solve(v, p.Values), left)
}

// answer completes a prediction whose Values are v·u, v = R⁻ᵀz, given ‖v‖² and leftOut.
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

// leftOut is k(x,x) − ‖z‖², the part of the kernel beyond the features z of x, or 0 if the
// difference is rounding or the features are not truncated. The learner never learns this
// part: it keeps its prior variance, and q of the kernel is q of the features + leftOut/λ, up
// to the parts left out of the learned inputs. It costs r multiply-adds and k(x,x).
//
// Source: Quiñonero-Candela and Rasmussen, JMLR 2005, §6 (the predictive variance of FITC).
func (f *Forecaster) leftOut(z, x []float64) float64 {
	if f.approximation == nil {
		return 0
	}
	square := 0.0
	for _, v := range z {
		square += float64(v * v)
	}
	return f.beyond(x, square, len(z))
}

// beyond is leftOut of r features whose squares have the given sum.
func (f *Forecaster) beyond(x []float64, square float64, r int) float64 {
	if f.approximation == nil {
		return 0
	}
	self := f.approximation.Self(x)
	left := self - square
	if rounding := float64(0x1p-52 * float64(r+1) * self); !(left > rounding) {
		return 0
	}
	return left
}

// known removes the standard errors before the first observation.
func known(p *model.Prediction, observations uint64) {
	if observations == 0 {
		p.StandardErrors = p.StandardErrors[:0]
	}
}

// Observe learns (x, y) by one rotation pass, which also yields the prequential prediction
// and the accounts. A weight w scales the row by √w; the prediction is Predict's, made
// without the weight. It allocates nothing once the outcome has capacity.
func (f *Forecaster) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := f.Check(x, y, weight); err != nil {
		return err
	}
	f.features.Map(f.row[:f.factor.Order()], x)
	f.addTrace(x, weight)
	f.learn(o, y, weight)
	return nil
}

// learn learns the features in the row. It leaves √ω times the earlier predictions in the priors.
func (f *Forecaster) learn(o *model.Outcome, y []float64, weight float64) {
	f.scaleRow(f.row, y, weight)
	if f.prefixes != nil {
		f.solvePrefixes()
	}
	rotation := f.factor.RotateDiscounted(f.row, f.priors, math.Sqrt(f.o.Forgetting))
	f.accountFor(o, y, weight, f.row, f.priors, rotation)
	if f.prefixes != nil {
		f.mixPrefixes(o, y, weight)
	}
}

// scaleRow multiplies the features in the row by √ω, and writes √ω y behind them.
func (f *Forecaster) scaleRow(row, y []float64, weight float64) {
	z, labels := row[:f.factor.Order()], row[f.factor.Order():]
	root := math.Sqrt(weight)
	if weight != 1 {
		for i := range z {
			z[i] *= root
		}
	}
	for j, v := range y {
		labels[j] = float64(root * v)
	}
}

func (f *Forecaster) accountFor(o *model.Outcome, y []float64, weight float64, row, priors []float64, rotation qr.Rotation) {
	residuals := row[f.factor.Order():]
	o.Resize(f.o.Outputs)
	o.Loss, o.Regret = 0, 0
	for j := range f.columns {
		a := &f.columns[j]
		if f.renewal != nil {
			a.Discount(f.o.Forgetting)
		}
		prediction, loss := a.add(y[j], priors[j], residuals[j], weight, rotation)
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
}

// grow adds a feature, given its inner products with the existing features, its corner and
// its right-hand sides, which it overwrites: see qr.Factor.Append. L* falls, and regret and
// certificate rise, by the square of the new entry u, which is 0 for a feature that was 0 in all
// earlier rounds. The guarantee rises by u² too: the new diagonal entry is √λ at least, Σh ≤ log det(A/λ).
func (f *Forecaster) grow(a []float64, corner float64, b []float64) {
	r := f.factor.Order()
	f.factor.Append(a, corner, b, f.o.Lambda)
	for j, u := range b {
		f.columns[j].grow(u)
		if f.prefixes != nil {
			f.prefixes.grow(r, j, u)
		}
	}
	if f.prefixes != nil {
		f.prefixes.v = qr.NewRow(r + 1)
	}
	f.row = qr.NewRow(len(f.row) + 1)
	if f.renewal != nil {
		f.renewal.ridge = append(f.renewal.ridge, f.o.Lambda)
	}
}

// AddOutput adds a last output whose labels so far were all 0. The output has the bits of one
// from the start: labels of 0 have no loss and leave nothing in the factor.
func (f *Forecaster) AddOutput() {
	f.factor.AddColumn()
	late := account{}
	late.Rounds = f.columns[0].Rounds
	f.columns = append(f.columns, late)
	f.row, f.priors = qr.NewRow(len(f.row)+1), append(f.priors, 0)
	f.o.Outputs++
}

// Stats costs r logarithms and, with k outputs, rk multiply-adds. It allocates nothing.
func (f *Forecaster) Stats() model.Stats { return f.stats(true) }

// Size is the memory of the state.
func (f *Forecaster) Size() uint64 { return Cost(f.factor.Order(), f.o, f.features.Bytes()).StateBytes }

// Report adds to Stats the regret without the penalty, at r²/2 multiply-adds an output; for
// affine features the weights of the same solution; and if asked the effective dimension.
func (f *Forecaster) Report(o model.ReportOptions) model.Report { return f.report(f.Stats(), o, true) }

// report is Report. Projected: one projection of the kernel's space has the features of all rounds.
func (f *Forecaster) report(s model.Stats, o model.ReportOptions, projected bool) model.Report {
	r := ledger.Report(s)
	r.RegretUnpenalized, r.Weights = f.inHindsight()
	if f.prefixes != nil {
		f.mixedReport(&r)
	}
	if o.EffectiveDimension {
		r.EffectiveDimension = f.effectiveDimension()
	}
	if o.RegretRKHS {
		r.RegretRKHS = s.Regret + (s.HindsightLoss - f.hindsightRKHS(projected))
	}
	if o.HindsightPath {
		r.HindsightPath = f.hindsightPath()
	}
	return r
}

// stats is Stats, without the certificate unless certified is true.
func (f *Forecaster) stats(certified bool) model.Stats {
	s := summarize(f.columns, f.factor.LogDet(f.o.Lambda), f.factor.Explained, certified && f.renewal == nil, f.o.Forgetting)
	if f.o.Indicators {
		f.boundIndicators(&s)
	}
	if f.renewal != nil {
		s.Loss = f.renewal.loss.Value()
	}
	if f.prefixes != nil {
		f.mixedStats(&s)
	}
	s.Features, s.Discounted = f.factor.Order(), f.renewal != nil
	s.StateBytes = f.Size()
	return s
}

// hindsightPath is L* of the first m features alone, m = 0 … r, summed over the outputs, at
// rk multiply-adds of k outputs. The first m rows and columns of R and u are the R and u of that
// model:
//
//	L*_m = Σy² − Σ_{i≤m} u_i²
//
// Source: Camoriano, thesis (Genoa, 2017), chapter 4: its incremental Nyström estimator has
// this loss for every m.
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

// inHindsight is regret_λ + ‖Λ^½ĝ‖² with Rĝ = u, summed over the outputs, and ĝ of affine features.
func (f *Forecaster) inHindsight() (unpenalized float64, weights []model.Weight) {
	g := make([]float64, f.factor.Order())
	var inputs []int
	_, affine := f.features.(*feature.Affine)
	if affine = affine && len(g)*f.o.Outputs <= maxWeights; affine {
		for i := range len(g) - 1 {
			inputs = append(inputs, i)
		}
	}
	for j := range f.columns {
		f.factor.Weights(g, j)
		var penalty compensated.Sum
		for i, v := range g {
			penalty.Add(float64(f.ridge(i) * float64(v*v)))
		}
		unpenalized += f.columns[j].Regret.Value() + penalty.Value()
		if affine {
			weights = appendWeights(weights, j, inputs, g, 1)
		}
	}
	return unpenalized, weights
}

const maxWeights = 1 << 16

// appendWeights appends the weights ĝ = A⁻¹b of an output, times a gain: the best ridge function in
// hindsight is ĝ·(x, 1) of the inputs, or ĝ·x. Predict answers its value over 1 + q.
func appendWeights(dst []model.Weight, output int, inputs []int, g []float64, gain float64) []model.Weight {
	for k, v := range g {
		input := model.NoInput
		if k < len(inputs) {
			input = inputs[k]
		}
		dst = append(dst, model.Weight{Output: output, Input: input, Value: float64(gain * v), Effect: math.NaN()})
	}
	return dst
}

// effectiveDimension is Tr(C(C+Λ)⁻¹) = r − Tr ΛA⁻¹, at r³/6 multiply-adds.
func (f *Forecaster) effectiveDimension() float64 {
	if f.columns[0].Rounds == 0 {
		return 0 // C is 0, and the difference would be rounding.
	}
	return float64(f.factor.Order()) - f.factor.TraceInverse(f.ridge, nil)
}

// minDiagonal is the smallest diagonal entry of a factor in √λ, with a margin for rounding:
// the ridge is λ, or at least λ/1000 if the forecaster forgets.
const minDiagonal = 1e-5

// Visit visits the accounts, the factor and, if the forecaster forgets, its ridges.
func (f *Forecaster) Visit(v *codec.Visitor) {
	for j := range f.columns {
		f.columns[j].visit(v, &f.columns[0])
	}
	f.factor.Visit(v, minDiagonal*math.Sqrt(f.o.Lambda), qr.MaxEntry)
	if f.prefixes != nil {
		f.prefixes.visit(v, &f.columns[0])
	}
	switch {
	case f.renewal != nil:
		f.renewal.visit(v, f.o.Lambda)
	case f.approximation != nil:
		v.Within(ledger.MaxSum, &f.trace.High, &f.trace.Low)
		if trace := f.trace.Value(); v.Reading() && !(trace >= 0) {
			v.Corrupt("a trace of %g", trace)
		}
	}
}
