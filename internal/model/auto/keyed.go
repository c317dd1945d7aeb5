package auto

import (
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/effects"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/qr"
)

// keyed is the level of the keys, between levels 1 and 2. For each output it mixes v, the
// prediction of level 1, with v + e of every expert e of the effects into u. Level 2 has u in
// place of v. The effects learn y − v with the v that was served.
type keyed struct {
	effects *effects.Effects
	mixers  []keyMixer
	// sloped are the numbers with slopes of keys.
	sloped []int
}

// keyMixer is the level of an output: the mixture of v and the experts.
type keyMixer struct {
	mixture *mix.Mixture
	// account compares u with each expert and with v.
	account account
	// passed are the losses of the experts on the rows that a gate before the learner did not
	// admit.
	passed []compensated.Sum
	affine []*qr.Factor
}

func newKeyed(o Options) *keyed {
	if o.keyed == 0 {
		return nil
	}
	k := &keyed{effects: effects.New(o.effects()), mixers: make([]keyMixer, o.Outputs), sloped: o.newSloped()}
	for j := range k.mixers {
		experts := o.keyExperts()
		k.mixers[j] = keyMixer{mix.New(1 + experts), newAccount(experts + 1), make([]compensated.Sum, experts), newKeyAffine(o)}
	}
	return k
}

type keyedScratch struct {
	// values are the keys of the inputs.
	values []float64
	row    *effects.Row
	// effects are e of the experts; predictions are v and v + e; columns are the columns of package
	// effects; by outputs.
	effects, predictions, columns []float64
	// us are u, vs the served v, and served the served v + e.
	us, vs, served []float64
	// bases are what the effects are learned beside, labels the labels of the bases, and beside
	// the best effects beside trees, effects of several inputs included.
	bases, labels, beside []float64
	// after is the number of the last observation with the key, counted from 1, or 0.
	after uint64
	units []units
	// before has the mean and the deviation of the earlier labels, by outputs.
	before []effects.Labels
	// multiplied are the numbers with slopes.
	multiplied, weights []float64
	// said are the predictions of the affine experts, less v of the second; by outputs.
	affine keyAffineScratch
}

func newKeyedScratch(o Options) *keyedScratch {
	if o.keyed == 0 {
		return nil
	}
	e, k := o.keyExperts(), o.Outputs
	return &keyedScratch{
		values: make([]float64, o.keyed), row: effects.NewRow(o.effects()),
		effects: make([]float64, e*k), predictions: make([]float64, (1+e)*k), columns: make([]float64, o.keyColumns()*k),
		us: make([]float64, k), vs: make([]float64, k), served: make([]float64, keyBases*e*k), bases: make([]float64, keyBases*k), labels: make([]float64, keyBases*k),
		beside: make([]float64, k), units: make([]units, k), before: make([]effects.Labels, k), multiplied: make([]float64, o.sloped()), weights: make([]float64, 1+e), affine: newKeyAffineScratch(o),
	}
}

// split writes the inputs that are no keys, and returns them.
func (l *Learner) split(s *scratch, x []float64) []float64 {
	if len(l.keys) == 0 {
		return x
	}
	for i, j := range l.numbers {
		s.numbers[i] = x[j]
	}
	if s.keyed != nil {
		for i, key := range l.keys[:l.o.keyed] {
			s.keyed.values[i] = x[key.Feature]
		}
	}
	return s.numbers
}

// base is what level 2 has as the prediction below: u, or v without keys.
func (s *scratch) base(output int) float64 {
	if s.keyed != nil {
		return s.keyed.us[output]
	}
	return s.values[output]
}

// predictionsOf are v and v + e of an output.
func (k *keyedScratch) predictionsOf(output int) []float64 {
	size := len(k.weights)
	return k.predictions[output*size:][:size]
}

func (k *keyedScratch) columnsOf(output int) []float64 {
	size := len(k.columns) / len(k.us)
	return k.columns[output*size:][:size]
}

// findKeys writes the effects of the keys and their columns, or the served columns, and notes the
// units of level 1.
func (l *Learner) findKeys(s *scratch, served *advice) {
	k, e := s.keyed, l.keyed.effects
	e.Find(k.row, k.values, l.multiplied(s))
	k.after = e.After(k.row)
	experts := len(k.weights) - 1
	for j := range l.mixers {
		own := k.effects[j*experts:][:experts]
		e.Say(own, k.row, j)
		k.beside[j] = e.Best(k.row, l.o.Outputs+j)
		e.Fill(k.columnsOf(j), k.row, l.o.Outputs+j, l.n, l.mixers[j].mean)
		l.mixers[j].cutColumns(k.columnsOf(j), k.affine.groups, k.affine.windowed)
		k.units[j] = l.mixers[j].units
		k.before[j] = effects.Labels{Mean: l.mixers[j].mean, Deviation: l.labels.scale[j]}
		if served != nil {
			served.keyColumns(k, j)
		}
		if factors := l.keyed.mixers[j].affine; len(factors) > 0 {
			k.affine.solve(own[experts-l.o.keyAffineExperts():], factors, s.affine, k.columnsOf(j), k.units[j], j)
		}
	}
}

// mixKeys writes v + e and u, given v.
func (l *Learner) mixKeys(s *scratch, now stage) {
	k := s.keyed
	experts := len(k.weights) - 1
	for j := range l.mixers {
		said := k.predictionsOf(j)
		said[0] = s.values[j]
		effected := k.effects[j*experts:][:experts]
		l.keyed.effects.SayProducts(effected[l.o.effects().Experts():][:l.o.effects().Products()], k.row, j, said[0], k.before[j])
		for i, e := range effected {
			switch {
			case now == asleep:
				said[1+i] = said[0]
			case !l.o.addsToV(i):
				said[1+i] = k.units[j].label(e)
			default:
				said[1+i] = k.units[j].cut(said[0] + e)
			}
		}
		m := l.keyed.mixers[j].mixture
		m.Weights(k.weights, nil)
		k.us[j] = k.units[j].value(mix.Mean(k.weights, said))
	}
}

func keyStage(n uint64) stage {
	if n == 0 {
		return asleep
	}
	return complete
}

// learnKeys learns an observation that level 1 has learned.
func (l *Learner) learnKeys(o *model.Outcome, r row, served *advice) {
	s, k := l.scratch, l.scratch.keyed
	n := l.n - 1
	now := keyStage(n)
	l.mixKeys(s, now)
	o.Loss, o.Regret = 0, 0
	for j := range l.mixers {
		m, said, u, y := &l.keyed.mixers[j], k.predictionsOf(j), k.us[j], r.y[j]
		loss := squared(u, y, r.weight)
		m.account.add(y, r.weight, loss, said[1:], said[:1], now)
		o.Predictions[j] = u
		o.Loss += loss
		awake := now != asleep
		if served != nil {
			awake = served.seen > 0
			u = served.keyPredictions(said, j)
		}
		if awake {
			m.mixture.Update(float64(2*r.weight)*(u-y), u, said, nil)
		}
		s.answers[j], k.vs[j] = u, said[0]
		k.bases[j], k.bases[l.o.Outputs+j] = said[0], said[0]
		copy(k.served[j*l.o.effects().Experts():][:l.o.effects().Experts()], said[1:])
	}
	for j := range l.mixers {
		if !l.awake() { // Else the regret is the regret of level 2.
			o.Regret += l.regretOf(j, l.best(j))
		}
	}
	l.learnKeyAffine(r)
}

// compared is the comparison of u with expert e, or with v if e is negative.
func (m *keyMixer) compared(e int) *ledger.Comparison {
	if e < 0 {
		return &m.account.experts[len(m.passed)]
	}
	return &m.account.experts[e]
}

func (k *keyed) visit(v *codec.Visitor, n uint64, o Options) {
	k.effects.Visit(v, n)
	if o.inputs() > mostSloped {
		for i := range k.sloped {
			at := k.sloped[i] + 1
			if v.Int(o.inputs(), &at); v.Reading() {
				k.sloped[i] = at - 1
			}
		}
	}
	for j := range k.mixers {
		m := &k.mixers[j]
		m.mixture.Visit(v)
		m.account.visit(v)
		for _, f := range m.affine {
			visitFactor(v, f, ridge)
		}
		for i := range m.passed {
			visitSum(v, &m.passed[i])
		}
	}
}
