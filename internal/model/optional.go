package model

import (
	"fmt"
	"math"
)

// As finds the optional interface T of l or, if l has none and is Wrapping, of the learner inside.
func As[T any](l Learner) (optional T, ok bool) {
	for {
		if optional, ok = l.(T); ok {
			return optional, true
		}
		wrapping, wraps := l.(Wrapping)
		if !wraps {
			return optional, false
		}
		l = wrapping.Inner()
	}
}

// LossOf is the loss of a prediction under a label: the squared loss, unless l is Scored.
func LossOf(l Learner, prediction, label float64) float64 {
	if scored, ok := As[Scored](l); ok {
		return scored.LossOf(prediction, label)
	}
	miss := label - prediction
	return float64(miss * miss)
}

// Remaining is how many more observations l takes, math.MaxInt unless l is Bounded.
func Remaining(l Learner) int {
	if bounded, ok := As[Bounded](l); ok {
		return bounded.Remaining()
	}
	return math.MaxInt
}

// Admit rejects what l rejects if l is an Admitter.
func Admit(l Learner, x []float64, weight float64) error {
	if admitter, ok := As[Admitter](l); ok {
		return admitter.Admit(x, weight)
	}
	return nil
}

// ObserveAdvised is Observe, with advice, unless it is nil, if l is Advised.
func ObserveAdvised(l Learner, o *Outcome, x, y []float64, weight float64, advice []float64) error {
	if advised, ok := l.(Advised); ok && advice != nil {
		return advised.ObserveAdvised(o, x, y, weight, advice)
	}
	return l.Observe(o, x, y, weight)
}

// Explain tells what each family of the experts of l says in a prediction, nothing unless l is
// Explaining.
func Explain(l Learner, p *Prediction) []Part {
	if explaining, ok := As[Explaining](l); ok {
		return explaining.Explain(p)
	}
	return nil
}

// AppendWeights appends the weights of the experts of l, none unless l is Mixing.
func AppendWeights(l Learner, dst []float64) []float64 {
	if mixing, ok := As[Mixing](l); ok {
		return mixing.AppendWeights(dst)
	}
	return dst
}

// WeightNames are the names of the experts of l, none unless l is Mixing.
func WeightNames(l Learner) []string {
	if mixing, ok := As[Mixing](l); ok {
		return mixing.WeightNames()
	}
	return nil
}

// Together is how many observations l learns together at most, 1 unless l is Batched.
func Together(l Learner) int {
	if batched, ok := l.(Batched); ok {
		return batched.Together()
	}
	return 1
}

// ObserveAll is Observe of at most Together(l) observations in their order. On an error of one
// of them the state is as it was.
func ObserveAll(l Learner, outcomes []Outcome, all []Observation) error {
	if batched, ok := l.(Batched); ok && len(all) > 1 {
		return batched.ObserveAll(outcomes, all)
	}
	for n, o := range all {
		if err := l.Observe(&outcomes[n], o.X, o.Y, o.Weight); err != nil {
			return err
		}
	}
	return nil
}

// PredictAll is Predict of every input.
func PredictAll(l Learner, p []*Prediction, x [][]float64) error {
	if foreseeing, ok := l.(Foreseeing); ok && len(x) > 1 {
		return foreseeing.PredictAll(p, x)
	}
	for n, row := range x {
		if err := l.Predict(p[n], row); err != nil {
			return err
		}
	}
	return nil
}

// CheckAll returns the error of the first observation that Check rejects.
func CheckAll(l Learner, all []Observation) error {
	for n, o := range all {
		if err := l.Check(o.X, o.Y, o.Weight); err != nil {
			return fmt.Errorf("observation %d: %w", n, err)
		}
	}
	return nil
}
