package gate

import (
	"fmt"

	"hindsight/internal/model"
)

// Together is the learner's. It is 1 before the last stage of a start.
func (l *Learner) Together() int {
	if l.taken < l.o.last() {
		return 1
	}
	return model.Together(l.inner)
}

// ObserveAll teaches the learner the rows between two strange ones together. The gate decides
// by labels and inputs alone, so that the decisions come before the learner's turn.
func (l *Learner) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	if err := model.CheckAll(l, all); err != nil {
		return err
	}
	for n := 0; n < len(all); {
		end := min(n+l.Together(), len(all))
		learned, err := l.observeSome(outcomes[n:end], all[n:end])
		if err != nil {
			return err
		}
		n += learned
	}
	return nil
}

// observeSome learns the first rows up to a strange row or a row with a sequel, at least one,
// of at most Together rows that Check accepts. It returns how many rows it learned or set aside.
func (l *Learner) observeSome(outcomes []model.Outcome, all []model.Observation) (n int, err error) {
	next := goOn
	for ; n < len(all) && next == goOn; n++ {
		if _, strange := l.check(all[n].Y); strange {
			break
		}
		next = l.follow(all[n].X, all[n].Y, all[n].Weight)
	}
	if n == 0 {
		return 1, l.observe(&outcomes[0], all[0].X, all[0].Y, all[0].Weight, nil)
	}
	if err := model.ObserveAll(l.inner, outcomes[:n], all[:n]); err != nil {
		return 0, fmt.Errorf("gate: learn %d rows: %w", n, err)
	}
	for i, o := range all[:n] {
		l.settle(&outcomes[i], o.X, o.Y, o.Weight)
	}
	return n, l.conclude(&outcomes[n-1], next)
}

// PredictAll is Predict of every input.
func (l *Learner) PredictAll(p []*model.Prediction, x [][]float64) error {
	if err := model.PredictAll(l.inner, p, x); err != nil {
		return err
	}
	for n := range x {
		l.mark(p[n])
	}
	return nil
}
