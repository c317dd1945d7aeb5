package catalog

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

const defaultParametricLambda = 0.1

func semiparametric(c *completion, given *model.SemiparametricAWV) entry {
	o := awv.Options{Outputs: c.outputs}
	parametric := c.parametric(given)
	weight := c.scale("parametric_lambda", &given.ParametricLambda, defaultParametricLambda)
	o.Lambda = c.scale("lambda", &given.Lambda, 1)
	left := MaxFeatures - len(parametric) - 1
	if left < 2 {
		c.fail(model.ErrSpecTooLarge, c.at+".parametric", fmt.Sprintf("%d features", len(parametric)), fmt.Sprintf("at most %d", MaxFeatures-3))
		return entry{}
	}
	var orthogonal *bool // The kernel says it.
	w := c.waves(&given.Kernel, &given.Frequencies, &orthogonal, left/2)
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.failed() {
		return entry{}
	}
	gain := math.Sqrt(o.Lambda / weight)
	return entry{
		cost:       w.cost(awv.Cost(len(parametric)+1+w.size, o, w.bytes+8*uint64(len(parametric)))),
		forgetting: o.Forgetting, inputLimit: feature.SemiparametricInputLimit(gain),
		make: func(int) model.Learner {
			return awv.NewSemiparametric(feature.NewSemiparametric(parametric, gain, w.draw()), o)
		},
	}
}

// parametric are the numbers of the features of the parametric model. All of them are
// left out of the spec.
func (c *completion) parametric(given *model.SemiparametricAWV) []int {
	d := c.spec.Dimension
	if len(given.Parametric) == 0 {
		given.Parametric = nil
		all := make([]int, d)
		for i := range all {
			all[i] = i
		}
		return all
	}
	before := -1
	for k, i := range given.Parametric {
		if i <= before || i >= d {
			c.refuse(fmt.Sprintf("parametric[%d]", k), i, fmt.Sprintf("numbers of features, from 0 to %d and ascending", d-1))
			break
		}
		before = i
	}
	return given.Parametric
}
