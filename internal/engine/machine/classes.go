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

// classifier is a learner of classes with the account of its predictions.
type classifier struct {
	learner model.Classifier
	account *classes.Account
	limit   int
	// outcome is scratch of Apply.
	outcome model.ClassOutcome
}

// newClassifier is nil if the labels of a spec are real.
func newClassifier(spec model.Spec, learner model.Learner) (*classifier, error) {
	if spec.Classes == nil {
		return nil, nil
	}
	c, ok := learner.(model.Classifier)
	if !ok || spec.Classes.MaxClasses == nil {
		return nil, fmt.Errorf("a learner of classes that is none: %w", ErrCorrupt)
	}
	limit := *spec.Classes.MaxClasses
	return &classifier{learner: c, account: classes.New(limit), limit: limit}, nil
}

// learnClass takes one observation of a class.
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
	said := &out.Prediction
	if !finite(said.Probabilities) || math.IsNaN(out.Loss) {
		return fmt.Errorf("probabilities of %v, a loss of %g: %w", said.Probabilities, out.Loss, ErrCorrupt)
	}
	m.sequence++
	*a = record.Answer{Sequence: m.sequence, Class: said.Name(), Loss: out.Loss, Regret: out.Regret}
	// The account of labels sees losses alone.
	losses := account.Round{Weight: o.Weight, Loss: out.Loss}
	round := classes.Round{
		Class: out.Class, Prequential: classes.Prediction{Class: said.Class, Probabilities: said.Probabilities},
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
	judged, changed := m.account.Observe(losses, m.lossOf)
	figures := c.account.Observe(round)
	m.record(&judged, &figures, changed)
	recent, told := m.account.Recent(), c.account.Recent()
	a.RecentLoss, a.RecentSkill = recent.Served.Loss/recent.Observations, told.Served.Skill()
	return nil
}

// Classes are the classes by their numbers, to be read only, none of a machine of
// real labels.
func (m *Machine) Classes() []string {
	if m.classifier == nil {
		return nil
	}
	return m.classifier.learner.Classes()
}

// ClassRoom is how many more classes there may be.
func (m *Machine) ClassRoom() int {
	if m.classifier == nil {
		return 0
	}
	return m.classifier.limit - len(m.Classes())
}

// Continues tells whether classes that were known when a prediction was made are
// the first of those of now. After a restore they need not be: then the prediction is
// of a state that has been undone.
func (m *Machine) Continues(names []string) bool {
	now := m.Classes()
	return len(names) <= len(now) && slices.Equal(names, now[:len(names)])
}

// ClassSummary tells how a classifier does, nil of a machine of real labels. It
// costs O(classes).
func (m *Machine) ClassSummary() *classes.Summary {
	if m.classifier == nil {
		return nil
	}
	s := m.classifier.account.Summary()
	return &s
}
