package gate

import (
	"math"

	"hindsight/internal/model"
)

// Stats costs O(16·K) beside the learner's Stats.
func (l *Learner) Stats() model.Stats {
	s, c := l.inner.Stats(), &l.closed
	own := s.Loss
	s.Observations, s.StateBytes = l.rows, l.Size()
	s.Loss = l.learnedLoss.Value() + l.asideLoss.Value()
	s.Regret += c.regret
	s.HindsightLoss += c.hindsight()
	s.Certified = s.Certified && !c.uncertified
	s.CertificateOK = s.CertificateOK && !c.broken
	s.RegretBound += c.bound
	s.Certificate += c.certificate
	if !s.Certified {
		s.RegretBound, s.Certificate = 0, 0
	}
	s.LabelBound = math.Max(s.LabelBound, c.labelBound)
	beside, known := l.beside(own)
	s.Gate = model.Gate{
		On: true, SetAside: l.account.setAside, LastSetAside: l.lastSetAside, SetAsideLoss: l.asideLoss.Value(),
		RegretBeside: beside, Compared: known, Starts: l.starts, LastStart: l.lastStart,
	}
	return s
}

// beside is the regret over all rows less Stats.Regret: on the rows set aside
// (ŷ−y)² − (f−y)², f being the best expert of the start, and on the rows that were learned
// again the loss of the first learner less the loss of the new one. The known result is false unless
// the learner is a model.Comparator.
func (l *Learner) beside(own float64) (regret float64, known bool) {
	compared, ok := model.As[model.Comparator](l.inner)
	if !ok {
		return 0, false
	}
	hindsight := l.closed.passed + compared.Passed()
	for i := range l.aside {
		r := &l.aside[i]
		hindsight += compared.HindsightOf(r.y, r.weight, r.advice)
	}
	again := l.learnedLoss.Value() - l.closed.loss - own
	return l.asideLoss.Value() - hindsight + again, true
}

// Report is the report of the learner of this start with the losses and regrets of all
// starts. For a learner with a penalty, RegretUnpenalized is NaN once a start is closed,
// because each start has a solution, as are RegretRKHS and Certificate; SwitchingRegret is nil.
func (l *Learner) Report(o model.ReportOptions) model.Report {
	r := l.inner.Report(o)
	if l.starts > 0 && r.RegretUnpenalized != r.Regret {
		r.RegretUnpenalized = math.NaN()
	}
	if l.starts > 0 {
		r.RegretRKHS, r.Certificate, r.SwitchingRegret = math.NaN(), math.NaN(), nil
	}
	r.Regret += l.closed.regret
	r.RegretUnpenalized += l.closed.regret
	r.HindsightLoss += l.closed.hindsight()
	r.CertificateOK = r.CertificateOK && !l.closed.broken
	return r
}

// Size is the memory of the state.
func (l *Learner) Size() uint64 {
	rows := uint64(len(l.kept))*l.o.rowBytes(0) + uint64(len(l.aside))*l.o.rowBytes(l.o.mostAdvice())
	return l.inner.Size() + l.o.ownBytes() + rows
}

// rowBytes is the memory of a row: three slices, three numbers and what they hold.
func (o Options) rowBytes(advice int) uint64 {
	return 12*8 + 8*uint64(o.Dimension+o.Outputs+advice)
}

func (o Options) mostAdvice() (most int) {
	for _, length := range o.Advice {
		most = max(most, length)
	}
	return most
}

func (o Options) ownBytes() uint64 {
	numbers := 13*o.Outputs + lastStage + 42
	if o.Dimension <= maxInputs {
		numbers += (compared + 3 + asideRows) * o.Dimension
	}
	return 8 * uint64(numbers)
}

// Cost is the most memory of a gate beside the learner.
func (o Options) Cost() uint64 {
	return o.ownBytes() + o.last()*o.rowBytes(0) + asideRows*o.rowBytes(o.mostAdvice())
}
