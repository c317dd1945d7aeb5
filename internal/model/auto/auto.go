package auto

import (
	"fmt"
	"math"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/qr"
)

// Learner is the mixture. The first rows of a stream build its experts at a few stages;
// before the first stage only the baselines predict. Each output has b, the ML-Poly mixture
// of its experts; stacks, which are forecasters of the residual of b; and the ML-Poly mixture
// of b and the stacks, which is the prediction.
type Learner struct {
	o             Options
	plan          Plan
	maps          []*featureMap
	stackRenewals [stacks]renewal
	// fixedBytes is the memory without the kept rows.
	fixedBytes uint64
	state
	own  *scratch
	pool sync.Pool
}

// state is the stored state.
type state struct {
	// n is the number of observations.
	n uint64
	// late says that other labels came between a prediction and its label.
	late bool
	// stackRounds counts the rows that the stacks have learned since the last stage, which
	// built new stacks.
	stackRounds    uint64
	inputs, labels columns
	// weights are of all rows, and counted is Σω.
	weights model.Weights
	counted float64
	// lags are the last labels, newest first, by outputs. A model.Light row repeats the label before.
	lags       []float64
	kept       []row
	bandwidths bandwidths
	experts    []expertMap
	mixers     []mixer
}

// stage says which experts predict.
type stage int

const (
	asleep   stage = iota // None.
	starting              // The baselines.
	complete              // All.
)

// stageAfter is the stage after n observations.
func stageAfter(n uint64) stage {
	switch {
	case n == 0:
		return asleep
	case n < firstStage:
		return starting
	default:
		return complete
	}
}

// awake tells whether expert k < experts or finalist k−experts predicts.
func (s stage) awake(k, experts int) bool {
	return s == complete || (s == starting && (k < baselines || k == experts))
}

// New is a learner that has seen nothing. It panics if an option is out of its range.
func New(o Options) *Learner {
	if !o.valid() {
		panic(fmt.Sprintf("auto: options %+v", o))
	}
	plan := o.plan()
	var maps []*featureMap
	for _, kind := range plan.maps() {
		maps = append(maps, newFeatureMap(o, kind))
	}
	l := &Learner{o: o, plan: plan, maps: maps, fixedBytes: o.bytes(plan), state: newState(o, plan, maps)}
	l.stackRenewals = stackRenewals(plan.experts())
	l.own = l.newScratch()
	l.pool.New = func() any { return l.newScratch() }
	return l
}

func newState(o Options, plan Plan, maps []*featureMap) state {
	s := state{
		inputs: newColumns(o.Dimension, o.Joint), labels: newColumns(o.Outputs, nil),
		lags: make([]float64, o.remembered()*o.Outputs), bandwidths: newBandwidths(plan, o),
		experts: newExperts(o, plan, maps), mixers: make([]mixer, o.Outputs),
	}
	for j := range s.mixers {
		s.mixers[j] = newMixer(plan.experts(), o)
	}
	return s
}

// scratch is the scratch of one prediction, and holds its result.
type scratch struct {
	// seen is the number of labels before the prediction, lags the last of them, and last
	// the newest in the units of the experts.
	lags []float64
	seen uint64
	last []float64
	// columns are the scaled inputs and lags; in, angles and affine are parts of maps, z a
	// map's features, and rows the features with their labels.
	columns, in, angles, affine, z, rows []float64
	// advice are the predictions of the experts, by outputs, final those of b and the
	// stacks. residuals are the last y − b, and values the prediction.
	advice, final, residuals, values []float64
	// weights are those of a mixture.
	weights []float64
	// turns and solutions are those of the forgetting factors. Their rows are the last entries
	// of turned and solved, whose ends are aligned: see qr.NewRow.
	turns          []qr.Turn
	solutions      []qr.Solution
	turned, solved [][]float64
	stack          stackScratch
	awake          [complete + 1][]bool
	finalAwake     [complete + 1][]bool
}

func (l *Learner) newScratch() *scratch {
	o, k := l.o, l.plan.experts()
	most := 0
	for _, e := range l.experts {
		most = max(most, e.features.size)
	}
	s := &scratch{
		lags: make([]float64, len(l.lags)), last: make([]float64, o.Outputs),
		columns: make([]float64, o.columns()), in: make([]float64, o.columns()),
		angles: make([]float64, o.Frequencies), affine: make([]float64, o.affine()),
		z: make([]float64, most), rows: make([]float64, most+2*o.Outputs),
		advice: make([]float64, k*o.Outputs), final: make([]float64, finalists*o.Outputs),
		residuals: make([]float64, o.Outputs), values: make([]float64, o.Outputs),
		weights: make([]float64, k), stack: newStackScratch(k),
	}
	for range l.plan.forgettings {
		s.turned, s.solved = append(s.turned, qr.NewRow(most+2*o.Outputs)), append(s.solved, qr.NewRow(most))
		s.turns = append(s.turns, qr.Turn{Priors: make([]float64, 2*o.Outputs)})
		s.solutions = append(s.solutions, qr.Solution{Priors: make([]float64, 2*o.Outputs)})
	}
	for st := range s.awake {
		s.awake[st], s.finalAwake[st] = make([]bool, k), make([]bool, finalists)
		for i := range k {
			s.awake[st][i] = stage(st).awake(i, k)
		}
		for i := range finalists {
			s.finalAwake[st][i] = stage(st).awake(k+i, k)
		}
	}
	return s
}

// Check tells whether Observe would accept the observation.
func (l *Learner) Check(x, y []float64, weight float64) error {
	if err := model.CheckFeatures(x, l.o.Dimension, model.MaxMagnitude); err != nil {
		return err
	}
	if err := model.CheckLabels(y, l.o.Outputs); err != nil {
		return err
	}
	return model.CheckWeight(weight)
}

// present writes the columns of an input, given its lags and the number of labels before.
func (l *Learner) present(s *scratch, x, lags []float64, seen uint64) {
	d, k := l.o.Dimension, l.o.Outputs
	copy(s.lags, lags)
	s.seen = seen
	l.inputs.scaled(s.columns[:d], x)
	lagged := s.columns[d:]
	clear(lagged)
	clear(s.last)
	for i := range min(uint64(l.o.lags()), seen) {
		l.labels.scaled(lagged[int(i)*k:][:k], lags[int(i)*k:][:k])
	}
	if seen > 0 {
		for j := range s.last {
			s.last[j] = l.mixers[j].scaledLabel(lags[j])
		}
	}
	root := math.Sqrt(float64(d))
	for j, v := range s.columns {
		if j < d {
			v /= root
		}
		s.affine[j] = v
	}
	s.affine[len(s.columns)] = 1
}

// Predict allocates nothing once its scratch is warm.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := model.CheckFeatures(x, l.o.Dimension, model.MaxMagnitude); err != nil {
		return err
	}
	s := l.pool.Get().(*scratch) //nolint:forcetypeassert // The pool holds nothing else.
	defer l.pool.Put(s)
	l.answer(s, x)
	p.Resize(l.o.Outputs)
	copy(p.Values, s.values)
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	if m := &l.mixers[0]; l.o.Outputs == 1 && m.signs && l.n > 0 {
		p.Probability = m.calibration.probability(s.values[0])
	}
	p.Advice = l.appendAdvice(p.Advice, s)
	return nil
}

// answer writes the advice and the prediction for an input into the scratch.
func (l *Learner) answer(s *scratch, x []float64) {
	l.present(s, x, l.lags, l.n)
	l.baselines(s)
	if stageAfter(l.n) == complete {
		l.solve(s)
	}
	for j := range l.mixers {
		l.predictOutput(s, j)
	}
}

// baselines writes the advice of the baselines.
func (l *Learner) baselines(s *scratch) {
	k := l.plan.experts()
	for j := range l.mixers {
		m, advice := &l.mixers[j], s.advice[j*k:][:k]
		clear(advice)
		advice[meanBaseline] = within(l.labels.moments[j].Mean, m.low, m.high)
		advice[lastBaseline] = within(s.lags[j], m.low, m.high)
		advice[recentBaseline] = within(m.recent, m.low, m.high)
	}
}

// solve writes the advice of all other experts.
func (l *Learner) solve(s *scratch) {
	for i := range l.experts {
		e := &l.experts[i]
		z := s.z[:e.features.size]
		e.features.fill(z, s, &l.bandwidths)
		if len(e.factors) > 0 {
			for f, factor := range e.factors {
				t := &s.solutions[f]
				t.Factor, t.Z = factor, s.solved[f][len(s.solved[f])-len(z):]
				copy(t.Z, z)
			}
			qr.SolveTogether(s.solutions)
			for f := range e.factors {
				t := &s.solutions[f]
				l.advise(s, e.at+2*f, t.Priors, t.Square/l.plan.forgettings[f])
			}
		}
		waves, _ := e.features.slope(z)
		for d, theta := range e.descents {
			l.adviseDescent(s, e.descentAt+d, theta, waves)
		}
	}
}

// advise writes the advice of the two forecasters of a factor, given its ridge predictions
// and q = zᵀA⁻¹z.
func (l *Learner) advise(s *scratch, at int, priors []float64, q float64) {
	k := l.plan.experts()
	for j := range l.mixers {
		m := &l.mixers[j]
		s.advice[j*k+at] = m.label(priors[2*j] / (1 + q))
		s.advice[j*k+at+1] = m.label(priors[2*j+1]/(1+q) + s.last[j])
	}
}

func (l *Learner) adviseDescent(s *scratch, at int, theta, z []float64) {
	k := l.plan.experts()
	for j := range l.mixers {
		s.advice[j*k+at] = l.mixers[j].label(loops.Dot(theta[j*len(z):][:len(z)], z))
	}
}

// predictOutput mixes the advice of an output.
func (l *Learner) predictOutput(s *scratch, j int) {
	k, now := l.plan.experts(), stageAfter(l.n)
	m, advice, final := &l.mixers[j], s.advice[j*k:][:k], s.final[j*finalists:][:finalists]
	m.base.Weights(s.weights, s.awake[now])
	mixed := mix.Mean(s.weights, advice)
	for i := range final {
		final[i] = mixed
	}
	s.residuals[j] = m.residual
	if now == complete {
		m.solve(&s.stack, m.units, advice, final)
	}
	m.final.Weights(s.weights[:finalists], s.finalAwake[now])
	s.values[j] = mix.Mean(s.weights[:finalists], final)
}
