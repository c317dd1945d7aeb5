package catalog

import (
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/gate"
)

// gated puts a label gate before the learner and its scaling: a new start scales anew.
func (c *completion) gated(e entry) entry {
	switch at := "spec.label_gate"; {
	case c.spec.LabelGate != "" && c.spec.LabelGate != model.GateOn && c.spec.LabelGate != model.GateOff:
		want := fmt.Sprintf("%s, %s or nothing", model.GateOn, model.GateOff)
		c.fail(model.ErrInvalidSpec, at, fmt.Sprintf("%q", c.spec.LabelGate), want)
		return entry{}
	case c.spec.LabelGate == model.GateOn && e.classifies:
		c.fail(model.ErrInvalidSpec, at, model.GateOn, "off or nothing: labels are classes, and no class is out of range")
		return entry{}
	case c.spec.LabelGate != model.GateOn:
		return e
	}
	o := gate.Options{Dimension: c.spec.Dimension, Outputs: c.outputs, Advice: e.advice}
	e.cost.StateBytes += o.Cost()
	inner, outputs := e.make, c.outputs
	e.make = func(int) model.Learner {
		o := o
		o.New = func() model.Learner { return inner(outputs) }
		return gate.New(o)
	}
	return e
}
