package catalog

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/scaling"
)

// maxWarmup bounds the observations that determine a scaling: all of them are
// learned at once in the end.
const maxWarmup = 10_000

// scaled puts the spec's scaling before its learner.
func scaled(e entry) (entry, error) {
	given := e.spec.Scaling
	if given == nil {
		return e, nil
	}
	o := scaling.Options{
		Dimension: e.spec.Dimension, Outputs: e.spec.Outputs, New: e.make,
		InputLimit: model.MaxMagnitude, Forgetting: 1,
	}
	if e.inputLimit > 0 {
		o.InputLimit = math.Min(e.inputLimit, model.MaxMagnitude)
	}
	if e.forgetting > 0 {
		o.Forgetting = e.forgetting
	}
	var err error
	switch {
	case (given.Fixed == nil) == (given.Warmup == nil):
		return entry{}, invalid("scaling", "neither fixed nor warmup, or both", "one of them, or no scaling")
	case given.Fixed != nil:
		err = fixed(&o, &e, *given.Fixed)
	default:
		err = warmup(&o, &e, *given.Warmup)
	}
	if err != nil {
		return entry{}, err
	}
	e.cost.StateBytes += o.Cost()
	e.make = func() model.Learner { return scaling.New(o) }
	return e, nil
}

func fixed(o *scaling.Options, e *entry, given model.FixedScaling) (err error) {
	o.Fixed.LabelScale = 1
	if given.LabelScale != nil {
		if o.Fixed.LabelScale, err = positive("scaling.fixed.label_scale", given.LabelScale); err != nil {
			return err
		}
	}
	s := e.spec
	for _, p := range []struct {
		name       string
		given      []float64
		to         *[]float64
		count      int
		otherwise  float64
		acceptable func(v float64) bool
		want       string
	}{
		{"offset", given.Offset, &o.Fixed.Offset, s.Dimension, 0, isOffset, fmt.Sprintf("a magnitude of at most %g", model.MaxMagnitude)},
		{"scale", given.Scale, &o.Fixed.Scale, s.Dimension, 1, isScale, fmt.Sprintf("a magnitude from %g to %g, or 0", minScale, maxScale)},
		{"label_offset", given.LabelOffset, &o.Fixed.LabelOffset, s.Outputs, 0, isOffset, fmt.Sprintf("a magnitude of at most %g", model.MaxMagnitude)},
	} {
		field := "scaling.fixed." + p.name
		*p.to = make([]float64, p.count)
		if len(p.given) != 0 && len(p.given) != p.count {
			return invalid(field, fmt.Sprintf("%d numbers", len(p.given)), fmt.Sprintf("%d, or none", p.count))
		}
		for i := range *p.to {
			(*p.to)[i] = p.otherwise
			if len(p.given) > 0 {
				(*p.to)[i] = p.given[i]
			}
			if v := (*p.to)[i]; !p.acceptable(v) {
				return invalid(fmt.Sprintf("%s[%d]", field, i), v, p.want)
			}
		}
	}
	if err := noLabelScaling(e, "scaling.fixed.label_scale", o.Fixed.LabelScale != 1); err != nil {
		return err
	}
	for j, v := range o.Fixed.LabelOffset {
		if err := noLabelScaling(e, fmt.Sprintf("scaling.fixed.label_offset[%d]", j), v != 0); err != nil {
			return err
		}
	}
	e.spec.Scaling = &model.Scaling{Fixed: &model.FixedScaling{
		Offset: o.Fixed.Offset, Scale: o.Fixed.Scale,
		LabelOffset: o.Fixed.LabelOffset, LabelScale: &o.Fixed.LabelScale,
	}}
	return nil
}

func isOffset(v float64) bool { return math.Abs(v) <= model.MaxMagnitude }

// isScale accepts 0 too: an input that is to be left out.
func isScale(v float64) bool {
	return v == 0 || (math.Abs(v) >= minScale && math.Abs(v) <= maxScale)
}

func warmup(o *scaling.Options, e *entry, given model.WarmupScaling) error {
	if given.Observations < 1 || given.Observations > maxWarmup {
		return invalid("scaling.warmup.observations", given.Observations, fmt.Sprintf("1 to %d", maxWarmup))
	}
	o.Warmup, o.Labels = given.Observations, !e.classifies
	if given.Labels != nil {
		o.Labels = *given.Labels
	}
	if err := noLabelScaling(e, "scaling.warmup.labels", o.Labels); err != nil {
		return err
	}
	if capacity := e.spec.KernelAWV; capacity != nil && *capacity.MaxObservations < o.Warmup {
		return invalid("scaling.warmup.observations", o.Warmup, fmt.Sprintf("at most max_observations = %d", *capacity.MaxObservations))
	}
	e.spec.Scaling = &model.Scaling{Warmup: &model.WarmupScaling{Observations: o.Warmup, Labels: &o.Labels}}
	return nil
}

// noLabelScaling refuses what would scale a class.
func noLabelScaling(e *entry, field string, scales bool) error {
	if !scales || !e.classifies {
		return nil
	}
	return invalid(field, "a scaling of labels", "none: the labels of this loss are -1 and 1")
}
