package catalog

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

// Defaults and limits of the AWV learners over fixed features, and of exact
// Kernel-AWV.
const (
	defaultFeatures        = 512  // Of the Taylor basis, when its degree is left to the server.
	defaultGivenFeatures   = 4096 // When its degree is given.
	defaultFrequencies     = 50
	defaultMaxObservations = 4000
	maxObservations        = 20_000
	// The generator that draws frequencies has the stream fourierStream.
	fourierStream = 0x666f7572
)

func taylor(c *completion, given *model.PKAWVTaylor) entry {
	d := c.spec.Dimension
	o := awv.Options{Outputs: c.outputs}
	o.Lambda = c.scale("lambda", &given.Lambda, 1)
	sigma := c.scale("sigma", &given.Sigma, 1)
	ceiling := min(max(defaultFeatures, d+1), defaultGivenFeatures)
	if given.Degree != nil {
		ceiling = defaultGivenFeatures
	}
	ceiling = c.whole("max_features", &given.MaxFeatures, ceiling, MaxFeatures)
	if c.err != nil {
		return entry{}
	}
	size, degree := c.taylorSize(given, ceiling)
	spans := 0 // One for every monomial below the last level.
	if degree > 0 {
		spans = feature.TaylorSize(d, degree-1, ceiling)
	}
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.err != nil {
		return entry{}
	}
	return entry{
		forgetting: o.Forgetting,
		cost:       awv.Cost(size, o, 16*uint64(spans)),
		make: func(int) model.Learner {
			return awv.New(feature.NewTaylor(d, sigma, degree), o)
		},
	}
}

// taylorSize completes the degree and counts the features, which are at most
// ceiling. A degree that is left to the server is at least 1: a wide input gets
// the linear part of its kernel rather than a constant.
func (c *completion) taylorSize(given *model.PKAWVTaylor, ceiling int) (size, degree int) {
	d := c.spec.Dimension
	left := given.Degree == nil
	degree = filled(&given.Degree, feature.LargestTaylorDegree(d, ceiling, AutoDegree))
	if left && degree == 0 {
		c.fail(model.ErrSpecTooLarge, "spec.dimension", d, fmt.Sprintf("below max_features = %d, or a degree given", ceiling))
	}
	if degree < 0 {
		c.refuse("degree", degree, "0 or more")
		return 0, 0
	}
	size = feature.TaylorSize(d, degree, ceiling)
	if size > ceiling {
		c.fail(model.ErrSpecTooLarge, c.at+".degree",
			fmt.Sprintf("%d, whose features in dimension %d outnumber max_features = %d", degree, d, ceiling),
			fmt.Sprintf("at most %d, the largest degree that fits", feature.LargestTaylorDegree(d, ceiling, degree)))
	}
	return size, degree
}

func linear(c *completion, given *model.LinearAWV) entry {
	d := c.spec.Dimension
	o := awv.Options{Outputs: c.outputs}
	o.Lambda = c.scale("lambda", &given.Lambda, 1)
	if d+1 > MaxFeatures {
		c.fail(model.ErrSpecTooLarge, "spec.dimension", d, fmt.Sprintf("at most %d for %s", MaxFeatures-1, c.spec.Name()))
	}
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.err != nil {
		return entry{}
	}
	return entry{
		forgetting: o.Forgetting, affine: true,
		cost: awv.Cost(d+1, o, 0),
		make: func(outputs int) model.Learner {
			o := o
			o.Outputs = outputs
			return awv.New(feature.NewAffine(d), o)
		},
	}
}

func fourier(c *completion, given *model.FourierAWV) entry {
	d := c.spec.Dimension
	o := awv.Options{Outputs: c.outputs}
	k := c.spectral("kernel", &given.Kernel,
		"a kernel with a spectral density: gaussian, laplacian, matern_12, matern_32, matern_52 or cauchy")
	o.Lambda = c.scale("lambda", &given.Lambda, 1)
	frequencies := c.whole("frequencies", &given.Frequencies, defaultFrequencies, MaxFeatures/2)
	orthogonal := filled(&given.Orthogonal, k.Radial())
	if orthogonal && !k.Radial() {
		c.refuse("orthogonal", true, "false: a "+string(k.Kind)+" kernel is not radial")
	}
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.err != nil {
		return entry{}
	}
	cost := awv.Cost(2*frequencies, o, 8*uint64(frequencies*d))
	cost.PredictFlops += uint64(frequencies * d)
	cost.ObserveFlops += uint64(frequencies * d)
	seed := c.spec.Seed
	// A learner that is made to restore a state shares the frequencies.
	draw := sync.OnceValue(func() awv.Map {
		rng := rand.New(rand.NewPCG(seed, fourierStream))
		return feature.NewFourier(k, d, frequencies, orthogonal, rng)
	})
	return entry{cost: cost, forgetting: o.Forgetting, make: func(outputs int) model.Learner {
		o := o
		o.Outputs = outputs
		return awv.New(draw(), o)
	}}
}

func exact(c *completion, given *model.KernelAWV) entry {
	o := awv.KernelOptions{Dimension: c.spec.Dimension, Outputs: c.outputs}
	o.Kernel = c.kernel("kernel", &given.Kernel)
	o.Lambda = c.ridge("lambda", &given.Lambda, 1)
	o.Capacity = c.whole("max_observations", &given.MaxObservations, defaultMaxObservations, maxObservations)
	if c.err != nil {
		return entry{}
	}
	return entry{
		cost: awv.KernelCost(o), capacity: o.Capacity, unfit: c.unfit(o.Kernel, o.Lambda),
		inputLimit: feature.KernelInputLimit(o.Kernel, o.Dimension, awv.KernelRange*o.Lambda),
		make:       func(int) model.Learner { return awv.NewKernel(o) },
	}
}
