package catalog

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

const defaultParametricLambda = 0.1

func semiparametric(c *completion, given *model.SemiparametricAWV) entry {
	d := c.spec.Dimension
	o := awv.Options{Outputs: c.outputs}
	parametric := c.parametric(given)
	weight := c.scale("parametric_lambda", &given.ParametricLambda, defaultParametricLambda)
	k := c.spectral("kernel", &given.Kernel,
		"a kernel with a spectral density: gaussian, laplacian, matern_12, matern_32, matern_52 or cauchy")
	o.Lambda = c.scale("lambda", &given.Lambda, 1)
	left := MaxFeatures - len(parametric) - 1
	if left < 2 {
		c.fail(model.ErrSpecTooLarge, c.at+".parametric", fmt.Sprintf("%d features", len(parametric)), fmt.Sprintf("at most %d", MaxFeatures-3))
		return entry{}
	}
	frequencies := c.whole("frequencies", &given.Frequencies, min(defaultFrequencies, left/2), left/2)
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.err != nil {
		return entry{}
	}
	gain, seed := math.Sqrt(o.Lambda/weight), c.spec.Seed
	cost := awv.Cost(len(parametric)+1+2*frequencies, o, 8*uint64(frequencies*d+len(parametric)))
	cost.PredictFlops += uint64(frequencies * d)
	cost.ObserveFlops += uint64(frequencies * d)
	return entry{
		cost: cost, forgetting: o.Forgetting, inputLimit: feature.SemiparametricInputLimit(gain),
		make: func(int) model.Learner {
			rng := rand.New(rand.NewPCG(seed, fourierStream))
			rest := feature.NewFourier(k, d, frequencies, k.Radial(), rng)
			return awv.NewSemiparametric(feature.NewSemiparametric(parametric, gain, rest), o)
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
