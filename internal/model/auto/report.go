package auto

import (
	"math"
	"slices"

	"hindsight/internal/model"
)

// Stats costs O(K) an output. Regret is against the best expert of each output: one of level 1
// and, while level 2 is awake, v or one of the lineup. HindsightLoss is that expert's loss, and
// the learner's in the rounds in which the expert slept.
func (l *Learner) Stats() model.Stats {
	s := model.Stats{
		Observations: l.n, Certified: !l.late, CertificateOK: true,
		Features: l.features(), StateBytes: l.Size(),
	}
	for j := range l.mixers {
		m, e := &l.mixers[j], l.best(j)
		loss, regret := l.loss(j), l.regretOf(j, e)
		s.Loss += loss
		s.Regret += regret
		s.HindsightLoss += loss - regret
		s.CertificateOK = s.CertificateOK && l.reconciles(j)
		if s.Certified {
			certificate, bound := l.promise(j, e)
			slack := tolerance * (2*loss + math.Abs(regret) + bound)
			s.CertificateOK = s.CertificateOK && certificate <= bound+slack && regret <= certificate+slack
			// Rounding may reverse the order of sums near 0.
			s.Certificate += math.Max(certificate, regret)
			s.RegretBound += math.Max(bound, math.Max(certificate, regret))
		}
		s.LabelBound = math.Hypot(s.LabelBound, math.Max(math.Abs(m.low), math.Abs(m.high)))
	}
	return s
}

func (l *Learner) features() int {
	total := 0
	for i := range l.experts {
		total += l.experts[i].features.size
	}
	return total
}

// Report adds the experts with their weights in the prediction, the experts of both levels
// multiplied: the weights of an output sum to 1.
func (l *Learner) Report(o model.ReportOptions) model.Report {
	s := l.Stats()
	r := model.Report{
		HindsightLoss: s.HindsightLoss, Regret: s.Regret, RegretUnpenalized: s.Regret, RegretRKHS: math.NaN(), Certificate: math.NaN(),
		CertificateOK: s.CertificateOK, EffectiveDimension: math.NaN(), Families: l.families(), Effects: l.largestEffects(),
	}
	if o.Importances {
		r.Importances = l.importances(o.Pause)
	}
	names, k := l.WeightNames(), l.plan.experts()
	weights, scratch := make([]float64, len(names)), make([]float64, l.weightScratch())
	for j := range l.mixers {
		l.weightsOf(weights, scratch, j)
		for i, name := range names {
			awake := l.awake()
			switch {
			case i >= len(names)-l.ridges:
				awake = l.opening.fit != nil
			case i < k:
				awake = stageAfter(l.n).awake(i, k)
			case i < k+stacks:
				awake = stageAfter(l.n) == complete
			case i >= l.keyNamesAt():
				awake = l.n > 0
			}
			r.Experts = append(r.Experts, model.Expert{
				Name: l.expertName(name, j), Loss: l.lossOf(j, i), Weight: weights[i], Awake: awake,
			})
		}
	}
	return r
}

func (l *Learner) lossOf(output, name int) float64 {
	k, f := l.plan.experts(), l.lineup.experts()
	level1 := l.mixers[output].account.experts
	keys := l.keyNamesAt()
	ridges := keys + l.o.keyExperts()
	switch {
	case name >= ridges:
		return l.opening.outputs[output].account.experts[1+name-ridges].Hindsight.Value()
	case name >= keys:
		return l.keyed.mixers[output].compared(name - keys).Hindsight.Value()
	case name < k:
		return level1[name].Hindsight.Value()
	case name < k+stacks:
		return level1[name+1].Hindsight.Value()
	case name < k+stacks+f:
		return l.level2[output].account.experts[name-k-stacks].Hindsight.Value()
	default: // Between the lineup and the stacks are v and b.
		return l.level2[output].account.experts[2+name-k-stacks].Hindsight.Value()
	}
}

// WeightNames are the experts of level 1 and its stacks; with a lineup, its experts and the
// stacks of level 2 follow. The experts of the keys come then, and the ridges of the opening last.
func (l *Learner) WeightNames() []string {
	names := l.plan.names()
	if l.lineup.empty() {
		return slices.Concat(names, stackNames(), l.o.keyNames(), l.ridgeNames())
	}
	for _, name := range stackNames() {
		names = append(names, levelOne+"/"+name)
	}
	return slices.Concat(names, l.lineup.names(), stackNames(), topNames(), l.o.keyNames(), l.ridgeNames())
}

// keyNamesAt is where the experts of the keys are among the names.
func (l *Learner) keyNamesAt() int {
	at := l.plan.experts() + stacks
	if !l.lineup.empty() {
		at += l.lineup.experts() + stacks + tops
	}
	return at
}

func (l *Learner) weightScratch() int {
	return 2 + l.ridges + 2*l.plan.experts() + finalists + l.lineup.experts() + level2Finalists + l.o.keyExperts()
}

// weightsOf writes the weight of each name in the prediction of an output. The weight of an
// expert of level 1 is the sum of the weights that it has by itself and through v. The weight of
// an expert of the keys is the weight of v + e: v has only the weight that it has without e.
func (l *Learner) weightsOf(dst, scratch []float64, output int) {
	k, m := l.plan.experts(), &l.mixers[output]
	below, scratch := scratch[:k], scratch[k:]
	belowFinal, scratch := scratch[:finalists], scratch[finalists:]
	m.base.Weights(below, l.scratch.awake[stageAfter(l.n)])
	m.final.Weights(belowFinal, l.scratch.finalAwake[stageAfter(l.n)])
	v := 1.0
	clear(dst)
	all, opening := dst, scratch[len(scratch)-1-l.ridges:]
	dst, scratch = dst[:len(dst)-l.ridges], scratch[:len(scratch)-len(opening)]
	if l.awake() {
		final, base := scratch[:level2Finalists], scratch[level2Finalists:]
		l.level2[output].base.Weights(base, nil)
		l.level2[output].final.Weights(final, nil)
		v = final[0] + float64(final[1]*base[0])
		for i := range k {
			dst[i] = float64(final[1] * base[1+i])
		}
		for i, w := range l.lineupOf(base) {
			dst[k+stacks+i] = float64(final[1] * w)
		}
		for i, w := range l.keysOf(base) {
			dst[l.keyNamesAt()+i] = float64(final[1] * w)
		}
		copy(dst[k+stacks+l.lineup.experts():], final[2:])
	}
	if l.keyed != nil {
		mixed := scratch[:1+l.o.keyExperts()]
		l.keyed.mixers[output].mixture.Weights(mixed, nil)
		for i, w := range mixed[1:] {
			dst[l.keyNamesAt()+i] += float64(v * w)
		}
		v = float64(v * mixed[0])
	}
	for i, w := range below {
		dst[i] += float64(float64(v*belowFinal[0]) * w)
	}
	for i, w := range belowFinal[1:] {
		dst[k+i] = float64(v * w)
	}
	l.openingWeights(opening, output)
	for i := range dst {
		dst[i] *= opening[0]
	}
	copy(all[len(dst):], opening[1:])
}

// AppendWeights appends the mean over the outputs of the weights in Report.
func (l *Learner) AppendWeights(dst []float64) []float64 {
	n, from := l.keyNamesAt()+l.o.keyExperts()+l.ridges, len(dst)
	dst = slices.Grow(dst, 2*n+l.weightScratch())[:from+n]
	mean, weights := dst[from:], dst[from+n:from+2*n]
	scratch := dst[from+2*n : from+2*n+l.weightScratch()]
	clear(mean)
	for j := range l.mixers {
		l.weightsOf(weights, scratch, j)
		for i, w := range weights {
			mean[i] += w / float64(len(l.mixers))
		}
	}
	return dst
}
