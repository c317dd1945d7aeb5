package auto

import (
	"math"
	"slices"

	"hindsight/internal/model"
)

// Stats costs O(K) an output. Regret is against the best expert of each output: v, an expert
// of level 1, or one of the lineup. HindsightLoss is that expert's loss, and the learner's
// own in the rounds in which the expert slept.
func (l *Second) Stats() model.Stats {
	s, k := l.first.Stats(), l.first.plan.experts()
	s.StateBytes = l.Size()
	if !l.awake() {
		return s
	}
	s.Loss, s.Regret, s.HindsightLoss, s.Certificate, s.RegretBound = 0, 0, 0, 0, 0
	for j, u := range l.uppers {
		m := &l.first.mixers[j]
		e := u.best(m, k)
		loss, regret := u.account.loss.Value(), u.regretOf(m, e, k)
		s.Loss += loss
		s.Regret += regret
		s.HindsightLoss += loss - regret
		if s.Certified {
			certificate, bound := u.promise(m, e, k)
			// Rounding may reverse the order of sums near 0.
			s.Certificate += math.Max(certificate, regret)
			s.RegretBound += math.Max(bound, math.Max(certificate, regret))
		}
		s.CertificateOK = s.CertificateOK && u.holds(m, k, s.Certified)
	}
	return s
}

// Report adds the experts with their weights in the prediction, those of both levels
// multiplied: the weights of an output sum to 1.
func (l *Second) Report(o model.ReportOptions) model.Report {
	s := l.Stats()
	r := model.Report{
		HindsightLoss: s.HindsightLoss, Regret: s.Regret, RegretUnpenalized: s.Regret,
		CertificateOK: s.CertificateOK, EffectiveDimension: math.NaN(), Families: l.families(),
	}
	if o.Importances {
		r.Importances = l.importances(o.Pause)
	}
	names, k := l.WeightNames(), l.first.plan.experts()
	weights, scratch := make([]float64, len(names)), make([]float64, l.weightScratch())
	for j, u := range l.uppers {
		l.weightsOf(weights, scratch, j)
		for i, name := range names {
			awake := l.awake()
			if i < k+stacks {
				awake = stageAfter(l.first.n).awake(i, k)
			}
			r.Experts = append(r.Experts, model.Expert{
				Name: l.first.expertName(name, j), Loss: l.lossOf(u, j, i), Weight: weights[i], Awake: awake,
			})
		}
	}
	return r
}

// lossOf is the loss of a name.
func (l *Second) lossOf(u *upper, output, name int) float64 {
	k, f := l.first.plan.experts(), l.lineup.experts()
	compared := &l.first.mixers[output].account.experts
	switch {
	case name < k:
		return (*compared)[name].Hindsight.Value()
	case name < k+stacks:
		return (*compared)[name+1].Hindsight.Value()
	case name < k+stacks+f:
		return u.account.compared[1+name-k-stacks].Hindsight.Value()
	default:
		return u.account.compared[2+name-k-stacks].Hindsight.Value()
	}
}

// WeightNames are the experts of level 1, its stacks, the experts of the lineup, and the
// stacks of level 2.
func (l *Second) WeightNames() []string {
	names := l.first.plan.names()
	for _, name := range finalNames()[1:] {
		names = append(names, levelOne+"/"+name)
	}
	return append(append(names, l.lineup.names()...), finalNames()[1:]...)
}

func (l *Second) weightScratch() int {
	return len(l.own.weights) + len(l.own.first.weights) + finalists + secondFinalists
}

// weightsOf writes the weight of each name in the prediction of an output. The weight of an
// expert of level 1 is the sum of the weights that it has on its own and through v.
func (l *Second) weightsOf(dst, scratch []float64, output int) {
	k, n, m, u := l.first.plan.experts(), len(l.own.weights), &l.first.mixers[output], l.uppers[output]
	base, rest := scratch[:n], scratch[n:]
	final, rest := rest[:secondFinalists], rest[secondFinalists:]
	below, belowFinal := rest[:k], rest[k:][:finalists]
	m.base.Weights(below, l.own.first.awake[stageAfter(l.first.n)])
	m.final.Weights(belowFinal, l.own.first.finalAwake[stageAfter(l.first.n)])
	v := 1.0
	clear(dst)
	if l.awake() {
		u.base.Weights(base, nil)
		u.final.Weights(final, nil)
		v = final[0] + float64(final[1]*base[0])
		for i := range k {
			dst[i] = float64(final[1] * base[1+i])
		}
		for i, w := range base[1+k:] {
			dst[k+stacks+i] = float64(final[1] * w)
		}
		copy(dst[len(dst)-stacks:], final[2:])
	}
	for i, w := range below {
		dst[i] += float64(float64(v*belowFinal[0]) * w)
	}
	for i, w := range belowFinal[1:] {
		dst[k+i] = float64(v * w)
	}
}

// AppendWeights appends the mean over the outputs of the weights in Report.
func (l *Second) AppendWeights(dst []float64) []float64 {
	n := l.first.plan.experts() + 2*stacks + l.lineup.experts()
	from := len(dst)
	dst = slices.Grow(dst, 2*n+l.weightScratch())[:from+n]
	mean, own := dst[from:], dst[from+n:from+2*n]
	scratch := dst[from+2*n : from+2*n+l.weightScratch()]
	clear(mean)
	for j := range l.uppers {
		l.weightsOf(own, scratch, j)
		for i, w := range own {
			mean[i] += w / float64(len(l.uppers))
		}
	}
	return dst
}

// Size is the memory of the state.
func (l *Second) Size() uint64 {
	size := l.first.Size() + 8*uint64(len(l.served)) + l.upperBytes
	if l.awake() {
		size += l.memoryBytes
	}
	return size
}

// SecondCost is the most that a Second costs.
func SecondCost(o Options) model.Cost {
	c, l := Cost(o), o.lineup()
	observe, predict := o.lineupFlops(l)
	c.StateBytes += o.upperBytes(l) + o.memoryBytes(l) + 8*lastStage*uint64(o.Outputs)
	c.ObserveFlops += observe
	c.PredictFlops += predict
	return c
}

// Pass adds a row that was predicted and that the gate did not admit to the losses of the
// experts, as Learner.Pass does.
func (l *Second) Pass(y []float64, weight float64, numbers []float64) {
	a, second := l.split(numbers)
	l.first.Pass(y, weight, numbers[:l.first.adviceSize()])
	for j, u := range l.uppers {
		_, _, _, v := a.of(j)
		var lineup []float64
		if len(second) > 0 {
			_, lineup, _, _ = l.part(second, j)
		}
		u.pass(y[j], weight, v, lineup)
	}
}

func (l *Second) split(numbers []float64) (a advice, second []float64) {
	size := l.first.adviceSize()
	return l.first.read(numbers[:size]), numbers[size:]
}

// Passed is the loss, on the passed rows, of each output's best expert on the learned rows.
func (l *Second) Passed() float64 {
	total, k := 0.0, l.first.plan.experts()
	for j, u := range l.uppers {
		m := &l.first.mixers[j]
		switch e := u.best(m, k); {
		case e > 0 && e <= k:
			total += m.gated.passed[e-1].Value()
		default:
			total += u.passed[max(0, e-k)].Value()
		}
	}
	return total
}

// HindsightOf is the loss of the best experts on one such row.
func (l *Second) HindsightOf(y []float64, weight float64, numbers []float64) float64 {
	total, k := 0.0, l.first.plan.experts()
	a, second := l.split(numbers)
	for j, u := range l.uppers {
		_, experts, _, v := a.of(j)
		said := v
		switch e := u.best(&l.first.mixers[j], k); {
		case e > k && len(second) > 0:
			_, lineup, _, _ := l.part(second, j)
			said = lineup[e-k-1]
		case e > 0 && e <= k:
			said = experts[e-1]
		}
		total += squared(said, y[j], weight)
	}
	return total
}
