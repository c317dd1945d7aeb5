package catalog

import (
	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
)

const (
	defaultAlpha        = 1 // Of the squared loss.
	defaultClassAlpha   = 0.01
	defaultLogisticClip = 5
	defaultHingeClip    = 1
	minClip             = 1e-3
	maxLogisticClip     = 30 // Beyond it σ = exp(−C) leaves no step.
	maxHingeClip        = 1e6
	minExactAlpha       = 1e-6 // Below it predictions lose their digits.
	etaRange            = 1e9
)

func (c *completion) newton(given *model.NewtonSteps, lowest float64) kons.Options {
	o := kons.Options{Outputs: c.outputs}
	alpha := defaultClassAlpha
	switch c.choice("loss", &given.Loss, model.LossSquared, model.LossLogistic, model.LossHinge, model.LossSquaredHinge) {
	case model.LossLogistic:
		o.Loss = losses.Logistic
		o.Clip = c.number("clip", &given.Clip, defaultLogisticClip, minClip, maxLogisticClip)
	case model.LossHinge, model.LossSquaredHinge:
		if o.Loss = losses.SquaredHinge; given.Loss == model.LossHinge {
			o.Loss = losses.Hinge
		}
		o.Clip = c.number("clip", &given.Clip, defaultHingeClip, minClip, maxHingeClip)
	default:
		o.Loss, alpha = losses.Squared, defaultAlpha
		if given.Clip != nil {
			c.reject("clip", *given.Clip, "nothing: a range bounds the predictions of the squared loss")
		}
	}
	if c.spec.Classes != nil && o.Loss == losses.Squared && len(given.Range) == 0 {
		given.Range = []float64{-1, 1} // What classes are coded in.
	}
	o.Low, o.High = c.labelRange(given.Range, o.Loss)
	o.Eta = c.eta(&given.Eta, o)
	o.Alpha = c.number("alpha", &given.Alpha, alpha, lowest, maxScale)
	return o
}

func (c *completion) labelRange(given []float64, loss losses.Loss) (low, high float64) {
	switch {
	case len(given) == 0:
		return 0, 0
	case loss != losses.Squared:
		c.reject("range", given, "nothing: the labels of this loss are -1 and 1")
		return 0, 0
	}
	return c.bounds(given)
}

// eta is the step, 0 for the largest of the theorem, σ(C), which the spec holds if C is
// known. For the squared loss without a range C follows the labels.
func (c *completion) eta(given **float64, o kons.Options) float64 {
	clip := o.Clip
	if o.Loss == losses.Hinge {
		if *given != nil {
			c.reject("eta", **given, "nothing: the steps of the hinge loss decay")
		}
		return 0
	}
	if o.Loss == losses.Squared {
		if clip = o.High/2 - o.Low/2; clip == 0 {
			if *given != nil {
				c.reject("eta", **given, "nothing, or a range: without one the step follows the labels")
			}
			return 0
		}
	}
	if !(clip > 0) { // It was rejected.
		return 0
	}
	sigma := kons.Curvature(o.Loss, clip)
	if eta := c.number("eta", given, sigma, sigma/etaRange, sigma*etaRange); eta != sigma {
		return eta
	}
	return 0
}

func (c *completion) tracked(given **bool, o kons.Options) bool {
	track := filled(given, o.Loss == losses.Squared)
	if track && o.Loss != losses.Squared {
		c.reject("track_regret", true, "false: regret is known for the squared loss only")
	}
	return track
}

func stepping(o kons.Options, cost model.Cost, learner func() model.Learner) entry {
	return entry{
		cost: cost, classifies: o.Loss != losses.Squared, ranged: o.Low != o.High,
		middle: o.Low/2 + o.High/2,
		make:   func(int) model.Learner { return learner() },
	}
}

func fourierKONS(c *completion, given *model.FourierKONS) entry {
	o := c.newton(&given.NewtonSteps, minScale)
	w := c.waves(c.spec.Dimension, &given.Kernel, &given.Frequencies, &given.Orthogonal, MaxFeatures/2)
	o.TrackRegret = c.tracked(&given.TrackRegret, o)
	if c.failed() {
		return entry{}
	}
	return stepping(o, w.cost(kons.Cost(w.size, o, w.bytes)), func() model.Learner { return kons.New(w.draw(), o) })
}

func prosNKONS(c *completion, given *model.ProsNKONS) entry {
	o := kons.NystromOptions{Options: c.newton(&given.NewtonSteps, minRidge)}
	k := c.kernel("kernel", &given.Kernel)
	o.Dictionary = feature.SampledOptions{
		Kernel: k, Dimension: c.spec.Dimension, Bound: awv.KernelRange * o.Alpha,
		Mu: c.ridge("mu", &given.Mu, defaultMu), Epsilon: c.scale("epsilon", &given.Epsilon, defaultEpsilon), Beta: c.scale("beta", &given.Beta, 1),
		Capacity: c.whole("max_dictionary", &given.MaxDictionary, defaultMaxDictionary, maxDictionary),
		Given:    given.Dictionary, Seed: c.spec.Seed,
	}
	o.Restart = c.choice("growth", &given.Growth, model.GrowthGrow, model.GrowthRestart) == model.GrowthRestart
	o.TrackRegret = c.tracked(&given.TrackRegret, o.Options)
	if c.keepsRidge(k, "alpha", o.Alpha, awv.KernelRange); c.failed() {
		return entry{}
	}
	limit := feature.KernelInputLimit(k, c.spec.Dimension, o.Dictionary.Bound)
	if c.dictionary(given.Dictionary, limit); c.failed() {
		return entry{}
	}
	e := stepping(o.Options, kons.NystromCost(o), func() model.Learner { return kons.NewNystrom(o) })
	e.inputLimit = limit
	return e
}

func exactKONS(c *completion, given *model.KONS) entry {
	o := kons.ExactOptions{Options: c.newton(&given.NewtonSteps, minExactAlpha), Dimension: c.spec.Dimension, Seed: c.spec.Seed}
	o.Kernel = c.kernel("kernel", &given.Kernel)
	if o.Gamma = c.number("gamma", &given.Gamma, 1, 0, 1); o.Gamma == 0 {
		c.reject("gamma", o.Gamma, "a number above 0 and up to 1")
	}
	for _, p := range []struct {
		name      string
		field     **float64
		to        *float64
		otherwise float64
	}{{"epsilon", &given.Epsilon, &o.Epsilon, defaultEpsilon}, {"beta", &given.Beta, &o.Beta, 1}} {
		switch {
		case o.Gamma < 1:
			*p.to = c.scale(p.name, p.field, p.otherwise)
		case *p.field != nil:
			c.reject(p.name, **p.field, "nothing, or a gamma below 1: only a sketch samples")
		}
	}
	o.Capacity = c.whole("max_observations", &given.MaxObservations, defaultMaxObservations, maxObservations)
	if c.keepsRidge(o.Kernel, "alpha", o.Alpha, kons.KernelRange); c.failed() {
		return entry{}
	}
	e := stepping(o.Options, kons.ExactCost(o), func() model.Learner { return kons.NewExact(o) })
	e.inputLimit = feature.KernelInputLimit(o.Kernel, o.Dimension, kons.KernelRange*o.Alpha)
	e.capacity = o.Capacity
	return e
}
