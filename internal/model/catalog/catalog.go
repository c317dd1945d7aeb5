// Package catalog turns a spec into a learner. Only its table of learners knows them all.
package catalog

import (
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/logloss"
)

// Limits of a spec.
const (
	MaxDimension = 1 << 16
	MaxOutputs   = 1024
	// MaxFeatures is the largest number of features: their factor takes 1 GiB.
	MaxFeatures = 1 << 14
)

func learners() []learner {
	return []learner{
		row(func(s *model.Spec) **model.PKAWVTaylor { return &s.PKAWVTaylor }, taylor),
		row(func(s *model.Spec) **model.PKAWVNystrom { return &s.PKAWVNystrom }, nystrom),
		row(func(s *model.Spec) **model.FourierAWV { return &s.FourierAWV }, fourier),
		row(func(s *model.Spec) **model.LinearAWV { return &s.LinearAWV }, linear),
		row(func(s *model.Spec) **model.KernelAWV { return &s.KernelAWV }, exact),
		row(func(s *model.Spec) **model.Raker { return &s.Raker }, rakers),
		row(func(s *model.Spec) **model.AdaRaker { return &s.AdaRaker }, adaRaker),
		row(func(s *model.Spec) **model.FOGD { return &s.FOGD }, fogd),
		row(func(s *model.Spec) **model.Auto { return &s.Auto }, automatic),
		row(func(s *model.Spec) **model.RLSC { return &s.RLSC }, rlsc),
		row(func(s *model.Spec) **model.FourierKONS { return &s.FourierKONS }, fourierKONS),
		row(func(s *model.Spec) **model.ProsNKONS { return &s.ProsNKONS }, prosNKONS),
		row(func(s *model.Spec) **model.KONS { return &s.KONS }, exactKONS),
		row(func(s *model.Spec) **model.SemiparametricAWV { return &s.SemiparametricAWV }, semiparametric),
	}
}

type learner struct {
	given func(*model.Spec) bool
	// complete fills in and checks the learner's part of the spec. It requires given.
	complete func(*completion) entry
}

// row is the learner whose part of a spec is the T at of(spec). Complete gets a copy of it.
func row[T any](of func(*model.Spec) **T, complete func(*completion, *T) entry) learner {
	return learner{
		given: func(s *model.Spec) bool { return *of(s) != nil },
		complete: func(c *completion) entry {
			given := **of(&c.spec)
			*of(&c.spec) = &given
			return complete(c, &given)
		},
	}
}

type entry struct {
	cost model.Cost
	// make returns a learner without observations. Only a growing learner heeds outputs; for
	// the others it is the number of the completion.
	make func(outputs int) model.Learner
	// inputLimit is the largest magnitude of an input, 0 for any.
	inputLimit float64
	// forgetting is the learner's factor, 0 for none.
	forgetting float64
	// capacity is the learner's max_observations, 0 for none.
	capacity int
	// classifies: labels are the classes of the spec, or -1 and 1 for the loss of the learner.
	classifies bool
	// ranged: the spec has the range of the labels, which are then not scaled.
	ranged bool
	// indicators: the learner grows, and learns the indicators of classes.
	indicators bool
	// recoding is how much decisions by indicators favour rare classes, nil if the learner chooses.
	recoding *float64
	// middle is the middle of the range of the labels, the prediction before the first label.
	middle float64
	affine bool
	// advice are the lengths of the learner's advice, nil for a learner without advice.
	advice []int
	// level is the level of log loss of a classifier, or nil.
	level *logloss.Options
	// scalesItself: the learner scales inputs and labels, and its spec has no scaling.
	scalesItself bool
}

// Complete checks a spec and fills in its defaults. A completed spec is complete: Complete
// returns it as it is. It does not write to what the spec points to; the result may share it.
func Complete(s model.Spec) (model.Spec, model.Cost, error) {
	s, e, err := look(s)
	return s, e.cost, err
}

// New returns a learner without observations of a spec, which it completes as Complete does.
func New(s model.Spec) (model.Learner, error) {
	s, e, err := look(s)
	if err != nil {
		return nil, err
	}
	return e.make(s.Outputs), nil
}

func look(s model.Spec) (model.Spec, entry, error) {
	c := &completion{spec: s, at: "spec"}
	l, ok := c.learner()
	shaped := !c.failed()
	c.coverage()
	var e entry
	if ok {
		c.at = "spec." + c.spec.Name()
		e = l.complete(c)
	}
	if c.failed() {
		e = entry{scalesItself: c.spec.Auto != nil}
	}
	c.at = "spec"
	e.classifies = e.classifies || c.spec.Classes != nil
	c.keepIntervals(e)
	c.label(e)
	c.at = "spec.scaling"
	if shaped {
		e = scaled(c, e)
	}
	if shaped && !c.failed() {
		e = c.gated(c.bounded(e))
	}
	if !c.failed() {
		e = c.encoded(e)
	}
	if !c.failed() && c.spec.Classes != nil {
		e = c.classified(e)
	}
	if c.failed() {
		return model.Spec{}, entry{}, c.wrong.Err()
	}
	return c.spec, e, nil
}

// learner completes the shape of the model and finds the learner of the spec. A wrong shape
// is clamped, so that the other fields are still checked.
func (c *completion) learner() (l learner, ok bool) {
	s := &c.spec
	c.inputs()
	// The dimension of named inputs follows from them.
	if !c.failed() && (s.Dimension < 1 || s.Dimension > MaxDimension) {
		c.reject("dimension", s.Dimension, fmt.Sprintf("1 to %d", MaxDimension))
	}
	if s.Outputs == 0 {
		s.Outputs = 1
	}
	if s.Outputs < 1 || s.Outputs > MaxOutputs {
		c.reject("outputs", s.Outputs, fmt.Sprintf("1 to %d", MaxOutputs))
	}
	c.outputs = c.labels()
	if s.Name() == model.DefaultLearner && s.Auto == nil {
		s.Auto = &model.Auto{}
	}
	count := 0
	for _, each := range learners() {
		if !each.given(s) {
			continue
		}
		l = each
		count++
	}
	if count != 1 {
		c.reject("learner", fmt.Sprintf("%d learners", count), "at most one, such as "+model.LearnerNames()[0]+": {}")
	}
	s.Dimension, s.Outputs = max(1, min(s.Dimension, MaxDimension)), max(1, min(s.Outputs, MaxOutputs))
	c.outputs = max(1, min(c.outputs, MaxOutputs))
	return l, count == 1
}
