package scaling

import "hindsight/internal/model"

// Together is the learner's. It is 1 while observations are kept.
func (l *Learner) Together() int {
	if l.warm != nil {
		return 1
	}
	return model.Together(l.inner)
}

// ObserveAll teaches the scaled observations. A running scaling follows the inputs between them.
func (l *Learner) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	if err := model.CheckAll(l, all); err != nil {
		return err
	}
	scaled := make([]model.Observation, len(all))
	numbers := make([]float64, len(all)*(l.o.Dimension+l.o.Outputs))
	for n, o := range all {
		s := &scaled[n]
		s.X, numbers = numbers[:l.o.Dimension], numbers[l.o.Dimension:]
		s.Y, numbers = numbers[:l.o.Outputs], numbers[l.o.Outputs:]
		s.Weight = o.Weight
		l.scaleInput(s.X, o.X)
		l.scaleLabels(s.Y, o.Y)
		l.follow(row{x: o.X, weight: o.Weight})
	}
	if err := model.ObserveAll(l.inner, outcomes, scaled); err != nil {
		return err
	}
	for n := range outcomes {
		l.present(&outcomes[n])
	}
	return nil
}
