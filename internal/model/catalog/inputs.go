package catalog

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/input"
	"hindsight/internal/model/scaling"
)

func (c *completion) inputs() {
	s := &c.spec
	if len(s.Inputs) == 0 {
		s.Inputs = nil
		return
	}
	keys := c.maxKeys()
	o := input.Options{Keys: keys > 0, EncodeKeys: keys > 0 && !c.keysHaveEffects()}
	tokens := keys > 0 && s.Classes != nil
	if tokens {
		o.Buckets = tokenBuckets
	}
	completed, err := input.Complete(s.Inputs, o)
	if err != nil {
		c.addAt(c.at, err)
		return
	}
	s.Inputs, c.schema = completed, input.NewSchema(completed, keys, tokens)
	d := c.schema.Dimension()
	switch {
	case d > MaxDimension:
		c.fail(model.ErrSpecTooLarge, c.at+".inputs", fmt.Sprintf("%d features", d), fmt.Sprintf("at most %d", MaxDimension))
	case s.Dimension != 0 && s.Dimension != d:
		c.reject("dimension", s.Dimension, fmt.Sprintf("%d, the number of features of spec.inputs, or nothing", d))
	}
	s.Dimension = d
}

func (c *completion) addAt(path string, err error) {
	c.add(model.FieldsOf(model.FieldsAt(err, path))...)
}

// encoded puts the encoder of named inputs before the entry's learner.
//
// It rejects inputs whose features may exceed the learner's limit after later observations:
// what Check accepts, Observe learns. Numbers and vectors need no bound: their features are
// those that Check saw, or, for a missing value, means of these.
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

// lists are the features that share one scale: the numbers of a vector have one unit, and the
// features of a category with a joint scale vary together as one number.
func (c *completion) lists() (lists []scaling.List) {
	for i, in := range c.spec.Inputs {
		from, to := c.schema.Span(i)
		switch {
		case in.Vector != nil:
			lists = append(lists, scaling.List{From: from, To: from + *in.Vector.Length})
		case in.Categorical != nil && in.Categorical.JointScale != nil && *in.Categorical.JointScale:
			if _, ok := c.schema.Key(i); ok {
				to--
			}
			lists = append(lists, scaling.List{From: from, To: to, Joint: true})
		}
	}
	return lists
}

// joint are the lists of auto, which scales each number of a vector separately.
func (c *completion) joint() (spans []auto.Span) {
	for _, l := range c.lists() {
		if l.Joint {
			spans = append(spans, auto.Span{From: l.From, To: l.To})
		}
	}
	return spans
}

func (c *completion) keys() (keys []auto.Key) {
	for i, in := range c.spec.Inputs {
		if feature, ok := c.schema.Key(i); ok {
			keys = append(keys, auto.Key{Feature: feature, Encoded: in.Categorical.MaxCategories != nil})
		}
	}
	return keys
}

// squared are the features that are numbers: of numeric inputs and vectors, or all without named inputs.
func (c *completion) squared() (features []int) {
	if c.schema == nil {
		for j := range c.spec.Dimension {
			features = append(features, j)
		}
	}
	for i, in := range c.spec.Inputs {
		from, to := c.schema.Span(i)
		switch {
		case in.Numeric != nil:
			to = from + 1 // The indicator of a missing number follows.
		case in.Vector == nil:
			continue
		}
		for j := from; j < to; j++ {
			features = append(features, j)
		}
	}
	return features
}

func (c *completion) keysHaveEffects() bool {
	outputs := c.spec.Outputs
	if classes := c.spec.Classes; classes != nil {
		outputs = defaultAutoClasses
		if classes.MaxClasses != nil {
			outputs = *classes.MaxClasses
		}
	}
	return outputs <= auto.MaxKeyedOutputs
}

// tokenBuckets is the default number of buckets of a text that has tokens.
const tokenBuckets = 256

// maxKeys is how many keys the model remembers, 0 for a learner that has no keys. A number that
// is rejected later counts as the default.
func (c *completion) maxKeys() int {
	s := &c.spec
	switch {
	case s.Name() != model.DefaultLearner:
		return 0
	case s.Auto == nil || s.Auto.MaxKeys == nil || *s.Auto.MaxKeys < 1 || *s.Auto.MaxKeys > maxAutoKeys:
		return defaultKeys
	default:
		return *s.Auto.MaxKeys
	}
}

// cycles are the sines of the cycles of times, each of which precedes its cosine.
func (c *completion) cycles() (sines []int) {
	for i, in := range c.spec.Inputs {
		if in.Time == nil {
			continue
		}
		from, _ := c.schema.Span(i)
		for k := range in.Time.Cycles {
			sines = append(sines, from+2*k)
		}
	}
	return sines
}

func (c *completion) buckets() (features []int) {
	for i, in := range c.spec.Inputs {
		if in.Text == nil {
			continue
		}
		from, _ := c.schema.Span(i)
		for k := range *in.Text.HashBuckets {
			features = append(features, from+k)
		}
	}
	return features
}

func (c *completion) flags() (features []int) {
	for i, in := range c.spec.Inputs {
		if in.Boolean != nil {
			from, _ := c.schema.Span(i)
			features = append(features, from)
		}
	}
	return features
}

// rounding exceeds the relative rounding of a feature that is bounded in exact arithmetic.
const rounding = 1e-9

// reach bounds a bounded feature at the learner. A scaling by observations rejects nothing.
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
