// Package catalog turns a spec into a learner. It is the only place that
// knows every learner: one row each in the table of learners.
package catalog

import (
	"fmt"

	"hindsight/internal/model"
)

// Limits of a spec.
const (
	// MaxDimension is the largest number of inputs, of features of named ones.
	MaxDimension = 1 << 16
	// MaxOutputs is the largest number of label columns.
	MaxOutputs = 1024
	// MaxFeatures is the largest number of features: the factor then takes
	// 1 GiB.
	MaxFeatures = 1 << 14
)

// learners is the table of learners, in the order of the API.
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

// learner is a row of the table.
type learner struct {
	// given says whether a spec is of this learner.
	given func(*model.Spec) bool
	// complete fills in and checks the learner's part of the spec. It is
	// called only where given is true.
	complete func(*completion) entry
}

// row is the learner whose part of a spec is a T, which of points to. What
// complete is handed is a copy of that part.
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

// entry is what the catalogue knows of a completed spec.
type entry struct {
	cost model.Cost
	// make is a learner that has seen nothing, of the outputs of the completion. Only
	// one that grows is asked for, and heeds, another number of outputs.
	make func(outputs int) model.Learner
	// inputLimit is the largest magnitude of an input, 0 for any.
	inputLimit float64
	// unfit is why no new model may have the spec, nil if one may.
	unfit error
	// forgetting is the learner's factor, 0 for none.
	forgetting float64
	// capacity is the learner's max_observations, 0 for none.
	capacity int
	// classifies says that labels are classes: -1 and 1 for the loss of the learner, or
	// those of the spec.
	classifies bool
	// ranged says that the learner's spec has the range of the labels, which are not
	// scaled then.
	ranged bool
	// indicators says that the learner grows, and learns the indicators of classes.
	indicators bool
	// recoding is how much decisions by indicators favour rare classes.
	recoding float64
	// revised says that the learner has revisions of its rules.
	revised bool
	// middle is that of the range of the labels, which is predicted before the first one.
	middle float64
	// affine says that the learner's functions are affine in the inputs.
	affine bool
	// advice is the length of the learner's advice, 0 for one without any.
	advice int
	// scalesItself says that the learner scales inputs and labels for itself.
	// Its spec has no scaling.
	scalesItself bool
}

// Complete checks a spec, which may be a stored one, and fills in its defaults.
// It does not write to what the spec points to, but the result may share it.
func Complete(s model.Spec) (model.Spec, model.Cost, error) {
	s, e, err := look(s, true)
	return s, e.cost, err
}

// Create is Complete of the spec of a new model. It refuses some of what earlier
// servers accepted, and completes some of it otherwise: stored models keep what
// Complete makes of their specs. What Create answers, both leave as it is.
//
// The ridge of an AWV learner is 0.1, and was 1. The degree of a Taylor basis goes up to
// usefulDegree, and went up to 8. Horizon and delta become the β that follows from them.
// A whole history gets a window, which bounds it. A learner that has revisions gets the
// newest. Auto gets a label gate, and takes 64 classes where it took 2. The features of a
// category have a joint scale, and had one each.
func Create(s model.Spec) (model.Spec, model.Cost, error) {
	s.Inputs = model.WithJointScale(s.Inputs, func(_ int, given *bool) *bool { return pointer(given, true) })
	s, e, err := look(s, false)
	if err == nil {
		changed := e.revised && s.Revision == nil
		if changed {
			newest := newestRevision
			s.Revision = &newest
		}
		if s.Auto != nil && s.Classes == nil && s.LabelGate == "" {
			s.LabelGate, changed = model.GateOn, true
		}
		if s.PKAWVNystrom != nil {
			created := createNystrom(s.PKAWVNystrom)
			changed = changed || created != s.PKAWVNystrom
			s.PKAWVNystrom = created
		}
		if changed {
			s, e, err = look(s, false)
		}
	}
	if err == nil {
		err = e.unfit
	}
	if err != nil {
		return model.Spec{}, model.Cost{}, err
	}
	return s, e.cost, nil
}

// New is a learner of a completed spec that has seen nothing. Another spec has the
// defaults of a new model, but the label gate, horizon, delta, a whole history without a
// window, the rules without a revision and the scales of categories are as in stored ones.
func New(s model.Spec) (model.Learner, error) {
	s, e, err := look(s, false)
	if err != nil {
		return nil, err
	}
	return e.make(s.Outputs), nil
}

// look completes a spec, with the defaults of before if it may be a stored one.
func look(s model.Spec, stored bool) (model.Spec, entry, error) {
	c := &completion{spec: s, stored: stored, at: "spec"}
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
	c.checkRevision(e)
	e.classifies = e.classifies || c.spec.Classes != nil
	c.keepIntervals(e)
	c.at = "spec.scaling"
	if shaped {
		e = scaled(c, e)
	}
	if shaped && !c.failed() {
		e = c.gated(e)
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

// learner completes the shape of the model and finds the learner of the spec. Where the
// shape is wrong, the rest is checked for one that is not.
func (c *completion) learner() (l learner, ok bool) {
	s := &c.spec
	c.inputs()
	// That of named inputs follows from them, and is wrong only if they are.
	if !c.failed() && (s.Dimension < 1 || s.Dimension > MaxDimension) {
		c.refuse("dimension", s.Dimension, fmt.Sprintf("1 to %d", MaxDimension))
	}
	if s.Outputs == 0 {
		s.Outputs = 1
	}
	if s.Outputs < 1 || s.Outputs > MaxOutputs {
		c.refuse("outputs", s.Outputs, fmt.Sprintf("1 to %d", MaxOutputs))
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
		c.refuse("learner", fmt.Sprintf("%d learners", count), "at most one, such as "+model.LearnerNames()[0]+": {}")
	}
	s.Dimension, s.Outputs = max(1, min(s.Dimension, MaxDimension)), max(1, min(s.Outputs, MaxOutputs))
	c.outputs = max(1, min(c.outputs, MaxOutputs))
	return l, count == 1
}
