package kons

import (
	"cmp"
	"math"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// Newton takes online Newton steps over a feature map. The state of an output is
// [R u], RᵀR = A, u = R⁻ᵀm, m = Aw:
//
//	v = R⁻ᵀφ,  q = ‖v‖²,  ȳ = v·u,  ŷ = ȳ cut to [−C, C]
//	u ← u − (ȳ−ŷ)/q v  where ŷ ≠ ȳ,  then rotations by the row √(ηω)ġ (φ, ŷ) less
//	√(ω/η) in its label, where ġ ≠ 0
//
// A round costs 2r² multiply-adds an output, and 2r² for a tracked regret.
//
// Source: KONS (ICML 2017), eq. (1), in the primal.
type Newton struct {
	o        Options
	features feature.Map
	outputs  []output
	// hindsight is the second factor, of αI + Σωφφᵀ with the labels as columns, nil unless
	// regret is tracked.
	hindsight *ridged
	// fixed: the features of a past round never change, and A never shrinks.
	fixed bool
	work  work
	pool  sync.Pool
}

type output struct {
	account

	factor *ridged
}

// New is a learner before its first observation. It panics if an option is out of range.
func New(features feature.Map, o Options) *Newton {
	n := &Newton{o: completed(o), features: features, fixed: true}
	n.outputs = make([]output, n.o.Outputs)
	for j := range n.outputs {
		n.outputs[j].account = newAccount(&n.o)
	}
	n.begin()
	n.work.fit(features.Size(), &n.o)
	return n
}

func (n *Newton) begin() {
	r, unit := n.features.Size(), n.outputs[0].unit
	for j := range n.outputs {
		n.outputs[j].factor = newRidged(r, 1, n.o.Alpha, unit)
	}
	if n.o.TrackRegret {
		n.hindsight = newRidged(r, n.o.Outputs, n.o.Alpha, unit)
	}
}

type work struct {
	question

	// row and room are the arguments of qr.Factor.Absorb. past is the solution of the second factor,
	// ignored its prediction.
	row, room, past, ignored []float64
	steps                    []step
}

type question struct {
	// z is φ, solved a v for each output, means their ȳ.
	z, solved, means []float64
	// solutions have a place for the second factor too.
	solutions []qr.Solution
}

// sized is a slice of n numbers of any values.
func sized(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n, n+n/2)
	}
	return s[:n]
}

// rowOf is a slice of n numbers of any values that ends at a cache line: see qr.NewRow.
func rowOf(s []float64, n int) []float64 {
	if len(s) != n {
		return qr.NewRow(n)
	}
	return s
}

func (q *question) fit(r, outputs int) {
	q.z, q.solved, q.means = sized(q.z, r), rowOf(q.solved, r*outputs), sized(q.means, outputs)
	if cap(q.solutions) <= outputs {
		q.solutions = make([]qr.Solution, outputs+1)
	}
}

func (w *work) fit(r int, o *Options) {
	w.question.fit(r, o.Outputs)
	w.row, w.room = rowOf(w.row, r+o.Outputs), sized(w.room, qr.AbsorbRoom(r))
	if w.steps == nil {
		w.steps, w.ignored = make([]step, o.Outputs), make([]float64, o.Outputs)
	}
	if o.TrackRegret {
		w.past = rowOf(w.past, r)
	}
}

// Cost is the cost of a learner with r features over a map of mapBytes.
func Cost(r int, o Options, mapBytes uint64) model.Cost {
	o.Outputs = max(o.Outputs, 1)
	n, k := uint64(r), uint64(o.Outputs)
	c := model.Cost{
		Features:     r,
		StateBytes:   k*(qr.Bytes(r, 1)+uint64(o.accountBytes())) + 8*(4*n+2*k*n) + mapBytes,
		PredictFlops: k * (n*(n+1)/2 + 2*n),
		ObserveFlops: k * (2*n*(n+1) + 4*n),
	}
	if o.TrackRegret {
		c.StateBytes += qr.Bytes(r, o.Outputs) + 8*2*n
		c.ObserveFlops += 2*n*(n+1) + 3*k*n
	}
	return c
}

// Check returns the error that Observe would return. Labels of the logistic and the
// squared hinge loss are −1 or 1.
func (n *Newton) Check(x, y []float64, weight float64) error {
	return cmp.Or(n.checkFeatures(x), n.o.check(y, weight))
}

func (n *Newton) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, n.features.Dimension(), n.features.InputLimit())
}

// LossOf is the loss of a prediction under a label, without its weight.
func (n *Newton) LossOf(prediction, label float64) float64 { return n.o.Loss.Value(prediction, label) }

// ask prepares the question of every output about the features in q.z.
func (n *Newton) ask(q *question) []qr.Solution {
	r, solutions := len(q.z), q.solutions[:len(n.outputs)]
	for j := range solutions {
		v := q.solved[j*r : (j+1)*r]
		copy(v, q.z)
		solutions[j] = qr.Solution{Factor: n.outputs[j].factor.Factor, Z: v, Priors: q.means[j : j+1]}
	}
	return solutions
}

// Predict answers ŷ, for a loss of classes the score, whose sign is the class. It reads the
// state and allocates nothing once its scratch is warm. There is no standard error. The
// leverage is the largest ηq/(1+ηq) of the outputs.
func (n *Newton) Predict(p *model.Prediction, x []float64) error {
	if err := n.checkFeatures(x); err != nil {
		return err
	}
	q, ok := n.pool.Get().(*question)
	if !ok {
		q = new(question)
	}
	defer n.pool.Put(q)
	q.fit(n.features.Size(), len(n.outputs))
	n.features.Map(q.z, x)
	p.Resize(len(n.outputs))
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	solutions := n.ask(q)
	qr.SolveTogether(solutions)
	for j, s := range solutions {
		a := &n.outputs[j].account
		p.Values[j] = n.o.middle() + clamp(q.means[j], a.clip)
		p.Leverage = n.o.leverage(p.Leverage, a, s.Square)
	}
	return nil
}

// Observe learns (x, y) by a forward solve and a pass over the factor of each output, and
// of the second factor. It allocates nothing once the outcome has room. The regret of the
// outcome is NaN unless it is tracked.
func (n *Newton) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := n.Check(x, y, weight); err != nil {
		return err
	}
	n.learn(o, x, y, weight)
	return nil
}

func (n *Newton) learn(o *model.Outcome, x, y []float64, weight float64) {
	w := &n.work
	if n.outputs[0].Rounds == 0 && weight != 1 {
		for j := range n.outputs {
			n.outputs[j].unit = weight
		}
		n.begin()
	}
	n.features.Map(w.z, x)
	for j, solution := range n.solve() {
		e := &n.outputs[j]
		s := n.o.step(&e.account, w.means[j], solution.Square, y[j], weight)
		w.steps[j] = s
		if s.by != 0 {
			e.factor.Shift(solution.Z, s.by, 0)
		}
		if s.slope == 0 {
			continue
		}
		row := w.scaled(solution.Z, 1, s.slope)
		row[len(w.z)] = s.label
		e.Certificate.Add(s.certificate(e.factor.Absorb(row, solution.Z, w.room).Leverage))
	}
	var residuals []float64
	if n.hindsight != nil {
		root := math.Sqrt(weight)
		row := w.scaled(w.past, len(n.outputs), root)
		residuals = row[len(w.z):]
		for j, v := range y {
			residuals[j] = float64(root * (v - n.o.middle()))
		}
		n.hindsight.Absorb(row, w.past, w.room)
	}
	o.Resize(len(n.outputs))
	o.Loss, o.Regret = 0, 0
	for j := range n.outputs {
		e := &n.outputs[j]
		o.Predictions[j] = n.o.middle() + w.steps[j].predicted
		o.Loss += e.record(&n.o, o.Predictions[j], y[j], weight)
		if n.hindsight != nil {
			e.track(residuals[j], float64(math.Sqrt(weight)*(o.Predictions[j]-y[j])))
		}
	}
	if n.outputs[0].startsWeightEpoch(weight) {
		n.startWeightEpoch(weight)
	}
	n.raise()
	for j := range n.outputs {
		o.Regret += n.outputs[j].Regret.Value()
	}
	if n.hindsight == nil {
		o.Regret = math.NaN()
	}
}

// startWeightEpoch makes a weight Ω, at most 30 times in the life of a model: each time Ω grows by the
// factor 4 or more.
func (n *Newton) startWeightEpoch(unit float64) {
	for j := range n.outputs {
		e := &n.outputs[j]
		e.startWeightEpoch(&n.o, unit, e.factor.logDet(e.ridge(&n.o)))
		e.factor.reset(n.o.Alpha, unit)
		e.base = e.factor.logDet(e.ridge(&n.o))
	}
	if n.hindsight != nil {
		n.hindsight.low = n.hindsight.Order()
	}
}

func (n *Newton) raise() {
	w, unit := &n.work, n.outputs[0].unit
	for j := range n.outputs {
		e := &n.outputs[j]
		e.factor.raise(w.row[:len(w.z)+1], w.ignored[:1], &n.o, unit, func(_ []float64, r qr.Rotation) {
			e.base -= float64(2 * exponential.Log(r.Gamma))
		})
	}
	if n.hindsight == nil {
		return
	}
	n.hindsight.raise(w.row, w.ignored, &n.o, unit, func(residuals []float64, _ qr.Rotation) {
		for j, residual := range residuals {
			n.outputs[j].Raise(float64(residual * residual))
		}
	})
}

// scaled is the row of the features and the solution times a number, with room for the labels.
func (w *work) scaled(solution []float64, labels int, by float64) []float64 {
	row := w.row[:len(w.z)+labels]
	copy(row, w.z)
	if by != 1 {
		loops.Scale(row[:len(w.z)], by)
		loops.Scale(solution, by)
	}
	return row
}

// solve solves with the factor of every output and the second factor. Factors of one shape
// go together, so that none waits for the divisions of another.
func (n *Newton) solve() []qr.Solution {
	w := &n.work
	solutions := n.ask(&w.question)
	if n.hindsight != nil {
		copy(w.past, w.z)
		past := qr.Solution{Factor: n.hindsight.Factor, Z: w.past, Priors: w.ignored}
		if len(solutions) == 1 {
			qr.SolveTogether(append(solutions, past))
			return solutions
		}
		n.hindsight.Solve(past.Z, past.Priors)
	}
	qr.SolveTogether(solutions)
	return solutions
}

// grow adds a feature without a past. A restart forgets w and A.
func (n *Newton) grow(restart bool) {
	r, unit := n.features.Size(), n.outputs[0].unit
	for j := range n.outputs {
		if restart {
			n.outputs[j].factor = newRidged(r, 1, n.o.Alpha, unit)
		} else {
			n.outputs[j].factor.add(1, n.o.Alpha, unit)
		}
	}
	if n.hindsight != nil {
		n.hindsight.add(n.o.Outputs, n.o.Alpha, unit)
	}
	n.work.fit(r, &n.o)
}

// Stats costs r logarithms an output, and r multiply-adds more for a tracked regret.
func (n *Newton) Stats() model.Stats {
	total := started()
	for j := range n.outputs {
		e, explained := &n.outputs[j], 0.0
		if n.hindsight != nil {
			explained = n.hindsight.Explained(j)
		}
		s := e.figures(&n.o, e.factor.LogDet(e.ridge(&n.o)), n.fixed)
		s.LogDeterminant += e.factor.missing(e.unit)
		total.CertificateOK = total.CertificateOK && e.holds(&n.o, s, n.hindsight != nil, explained)
		ledger.Sum(&total, s)
	}
	total.Features, total.StateBytes = n.features.Size(), n.Size()
	return finished(total)
}

// Size is the memory of the state.
func (n *Newton) Size() uint64 { return Cost(n.features.Size(), n.o, n.features.Bytes()).StateBytes }

// Report adds to Stats the regret without the penalty, at r²/2 multiply-adds an output,
// and if asked the largest effective dimension of an output, at r³/6 each.
func (n *Newton) Report(o model.ReportOptions) model.Report {
	s := n.Stats()
	r := ledger.Report(s)
	if n.hindsight != nil {
		r.RegretUnpenalized = s.Regret + n.penalty()
	}
	if o.EffectiveDimension {
		r.EffectiveDimension = 0
		for j := range n.outputs {
			r.EffectiveDimension = math.Max(r.EffectiveDimension, n.outputs[j].factor.effectiveDimension(n.o.Alpha, o.Pause))
		}
	}
	return r
}

// penalty is ‖Λ^½ĝ‖² with Rĝ = u of the second factor, summed over the outputs.
func (n *Newton) penalty() float64 {
	var total compensated.Sum
	g := make([]float64, n.hindsight.Order())
	for j := range n.outputs {
		n.hindsight.Weights(g, j)
		for i, v := range g {
			total.Add(float64(float64(n.o.Alpha*n.hindsight.units[i]) * float64(v*v)))
		}
	}
	return total.Value()
}

// Visit visits account and factor of each output, and then the second factor.
func (n *Newton) Visit(v *codec.Visitor) {
	for j := range n.outputs {
		e := &n.outputs[j]
		e.visit(v, &n.o, &n.outputs[0].account)
		e.factor.visit(v, &n.o, e.unit)
	}
	if n.hindsight != nil {
		n.hindsight.visit(v, &n.o, n.outputs[0].unit)
	}
}
