package catalog

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
)

// How many ridges lambdas may hold.
const (
	leastRidges = 2
	mostRidges  = 16
)

// ridges is the ridge λ, as one completes it, or the least of several. They take its
// place: the completed spec has no other.
func (c *completion) ridges(
	lambda **float64, several *model.Ridges, one func(name string, field **float64, otherwise float64) float64,
) (float64, awv.Path) {
	lambdas := several.Lambdas
	if len(lambdas) == 0 {
		several.Lambdas = nil
		if len(several.Range) > 0 {
			c.refuse("range", several.Range, "nothing without lambdas")
		}
		several.Range = nil
		return one("lambda", lambda, 1), awv.Path{}
	}
	if *lambda != nil {
		c.refuse("lambda", **lambda, "lambda or lambdas")
	}
	if len(lambdas) < leastRidges || len(lambdas) > mostRidges {
		c.refuse("lambdas", fmt.Sprintf("%d ridges", len(lambdas)), fmt.Sprintf("%d to %d", leastRidges, mostRidges))
	}
	before := 0.0
	for k, v := range lambdas {
		name, field := fmt.Sprintf("lambdas[%d]", k), &v
		if one(name, &field, 1); v <= before {
			c.refuse(name, v, fmt.Sprintf("more than %g, the one before", before))
		}
		before = v
	}
	low, high := c.labelRange(several)
	return lambdas[0], awv.Path{Lambdas: lambdas, Low: low, High: high}
}

// forecaster is that of one ridge, or a mixture over several.
func forecaster(features awv.Map, o awv.Options, path awv.Path) model.Learner {
	if len(path.Lambdas) == 0 {
		return awv.New(features, o)
	}
	return awv.NewRidges(features, o, path)
}

// remembers refuses several ridges that forget.
func (c *completion) remembers(several *model.Ridges, forgetting float64) {
	if len(several.Lambdas) > 0 && forgetting < 1 {
		c.refuse("forgetting", forgetting, "1 with lambdas")
	}
}

// labelRange is the range of the labels of each output as the learner sees them, nil if
// it is not known. Classes are labels from -1 to 1, which nothing scales.
func (c *completion) labelRange(several *model.Ridges) (low, high []float64) {
	if len(several.Range) == 0 {
		several.Range = nil
		if c.spec.Classes == nil {
			return nil, nil
		}
		several.Range = []float64{-1, 1}
	}
	given := several.Range
	if len(given) != 2 || !isOffset(given[0]) || !isOffset(given[1]) || !(given[0] < given[1]) {
		c.refuse("range", given, fmt.Sprintf("two numbers, the least and the largest label, of a magnitude of at most %g", model.MaxMagnitude))
		return nil, nil
	}
	offset, scale, ok := c.labelScaling()
	if !ok {
		c.refuse("range", given, "scaling none or fixed, or warmup with labels false: any other scales the labels by what it observes")
		return nil, nil
	}
	for j := range c.outputs { // As the scaling will do it.
		low = append(low, (given[0]-offset(j))*scale)
		high = append(high, (given[1]-offset(j))*scale)
		if !(low[j] < high[j] && math.Max(-low[j], high[j]) <= model.MaxMagnitude) {
			c.refuse("range", given, fmt.Sprintf("a range within a magnitude of %g, after scaling", model.MaxMagnitude))
		}
	}
	return low, high
}

// labelScaling is what the scaling of the spec does to labels: each has an offset, and
// all have one scale. It is not ok if observations determine that.
func (c *completion) labelScaling() (offset func(output int) float64, scale float64, ok bool) {
	offset, scale = func(int) float64 { return 0 }, 1
	switch s := c.spec.Scaling; {
	case c.spec.Classes != nil:
	case s == nil:
		return nil, 0, false
	case s.None != nil:
	case s.Fixed != nil:
		if s.Fixed.LabelScale != nil {
			scale = *s.Fixed.LabelScale
		}
		if offsets := s.Fixed.LabelOffset; len(offsets) == c.outputs {
			offset = func(output int) float64 { return offsets[output] }
		}
	default:
		w := s.Warmup
		return offset, scale, w != nil && w.Labels != nil && !*w.Labels
	}
	return offset, scale, true
}
