package auto

import (
	"math"
	"slices"

	"hindsight/internal/model"
)

// promise is ML-Poly's certificate and bound of the regret of an output against expert k: of
// the final mixture against b, and of b against the expert.
func (m *mixer) promise(k int) (certificate, bound float64) {
	first, second := m.final.Potential(), m.base.Potential()
	certificate = m.final.Certificate(first, 0) + m.base.Certificate(second, k)
	return certificate, m.final.Bound(0) + m.base.Bound(k)
}

// holds tells whether the losses reconcile and regret <= certificate <= bound, if certified.
func (m *mixer) holds(experts int, certified bool) bool {
	if !m.account.reconciles(experts) {
		return false
	}
	if !certified {
		return true
	}
	k := m.account.best(experts)
	certificate, bound := m.promise(k)
	slack := tolerance * (m.account.loss.Value() + m.account.experts[k].Hindsight.Value() + bound)
	return certificate <= bound+slack && m.account.regret(experts) <= certificate+slack
}

// Stats costs O(K) an output. Regret is against the best expert of each output.
// HindsightLoss is that expert's loss, and the learner's own in the rounds in which the
// expert slept.
func (l *Learner) Stats() model.Stats {
	k := l.plan.experts()
	s := model.Stats{
		Observations: l.n, Certified: !l.late, CertificateOK: true,
		Features: l.features(), StateBytes: l.Size(),
	}
	for j := range l.mixers {
		m := &l.mixers[j]
		loss, regret := m.account.loss.Value(), m.account.regret(k)
		s.Loss += loss
		s.Regret += regret
		s.HindsightLoss += loss - regret
		if s.Certified {
			certificate, bound := m.promise(m.account.best(k))
			// Rounding may reverse the order of sums near 0.
			s.Certificate += math.Max(certificate, regret)
			s.RegretBound += math.Max(bound, math.Max(certificate, regret))
		}
		s.LabelBound = math.Hypot(s.LabelBound, math.Max(math.Abs(m.low), math.Abs(m.high)))
		s.CertificateOK = s.CertificateOK && m.holds(k, s.Certified)
	}
	return s
}

// features is the number of features of all maps.
func (l *Learner) features() int {
	total := 0
	for i := range l.experts {
		total += l.experts[i].features.size
	}
	return total
}

// Report adds the experts with their weights in b; then b and the stacks with their weights
// in the prediction.
func (l *Learner) Report(model.ReportOptions) model.Report {
	s, k := l.Stats(), l.plan.experts()
	r := model.Report{
		HindsightLoss: s.HindsightLoss, Regret: s.Regret, RegretUnpenalized: s.Regret,
		CertificateOK: s.CertificateOK, EffectiveDimension: math.NaN(), Families: l.families(),
	}
	names := l.WeightNames()
	weights, now := make([]float64, k+finalists), stageAfter(l.n)
	for j := range l.mixers {
		m := &l.mixers[j]
		m.base.Weights(weights[:k], l.own.awake[now])
		m.final.Weights(weights[k:], l.own.finalAwake[now])
		for i, name := range names {
			r.Experts = append(r.Experts, model.Expert{
				Name: l.expertName(name, j), Loss: m.account.experts[i].Hindsight.Value(), Weight: weights[i], Awake: now.awake(i, k),
			})
		}
	}
	return r
}

// AppendWeights appends the weights in Report of the experts, b and the stacks.
func (l *Learner) AppendWeights(dst []float64) []float64 {
	from, k, now := len(dst), l.plan.experts(), stageAfter(l.n)
	n := k + finalists
	dst = slices.Grow(dst, 2*n)[:from+n]
	mean, own := dst[from:], dst[from+n:from+2*n]
	clear(mean)
	for j := range l.mixers {
		l.mixers[j].base.Weights(own[:k], l.own.awake[now])
		l.mixers[j].final.Weights(own[k:], l.own.finalAwake[now])
		for i, w := range own {
			mean[i] += w / float64(len(l.mixers))
		}
	}
	return dst
}

// WeightNames are the names of the experts, b and the stacks.
func (l *Learner) WeightNames() []string { return append(l.plan.names(), finalNames()...) }
