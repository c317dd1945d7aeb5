package catalog

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/scaling"
)

// maxWarmup bounds the observations that determine a scaling. All of them stay in memory.
const maxWarmup = 10_000

// defaultWarmup is how many observations determine the scaling of labels, and first of inputs.
const defaultWarmup = scaling.CatchUp

// classesWarmup is the warm-up of a running scaling of classes, which scales no labels.
const classesWarmup = 8

// defaultScaling suits raw columns. A scaling changes only the ridge of an affine learner:
// there the default freezes, so that the theorem applies.
func defaultScaling(e entry) *model.Scaling {
	if e.affine {
		return &model.Scaling{Warmup: &model.WarmupScaling{Observations: defaultWarmup}}
	}
	return &model.Scaling{Running: &model.RunningScaling{}}
}

func scaled(c *completion, e entry) entry {
	if e.scalesItself {
		return c.scalesItself(e)
	}
	if c.spec.Scaling == nil {
		c.spec.Scaling = defaultScaling(e)
	}
	given := *c.spec.Scaling
	c.spec.Scaling = &given
	o := scaling.Options{
		Dimension: c.spec.Dimension, Outputs: c.outputs, New: e.make,
		InputLimit: model.MaxMagnitude, Forgetting: 1,
	}
	if c.schema != nil {
		o.Lists = c.lists()
	}
	if e.inputLimit > 0 {
		o.InputLimit = math.Min(e.inputLimit, model.MaxMagnitude)
	}
	if e.forgetting > 0 {
		o.Forgetting = e.forgetting
	}
	o.Start = e.middle
	switch {
	case kindsGiven(given) != 1:
		c.fail(model.ErrInvalidSpec, c.at, fmt.Sprintf("%d kinds of scaling", kindsGiven(given)), "one of fixed, warmup, running and none")
	case given.None != nil:
		return e
	case given.Fixed != nil:
		f := *given.Fixed
		given.Fixed, o.Fixed = &f, c.fixed(&f, e)
	case given.Running != nil:
		o.Warmup, o.Labels, o.Running = defaultWarmup, !e.keepsLabels(), true
		if c.spec.Classes != nil {
			o.Warmup = classesWarmup
		}
		if e.capacity > 0 {
			o.Warmup = min(o.Warmup, e.capacity)
		}
	default:
		w := *given.Warmup
		given.Warmup = &w
		o.Warmup, o.Labels = c.warmup(&w, e)
	}
	if c.failed() {
		return entry{}
	}
	e.cost.StateBytes += o.Cost()
	classes := c.spec.Classes != nil
	e.make = func(outputs int) model.Learner {
		o := o
		o.Outputs = outputs
		if classes && o.Warmup == 0 { // The spec has one label, which is not scaled.
			o.Fixed.LabelOffset = make([]float64, outputs)
		}
		return scaling.New(o)
	}
	return e
}

func kindsGiven(s model.Scaling) (n int) {
	for _, given := range []bool{s.Fixed != nil, s.Warmup != nil, s.Running != nil, s.None != nil} {
		if given {
			n++
		}
	}
	return n
}

// scalesItself is the entry of a learner that scales for itself. No scaling and none are the same.
func (c *completion) scalesItself(e entry) entry {
	if s := c.spec.Scaling; s != nil && (s.None == nil || kindsGiven(*s) != 1) {
		c.fail(model.ErrInvalidSpec, c.at, "a scaling", "nothing: "+c.spec.Name()+" scales inputs and labels for itself")
		return entry{}
	}
	c.spec.Scaling = nil
	return e
}

func (c *completion) fixed(given *model.FixedScaling, e entry) scaling.Affine {
	d, k := c.spec.Dimension, c.spec.Outputs
	o := scaling.Affine{LabelScale: c.scale("fixed.label_scale", &given.LabelScale, 1)}
	offset, factor := fmt.Sprintf("a magnitude of at most %g", model.MaxMagnitude),
		fmt.Sprintf("a magnitude from %g to %g, or 0", minScale, maxScale)
	o.Offset = c.numbers("fixed.offset", &given.Offset, d, 0, isOffset, offset)
	o.Scale = c.numbers("fixed.scale", &given.Scale, d, 1, isFactor, factor)
	o.LabelOffset = c.numbers("fixed.label_offset", &given.LabelOffset, k, 0, isOffset, offset)
	c.keepLabels("fixed.label_scale", e, o.LabelScale != 1)
	for j, v := range o.LabelOffset {
		c.keepLabels(fmt.Sprintf("fixed.label_offset[%d]", j), e, v != 0)
	}
	return o
}

func (c *completion) numbers(
	name string, field *[]float64, count int, otherwise float64, acceptable func(float64) bool, want string,
) []float64 {
	given := *field
	if len(given) != 0 && len(given) != count {
		want := fmt.Sprintf("%d, or none", count)
		if c.schema != nil && name != "fixed.label_offset" {
			want = fmt.Sprintf("%d, one for each feature of spec.inputs, or none", count)
		}
		c.reject(name, fmt.Sprintf("%d numbers", len(given)), want)
		return nil
	}
	values := make([]float64, count)
	*field = values
	for i := range values {
		values[i] = otherwise
		if len(given) > 0 {
			values[i] = given[i]
		}
		if !acceptable(values[i]) {
			c.reject(fmt.Sprintf("%s[%d]", name, i), values[i], want)
		}
	}
	return values
}

func isOffset(v float64) bool { return math.Abs(v) <= model.MaxMagnitude }

// isFactor accepts a factor of an input. 0 drops the input.
func isFactor(v float64) bool { return v == 0 || (math.Abs(v) >= minScale && math.Abs(v) <= maxScale) }

func (c *completion) warmup(given *model.WarmupScaling, e entry) (observations int, labels bool) {
	observations = given.Observations
	if observations < 1 || observations > maxWarmup {
		c.reject("warmup.observations", observations, fmt.Sprintf("1 to %d", maxWarmup))
	}
	labels = filled(&given.Labels, !e.keepsLabels())
	c.keepLabels("warmup.labels", e, labels)
	if e.capacity > 0 && e.capacity < observations {
		c.reject("warmup.observations", observations, fmt.Sprintf("at most max_observations = %d", e.capacity))
	}
	return observations, labels
}

// keepsLabels: labels reach the learner unscaled.
func (e entry) keepsLabels() bool { return e.classifies || e.ranged }

func (c *completion) keepLabels(name string, e entry, scales bool) {
	if !scales || !e.keepsLabels() {
		return
	}
	want := "none: the labels of this loss are -1 and 1"
	switch {
	case c.spec.Classes != nil:
		want = "none: labels are classes"
	case e.ranged:
		want = "none: the range of " + c.spec.Name() + " is that of the labels as they are"
	}
	c.reject(name, "a scaling of labels", want)
}
