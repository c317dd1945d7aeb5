package auto

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"hindsight/internal/model"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// Learner is the mixture, of two levels. The first rows of a stream build the experts of
// level 1 at a few stages; before the first stage only the baselines predict. Each output has
// b, the ML-Poly mixture of its experts; stacks, which are forecasters of the residual of b;
// and v, the ML-Poly mixture of b and the stacks.
//
// The opening answers the first rows: see opening.
//
// Level 2 mixes v and the experts of level 1 with a lineup of trees, neighbors, crosses and cells.
// Level 2 sleeps for the first lastStage rows, and for ever if the budget has no room for a
// lineup. While level 2 sleeps, the prediction of the levels is v.
type Learner struct {
	// o are numeric options: keys are no inputs of the levels. dimension is the number of the inputs
	// with the keys, numbers are the others.
	o             Options
	dimension     int
	keys          []Key
	numbers       []int
	plan          Plan
	maps          []*featureMap
	stackRenewals [stacks]renewal
	// lineup is empty if the budget has no room for one.
	lineup lineup
	// ridges is the number of ridge regressions of the opening, 0 without an opening.
	ridges         int
	view           view
	level2Renewals [stacks]renewal
	// level1Block, keyedBlock and level2Block are the shapes of advice.
	level1Block, level2Block block
	keyedBlock               keyedBlock
	// nearAsleep are the experts of level 2 that have weights while the neighbors rest.
	nearAsleep []bool
	// fixedBytes is the memory without the kept rows and without memoryBytes, the memory of
	// what the lineup knows.
	fixedBytes, memoryBytes uint64
	state
	// scratch is the scratch of observations; pool lends scratch to predictions. newest are the solutions of
	// the newest prediction, or nil.
	scratch *scratch
	pool    sync.Pool
	newest  atomic.Pointer[solved]
}

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
	lags []float64
	// lagged counts the rows that were predicted after a label, up to laggedRows.
	lagged     uint64
	kept       []row
	opening    opening
	bandwidths bandwidths
	experts    []expertMap
	mixers     []mixer
	// screen is nil without screening.
	screen *screen
	// keyed is nil without keys.
	keyed  *keyed
	level2 []*level2
	// served are the predictions v of the first rows, by outputs, and nil once level 2 is
	// awake.
	served []float64
	// memories are nil while level 2 sleeps.
	memories []*memory
	// stale are the buckets of staleness of each output, nil without level 2. delays are how many
	// labels came between the prediction and the label of each of the newest observations, the delay of
	// observation n at n mod 9.
	stale  [][buckets]stale
	delays [9]uint64
	// level2Rounds counts the rows that the stacks of level 2 have learned.
	level2Rounds uint64
}

// stage says which experts predict.
type stage int

const (
	asleep   stage = iota // None.
	starting              // The baselines.
	complete              // All.
)

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

// awake reports whether expert k < experts or finalist k−experts predicts.
func (s stage) awake(k, experts int) bool {
	return s == complete || (s == starting && (k < baselines || k == experts))
}

// New is a learner that has seen nothing. It panics if an option is out of its range.
func New(o Options) *Learner {
	if !o.valid() {
		panic(fmt.Sprintf("auto: options %+v", o))
	}
	n := o.numeric()
	return newLearner(o, n.lineup(), n.ridges())
}

func newLearner(whole Options, lineup lineup, ridges int) *Learner {
	o := whole.numeric()
	plan := o.plan()
	var maps []*featureMap
	for _, kind := range plan.maps() {
		maps = append(maps, newFeatureMap(o, kind))
	}
	l := &Learner{
		o: o, dimension: whole.Dimension, keys: whole.Keys, numbers: whole.numbers(),
		plan: plan, maps: maps, lineup: lineup, ridges: ridges, view: o.view(),
	}
	l.fixedBytes = o.bytes(plan) + o.openingBytes(ridges)
	l.stackRenewals = stackRenewals(plan.experts())
	l.level1Block, l.keyedBlock, l.level2Block = level1Block(plan), o.keyedBlock(), level2Block(lineup)
	if !lineup.empty() {
		l.level2Renewals = stackRenewals(o.level2Experts(plan, lineup))
		l.fixedBytes += o.level2Bytes(lineup)
		l.memoryBytes = o.memoryBytes(lineup)
		l.nearAsleep = o.nearAsleep(lineup)
	}
	l.state = l.newState()
	l.scratch = l.newScratch()
	l.pool.New = func() any { return l.newScratch() }
	return l
}

func (l *Learner) newState() state {
	o, plan, maps := l.o, l.plan, l.maps
	s := state{
		inputs: newColumns(o.inputs(), o.joint()), labels: newColumns(o.Outputs, nil),
		lags: make([]float64, o.remembered()*o.Outputs), bandwidths: newBandwidths(plan, o),
		experts: newExperts(o, plan, maps), mixers: make([]mixer, o.Outputs), keyed: newKeyed(o),
		opening: o.newOpening(l.ridges), screen: newScreen(o),
	}
	s.stale = o.newStale(l.lineup)
	for j := range s.mixers {
		s.mixers[j] = newMixer(plan.experts())
		if !l.lineup.empty() {
			s.level2 = append(s.level2, newLevel2(o, l.lineup))
		}
	}
	return s
}

func (l *Learner) awake() bool { return l.memories != nil }

// scratch is the scratch of one prediction, and holds its result.
type scratch struct {
	// numbers are the inputs without the keys, if there are keys; inner are the inputs of the levels.
	numbers, inner []float64
	// wide is nil without screening.
	wide *wideScratch
	// seen is the number of labels before the prediction, lags the last of them, and last
	// the newest in the units of the experts.
	lags []float64
	seen uint64
	last []float64
	// columns are the scaled inputs and lags; in, angles and affine are parts of maps.
	columns, in, angles, affine []float64
	// advice are the predictions of the experts, by outputs, final the predictions of b and the
	// stacks. residuals are the last y − b, values are v, and answers the predictions of the levels.
	advice, final, residuals, values, answers []float64
	// weights are the weights of a mixture.
	weights []float64
	solved  *solved
	// row are features with their labels. The last entries of absorbed, whose end is aligned, are a copy for
	// each factor: see qr.NewRow. room is what qr.Absorb wants.
	row, absorbed, room []float64
	stack               stackScratch
	awake               [complete + 1][]bool
	finalAwake          [complete + 1][]bool
	// keyed is nil without effects of keys.
	keyed         *keyedScratch
	opening       openingScratch
	simulated     simulated
	simulatedLags []float64
	// level2 is nil without a lineup.
	level2 *level2Scratch
}

func (l *Learner) newScratch() *scratch {
	o, k := l.o, l.plan.experts()
	widest := 0
	for _, e := range l.experts {
		widest = max(widest, e.features.size)
	}
	s := &scratch{
		lags: make([]float64, len(l.lags)), last: make([]float64, o.Outputs),
		columns: make([]float64, o.columns()), in: make([]float64, o.columns()),
		angles: make([]float64, o.Frequencies), affine: make([]float64, o.affine()),
		solved: newSolved(o, l.plan), row: make([]float64, widest+2*o.Outputs), absorbed: qr.NewRow(widest + 2*o.Outputs),
		room:   make([]float64, qr.AbsorbRoom(widest)),
		advice: make([]float64, k*o.Outputs), final: make([]float64, finalists*o.Outputs),
		residuals: make([]float64, o.Outputs), values: make([]float64, o.Outputs), answers: make([]float64, o.Outputs),
		weights: make([]float64, k), stack: newStackScratch(k), opening: l.newOpeningScratch(),
		numbers: make([]float64, o.inputs()), keyed: newKeyedScratch(o), wide: newWideScratch(o),
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
	if !l.lineup.empty() {
		s.level2 = newLevel2Scratch(o, l.lineup)
		s.simulated.said, s.simulatedLags = make([]opinions, o.Outputs), make([]float64, len(l.lags))
	}
	return s
}

// Check reports whether Observe would accept the observation.
func (l *Learner) Check(x, y []float64, weight float64) error {
	return cmp.Or(l.checkFeatures(x), model.CheckLabels(y, l.o.Outputs), model.CheckWeight(weight))
}

// laggedRows is how many rows must have lags before predictions have lags, if as many rows have none.
const laggedRows = 8

// presentLags reports whether predictions have lags. If labels come late, the first rows were predicted before any label,
// and a learner of these rows knows no effect of lags: AWV would draw the prediction to its prior, and the forecasters of
// changes would add a change to a label that no row was a change from.
func (l *Learner) presentLags() bool {
	return l.o.lags() == 0 || l.lagged >= laggedRows || l.n < l.lagged+laggedRows
}

// foresee is present for a prediction.
func (l *Learner) foresee(s *scratch, x, lags []float64, seen uint64) {
	if l.presentLags() {
		l.present(s, x, lags, seen)
		return
	}
	l.present(s, x, lags, 0)
	s.seen = seen
}

// present writes the columns of an input, given its lags and the number of labels before.
func (l *Learner) present(s *scratch, x, lags []float64, seen uint64) {
	d, k := l.o.Dimension, l.o.Outputs
	copy(s.lags, lags)
	s.seen = seen
	if l.screen == nil {
		s.inner = x
		l.inputs.scaled(s.columns[:d], x)
	} else {
		l.presentAll(s, x)
	}
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
	if l.screen != nil {
		copy(s.wide.z[l.o.whole:], lagged)
	}
}

// Predict allocates nothing once its scratch is warm.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := l.checkFeatures(x); err != nil {
		return err
	}
	s := l.pool.Get().(*scratch) //nolint:forcetypeassert // The pool holds nothing else.
	defer l.pool.Put(s)
	bucket := l.ahead(p.Horizon)
	x = l.split(s, x)
	l.answer(s, x, l.lags, l.n, bucket < 0)
	if stageAfter(l.n) == complete && l.presentLags() { // Else the row will be learned with other columns.
		l.leave(s, x)
	}
	l.say(p, s, bucket)
	return nil
}

func (l *Learner) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, l.dimension, model.MaxMagnitude)
}

// say writes the answer in the scratch, of a bucket of staleness or −1, into p.
func (l *Learner) say(p *model.Prediction, s *scratch, bucket int) {
	p.Resize(l.o.Outputs)
	copy(p.Values, s.answers)
	l.age(p, s, bucket)
	if l.opens() {
		l.ask(s)
		for j, levels := range s.answers {
			l.open(s, j, levels, l.n)
		}
		copy(p.Values, s.opening.answers)
	}
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	if m := &l.mixers[0]; l.o.Outputs == 1 && m.signs && l.n > 0 {
		p.Probability = m.calibration.probability(p.Values[0])
	}
	p.Advice = l.appendAdvice(p.Advice, s)
}

// answer writes the advice and the prediction of the levels for an input into the scratch, given
// the lags of the first seen labels. A prediction that is not fresh has no last residual.
func (l *Learner) answer(s *scratch, x, lags []float64, seen uint64, fresh bool) {
	l.foresee(s, x, lags, seen)
	l.baselines(s, fresh)
	if stageAfter(l.n) == complete {
		l.solve(s)
	}
	l.mixLevels(s, fresh)
}

// mixLevels is the rest of answer, once the experts of level 1 have predicted.
func (l *Learner) mixLevels(s *scratch, fresh bool) {
	for j := range l.mixers {
		q := l.mixLevel1(s, j, fresh)
		if stageAfter(l.n) == complete {
			l.mixers[j].solve(&s.stack, q)
		}
		l.valueLevel1(s, j)
	}
	l.liftLevel1(s)
	for j := range l.memories {
		l.queryLineup(s, j)
		q := l.mixLevel2(s, j, fresh)
		l.level2[j].solve(&s.level2.stack, q)
		l.valueLevel2(s, j)
	}
}

// mixLevel1 writes b of an output, and returns what the stacks predict from.
func (l *Learner) mixLevel1(s *scratch, j int, fresh bool) asked {
	k := l.plan.experts()
	m, advice, final := &l.mixers[j], s.advice[j*k:][:k], s.final[j*finalists:][:finalists]
	mixed := m.mixBase(s.weights, advice, s.awake[stageAfter(l.n)])
	for i := range final {
		final[i] = mixed
	}
	if s.residuals[j] = 0; fresh {
		s.residuals[j] = m.residual
	}
	return asked{m.units, advice, final, s.residuals[j]}
}

// valueLevel1 writes v of an output.
func (l *Learner) valueLevel1(s *scratch, j int) {
	m := &l.mixers[j]
	s.values[j] = m.value(m.mixFinal(s.weights, s.final[j*finalists:][:finalists], s.finalAwake[stageAfter(l.n)]))
}

// liftLevel1 writes the predictions of level 1 and of the keys, from which level 2 predicts.
func (l *Learner) liftLevel1(s *scratch) {
	copy(s.answers, s.values)
	if l.keyed != nil {
		l.findKeys(s, nil)
		l.mixKeys(s, stageAfter(l.n))
		copy(s.answers, s.keyed.us)
	}
	if l.awake() {
		l.measure(s.level2)
	}
}

// mixLevel2 writes the predictions of the lineup for the query, and b, and returns what the stacks predict from.
func (l *Learner) mixLevel2(s *scratch, j int, fresh bool) asked {
	final, residual := l.consult(s, j), &s.level2.residuals[j]
	if *residual = 0; fresh {
		*residual = l.level2[j].residual
	}
	return asked{s.level2.units[j], l.expertsOf(s, j), final[1:], *residual}
}

// valueLevel2 writes the answer of an output.
func (l *Learner) valueLevel2(s *scratch, j int) {
	u, final := l.level2[j], s.level2.final[j*level2Finalists:][:level2Finalists]
	u.finish(s.level2, s.level2.units[j], l.expertsOf(s, j), final)
	s.answers[j] = l.mixers[j].value(u.mixFinal(s.level2.weights, final, nil))
}

// baselines writes the advice of the baselines. If the prediction is not fresh, the mean of
// all labels stands in for the mean of the newest labels.
func (l *Learner) baselines(s *scratch, fresh bool) {
	k := l.plan.experts()
	for j := range l.mixers {
		m, advice := &l.mixers[j], s.advice[j*k:][:k]
		clear(advice)
		advice[meanBaseline] = within(m.mean, m.low, m.high)
		advice[lastBaseline] = within(s.lags[j], m.low, m.high)
		if advice[recentBaseline] = advice[meanBaseline]; fresh {
			advice[recentBaseline] = within(m.recent, m.low, m.high)
		}
	}
}

// solve writes the advice of all other experts.
func (l *Learner) solve(s *scratch) {
	for i := range l.experts {
		l.solveMap(s, i)
		l.adviseFactors(s, i)
		l.adviseDescents(s, &l.experts[i], s.solved.maps[i].z)
	}
	if l.screen != nil {
		l.adviseWide(s)
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

// adviseDescents writes the advice of the first-order learners of a map.
func (l *Learner) adviseDescents(s *scratch, e *expertMap, z []float64) {
	k := l.plan.experts()
	z, _ = e.features.slope(z)
	for d, theta := range e.descents {
		for j := range l.mixers {
			s.advice[j*k+e.descentAt+d] = l.mixers[j].label(loops.Dot(theta[j*len(z):][:len(z)], z))
		}
	}
}
