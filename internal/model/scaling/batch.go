package scaling

import (
	"fmt"

	"hindsight/internal/model"
)

// Together is the learner's. It is 1 while observations are kept, and for a learner that is not
// model.Batched.
func (l *Learner) Together() int {
	if batched, ok := l.inner.(model.Batched); ok && l.warm == nil {
		return batched.Together()
	}
	return 1
}

// ObserveAll teaches the scaled observations to the learner. A running scaling follows the inputs
// from one to the next.
func (l *Learner) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	for n := range all {
		if err := l.Check(all[n].X, all[n].Y, all[n].Weight); err != nil {
			return fmt.Errorf("observation %d: %w", n, err)
		}
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
		l.follow(row{x: o.X})
	}
	if err := l.inner.(model.Batched).ObserveAll(outcomes, scaled); err != nil {
		return err
	}
	for n := range outcomes {
		l.present(&outcomes[n])
	}
	return nil
}
