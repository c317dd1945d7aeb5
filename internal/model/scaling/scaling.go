// Package scaling puts an affine scaling of inputs and labels before a learner. The scaling
// is given, or follows from the first observations and is then frozen, or the scaling of
// the inputs follows all observations. The scaling is part of the learner's state.
package scaling

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/moments"
	"hindsight/internal/model/regret"
)

// Affine is a scaling: x_i becomes (x_i − Offset_i) Scale_i, and y_j becomes
// (y_j − LabelOffset_j) LabelScale. All labels share one scale, so that the sum of the
// losses of the outputs has a unit.
type Affine struct {
	Offset, Scale []float64
	LabelOffset   []float64
	LabelScale    float64
}

// Options describe a scaled learner.
type Options struct {
	Dimension, Outputs int
	// Fixed is the scaling, unless Warmup is above 0.
	Fixed Affine
	// Warmup is how many observations determine the scaling: to mean 0 and mean square
	// 1/(4 Dimension) of every input, and, with Labels, to mean 0 and mean square 1 of labels.
	Warmup int
	Labels bool
	// Start is the prediction before the first label of a warm-up.
	Start float64
	// Running makes the scaling of the inputs follow all observations: 1 <= Warmup <= CatchUp.
	Running bool
	// Lists are inputs of one unit, such as the pixels of an image, disjoint and in the
	// order of the inputs. A scaling that is not given divides all inputs of a list by the
	// root of the mean of their squared deviations, of a joint list by the root of the sum:
	// a joint list counts as one input of Dimension.
	Lists []List
	// InputLimit is the largest magnitude of an input that the learner takes.
	InputLimit float64
	// Forgetting is the learner's forgetting factor, or 1.
	Forgetting float64
	// New makes the learner behind the scaling.
	New func(outputs int) model.Learner
}

// List is the range of the inputs From <= i < To. Joint inputs vary together as much as one.
type List struct {
	From, To int
	Joint    bool
}

// Learner is a learner behind a scaling. Its inputs and outputs are in the units of the
// caller: losses and regrets are the learner's over LabelScale².
//
// While warming up, the Learner keeps the observations and predicts the mean of their
// labels. The last observation of the warm-up freezes the scaling. From then on the Learner
// catches up: each Observe keeps its observation, and the learner learns the next CatchUp of
// the kept observations in order. The mean is predicted until nothing is left to learn. A
// warm-up of at most CatchUp observations ends at once. A learner with too few rounds left
// learns more in each Observe. Regret stays exact: regret and bound include what the means
// lost beyond the learner's own predictions. While the mean is predicted, regret is against
// the best constant of each label.
//
// A running scaling scales each input by the mean and the deviation of the observations
// before, in the warm-up of all its observations, as a moments.Table has them: an observation
// counts ω, see model.Weights, and a strange value stands at the limit of the others. Loss, loss in hindsight, regret and bounds are against the best
// fixed function of the inputs as they were scaled in their rounds.
//
// During the warm-up nothing can be rejected because of its scaled value, which is not known
// yet: after a warm-up a scaled input or label beyond the learner's limit counts as the
// limit. For all but polynomial and linear kernels the limit is 1e100 deviations away. A
// given scaling rejects input beyond the limit.
type Learner struct {
	o      Options
	inner  model.Learner
	affine Affine
	// warm is nil after the learner has learned every observation.
	warm *warmup
	// moments is nil unless the scaling is running.
	moments *inputMoments
	// extra is the loss of the means less the loss of the learner's own predictions; owed
	// is the part of extra that regret has not forgotten.
	extra, owed float64
	// x and y are scratch of Observe. rows lends scratch to Predict and Check.
	x, y []float64
	rows *sync.Pool
}

// New is a scaled learner that has seen nothing. It panics on a running scaling
// whose warm-up does not end at once.
func New(o Options) *Learner {
	if o.Running && (o.Warmup < 1 || o.Warmup > CatchUp) {
		panic(fmt.Sprintf("scaling: a running scaling after a warm-up of %d, want 1 to %d", o.Warmup, CatchUp))
	}
	l := &Learner{
		o: o, inner: o.New(o.Outputs), affine: o.Fixed,
		x: make([]float64, o.Dimension), y: make([]float64, o.Outputs), rows: newRows(o.Dimension + o.Outputs),
	}
	if o.Warmup > 0 {
		l.warm = &warmup{o: o, best: constants{outputs: make([]moments.Running, o.Outputs)}}
	}
	if o.Running {
		l.moments = &inputMoments{Table: moments.NewTable(o.Dimension)}
	}
	return l
}

func newRows(width int) *sync.Pool {
	return &sync.Pool{New: func() any {
		row := make([]float64, width)
		return &row
	}}
}

// AddOutput adds an output whose labels so far were 0. It panics unless the learner is
// model.Growing and labels are not scaled. It costs O(1) a kept observation.
func (l *Learner) AddOutput() {
	growing, ok := l.inner.(model.Growing)
	if !ok || l.o.Labels {
		panic(fmt.Sprintf("scaling: %T does not grow, or labels are scaled", l.inner))
	}
	growing.AddOutput()
	l.o.Outputs++
	if l.affine.LabelOffset != nil { // It is nil until a warm-up has found the scaling.
		l.affine.LabelOffset = append(slices.Clip(l.affine.LabelOffset), 0)
	}
	l.y, l.rows = append(l.y, 0), newRows(l.o.Dimension+l.o.Outputs)
	if l.warm != nil {
		l.warm.addOutput()
	}
}

// Cost is the most memory of a scaling beside the learner. The backlog shrinks with every
// Observe: there are at most Warmup rows.
func (o Options) Cost() uint64 {
	size := o.ownBytes()
	if o.Warmup > 0 {
		size += o.rowBytes() * uint64(o.Warmup)
	}
	return size
}

func (o Options) ownBytes() uint64 {
	numbers := 3*o.Dimension + 2*o.Outputs + 3
	if o.Warmup > 0 {
		numbers += 2*o.Outputs + 4
	}
	if o.Running {
		numbers += moments.Numbers*o.Dimension + 1
	}
	return 8 * uint64(numbers)
}

// rowBytes is the memory of a row: two slices and the numbers.
func (o Options) rowBytes() uint64 { return 2*24 + 8*uint64(o.Dimension+o.Outputs+1) }

// Remaining is how many more observations the learner takes after the kept ones.
func (l *Learner) Remaining() int {
	remaining := model.Remaining(l.inner)
	if l.warm != nil && remaining < math.MaxInt {
		return remaining - len(l.warm.rows)
	}
	return remaining
}

// Inner is the learner of the scaled observations.
func (l *Learner) Inner() model.Learner { return l.inner }

// Check reports whether Observe would accept the observation.
func (l *Learner) Check(x, y []float64, weight float64) error {
	if err := cmp.Or(model.CheckFeatures(x, l.o.Dimension, model.MaxMagnitude), model.CheckLabels(y, l.o.Outputs)); err != nil {
		return err
	}
	if l.Remaining() < 1 {
		return fmt.Errorf("no room for another observation: %w", model.ErrObservationLimit)
	}
	return l.checkRow(x, y, weight)
}

// Admit asks the learner, with the scaled inputs, or 0 without a scaling yet.
func (l *Learner) Admit(x []float64, weight float64) error {
	admitter, ok := model.As[model.Admitter](l.inner)
	if !ok {
		return nil
	}
	buffer := l.take()
	defer l.rows.Put(buffer)
	inputs := (*buffer)[:l.o.Dimension]
	if clear(inputs); l.warm == nil {
		l.scaleInput(inputs, x)
	}
	return admitter.Admit(inputs, weight)
}

// checkRow is Check of an observation whose numbers are in range, whatever Remaining is.
func (l *Learner) checkRow(x, y []float64, weight float64) error {
	buffer := l.take()
	defer l.rows.Put(buffer)
	inputs, labels := (*buffer)[:l.o.Dimension], (*buffer)[l.o.Dimension:]
	if l.o.Warmup > 0 {
		clear(inputs)
		return l.inner.Check(inputs, y, weight)
	}
	l.scaleInput(inputs, x)
	l.scaleLabels(labels, y)
	return scaledError(l.inner.Check(inputs, labels, weight))
}

// scaledError adds to an error of the learner that its limit is one of scaled numbers.
func scaledError(err error) error {
	if err == nil {
		return nil // Without an allocation.
	}
	var field *model.FieldError
	if !errors.As(err, &field) || errors.Is(err, model.ErrWeightOutOfRange) {
		return err
	}
	moved := *field
	moved.Want += ", after scaling"
	return &moved
}

func (l *Learner) take() *[]float64 {
	return l.rows.Get().(*[]float64) // The pool holds nothing else.
}

func (l *Learner) scaleInput(dst, x []float64) {
	for i, v := range x {
		if l.moments != nil {
			v = l.moments.Cut(i, v)
		}
		dst[i] = l.within((v-l.affine.Offset[i])*l.affine.Scale[i], l.o.InputLimit)
	}
}

func (l *Learner) within(v, limit float64) float64 {
	if l.o.Warmup == 0 {
		return v
	}
	return math.Max(-limit, math.Min(limit, v))
}

func (l *Learner) scaleLabels(dst, y []float64) {
	for j, v := range y {
		dst[j] = l.within((v-l.affine.LabelOffset[j])*l.affine.LabelScale, model.MaxMagnitude)
	}
}

func (l *Learner) unscale(predictions []float64) {
	for j, v := range predictions {
		scaled := v / l.affine.LabelScale
		predictions[j] = scaled + l.affine.LabelOffset[j]
	}
}

// loss converts a loss to the caller's units. The square of the scale may be out of range.
func (l *Learner) loss(v float64) float64 { return v / l.affine.LabelScale / l.affine.LabelScale }

// Predict asks the learner, and answers the mean of the labels while observations are kept.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := model.CheckFeatures(x, l.o.Dimension, model.MaxMagnitude); err != nil {
		return err
	}
	if l.warm != nil {
		l.warm.predict(p)
		return nil
	}
	buffer := l.take()
	defer l.rows.Put(buffer)
	inputs := (*buffer)[:l.o.Dimension]
	l.scaleInput(inputs, x)
	if err := l.inner.Predict(p, inputs); err != nil {
		return scaledError(err)
	}
	l.unscale(p.Values)
	l.unscale(p.Parametric)
	for j := range p.StandardErrors {
		p.StandardErrors[j] /= l.affine.LabelScale
	}
	return nil
}

// Observe teaches the scaled observation to the learner; a running scaling then follows the
// inputs. While observations are kept, Observe keeps the observation, freezes the scaling at
// the end of the warm-up, and afterwards learns a few of the kept observations.
func (l *Learner) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	if l.warm == nil {
		if err := l.learn(o, x, y, weight); err != nil {
			return err
		}
		l.follow(row{x: x, weight: weight})
		return nil
	}
	l.warm.observe(o, row{x: x, y: y, weight: weight}, l.inner)
	o.Regret = l.warm.loss.Value() - l.hindsightOfMeans(l.inner.Stats())
	if !l.warm.frozen {
		if len(l.warm.rows) < l.o.Warmup {
			return nil
		}
		l.affine, l.warm.frozen = l.warm.affine(), true
		l.follow(l.warm.rows...)
	}
	return l.catchUp(o)
}

func (l *Learner) follow(rows ...row) {
	if l.moments == nil {
		return
	}
	l.moments.add(rows)
	l.moments.scale(&l.affine, l.o.Lists)
}

func (l *Learner) learn(o *model.Outcome, x, y []float64, weight float64) error {
	l.scaleInput(l.x, x)
	l.scaleLabels(l.y, y)
	if err := l.inner.Observe(o, l.x, l.y, weight); err != nil {
		return err
	}
	l.present(o)
	return nil
}

func (l *Learner) present(o *model.Outcome) {
	l.unscale(o.Predictions)
	o.Loss = l.loss(o.Loss)
	l.owed *= l.o.Forgetting
	o.Regret = l.loss(o.Regret) + l.owed
}

// catchUp learns the next rows of the backlog, which Check has accepted. The outcome of the
// round stays the outcome of the means; its regret is known when nothing is left to learn.
func (l *Learner) catchUp(o *model.Outcome) error {
	w := l.warm
	for range min(l.portion(), len(w.rows)) {
		r := w.rows[0]
		if err := l.learn(&w.learned, r.x, r.y, r.weight); err != nil {
			return fmt.Errorf("learn from the warm-up: %w", err)
		}
		w.own += w.learned.Loss
		w.drop()
	}
	if len(w.rows) > 0 {
		return nil
	}
	l.extra = w.loss.Value() - w.own
	l.owed, l.warm = l.extra, nil
	o.Regret = w.learned.Regret + l.owed
	return nil
}

// portion is how many rows an Observe learns: CatchUp, or more if the learner takes too few
// further rounds to catch up. Then the rows and the further rounds spread evenly.
func (l *Learner) portion() int {
	rows, further := len(l.warm.rows), l.Remaining()
	if further >= rows {
		return CatchUp
	}
	return max(CatchUp, (rows+2*further)/(further+1))
}

// Stats are the learner's in the units of the caller. While observations are kept, hindsight
// loss and regret are the loss and regret of the means: see hindsightOfMeans.
func (l *Learner) Stats() model.Stats {
	s := l.inner.Stats()
	s.StateBytes = l.Size()
	if l.warm != nil {
		s.HindsightLoss = l.hindsightOfMeans(s)
		s.Observations, s.Loss = l.warm.n, l.warm.loss.Value()
		s.Regret, s.ReportFlops = s.Loss-s.HindsightLoss, 0
		s.Certified, s.RegretBound, s.Certificate = false, 0, 0
		s.LabelBound = 0
		return s
	}
	s.Loss = l.loss(s.Loss) + l.extra
	s.HindsightLoss = l.loss(s.HindsightLoss)
	s.Regret = l.loss(s.Regret) + l.owed
	if s.Certified {
		s.RegretBound = l.loss(s.RegretBound) + l.owed
		s.Certificate = l.loss(s.Certificate) + l.owed
	}
	s.LabelBound /= l.affine.LabelScale
	return s
}

// hindsightOfMeans is the loss of the best constants, NaN if the learner will know no regret.
func (l *Learner) hindsightOfMeans(s model.Stats) float64 {
	if math.IsNaN(s.Regret) && s.ReportFlops == 0 {
		return math.NaN()
	}
	return l.warm.hindsight()
}

// Size is the memory of the state.
func (l *Learner) Size() uint64 {
	size := l.inner.Size() + l.o.ownBytes()
	if l.warm != nil {
		size += l.o.rowBytes() * uint64(len(l.warm.rows))
	}
	return size
}

// AppendWeights appends the weights of the experts, none while observations are kept.
func (l *Learner) AppendWeights(dst []float64) []float64 {
	if l.warm != nil {
		return dst
	}
	return model.AppendWeights(l.inner, dst)
}

// WeightNames returns the names of the learner's weights.
func (l *Learner) WeightNames() []string { return model.WeightNames(l.inner) }

// Report is the learner's in the units of the caller. While observations are kept, Report
// has the figures of Stats and no weights.
func (l *Learner) Report(o model.ReportOptions) model.Report {
	if l.warm != nil {
		s := l.Stats()
		return model.Report{
			HindsightLoss: s.HindsightLoss, Regret: s.Regret, RegretUnpenalized: s.Regret, RegretRKHS: math.NaN(), Certificate: math.NaN(), EffectiveDimension: math.NaN(),
			CertificateOK: s.CertificateOK,
		}
	}
	r := l.inner.Report(o) // Labels do not touch the effective dimension.
	r.HindsightLoss = l.loss(r.HindsightLoss)
	r.Regret = l.loss(r.Regret) + l.owed
	r.RegretUnpenalized = l.loss(r.RegretUnpenalized) + l.owed
	r.RegretRKHS = l.loss(r.RegretRKHS) + l.owed
	r.Certificate = l.loss(r.Certificate) + l.owed
	for m, regret := range r.SwitchingRegret {
		r.SwitchingRegret[m] = l.loss(regret) + l.owed
	}
	for m, loss := range r.HindsightPath {
		r.HindsightPath[m] = l.loss(loss)
	}
	for k := range r.Experts {
		r.Experts[k].Loss = l.loss(r.Experts[k].Loss)
	}
	l.unscaleWeights(r.Weights)
	return r
}

// Class is the learner's, known after the warm-up.
func (l *Learner) Class() (c regret.Class, known bool) {
	if l.warm != nil {
		return c, false
	}
	c, known = regret.ClassOf(l.inner)
	c.Offsets, c.Scales = slices.Clone(l.affine.LabelOffset), slices.Repeat([]float64{l.affine.LabelScale}, l.o.Outputs)
	return c, known
}

// AppendInput appends the scaled input, nothing while a warm-up keeps rows.
func (l *Learner) AppendInput(dst, x []float64) []float64 {
	if l.warm != nil {
		return dst
	}
	scaled := make([]float64, l.o.Dimension)
	l.scaleInput(scaled, x)
	return regret.AppendInput(l.inner, dst, scaled)
}
