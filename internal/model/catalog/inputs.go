package catalog

import (
	"errors"
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/input"
	"hindsight/internal/model/scaling"
)

// inputs completes the named inputs, from which the dimension follows. A dimension
// that is given beside them must be the same.
func (c *completion) inputs() {
	s := &c.spec
	if len(s.Inputs) == 0 {
		s.Inputs = nil
		return
	}
	completed, err := input.Complete(s.Inputs)
	if err != nil {
		c.addAt(err)
		return
	}
	s.Inputs, c.schema = completed, input.NewSchema(completed)
	d := c.schema.Dimension()
	switch {
	case d > MaxDimension:
		c.fail(model.ErrSpecTooLarge, c.at+".inputs", fmt.Sprintf("%d features", d), fmt.Sprintf("at most %d", MaxDimension))
	case s.Dimension != 0 && s.Dimension != d:
		c.refuse("dimension", s.Dimension, fmt.Sprintf("%d, the number of features of spec.inputs, or nothing", d))
	}
	s.Dimension = d
}

// addAt fails with the fields of an error, below at.
func (c *completion) addAt(err error) {
	var several model.FieldErrors
	var one *model.FieldError
	switch err = model.FieldsAt(err, c.at); {
	case errors.As(err, &several):
		c.add(several...)
	case errors.As(err, &one):
		c.add(one)
	}
}

// encoded puts the encoder of named inputs before the learner of an entry.
//
// It refuses inputs whose features may go beyond what the learner takes, by what is
// learned after an observation has been accepted: what Check accepts, Observe learns.
// Numbers and the members of vectors need no bound. The features of an observation
// that has them stay what Check saw. Those of one that has not are means of others
// that Check accepted, which lie between them.
func (c *completion) encoded(e entry) entry {
	if c.schema == nil {
		return e
	}
	limit := model.MaxMagnitude
	if e.inputLimit > 0 {
		limit = math.Min(limit, e.inputLimit)
	}
	bounds := c.schema.Bounds()
	for i := range c.schema.Len() {
		from, to := c.schema.Span(i)
		for k := from; k < to; k++ {
			if reach := c.reach(k, bounds[k]); reach*(1+rounding) > limit {
				c.fail(model.ErrInvalidSpec, fmt.Sprintf("spec.inputs[%d]", i),
					fmt.Sprintf("%q, one of whose features goes up to %g in the units of the learner", c.schema.Name(i), reach),
					fmt.Sprintf("at most %g, or scaling running or warmup", limit))
			}
		}
	}
	e.cost.StateBytes += c.schema.MaxBytes()
	return e
}

// lists are the features of the inputs that have one scale: the numbers of a vector have one
// unit, and those of a category with a joint scale vary together as one number.
func (c *completion) lists() (lists []scaling.List) {
	for i, in := range c.spec.Inputs {
		from, to := c.schema.Span(i)
		switch {
		case in.Vector != nil:
			lists = append(lists, scaling.List{From: from, To: from + *in.Vector.Length})
		case in.Categorical != nil && in.Categorical.JointScale != nil && *in.Categorical.JointScale:
			lists = append(lists, scaling.List{From: from, To: to, Joint: true})
		}
	}
	return lists
}

// joint are the lists of auto, which scales each number of a vector for itself.
func (c *completion) joint() (spans []auto.Span) {
	for _, l := range c.lists() {
		if l.Joint {
			spans = append(spans, auto.Span{From: l.From, To: l.To})
		}
	}
	return spans
}

// rounding is more than that of a feature that is bounded in exact arithmetic.
const rounding = 1e-9

// reach is how far a bounded feature goes from 0 when it comes to the learner. What a
// scaling makes of it that is determined by observations is never refused.
func (c *completion) reach(k int, bound float64) float64 {
	s := c.spec.Scaling
	switch {
	case s == nil || bound == 0:
		return 0
	case s.None != nil:
		return bound
	case s.Fixed != nil:
		return (bound + math.Abs(s.Fixed.Offset[k])) * math.Abs(s.Fixed.Scale[k])
	default:
		return 0
	}
}
