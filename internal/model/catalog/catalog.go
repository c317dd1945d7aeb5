// Package catalog turns a spec into a learner. Only its table of learners knows them all.
package catalog

import (
	"fmt"

	"hindsight/internal/model"
)

// Limits of a spec.
const (
	MaxDimension = 1 << 16
	MaxOutputs   = 1024
	// MaxFeatures is the largest number of features: their factor takes 1 GiB.
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
	given func(*model.Spec) bool
	// complete fills in and checks the learner's part of the spec. It requires given.
	complete func(*completion) entry
}

// row is the learner whose part of a spec is the T at of(spec). Complete gets a copy of that
// part.
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
	// make returns a learner without observations. Only a growing learner heeds outputs; for
	// the others it is that of the completion.
	make func(outputs int) model.Learner
	// inputLimit is the largest magnitude of an input, 0 for any.
	inputLimit float64
	// unfit is the reason why no new model may have the spec, or nil.
	unfit error
	// forgetting is the learner's factor, 0 for none.
	forgetting float64
	// capacity is the learner's max_observations, 0 for none.
	capacity int
	// classifies: labels are classes, -1 and 1 for the loss of the learner or those of the
	// spec.
	classifies bool
	// ranged: the spec has the range of the labels, which are then not scaled.
	ranged bool
	// indicators: the learner grows, and learns the indicators of classes.
	indicators bool
	// recoding is how much decisions by indicators favour rare classes.
	recoding float64
	// revised: the learner has revisions of its rules.
	revised bool
	// middle is the middle of the range of the labels, the prediction before the first label.
	middle float64
	affine bool
	// advice are the lengths of the learner's advice, nil for a learner without advice.
	advice []int
	// scalesItself: the learner scales inputs and labels, and its spec has no scaling.
	scalesItself bool
}

// Complete checks a spec, possibly a stored one, and fills in its defaults. It does not write
// to what the spec points to; the result may share it.
func Complete(s model.Spec) (model.Spec, model.Cost, error) {
	s, e, err := look(s, true)
	return s, e.cost, err
}

// Create is Complete for the spec of a new model. It refuses some specs that earlier servers
// accepted, and completes some otherwise; stored models keep what Complete makes of their
// specs. Both leave the spec that Create returns as it is. For a new model
//
//	AWV         the ridge is 0.1, not 1; a Taylor degree goes up to usefulDegree, not 8
//	Nyström     β replaces horizon and delta; a whole history gets a window
//	auto        has a label gate, 64 classes, not 2
//	categories  have a joint scale, not one each
//	revision    is the newest if the learner has revisions
func Create(s model.Spec) (model.Spec, model.Cost, error) {
	s.Inputs = model.WithJointScale(s.Inputs, func(_ int, given *bool) *bool { return pointer(given, true) })
	s, e, err := look(s, false)
	if err == nil && renew(&s, e) {
		s, e, err = look(s, false)
	}
	if err == nil {
		err = e.unfit
	}
	if err != nil {
		return model.Spec{}, model.Cost{}, err
	}
	return s, e.cost, nil
}

// renew sets what a new model has and a stored one has not, where the given spec leaves it
// open, and tells whether the completed spec s changed.
func renew(s *model.Spec, e entry) (changed bool) {
	if e.revised && s.Revision == nil {
		s.Revision, changed = pointer(nil, newestRevision), true
	}
	if s.Auto != nil && s.Classes == nil && s.LabelGate == "" {
		s.LabelGate, changed = model.GateOn, true
	}
	if s.PKAWVNystrom != nil {
		created := createNystrom(s.PKAWVNystrom)
		changed = changed || created != s.PKAWVNystrom
		s.PKAWVNystrom = created
	}
	return changed
}

// New returns a learner of a completed spec, without observations. If the spec is not
// complete it takes the defaults of a new model, except label gate, horizon, delta, whole
// history, revision and category scales, which are as in stored specs.
func New(s model.Spec) (model.Learner, error) {
	s, e, err := look(s, false)
	if err != nil {
		return nil, err
	}
	return e.make(s.Outputs), nil
}

// look completes a spec, with the earlier defaults if it may be a stored one.
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
