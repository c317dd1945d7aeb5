package catalog

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/bounds"
	"hindsight/internal/model/input"
)

// label checks spec.label. A label that allows every number is dropped.
func (c *completion) label(e entry) {
	if c.spec.Label == nil {
		return
	}
	l := *c.spec.Label
	if c.spec.Label = &l; l == (model.Label{}) {
		c.spec.Label = nil
		return
	}
	if e.classifies {
		c.fail(model.ErrInvalidSpec, "spec.label", l.String(), "nothing: labels are classes, which have no bounds and no unit")
		return
	}
	c.at = "spec.label"
	bound := func(name string, v *float64) {
		switch {
		case v == nil:
		case !(math.Abs(*v) <= model.MaxMagnitude):
			c.reject(name, *v, "a number of magnitude at most 1e100")
		case l.Integer && *v != math.Trunc(*v):
			c.reject(name, *v, "a whole number, because integer is true")
		}
	}
	bound("min", l.Min)
	bound("max", l.Max)
	if l.Unit != nil {
		c.addAt(c.at, input.CheckName("unit", *l.Unit))
	}
	if l.Min != nil && l.Max != nil && !(*l.Min < *l.Max) {
		c.reject("max", *l.Max, "more than min")
	}
	c.at = "spec"
}

func (c *completion) bounded(e entry) entry {
	if !c.spec.Label.Bounded() {
		return e
	}
	e.cost.StateBytes += bounds.OwnBytes
	inner, o := e.make, bounds.Options{Label: c.spec.Label, Forgetting: 1}
	if e.forgetting > 0 {
		o.Forgetting = e.forgetting
	}
	e.make = func(outputs int) model.Learner {
		o := o
		o.New = func() model.Learner { return inner(outputs) }
		return bounds.New(o)
	}
	return e
}
