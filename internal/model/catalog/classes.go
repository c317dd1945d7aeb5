package catalog

import (
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/classifier"
)

const (
	defaultClasses         = 2
	defaultAutoClasses     = 64
	defaultRLSCClasses     = 256
	defaultRLSCFrequencies = 100
)

// labels completes the spec's labels and returns the learner's number of outputs: for real
// labels the spec's; for classes one for two, max_classes for more, and for rlsc, which
// grows, its maximum. The spec of a model of classes keeps outputs = 1.
func (c *completion) labels() (outputs int) {
	s := &c.spec
	limit := defaultClasses
	switch {
	case s.RLSC != nil:
		limit = defaultRLSCClasses
		if s.Classes == nil {
			s.Classes = &model.Classes{}
		}
	case s.Name() == model.DefaultLearner:
		limit = defaultAutoClasses
	}
	if s.Classes == nil {
		return s.Outputs
	}
	given := *s.Classes
	s.Classes = &given
	if s.Outputs != 1 {
		c.reject("outputs", s.Outputs, "1, or nothing: labels are classes, and an observation has one")
	}
	limit = filled(&given.MaxClasses, limit)
	if limit < 2 || limit > MaxOutputs {
		c.reject("classes.max_classes", limit, fmt.Sprintf("2 to %d", MaxOutputs))
	}
	if limit == 2 && s.RLSC == nil {
		return 1
	}
	return limit
}

func (c *completion) keepIntervals(e entry) {
	if !e.classifies || len(c.spec.Coverage) == 0 {
		return
	}
	want := "nothing: the labels of this loss are classes, and intervals are of real labels"
	if c.spec.Classes != nil {
		want = "nothing: labels are classes, and intervals are of real labels"
	}
	c.fail(model.ErrInvalidSpec, "spec.coverage", c.spec.Coverage, want)
}

func (c *completion) classified(e entry) entry {
	o := classifier.Options{
		MaxClasses: *c.spec.Classes.MaxClasses, Indicators: e.indicators,
		Forgetting: e.forgetting, Level: e.level, New: e.make,
	}
	if o.ChooseRecoding = e.indicators && e.recoding == nil; e.recoding != nil {
		o.Recoding = *e.recoding
	}
	beside := o.Cost()
	e.cost.StateBytes += beside.StateBytes
	e.cost.PredictFlops += beside.PredictFlops
	e.cost.ObserveFlops += beside.ObserveFlops
	e.make = func(int) model.Learner { return classifier.New(o) }
	return e
}

// rlsc is linear_awv or fourier_awv of the indicators of classes.
func rlsc(c *completion, given *model.RLSC) entry {
	if given.Recoding != nil {
		c.number("recoding", &given.Recoding, 0, 0, 1)
	}
	var e entry
	if given.Kernel == nil {
		if given.Frequencies != nil {
			c.reject("frequencies", *given.Frequencies, "nothing, or a kernel: without one the features are the inputs and 1")
		}
		affine := model.LinearAWV{Lambda: given.Lambda, Ridges: given.Ridges, Forgetting: given.Forgetting}
		e = linear(c, &affine)
		given.Lambda, given.Ridges, given.Forgetting = affine.Lambda, affine.Ridges, affine.Forgetting
	} else {
		filled(&given.Frequencies, defaultRLSCFrequencies)
		random := model.FourierAWV{
			Kernel: given.Kernel, Frequencies: given.Frequencies, Lambda: given.Lambda, Ridges: given.Ridges, Forgetting: given.Forgetting,
		}
		e = fourier(c, &random)
		given.Kernel, given.Frequencies = random.Kernel, random.Frequencies
		given.Lambda, given.Ridges, given.Forgetting = random.Lambda, random.Ridges, random.Forgetting
	}
	e.indicators, e.recoding = true, given.Recoding
	return e
}
