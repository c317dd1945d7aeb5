package machine

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
)

type classifier struct {
	learner model.Classifier
	account *classes.Account
	limit   int
	// outcome is scratch of Apply.
	outcome model.ClassOutcome
}

// newClassifier returns nil if the labels of a spec are real.
func newClassifier(spec model.Spec, learner model.Learner) (*classifier, error) {
	if spec.Classes == nil {
		return nil, nil
	}
	c, ok := learner.(model.Classifier)
	if !ok || spec.Classes.MaxClasses == nil {
		return nil, fmt.Errorf("the learner of a spec with classes is no classifier: %w", ErrCorrupt)
	}
	limit := *spec.Classes.MaxClasses
	return &classifier{learner: c, account: classes.New(limit), limit: limit}, nil
}

func (m *Machine) learnClass(o *record.Observation, x []float64, a *record.Answer) error {
	c := m.classifier
	var advice []float64
	if o.Served != nil {
		advice = o.Served.Advice
	}
	out := &c.outcome
	if err := c.learner.ObserveClass(out, x, o.Class, o.Weight, advice); err != nil {
		return unlearnable(err)
	}
	prequential := &out.Prediction
	if !finite(prequential.Probabilities) || math.IsNaN(out.Loss) {
		return fmt.Errorf("probabilities of %v, a loss of %g: %w", prequential.Probabilities, out.Loss, ErrCorrupt)
	}
	m.sequence++
	*a = record.Answer{Sequence: m.sequence, Class: prequential.Name(), Loss: out.Loss, Regret: out.Regret}
	losses := account.Round{Weight: o.Weight, Loss: out.Loss}
	round := classes.Round{
		Class: out.Class, Prequential: classes.Prediction{Class: prequential.Class, Probabilities: prequential.Probabilities},
	}
	if s := o.Served; s != nil {
		a.Served, a.ServedLoss = true, float64(o.Weight*c.learner.LossOfClass(s.Predictions, out.Class))
		if math.IsNaN(a.ServedLoss) {
			return fmt.Errorf("a loss of %g of what was served: %w", a.ServedLoss, ErrCorrupt)
		}
		if names := c.learner.Classes(); s.Class >= 0 && s.Class < len(names) {
			a.ServedClass = names[s.Class]
		}
		losses.Served, losses.ServedLoss = []float64{}, a.ServedLoss
		round.Served, round.Notes = &classes.Prediction{Class: s.Class, Probabilities: s.Probabilities}, s.Notes
	}
	scored, changed := m.account.Observe(losses, m.lossOf)
	figures := c.account.Observe(round)
	if o.LeaderLoss != nil && figures.Observations > 0 {
		m.account.Pair(figures.Prequential.Errors - *o.LeaderLoss)
	}
	m.record(&scored, &figures, changed)
	recent, classified := m.account.Recent(), c.account.Recent()
	a.Recent.Loss, a.Recent.Skill = recent.MeanLoss(&recent.Served), classified.Served.Skill()
	return nil
}

// Classes returns the classes by their numbers, nil for real labels. The caller only reads
// them.
func (m *Machine) Classes() []string {
	if m.classifier == nil {
		return nil
	}
	return m.classifier.learner.Classes()
}

// ClassRoom returns the number of classes that may still be added.
func (m *Machine) ClassRoom() int {
	if m.classifier == nil {
		return 0
	}
	return m.classifier.limit - len(m.Classes())
}

// Continues reports whether the classes known at the time of a prediction are the first of
// the present classes. After a restore they may not be: the state of the prediction was
// undone.
func (m *Machine) Continues(names []string) bool {
	now := m.Classes()
	return len(names) <= len(now) && slices.Equal(names, now[:len(names)])
}

// ClassSummary sums up the account of a classifier, nil for real labels. It costs
// O(classes).
func (m *Machine) ClassSummary() *classes.Summary {
	if m.classifier == nil {
		return nil
	}
	s := m.classifier.account.Summary()
	return &s
}
