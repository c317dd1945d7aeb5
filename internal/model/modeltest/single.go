package modeltest

import "hindsight/internal/model"

// Prediction is a model.Prediction of one label. An unknown standard error is 0.
type Prediction struct{ Value, StandardError, Leverage float64 }

// Outcome is a model.Outcome of one label.
type Outcome struct{ Prediction, Loss, Regret float64 }

// Predict asks a learner of one label.
func Predict(l model.Learner, x []float64) (Prediction, error) {
	var p model.Prediction
	if err := l.Predict(&p, x); err != nil {
		return Prediction{}, err
	}
	one := Prediction{Value: p.Values[0], Leverage: p.Leverage}
	if len(p.StandardErrors) > 0 {
		one.StandardError = p.StandardErrors[0]
	}
	return one, nil
}

// Observe teaches a learner of one label.
func Observe(l model.Learner, x []float64, y, weight float64) (Outcome, error) {
	var o model.Outcome
	if err := l.Observe(&o, x, []float64{y}, weight); err != nil {
		return Outcome{}, err
	}
	return Outcome{Prediction: o.Predictions[0], Loss: o.Loss, Regret: o.Regret}, nil
}
