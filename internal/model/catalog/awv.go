package catalog

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
)

const (
	defaultLambda          = 0.1
	defaultFeatures        = 512  // Of the Taylor basis, when its degree is left to the server.
	defaultGivenFeatures   = 4096 // When its degree is given.
	defaultFrequencies     = 50
	defaultMaxObservations = 4000
	maxObservations        = 20_000
	fourierStream          = 0x666f7572
)

func taylor(c *completion, given *model.PKAWVTaylor) entry {
	d := c.spec.Dimension
	o := awv.Options{Outputs: c.outputs}
	var lambdas []float64
	o.Lambda, lambdas = c.ridges(&given.Lambda, &given.Ridges, c.scale)
	sigma := c.scale("sigma", &given.Sigma, 1)
	ceiling := min(max(defaultFeatures, d+1), defaultGivenFeatures)
	if given.Degree != nil {
		ceiling = defaultGivenFeatures
	}
	ceiling = c.whole("max_features", &given.MaxFeatures, ceiling, MaxFeatures)
	if c.failed() {
		return entry{}
	}
	size, degree := c.taylorSize(given, ceiling, sigma)
	spans := 0 // One for every monomial below the last level.
	if degree > 0 {
		spans = feature.TaylorSize(d, degree-1, ceiling)
	}
	o.Forgetting = c.forgetting(&given.Forgetting)
	c.remembers(&given.Ridges, o.Forgetting)
	if c.mixesPrefixes("mix_degrees", &given.MixDegrees, &given.Ridges, o.Forgetting) {
		o.Prefixes = c.degrees(degree, ceiling)
		if o.Lambda < minRidge { // The accounts of the lower degrees would drown in rounding.
			c.reject("lambda", o.Lambda, fmt.Sprintf("at least %g with mix_degrees", minRidge))
		}
	}
	if c.failed() {
		return entry{}
	}
	return entry{
		forgetting: o.Forgetting,
		cost:       awv.RidgesCost(size, o, lambdas, 16*uint64(spans)),
		make:       func(int) model.Learner { return forecaster(feature.NewTaylor(d, sigma, degree), o, lambdas) },
	}
}

// The degrees that a Taylor basis without one gets, if they fit into max_features.
const (
	minAutoDegree, maxAutoDegree = 8, 40
	autoDegreeError              = 1.0 / 362_880 // 1/9!: the error of degree 8 at one bandwidth.
	// How far inputs go. A learned scaling gives them a mean square norm of ¼.
	learnedRadius, givenRadius = 1.0, 3.0
)

// usefulDegree is the smallest degree, from 8 to 40, whose kernel has an error ≤ 1/9!, for
// inputs of norm up to 1 where the server determines the scaling, and up to 3 where it is
// given or none. A higher degree costs time and improves no prediction.
func (c *completion) usefulDegree(sigma float64) int {
	radius := learnedRadius
	if s := c.spec.Scaling; s != nil && (s.Fixed != nil || s.None != nil) {
		radius = givenRadius
	}
	degree := minAutoDegree
	for degree < maxAutoDegree && feature.TaylorError(radius, sigma, degree) > autoDegreeError {
		degree++
	}
	return degree
}

// taylorSize completes the degree and counts the features, at most ceiling. A degree that the
// server chooses is at least 1: a wide input gets the linear part of its kernel.
func (c *completion) taylorSize(given *model.PKAWVTaylor, ceiling int, sigma float64) (size, degree int) {
	d := c.spec.Dimension
	left := given.Degree == nil
	degree = filled(&given.Degree, feature.LargestTaylorDegree(d, ceiling, c.usefulDegree(sigma)))
	if left && degree == 0 {
		c.fail(model.ErrSpecTooLarge, "spec.dimension", d, fmt.Sprintf("below max_features = %d, or a degree given", ceiling))
	}
	if degree < 0 {
		c.reject("degree", degree, "0 or more")
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

func (c *completion) degrees(degree, ceiling int) []awv.Prefix {
	if degree >= awv.MaxPrefixes {
		c.reject("degree", degree, fmt.Sprintf("at most %d with mix_degrees", awv.MaxPrefixes-1))
		return nil
	}
	prefixes := make([]awv.Prefix, degree+1)
	for m := range prefixes {
		prefixes[m] = awv.Prefix{Name: fmt.Sprint("degree_", m), Size: feature.TaylorSize(c.spec.Dimension, m, ceiling)}
	}
	return prefixes
}

func linear(c *completion, given *model.LinearAWV) entry {
	d := c.spec.Dimension
	o := awv.Options{Outputs: c.outputs, Indicators: c.spec.RLSC != nil}
	var lambdas []float64
	o.Lambda, lambdas = c.ridges(&given.Lambda, &given.Ridges, c.scale)
	if d+1 > MaxFeatures {
		c.fail(model.ErrSpecTooLarge, "spec.dimension", d, fmt.Sprintf("at most %d for %s", MaxFeatures-1, c.spec.Name()))
	}
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.remembers(&given.Ridges, o.Forgetting); c.failed() {
		return entry{}
	}
	return entry{
		forgetting: o.Forgetting, affine: true,
		cost: awv.RidgesCost(d+1, o, lambdas, 0),
		make: func(outputs int) model.Learner {
			o := o
			o.Outputs = outputs
			return forecaster(feature.NewAffine(d), o, lambdas)
		},
	}
}

func fourier(c *completion, given *model.FourierAWV) entry {
	o := awv.Options{Outputs: c.outputs, Indicators: c.spec.RLSC != nil}
	var lambdas []float64
	o.Lambda, lambdas = c.ridges(&given.Lambda, &given.Ridges, c.scale)
	w := c.waves(c.spec.Dimension, &given.Kernel, &given.Frequencies, &given.Orthogonal, MaxFeatures/2)
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.remembers(&given.Ridges, o.Forgetting); c.failed() {
		return entry{}
	}
	cost := w.cost(awv.RidgesCost(w.size, o, lambdas, w.bytes))
	return entry{cost: cost, forgetting: o.Forgetting, make: func(outputs int) model.Learner {
		o := o
		o.Outputs = outputs
		return forecaster(w.draw(), o, lambdas)
	}}
}

// waves are random Fourier features, not yet drawn.
type waves struct {
	// size is their number, bytes the memory of the map.
	size  int
	bytes uint64
	// draw draws them once: learners that restore a state share them.
	draw func() *feature.Fourier
}

func (w waves) cost(c model.Cost) model.Cost {
	c.PredictFlops += w.bytes / 8
	c.ObserveFlops += w.bytes / 8
	return c
}

// waves completes kernel, frequencies, at most limit, and orthogonality for d inputs.
func (c *completion) waves(d int, of **model.Kernel, count **int, rows **bool, limit int) waves {
	k := c.spectral("kernel", of,
		"a kernel with a spectral density: gaussian, laplacian, matern_12, matern_32, matern_52 or cauchy")
	frequencies := c.whole("frequencies", count, min(defaultFrequencies, limit), limit)
	orthogonal := filled(rows, k.Radial())
	if orthogonal && !k.Radial() {
		c.reject("orthogonal", true, "false: a "+string(k.Kind)+" kernel is not radial")
	}
	return newWaves(k, d, frequencies, orthogonal, rand.NewPCG(c.spec.Seed, fourierStream))
}

func newWaves(k kernel.Kernel, d, frequencies int, orthogonal bool, source *rand.PCG) waves {
	return waves{size: 2 * frequencies, bytes: 8 * uint64(max(frequencies, 0)*d), draw: sync.OnceValue(func() *feature.Fourier {
		return feature.NewFourier(k, d, frequencies, orthogonal, rand.New(source))
	})}
}

func exact(c *completion, given *model.KernelAWV) entry {
	o := awv.KernelOptions{Dimension: c.spec.Dimension, Outputs: c.outputs}
	o.Kernel = c.kernel("kernel", &given.Kernel)
	o.Lambda = c.ridge("lambda", &given.Lambda, defaultLambda)
	o.Capacity = c.whole("max_observations", &given.MaxObservations, defaultMaxObservations, maxObservations)
	if c.keepsRidge(o.Kernel, "lambda", o.Lambda, awv.KernelRange); c.failed() {
		return entry{}
	}
	return entry{
		cost: awv.KernelCost(o), capacity: o.Capacity,
		inputLimit: feature.KernelInputLimit(o.Kernel, o.Dimension, awv.KernelRange*o.Lambda),
		make:       func(int) model.Learner { return awv.NewKernel(o) },
	}
}
